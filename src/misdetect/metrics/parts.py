"""Part verification (paper 2): are the parts that are there found, and those that are missing not?

Recall of present parts R_P, recall of missing parts R_M, their F_vv (eq. 1), at a score threshold and as curves over
it, the price of both mistakes, and the prior (Fig. 4). Functions of arrays; a part is there at most once per image.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from misdetect.metrics.bootstrap import interval
from misdetect.metrics.matching import overlap_of_pairs
from misdetect.nouns.boxes import Bools, Floats, Ints
from misdetect.said.errors import BadArray

SCORES = np.round(np.linspace(0, 1, 101), 2)
"""Score thresholds of the curves."""
IOUS = np.round(np.linspace(0, 1, 21), 2)
"""IoU thresholds of Fig. 6."""
NEVER = -1.0
"""The score, or IoU, of what is not there: below every threshold."""


def f_vv(present_recall: ArrayLike, missing_recall: ArrayLike, beta: float = 0.1) -> Floats:
    """Eq. 1: (1 + β²) R_P (1 − R_M) / (β² (1 − R_M) + R_P), elementwise, in [0, 1]; 0 where R_P and 1 − R_M are 0."""
    found, spared = np.asarray(present_recall, np.float64), 1 - np.asarray(missing_recall, np.float64)
    above, below = (1 + beta**2) * found * spared, beta**2 * spared + found
    undefined = np.isnan(below)
    value: Floats = np.divide(above, below, out=np.zeros_like(below), where=below > 0)
    return np.where(undefined, np.nan, value)


@dataclass(frozen=True, eq=False)
class Parts:
    """``N`` annotated parts: ``image`` ``[N]`` and ``label`` ``[N]`` from 0, ``boxes`` ``[N, 4]`` in pixels (of a
    missing part: where it would be), ``missing`` ``[N]``. No image has two of one label."""

    image: Ints
    label: Ints
    boxes: Floats
    missing: Bools

    def __post_init__(self) -> None:
        own = np.sort(self.image * (int(self.label.max(initial=0)) + 1) + self.label)
        if (own[1:] == own[:-1]).any():
            raise BadArray("Expected every part at most once per image. Got one twice.")

    def __len__(self) -> int:
        return len(self.image)


@dataclass(frozen=True, eq=False)
class Found:
    """``D`` detections: ``part`` ``[D]``, the row of the part of their class in their image (-1: none is annotated),
    their ``iou`` ``[D]`` with its box, and their ``scores`` ``[D]``."""

    part: Ints
    iou: Floats
    scores: Floats

    @classmethod
    def of(cls, parts: Parts, image: Ints, label: Ints, boxes: Floats, scores: Floats) -> "Found":
        """The detections ``image``, ``label``, ``scores`` ``[D]`` and ``boxes`` ``[D, 4]``, each with its part."""
        if not len(parts):
            return cls(np.full(len(image), -1), np.zeros(len(image)), scores)
        images, labels = (
            int(max(a.max(), b.max(initial=0))) + 1 for a, b in ((parts.image, image), (parts.label, label))
        )
        rows = np.full(images * labels, -1)
        rows[parts.image * labels + parts.label] = np.arange(len(parts))
        part = rows[image * labels + label]
        overlap = overlap_of_pairs(boxes, parts.boxes[part], np.zeros(len(boxes), np.bool_))
        return cls(part, np.where(part >= 0, overlap, 0.0), scores)

    def best_score(self, parts: int, least: ArrayLike) -> Floats:
        """``[parts]``: the highest score of a detection of the part's class with an IoU of ``least`` (one, or one per
        part) or more; ``NEVER`` where there is none. With 0 any detection of the class will do, wherever it is."""
        return self._best(self.scores, self.iou >= np.broadcast_to(least, parts)[self.part] if parts else None, parts)

    def best_iou(self, parts: int, score: float) -> Floats:
        """``[parts]``: the largest IoU of a detection of the part's class with ``score`` or more, else ``NEVER``."""
        return self._best(self.iou, self.scores >= score, parts)

    def _best(self, values: Floats, able: Bools | None, parts: int) -> Floats:
        best = np.full(parts, NEVER)
        if able is not None:
            chosen = able & (self.part >= 0)
            np.maximum.at(best, self.part[chosen], values[chosen])
        return best


