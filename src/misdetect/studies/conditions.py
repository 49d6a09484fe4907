"""Rows of what a detector finds on one image under one condition: as it is, or changed in some way.

``kind`` says what a row is about: the "image", an "object" that should be found, a "detection", or something "ignored"
(a crowd, an absent part, a class that the detector does not know). ``condition`` is "clean" or what was done to the
image. Labels are the data's names, boxes are in pixels. ``conditions_read`` reads them again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from misdetect.data.dataset import Sample
from misdetect.metrics.ablation import ablate
from misdetect.metrics.mechanisms import MECHANISMS, Thresholds, attribute, missed
from misdetect.nouns.boxes import Bools, Floats, Ints, iou, sides
from misdetect.nouns.candidates import Candidates
from misdetect.nouns.detections import PRESENT, Detections, Truth
from misdetect.nouns.labels import Joined
from misdetect.studies.columns import box

IMAGE, OBJECT, DETECTION, IGNORED = "image", "object", "detection", "ignored"
CLEAN, VANILLA = "clean", "vanilla"
"""The condition of images as they are, and the variant of detections that are the detector's own."""

SCHEMA = pa.schema(
    [
        ("kind", pa.string()),
        ("image", pa.string()),
        ("condition", pa.string()),
        ("width", pa.int32()),
        ("height", pa.int32()),
        ("id", pa.int64()),
        ("label", pa.string()),
        ("state", pa.string()),
        *box(),
        ("right", pa.bool_()),
        ("found", pa.bool_()),
        ("score_before", pa.float64()),
        ("score", pa.float64()),
        ("iou", pa.float64()),
        ("became", pa.string()),
        ("mechanism", pa.string()),
        ("reason", pa.string()),
        ("variant", pa.string()),
        ("background", pa.float64()),
        ("best", pa.float64()),
        ("losses", pa.list_(pa.float64())),
        ("total", pa.float64()),
        ("flat", pa.int32()),
        ("change", pa.int32()),
        ("pixels", pa.int64()),
        ("png", pa.binary()),
    ]
)


class Rules(Protocol):
    """What counts as found: the least IoU and the least score."""

    @property
    def loc(self) -> float: ...
    @property
    def score(self) -> float: ...
    @property
    def thresholds(self) -> Thresholds: ...


@dataclass(frozen=True, eq=False)
class Scene:
    """One image with its annotations in the detector's classes: ``labels`` ``[T]``, -1 where it has no such class."""

    sample: Sample
    truth: Truth
    labels: Ints
    joined: Joined
    data_names: Sequence[str]

    @classmethod
    def of(cls, sample: Sample, joined: Joined, data_names: Sequence[str]) -> "Scene":
        truth = sample.truth
        return cls(sample, truth, joined.to_detector[truth.labels], joined, data_names)

    def ignored_for(self) -> list[str]:
        """Why each annotation is not counted, "" where it is."""
        states = self.truth.states
        absent = np.zeros(len(self.truth), bool) if states is None else ~np.isin(np.array(states, str), PRESENT)
        crowd = np.asarray(self.truth.crowd, dtype=np.bool_)
        found: list[str] = np.select(
            [crowd, absent, self.labels < 0], ["crowd", "absent", "unknown-class"], ""
        ).tolist()
        return found

    @property
    def counted(self) -> Ints:
        """Rows of the truth that should be found."""
        return np.flatnonzero([why == "" for why in self.ignored_for()])

    @property
    def target(self) -> Truth:
        """What the losses are computed against: the objects that count, in the detector's labels."""
        rows = self.counted
        return Truth(self.truth.boxes[rows], self.labels[rows])

    def known(self, found: Detections) -> Bools:
        """Which detections are of a class that the data has: others can be neither right nor wrong."""
        return np.asarray(self.joined.to_data[found.labels] >= 0)

    def right(self, found: Detections, how: Rules) -> Bools:
        """Which of the counted objects are found."""
        rows = self.counted
        return ~missed(found, self.truth.boxes[rows], self.labels[rows], how.thresholds)


@dataclass(frozen=True, eq=False)
class Answer:
    """What a detector says of an image: its detections, and its inside where that can be seen."""

    found: Detections
    inside: Candidates | None = None

    @classmethod
    def of(cls, answer: "Detections | Candidates") -> "Answer":
        return cls(answer.select(), answer) if isinstance(answer, Candidates) else cls(answer)


