"""From settings to a study: the pairs are drawn, on images where the detector finds something; and a study made again
from the directory of its run."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from misdetect.data.dataset import Dataset
from misdetect.data.opened import Opened
from misdetect.engine.backend import Asking
from misdetect.engine.store import RUN_JSON, Run
from misdetect.nouns.open_names import names_in
from misdetect.nouns.protocols import Detector, Traced, require
from misdetect.said.errors import BadData
from misdetect.studies.scan.adaptive import AdaptiveScan
from misdetect.studies.scan.backgrounds import with_detections
from misdetect.studies.scan.pairs import (
    Pair,
    Sizes,
    Transplant,
    choose_pairs,
    find_image,
    find_object,
    transplants,
)
from misdetect.studies.scan.settings import ScanSettings, settings_of
from misdetect.studies.scan.study import ScanStudy

_SPARE = 8
"""Images with detections beyond those asked for, in case nothing fits into some."""


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


def rebuild(run: Run, data: Dataset) -> ScanStudy:
    """The study of ``run`` again."""
    found = [Transplant.of(each) for each in run.settings["transplants"]]
    return _study(Opened(data), found, names_in(run.about["identity"]["detector"]), settings_of(run))


def _study(opened: Opened, found: Sequence[Transplant], names: Sequence[str], how: ScanSettings) -> ScanStudy:
    return (AdaptiveScan if how.adaptive else ScanStudy)(opened, found, names, how)
