"""Before and after the cases of an attack: what can be attacked at all, which images the ladder uses, and its last
rung, the transfer from another detector, which is a small run of its own inside the run's directory."""

from dataclasses import replace
from functools import partial
from typing import Any

from misdetect.data.dataset import Dataset
from misdetect.data.opened import Opened
from misdetect.detectors import load_detector
from misdetect.engine import ask, run_study
from misdetect.engine.backend import Asking
from misdetect.engine.store import Run
from misdetect.nouns.detections import Detections
from misdetect.nouns.labels import Joined
from misdetect.nouns.protocols import Detector, Traced
from misdetect.said.errors import BadData, MisdetectError, NothingToTest
from misdetect.studies.attack.plan import TRANSFER, transfer_rung
from misdetect.studies.attack.settings import NONE, AttackSettings
from misdetect.studies.attack.study import AttackStudy
from misdetect.studies.attack.transfer import asked, rival, transferred
from misdetect.studies.conditions import Scene

_AT_ONCE = 32
"""Images that are looked at together while those with a found object are sought."""


def prepare(detector: Detector, opened: Opened, settings: AttackSettings, asking: Asking) -> AttackStudy:
    """Refuse data without annotations and a detector that finds nothing; choose the images of the ladder."""
    data = opened.data
    if not len(data):
        raise BadData(f"{data.spec} has no images.")
    if not data.names or not any(len(sample.truth) for sample in data):
        raise BadData(
            f"{data.spec} has no annotations, and losses are measured against them; name others with --truth."
        )
    joined = Joined.of(detector.names, data.names, "the detector", data.spec)
    climbed = _with_right(detector, data, joined, settings, asking)
    surrogate = getattr(detector, "surrogate", None)
    other = rival(detector, settings, data.names) if settings.ladder else None
    if other is not None and other == settings.transfer:
        transferred(detector, other)  # a user's own choice is refused before anything is written
    about = {TRANSFER: other, "surrogate_fingerprint": getattr(surrogate, "fingerprint", None)}
    inside = isinstance(detector, Traced)
    return AttackStudy(opened, detector.names, settings, inside=inside, climbed=climbed[: settings.ladder], about=about)


def _with_right(detector: Detector, data: Dataset, joined: Joined, how: AttackSettings, asking: Asking) -> list[int]:
    """The first images on which an object is found, as many as the ladder needs and at least one."""
    chosen: list[int] = []
    stopped = False
    for start in range(0, len(data), _AT_ONCE):
        some = range(start, min(start + _AT_ONCE, len(data)))
        for i, answer in zip(some, ask(detector, [data[i] for i in some], asking), strict=True):
            stopped = stopped or answer is None
            if isinstance(answer, Detections) and Scene.of(data[i], joined, data.names).right(answer, how).any():
                chosen.append(i)
        if stopped or len(chosen) >= max(how.ladder, 1):
            return chosen
    if not chosen:
        raise NothingToTest(
            f"no object of {data.spec} is found before the attack (IoU {how.loc:g}, score {how.score:g}), so there is "
            "nothing to lose; lower --score, or check that detector and data belong together."
        )
    return chosen


def after(study: AttackStudy, detector: Detector, run: Run, settings: AttackSettings, asking: Asking) -> None:
    """Climb the last rung: attack the ladder's images with the gradients of another detector."""
    other = run.settings.get(TRANSFER)
    if other is None or not study.climbed:
        return
    try:
        both = transferred(detector, other)
    except MisdetectError:  # torch is not installed, say: then the ladder does without
        if settings.transfer == other:
            raise
        return
    about = {TRANSFER: other, "surrogate_fingerprint": getattr(both.surrogate, "fingerprint", None)}
    last = AttackStudy(
        study._opened,
        study.names,
        study.how,
        inside=False,
        climbed=study.climbed,
        about=about,
        only=transfer_rung(study.how),
    )
    spec, settings = getattr(detector, "spec", None), replace(settings, progress=None)
    own = spec if isinstance(spec, str) else detector  # these travel to workers
    run_study(
        last,
        both,
        run.path / TRANSFER,
        make_detector=partial(make, own, tuple(detector.names), settings, other),
        workers=settings.workers,
        cluster=settings.elsewhere,
        asking=asking,
        retry_failed=settings.retry_failed,
        repair=settings.repair,
    )


def make(spec: Any, names: tuple[str, ...], settings: AttackSettings, other: str) -> Detector:
    """A worker's own pair of detectors: what the run asks, with the gradients of the ``other``."""
    return transferred(asked(load_detector(spec, names), settings), other)


def rebuild(run: Run, data: Dataset) -> AttackStudy:
    """The study of ``run`` again."""
    known = run.settings
    about = {name: known.get(name) for name in (TRANSFER, "surrogate_fingerprint")}
    names = run.about["identity"]["detector"]["names"]
    how = AttackSettings.of({**known, TRANSFER: known.get(TRANSFER) or NONE})
    return AttackStudy(
        Opened(data), names, how, inside=bool(known["inside"]), climbed=known["ladder_images"], about=about
    )