def own_columns(scene: Scene, condition: str) -> dict[str, Any]:
    """What every row of an image and condition has."""
    sample = scene.sample
    return {"image": sample.id, "condition": condition, "width": sample.width, "height": sample.height}


def object_rows(scene: Scene, before: Answer, after: Answer, how: Rules) -> list[dict[str, Any]]:
    """What becomes of each object that counts, and why a missed one is missed where the inside can be seen."""
    rows = scene.counted
    boxes, labels = scene.truth.boxes[rows], scene.labels[rows]
    right, found = scene.right(before.found, how), scene.right(after.found, how)
    mechanism = np.full(len(rows), None, dtype=object)
    if after.inside is not None and not found.all():
        verdict = attribute(after.inside, boxes[~found], labels[~found], how.thresholds)
        mechanism[~found] = np.array(MECHANISMS, dtype=object)[verdict]
    first, last = (_closest(answer.found, boxes, labels, how) for answer in (before, after))
    ids = np.asarray(scene.truth.ids)[rows]
    names = [scene.data_names[label] for label in scene.truth.labels[rows].tolist()]
    states = scene.truth.states
    result = []
    for i in range(len(rows)):
        became = last.other[i]
        renamed = not found[i] and became >= 0 and scene.joined.to_data[became] >= 0
        result.append(
            {
                "kind": OBJECT,
                "id": int(ids[i]),
                "label": names[i],
                "state": None if states is None else states[rows[i]],
                **sides(boxes[i]),
                "right": bool(right[i]),
                "found": bool(found[i]),
                "score_before": float(first.score[i]),
                "score": float(last.score[i]),
                "iou": float(last.iou[i]),
                "became": scene.data_names[scene.joined.to_data[became]] if renamed else None,
                "mechanism": mechanism[i],
            }
        )
    for i, why in enumerate(scene.ignored_for()):
        if why:
            name = scene.data_names[int(scene.truth.labels[i])]
            box = sides(scene.truth.boxes[i])
            result.append(
                {"kind": IGNORED, "reason": why, "id": int(np.asarray(scene.truth.ids)[i]), "label": name} | box
            )
    return result


@dataclass(frozen=True, eq=False)
class _Closest:
    """Of each object: the best ``score`` of its class on it (IoU ≥ θ_loc) and that detection's ``iou``, 0 without one;
    ``other``: the class of the best reported detection of another class there, -1 for none."""

    score: Floats
    iou: Floats
    other: Ints


def _closest(found: Detections, boxes: Floats, labels: Ints, how: Rules) -> _Closest:
    if not len(found) or not len(boxes):
        return _Closest(np.zeros(len(boxes)), np.zeros(len(boxes)), np.full(len(boxes), -1))
    overlap = iou(boxes, found.boxes)
    same = labels[:, None] == found.labels[None, :]
    on = overlap >= how.loc
    own = np.where(on & same, found.scores[None, :], -1.0)
    best = own.argmax(axis=1)
    rows = np.arange(len(boxes))
    score = np.maximum(own[rows, best], 0)
    rival = np.where(on & ~same & (found.scores >= how.score)[None, :], found.scores[None, :], -1.0)
    other = np.where(rival.max(axis=1) > 0, found.labels[rival.argmax(axis=1)], -1)
    return _Closest(score, np.where(score > 0, overlap[rows, best], 0.0), other)


def detection_rows(scene: Scene, answer: Answer) -> list[dict[str, Any]]:
    """The detections of an image, at whatever score."""
    if answer.inside is None:
        unseen = np.full(len(answer.found), np.nan)
        return variant_rows(scene, VANILLA, answer.found, unseen, unseen)
    own = ablate(answer.inside, answer.inside, "vanilla")
    return variant_rows(scene, VANILLA, own.detections, own.background, own.best)


def variant_rows(
    scene: Scene, variant: str, found: Detections, background: Floats, best: Floats
) -> list[dict[str, Any]]:
    """``found`` as one ``variant`` of an image's detections, with their ``background`` and ``best`` scores ``[N]``
    (NaN: not shown)."""
    to_data = scene.joined.to_data
    return [
        {
            "kind": DETECTION,
            "variant": variant,
            "label": scene.data_names[int(to_data[found.labels[i]])],
            **sides(found.boxes[i]),
            "score": float(found.scores[i]),
            "background": None if np.isnan(background[i]) else float(background[i]),
            "best": None if np.isnan(best[i]) else float(best[i]),
        }
        for i in np.flatnonzero(scene.known(found)).tolist()
    ]
