"""Paper 3's Algorithm 1, for all missed objects of an image at once: which of five mechanisms failed.

Pure functions of ``Candidates`` and boxes; no files, no images, no detector. ``missed`` says which objects were not
found, ``attribute`` by which mechanism each was lost. The reasons within a mechanism and the evidence, which go beyond
the paper, are in ``diagnosis``; what was chosen where the paper is silent is in docs/definitions.md.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from misdetect.boxes import Bools, Floats, Ints, iou
from misdetect.detections import Detections, Truth
from misdetect.detectors.candidates import Candidates
from misdetect.errors import BadArray
from misdetect.metrics.matching import greedy_match, overlap_of_pairs

PROPOSAL, REGRESSOR, INTERCLASS, BACKGROUND, CALIBRATION = range(5)
MECHANISMS = ("proposal", "regressor", "interclass", "background", "calibration")
"""Paper 3's five mechanisms, in the order of the detection pipeline."""

Miss = Literal["any", "exclusive"]
Reading = Literal["auto", "boxes", "cells"]
AT_ONCE = 1 << 22
"""Overlaps held at once: 16 MB in single precision, so that 160,000 anchors never cost more than a few of these."""
_ROUNDING = 1e-4
"""Overlaps this near θ_loc are computed again in double precision before they decide."""


@dataclass(frozen=True)
class Thresholds:
    """``loc``: θ_loc, the least IoU of a box that localises an object. ``cls``: θ_cls, the least score of a box that
    classifies it. ``score``: what counts as reported, θ_cls where it is ``None`` (as in the paper's runs)."""

    loc: float = 0.5
    cls: float = 0.3
    score: float | None = None

    def __post_init__(self) -> None:
        for name, value in (("loc", self.loc), ("cls", self.cls), ("score", self.reported)):
            if not 0 < value <= 1:
                raise BadArray(f"Expected the threshold {name} to lie in (0, 1]. Got {value:g}.")

    @property
    def reported(self) -> float:
        return self.cls if self.score is None else self.score


def missed(
    detections: Detections, boxes: Floats, labels: Ints, thresholds: Thresholds | None = None, miss: Miss = "any"
) -> Bools:
    """Which of the objects ``boxes`` ``[M, 4]`` of ``labels`` ``[M]`` the ``detections`` (same labels) do not find.

    "any": no reported detection of the class has IoU ≥ θ_loc; one detection may find several objects (paper 3's code).
    "exclusive": greedy by score, each detection finds one object at most, as AP and TIDE count.
    """
    t = thresholds or Thresholds()
    found = detections.above(t.reported)
    if miss == "exclusive":
        return greedy_match(found, Truth(boxes, labels), t.loc).detection_of < 0
    fits = (iou(boxes, found.boxes) >= t.loc) & (np.asarray(labels)[:, None] == found.labels[None, :])
    return np.asarray(~fits.any(axis=1))


def reading_of(candidates: Candidates) -> Reading:
    """ "cells" where the proposals are a grid's cells (anchor-free detectors), else "boxes".

    Cells tile: each has the size of the one before it and begins where that one ends, in its row or in the next, but
    for the few with which a level begins. Anchors and queries do not.
    """
    p = np.asarray(candidates.proposals)
    if len(p) < 4:
        return "boxes"
    side = np.maximum((p[:-1, 2:] - p[:-1, :2]), 1e-6)
    alike = (np.abs((p[1:, 2:] - p[1:, :2]) - side) < 0.02 * side).all(axis=1)
    beside = (np.abs(p[1:, :2] - np.stack([p[:-1, 2], p[:-1, 1]], axis=1)) < 0.02 * side).all(axis=1)
    below = np.abs(p[1:, 1] - p[:-1, 3]) < 0.02 * side[:, 1]
    return "cells" if float((alike & (beside | below)).mean()) > 0.9 else "boxes"


@dataclass(frozen=True, eq=False)
class Localised:
    """Lines 1 to 9 of Algorithm 1 for ``M`` objects: ``overlap`` ``[M, K]`` of all refined boxes; ``near`` ``[L]`` the
    candidates that fit any object, ``fits`` ``[M, L]`` which of them fits which, ``scores`` ``[L, C]`` theirs, and
    ``own`` ``[M, L]`` those for the objects' classes; ``some``, ``right`` and ``confident`` ``[M]``: is there one that
    fits, does one of these score θ_cls for the object's class, and for any."""

    overlap: Floats
    near: Ints
    fits: Bools
    scores: Floats
    own: Floats
    some: Bools
    right: Bools
    confident: Bools

    @classmethod
    def of(cls, c: Candidates, boxes: Floats, labels: Ints, t: Thresholds) -> "Localised":
        overlap, fits = overlaps(boxes, c.refined, t.loc)
        near = np.flatnonzero(fits.any(axis=0))  # few of many: only their scores are ever looked at
        fits, scores = fits.take(near, axis=1), c.scores.take(near, axis=0)
        own = scores.take(labels, axis=1).T
        strong = (scores >= t.cls).any(axis=1)
        some, right, confident = (
            np.asarray(which.any(axis=1)) for which in (fits, fits & (own >= t.cls), fits & strong)
        )
        return cls(overlap, near, fits, scores, own, some, right, confident)

    @property
    def best_own(self) -> Ints:
        """For each object the fitting candidate (an index into ``near``) that scores highest for its class."""
        return best_of(self.own, self.fits)[0]

    @property
    def best_any(self) -> Ints:
        """The same for any class."""
        return best_of(np.broadcast_to(self.scores.max(axis=1, initial=0), self.fits.shape), self.fits)[0]

    def mechanism(self, proposed: Bools) -> Ints:
        """The verdict ``[M]``, given which objects a proposal localised (lines 11 to 15)."""
        if_localised = np.where(self.right, CALIBRATION, np.where(self.confident, INTERCLASS, BACKGROUND))
        return np.where(self.some, if_localised, np.where(proposed, REGRESSOR, PROPOSAL)).astype(np.int64)


