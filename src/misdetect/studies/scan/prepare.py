"""From settings to a study: pairs are drawn, on images where the detector finds something, or read from the run that
goes on; and a study is made again from the directory of its run.

An image on which nothing is detected cannot be affected. Which have detections is asked through the engine, which
remembers the answers, so that the scan itself does not ask again.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from misdetect.data.dataset import Dataset
from misdetect.data.opened import Opened
from misdetect.engine import ask
from misdetect.engine.backend import Asking
from misdetect.engine.store import RUN_JSON, Run
from misdetect.nouns.detections import Detections
from misdetect.nouns.open_names import names_in
from misdetect.nouns.protocols import Detector, Traced, require
from misdetect.said.errors import BadData, BadImage, DetectorFailed
from misdetect.studies.scan.adaptive import AdaptiveScan
from misdetect.studies.scan.pairs import (
    Pair,
    Sizes,
    Transplant,
    candidates,
    choose_pairs,
    find_image,
    find_object,
    transplants,
)
from misdetect.studies.scan.settings import ScanSettings, settings_of
from misdetect.studies.scan.study import ScanStudy

_SPARE = 8
"""Images beyond those wanted: nothing may fit into some, and nothing be detected on others."""


def prepare(detector: Detector, opened: Opened, settings: ScanSettings, asking: Asking) -> ScanStudy:
    """Draw the pairs; look inside where that is possible, unless told otherwise."""
    if settings.trace:
        require(detector, Traced, "scan --trace", "leave --trace out")
    trace = isinstance(detector, Traced) if settings.trace is None else settings.trace
    how = replace(settings, trace=trace)
    found = _drawn_before(_study(opened, (), detector.names, how))
    if found is None:
        pairs = draw_pairs(detector, opened.data, settings, asking)
        found = transplants(opened.data, pairs, settings.step)
    return _study(opened, found, detector.names, how)


def _drawn_before(study: ScanStudy) -> list[Transplant] | None:
    """The transplants of the run that ``study``, which has none yet, would go on with. Drawn again they could be
    others, if the detector fails on an image now or did then; and it costs questions."""
    out = study.how.out
    if out is None or not (Path(out) / RUN_JSON).exists():
        return None
    try:
        run = Run.open(out)
    except BadData:
        if study.how.repair:  # the engine writes what cannot be read anew, if its parts are those of this scan
            return None
        raise
    asked = {name: value for name, value in study.settings().items() if name not in ("transplants", "positions")}
    if run.study != study.name or any(run.settings.get(name) != value for name, value in asked.items()):
        return None  # another run, which the engine refuses to go on with
    return [Transplant.of(each) for each in run.settings["transplants"]]


def draw_pairs(detector: Detector, data: Dataset, settings: ScanSettings, asking: Asking | None = None) -> list[Pair]:
    """The pairs: by hand where named, else at random on images with detections."""
    sizes = Sizes(settings.min_area, settings.max_side)
    only = None if settings.image is None else find_image(data, settings.image)
    thing = None if settings.object is None else find_object(data, settings.object)
    wanted, seed, same = settings.wanted, settings.seed, settings.same_image
    backgrounds = with_detections(detector, data, wanted + _SPARE, settings.score, seed=seed, only=only, asking=asking)
    if thing is not None and same:
        backgrounds = [index for index in backgrounds if index == thing[0]]
    return choose_pairs(data, wanted, backgrounds, seed=seed, sizes=sizes, same_image=same, thing=thing)


def with_detections(
    detector: Detector,
    data: Dataset,
    wanted: int,
    score: float,
    *,
    seed: int = 0,
    only: int | None = None,
    asking: Asking | None = None,
) -> list[int]:
    """Indices of ``wanted`` images (fewer where there are no more) with a detection of at least ``score``, in the
    random order of ``seed``; or just image ``only``, if it has one."""
    order = candidates(data, seed) if only is None else [only]
    found: list[int] = []
    failure: DetectorFailed | BadImage | None = None
    for start in range(0, len(order), wanted + _SPARE):
        some = order[start : start + wanted + _SPARE]
        try:
            answers = ask(detector, [data[i] for i in some], asking)
        except (DetectorFailed, BadImage) as error:  # not one of these; the next may do
            failure = failure or error
            continue
        told = zip(some, answers, strict=True)
        found += [i for i, each in told if isinstance(each, Detections) and (each.scores >= score).any()]
        if len(found) >= wanted or None in answers:
            break
    if not found and failure is not None:
        raise failure
    if not found:
        where = f"image {data[only].id!r}" if only is not None else f"any of {len(order)} images of {data.spec}"
        raise BadData(
            f"no detections of score {score:g} or more on {where}, so nothing can be affected there; lower --score."
        )
    return found[:wanted]


def rebuild(run: Run, data: Dataset) -> ScanStudy:
    """The study of ``run`` again."""
    found = [Transplant.of(each) for each in run.settings["transplants"]]
    return _study(Opened(data), found, names_in(run.about["identity"]["detector"]), settings_of(run))


def _study(opened: Opened, found: Sequence[Transplant], names: Sequence[str], how: ScanSettings) -> ScanStudy:
    return (AdaptiveScan if how.adaptive else ScanStudy)(opened, found, names, how)
