"""The warning signal of paper 3's discussion: regions of high objectness without a reported detection.

Needs no labels to be computed; with labels it is judged as a predictor of misses. Objectness is the first stage's
where there is one (the paper's RPN, or an encoder that proposes), YOLOX's own, else 1 − background. Of a black box the
detections below the reporting threshold are taken.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from misdetect.drawing.scenes import sides_of
from misdetect.metrics.matching import greedy_match
from misdetect.metrics.mechanisms import Thresholds
from misdetect.nouns.boxes import Bools, Floats, Ints, coverage, iou, nms
from misdetect.nouns.candidates import Candidates
from misdetect.nouns.detections import Detections, Truth

_CONSIDERED = 2000
"""Candidates of the highest objectness that are looked at per image."""
_SAME = 0.5
"""IoU from which a region is covered by a detection, or by a better region."""


def objectness_of(c: Candidates) -> Floats:
    """How sure the detector is that each candidate ``[K]`` is an object of any class."""
    if c.first is not None and len(c.first.kept) == len(c):
        proposed: Floats = c.first.scores[c.first.kept.candidate].max(axis=1)
        return proposed
    # FCOS keeps its centre-ness there, which says where in an object a point is, not whether it is in one
    if c.objectness is not None and c.settings.get("family") != "FCOS":
        return c.objectness
    return np.clip(1 - c.background, 0, 1)


@dataclass(frozen=True, eq=False)
class Regions:
    """Suspicious ``boxes`` ``[R, 4]`` with their ``objectness`` ``[R]``, the most suspicious first."""

    boxes: Floats
    objectness: Floats

    @classmethod
    def of(cls, found: Detections, inside: Candidates | None, thresholds: Thresholds, limit: int) -> "Regions":
        """At most ``limit`` regions of one image that no reported detection covers and no better region repeats."""
        reported = found.above(thresholds.reported)
        if inside is None:
            weak = found[found.scores < thresholds.reported]
            boxes, values = weak.boxes, weak.scores
        else:
            values = objectness_of(inside)
            boxes = inside.refined if inside.first is None else inside.proposals
            if len(values) > _CONSIDERED:
                rows = np.sort(np.argpartition(-values, _CONSIDERED)[:_CONSIDERED])
                boxes, values = boxes[rows], values[rows]
        boxes = boxes.astype(np.float64)
        free = iou(boxes, reported.boxes).max(axis=1, initial=0) < _SAME
        boxes, values = boxes[free], values[free]
        kept, _ = nms(boxes, values, _SAME)
        return cls(boxes[kept[:limit]], values[kept[:limit]].astype(np.float64))

    def targets(self, truth: Truth, lost: Ints, loc: float) -> Ints:
        """The missed object (row of ``truth``) that each region is a warning of; -1: none, -2: it lies in a crowd."""
        target = np.full(len(self.boxes), -1, dtype=np.int64)
        crowd = truth.boxes[np.asarray(truth.crowd, dtype=np.bool_)]
        target[coverage(self.boxes, by=crowd).max(axis=1, initial=0) >= _SAME] = -2
        regions = Detections(self.boxes, np.clip(self.objectness, 0, 1), np.zeros(len(self.boxes), np.int64))
        chosen = Truth(truth.boxes[lost], np.zeros(len(lost), np.int64))
        taken = greedy_match(regions, chosen, loc).truth_of
        target[taken >= 0] = lost[taken[taken >= 0]]
        return target


def curve(objectness: Floats, hit: Bools, misses: int) -> list[dict[str, float]]:
    """Precision and recall of "objectness ≥ threshold warns of a miss", by falling threshold, at most 50 points.

    ``objectness`` and ``hit`` ``[R]`` over all images; ``misses`` is the number of missed objects.
    """
    order = np.argsort(-objectness, kind="stable")
    values, right = objectness[order], np.cumsum(hit[order])
    last = np.flatnonzero(np.diff(values, append=-1.0))  # equal values are one threshold
    if len(last) > 50:
        last = last[np.unique(np.linspace(0, len(last) - 1, 50).round().astype(int))]
    return [
        {
            "threshold": float(values[i]),
            "precision": float(right[i] / (i + 1)),
            "recall": float(right[i] / misses) if misses else 0.0,
            "warnings": int(i + 1),
        }
        for i in last.tolist()
    ]


def average_precision(objectness: Floats, hit: Bools, misses: int) -> float | None:
    """Area under the precision-recall curve (every point), ``None`` without misses."""
    if not misses:
        return None
    right = np.cumsum(hit[np.argsort(-objectness, kind="stable")])
    precision = right / np.arange(1, len(right) + 1)
    best = np.maximum.accumulate(precision[::-1])[::-1] if len(right) else precision
    steps = np.diff(right / misses, prepend=0.0)
    return float((best * steps).sum())


def suspicious(rows: Sequence[dict[str, Any]], limit: int = 10) -> list[dict[str, Any]]:
    """The ranked list: the most suspicious regions of all images."""
    ranked = sorted(rows, key=lambda row: -row["objectness"])[:limit]
    return [{"image": row["image"], "box": sides_of(row), "objectness": round(row["objectness"], 4)} for row in ranked]