def attribute(
    candidates: Candidates,
    boxes: Floats,
    labels: Ints,
    thresholds: Thresholds | None = None,
    reading: Reading = "auto",
) -> Ints:
    """Algorithm 1: for the missed objects ``boxes`` ``[M, 4]`` of ``labels`` ``[M]`` (the detector's) the mechanism
    ``[M]``, an index into ``MECHANISMS``.

    ``reading``: what a proposal is. "boxes": it localises by IoU, as in the paper. "cells": it localises if the cell's
    centre lies in the object. "auto" looks at the proposals (``reading_of``).
    """
    t = thresholds or Thresholds()
    boxes, labels, how = checked(candidates, boxes, labels, reading)
    if not len(candidates):
        return np.full(len(boxes), PROPOSAL, dtype=np.int64)
    found = np.zeros(len(boxes), dtype=np.int64)
    step = max(1, AT_ONCE // len(candidates))
    for i in range(0, len(boxes), step):
        part = boxes[i : i + step]
        look = Localised.of(candidates, part, labels[i : i + step], t)
        proposed = np.zeros(len(part), np.bool_)
        lost = ~look.some  # only there does it matter what was proposed
        if lost.any():
            proposed[lost] = proposals_on(candidates, part[lost], t, how)[1].any(axis=1)
        found[i : i + step] = look.mechanism(proposed)
    return found


def checked(c: Candidates, boxes: Floats, labels: Ints, reading: Reading) -> tuple[Floats, Ints, Reading]:
    """Boxes as float64 ``[M, 4]``, labels as int64 within the detector's classes, and the reading settled."""
    boxes, labels = np.asarray(boxes, dtype=np.float64).reshape(-1, 4), np.asarray(labels, dtype=np.int64)
    if len(labels) and (labels.min() < 0 or labels.max() >= c.scores.shape[1]):
        raise BadArray(f"Expected labels within the detector's {c.scores.shape[1]} classes.")
    return boxes, labels, reading_of(c) if reading == "auto" else reading


def proposals_on(c: Candidates, boxes: Floats, t: Thresholds, how: Reading) -> tuple[Floats, Bools]:
    """IoU ``[M, K]`` of the proposals with ``boxes``, and which of them localise which, by ``how``."""
    overlap, fits = overlaps(boxes, c.proposals, t.loc)
    return overlap, centres_inside(boxes, c.proposals) if how == "cells" else fits


def overlaps(boxes: Floats, others: Floats, threshold: float) -> tuple[Floats, Bools]:
    """IoU ``[M, K]`` in the precision of ``others``, and where it is ≥ ``threshold``, decided in double precision."""
    found = iou(boxes.astype(others.dtype, copy=False), others)
    fits: Bools = found >= threshold
    if others.dtype != np.float64:
        close = np.abs(found - threshold) < _ROUNDING
        if close.any():
            m, k = np.nonzero(close)
            exact = overlap_of_pairs(others[k].astype(np.float64), boxes[m], np.zeros(len(m), np.bool_))
            fits[m, k] = exact >= threshold
    return found, fits


def best_of(values: Floats, among: Bools) -> tuple[Ints, Bools]:
    """For each row of ``values`` ``[M, L]`` the column of its largest value ``among`` the eligible, the first of equal
    ones, and whether there is any."""
    if not values.shape[1]:
        return np.zeros(len(values), np.int64), np.zeros(len(values), np.bool_)
    return np.where(among, values, -1).argmax(axis=1), np.asarray(among.any(axis=1))


def centres_inside(boxes: Floats, cells: Floats) -> Bools:
    """``[M, K]``: whether the centre of each of ``cells`` lies in each of ``boxes``."""
    x, y = (cells[:, 0] + cells[:, 2]) / 2, (cells[:, 1] + cells[:, 3]) / 2
    x0, y0, x1, y1 = (boxes[:, i, None] for i in range(4))
    return np.asarray((x >= x0) & (x <= x1) & (y >= y0) & (y <= y1))
