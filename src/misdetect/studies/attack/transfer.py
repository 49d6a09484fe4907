"""A transfer attack: gradients of one detector, answers of another. The engine has one detector, so both are made one.

``Transferred`` looks and detects as the detector under test and slopes as its surrogate; that is all that a study ever
asks. Classes are joined by name. It works on any black box, and what it finds is a lower bound.
"""

from collections.abc import Sequence
from typing import Any

from misdetect.detectors import load_detector
from misdetect.detectors.zoo.shipped import ZOO, manifest
from misdetect.nouns.boxes import Floats
from misdetect.nouns.candidates import Candidates
from misdetect.nouns.detections import Detections, Truth
from misdetect.nouns.labels import join_labels, plain_name
from misdetect.nouns.picture import Pixels
from misdetect.nouns.protocols import Detector, Differentiable, Loss, Traced, as_white_box, describe, require
from misdetect.studies.attack.settings import AUTO, NONE, AttackSettings

_OWN = ("target", "surrogate", "_join")
_SUITED = ("yolox", "ssd", "retinanet", "faster-rcnn", "deformable-detr")
"""Families as surrogates, the one with the cheapest gradients first."""
BLACK_BOX = "attack it by transfer with --surrogate SPEC, e.g. a detector of the zoo"


class Transferred:
    """``target``, with the gradients of ``surrogate``. Everything else about it is the target's."""

    def __init__(self, target: Detector, surrogate: Any) -> None:
        called = describe(target), describe(surrogate)
        self.target, self.surrogate = target, surrogate
        self._join = join_labels(target.names, surrogate.names, *called)

    @property
    def names(self) -> Sequence[str]:
        """The target's classes."""
        return self.target.names

    def detect(self, images: Sequence[Pixels]) -> Sequence[Detections]:
        """What the target sees."""
        return self.target.detect(images)

    def gradient(self, images: Sequence[Floats], truths: Sequence[Truth], loss: Loss) -> tuple[Floats, list[Floats]]:
        """The surrogate's, of the objects whose class it has."""
        values, slopes = self.surrogate.gradient(images, [self._known(truth) for truth in truths], loss)
        return values, slopes

    def _known(self, truth: Truth) -> Truth:
        labels = self._join[truth.labels]
        return Truth(truth.boxes[labels >= 0], labels[labels >= 0])

    def __getattr__(self, name: str) -> Any:
        if name in _OWN:  # while it is being unpickled
            raise AttributeError(name)
        return getattr(self.target, name)

    def __setattr__(self, name: str, value: Any) -> None:
        """What the engine tells a detector (its budget) is meant for the one that is asked."""
        if name in _OWN:
            object.__setattr__(self, name, value)
        else:
            setattr(self.target, name, value)


class TracedTransferred(Transferred):
    """The same for a target that can be looked into."""

    def trace(self, images: Sequence[Pixels]) -> Sequence[Candidates]:
        """The target's inside."""
        found: Sequence[Candidates] = self.target.trace(images)  # type: ignore[attr-defined]
        return found


def transferred(target: Detector, surrogate: str) -> Transferred:
    """``target`` with the gradients of the detector that the spec ``surrogate`` names."""
    other = require(load_detector(surrogate), Differentiable, "a surrogate", "use a detector of the zoo")
    return (TracedTransferred if isinstance(target, Traced) else Transferred)(target, other)


def asked(detector: Detector, how: AttackSettings) -> Detector:
    """What is asked in a run: ``detector``, opened where it can be, or with the gradients of a surrogate where one is
    given."""
    if how.surrogate is not None:
        return transferred(detector, how.surrogate)
    inside, why = as_white_box(detector)
    instead = BLACK_BOX if why is None else f"{why.rstrip('.')}; or {BLACK_BOX}"
    found: Detector = require(inside, Differentiable, "attack", instead)
    return found


def rival(detector: Detector, how: AttackSettings, data_names: Sequence[str]) -> str | None:
    """The spec of the detector that the ladder's transfer comes from: another family of the zoo that shares most
    classes with the data, as it is before any training under attack; ``None`` where none does, where none is wanted, or
    where all is transfer anyway."""
    if how.transfer != AUTO:
        return None if how.transfer == NONE else how.transfer
    if how.surrogate is not None:
        return None
    spec = str(getattr(detector, "spec", ""))
    family = next((ZOO[name].family for name in ZOO if spec.partition(",")[0] == f"zoo:{name}"), "")
    known = {plain_name(name) for name in data_names} & {plain_name(name) for name in detector.names}
    shared = {
        name: len(known & {plain_name(each) for each in manifest()[name]["names"]})
        for name, entry in ZOO.items()
        if name in manifest() and entry.family in _SUITED and entry.family != family and entry.twin is None
    }
    ranked = sorted((name for name in shared if shared[name]), key=lambda n: (-shared[n], _SUITED.index(ZOO[n].family)))
    return f"zoo:{ranked[0]}" if ranked else None