@dataclass(frozen=True, eq=False)
class Verified:
    """The parts with the score that each is detected with, under one pair of IoU thresholds (``NEVER``: not at all)."""

    parts: Parts
    best: Floats

    @classmethod
    def at(cls, parts: Parts, found: Found, present_iou: float, missing_iou: float) -> "Verified":
        """A present part is detected by an IoU of ``present_iou`` (T_P), a missing one by ``missing_iou`` (T_M)."""
        return cls(parts, found.best_score(len(parts), np.where(parts.missing, missing_iou, present_iou)))

    def take(self, rows: Bools) -> "Verified":
        """Only the parts at ``rows`` ``[N]``."""
        p = self.parts
        return Verified(Parts(p.image[rows], p.label[rows], p.boxes[rows], p.missing[rows]), self.best[rows])

    def counts(self, scores: ArrayLike) -> Floats:
        """``[S, 4]``: at each score threshold, present parts that are found, all of these, missing parts that are
        detected, all of these."""
        thresholds = np.asarray(scores, np.float64).reshape(-1)
        columns = []
        for mask in (~self.parts.missing, self.parts.missing):
            ordered = np.sort(self.best[mask])
            columns += [len(ordered) - np.searchsorted(ordered, thresholds), np.full(len(thresholds), len(ordered))]
        return np.stack(columns, axis=1).astype(np.float64)

    def tally(self, score: float, images: int, labels: int) -> Floats:
        """``[images, labels, 4]``: the same counts at one threshold, per image and part, for drawing images again."""
        hit = self.best >= score
        there = ~self.parts.missing
        columns = np.stack([there & hit, there, ~there & hit, ~there], axis=1).astype(np.float64)
        place = self.parts.image * labels + self.parts.label
        sums = [np.bincount(place, column, minlength=images * labels) for column in columns.T]
        return np.stack(sums, axis=1).astype(np.float64).reshape(images, labels, 4)


def recalls(counts: Floats) -> tuple[Floats, Floats]:
    """R_P and R_M of ``counts`` ``[..., 4]``; NaN where there is nothing to be found."""
    present, missing = (
        np.divide(
            counts[..., k], counts[..., k + 1], out=np.full(counts.shape[:-1], np.nan), where=counts[..., k + 1] > 0
        )
        for k in (0, 2)
    )
    return present, missing


def intervals(tally: Floats, draws: Floats, beta: float, confidence: float) -> dict[str, tuple[Floats, Floats]]:
    """Ends of the intervals of R_P, R_M and F_vv, drawing images again: ``tally`` ``[images, ..., 4]``, ``draws``
    ``[R, images]``."""
    present, missing = recalls(np.tensordot(draws, tally, axes=1))
    samples = {"present_recall": present, "missing_recall": missing, "f_vv": f_vv(present, missing, beta)}
    return {name: interval(values, confidence) for name, values in samples.items()}


def costs(counts: Floats, false_present: float, check: float) -> Floats:
    """What both mistakes cost, ``[...]`` of ``counts`` ``[..., 4]``: a missing part that is taken for present costs
    ``false_present``, a present one that is not found costs a ``check`` by a person."""
    return np.asarray(false_present * counts[..., 2] + check * (counts[..., 1] - counts[..., 0]))


def best_threshold(values: Floats) -> float:
    """The score of ``SCORES`` at which ``values`` ``[len(SCORES)]`` is largest: the middle one of those that are, since
    an operating point at the edge of a plateau falls off it elsewhere."""
    if np.isnan(values).all():
        return float("nan")
    top = np.flatnonzero(values >= np.nanmax(values) - 1e-12)
    return float(SCORES[top[len(top) // 2]])


def halves(images: int, seed: int) -> Bools:
    """``[images]``: which of them choose a threshold; on the others it is reported."""
    chosen = np.zeros(images, np.bool_)
    chosen[np.random.default_rng(seed).permutation(images)[: (images + 1) // 2]] = True
    return chosen


def mean_boxes(label: Ints, boxes: Floats, sizes: Floats, labels: int) -> Floats:
    """The prior ``[labels, 4]``: mean left, top, right and bottom of each part, as shares of its image, whose ``sizes``
    ``[N, 2]`` are width and height; NaN for a part that is never seen."""
    share = boxes / np.concatenate([sizes, sizes], axis=1)
    seen = np.bincount(label, minlength=labels)
    sums = np.stack([np.bincount(label, column, minlength=labels) for column in share.T], axis=1)
    means: Floats = np.divide(sums, seen[:, None], out=np.full((labels, 4), np.nan), where=seen[:, None] > 0)
    return means
