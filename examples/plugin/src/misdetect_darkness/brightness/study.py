"""The study: each image as it is, then with less and less light, as long as there is an object left to lose."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from misdetect.data.dataset import Dataset
from misdetect.data.opened import Opened
from misdetect.engine.backend import Asking
from misdetect.engine.requests import Case, Detect, Steps
from misdetect.engine.store import Run
from misdetect.nouns.boxes import Floats, iou, sides
from misdetect.nouns.detections import Detections, Truth
from misdetect.nouns.picture import Picture, Pixels, digest
from misdetect.nouns.protocols import Detector
from misdetect.studies.joined import ImageStudy
from misdetect_darkness.brightness.rows import DETECTION, OBJECT, SCHEMA
from misdetect_darkness.brightness.settings import BrightnessSettings


@dataclass(frozen=True, eq=False)
class Darkened:
    """``base`` with a share ``light`` of its light. It is known by its key, and drawn when a detector is shown it."""

    base: Picture
    light: float

    @cached_property
    def key(self) -> str:
        return digest("darkened", self.base.key, self.light)

    def render(self) -> Pixels:
        return np.asarray(np.rint(self.base.render() * self.light), np.uint8)


class BrightnessStudy(ImageStudy):
    """A case per image of ``opened``, for a detector with classes ``names``."""

    name = "brightness"
    schema = SCHEMA

    def __init__(self, opened: Opened, names: Sequence[str], how: BrightnessSettings) -> None:
        super().__init__(opened, names)
        self.how: BrightnessSettings = how

    def run(self, case: Case) -> Steps:
        """Take light away until every object is lost; an image without objects is not asked about."""
        sample = self.data[case.index]
        truth = self.counted(sample.truth)
        objects = [
            {"kind": OBJECT, "id": int(id), "label": self.data.names[label], **sides(box), "lost_at": None}
            for id, label, box in zip(np.asarray(truth.ids), truth.labels, truth.boxes, strict=True)
        ]
        rows: list[dict[str, Any]] = []
        for light in (1.0, *self.how.light):
            if all(each["lost_at"] is not None for each in objects):
                break
            found: Detections = yield Detect(sample if light == 1 else Darkened(sample, light))
            rows += self.detections(found, light)
            for each, score in zip(objects, self.scores(truth, found), strict=True):
                if each["lost_at"] is None:
                    each["score"] = float(score)
                    each.setdefault("before", each["score"])
                    each["lost_at"] = light if score < self.how.score else None
        return [{"image": sample.id, **row} for row in (*objects, *rows)]

    def counted(self, truth: Truth) -> Truth:
        """The objects that can be found: present, no crowd, of a class that the detector has."""
        known = self.joined.to_detector[truth.labels] >= 0
        return truth[known & truth.present & ~np.asarray(truth.crowd)]

    def scores(self, truth: Truth, found: Detections) -> Floats:
        """The best score ``[N]`` that a detection of its class has on each object, 0 without one."""
        own = self.joined.to_detector[truth.labels][:, None] == found.labels
        fits = own & (iou(truth.boxes, found.boxes) >= self.how.iou)
        return np.asarray(np.where(fits, found.scores, 0.0).max(axis=1, initial=0.0))

    def detections(self, found: Detections, light: float) -> list[dict[str, Any]]:
        """A row for each detection that counts, for people to look at."""
        return [
            {"kind": DETECTION, "light": light, "label": self.names[label], "score": float(score), **sides(box)}
            for box, score, label in zip(found.boxes, found.scores, found.labels, strict=True)
            if score >= self.how.score
        ]


def prepare(detector: Detector, opened: Opened, settings: BrightnessSettings, asking: Asking) -> BrightnessStudy:
    """The study of ``detector`` on ``opened``; where they have no class in common, that is refused before anything is
    asked."""
    study = BrightnessStudy(opened, detector.names, settings)
    _ = study.joined
    return study


def rebuild(run: Run, data: Dataset) -> BrightnessStudy:
    """The study of ``run`` again."""
    names = run.about["identity"]["detector"]["names"]
    return BrightnessStudy(Opened(data), names, BrightnessSettings.of(run.settings))
