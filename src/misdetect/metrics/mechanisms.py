"""Paper 3's Algorithm 1, for all missed objects of an image at once: which of five mechanisms failed.

Pure functions of ``Candidates`` and boxes; no files, no images, no detector. ``missed`` says which objects were not
found, ``attribute`` by which mechanism each was lost. The reasons within a mechanism and the evidence, which go beyond
the paper, are in ``diagnosis``; what was chosen where the paper is silent is in docs/definitions/explain.md.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from misdetect.metrics.matching import greedy_match, overlap_of_pairs
from misdetect.nouns.boxes import Bools, Floats, Ints
from misdetect.nouns.candidates import Candidates
from misdetect.nouns.detections import Detections, Truth
from misdetect.said.errors import BadArray

PROPOSAL, REGRESSOR, INTERCLASS, BACKGROUND, DISCARDED = range(5)
MECHANISMS = ("proposal", "regressor", "interclass", "background", "discarded")
"""Paper 3's five mechanisms, in the order of the detection pipeline."""

Miss = Literal["any", "exclusive"]
Reading = Literal["auto", "boxes", "cells"]
AT_ONCE = 1 << 22
"""Overlaps held at once: 16 MB in single precision, so that 160,000 anchors never cost more than a few of these."""
_SINGLE, _DOUBLE = (float(np.finfo(kind).eps) for kind in (np.float32, np.float64))
_LOOKED_AT = 256
"""Proposals that are enough to tell a grid's cells."""


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


_PAPER = Thresholds()


def missed(
    detections: Detections, boxes: Floats, labels: Ints, thresholds: Thresholds | None = None, miss: Miss = "any"
) -> Bools:
    """Which of the objects ``boxes`` ``[M, 4]`` of ``labels`` ``[M]`` the ``detections`` (same labels) do not find.

    "any": no reported detection of the class has IoU ≥ θ_loc; one detection may find several objects (paper 3's code).
    "exclusive": greedy by score, each detection finds one object at most, as AP and TIDE count.
    """
    t = thresholds or _PAPER
    if miss == "exclusive":
        return greedy_match(detections.above(t.reported), Truth(boxes, labels), t.loc).detection_of < 0
    boxes, labels = np.asarray(boxes, dtype=np.float64).reshape(-1, 4), np.asarray(labels)
    (reported,) = (detections.scores >= t.reported).nonzero()
    m, d = (labels[:, None] == detections.labels[reported]).nonzero()  # only pairs of one class can fit
    lost = np.ones(len(boxes), np.bool_)
    overlap = overlap_of_pairs(detections.boxes[reported[d]], boxes[m], np.zeros(len(m), np.bool_))
    lost[m[overlap >= t.loc]] = False
    return lost


def reading_of(candidates: Candidates) -> Reading:
    """ "cells" where the proposals are a grid's cells (anchor-free detectors), else "boxes".

    Cells tile: each has the size of the one before it and begins where that one ends, in its row or in the next, but
    for the few with which a level begins. Anchors and queries do not.
    """
    p = np.asarray(candidates.proposals)
    if len(p) < 4:
        return "boxes"
    step = max(1, len(p) // _LOOKED_AT)
    this, after = p[:-1:step], p[1::step]
    side = np.maximum(this[:, 2:] - this[:, :2], 1e-6)
    near, move = 0.02 * side, after - this
    alike = np.abs(move[:, 2:] - move[:, :2]) < near
    if np.count_nonzero(alike) <= 0.9 * alike.size:
        return "boxes"
    beside = (np.abs(move[:, 0] - side[:, 0]) < near[:, 0]) & (np.abs(move[:, 1]) < near[:, 1])
    below = np.abs(move[:, 1] - side[:, 1]) < near[:, 1]
    return "cells" if float((alike.all(axis=1) & (beside | below)).mean()) > 0.9 else "boxes"


def settled(candidates: Candidates, reading: Reading) -> Reading:
    """``reading``, "auto" made out."""
    return reading_of(candidates) if reading == "auto" else reading


@dataclass(frozen=True, eq=False)
class Localised:
    """Lines 1 to 9 of Algorithm 1 for ``M`` objects, ``count``. Every refined box that fits an object is a pair, sorted
    by object: ``of`` ``[P]`` the object, ``candidate`` ``[P]`` the box, ``scores`` ``[P, C]`` its scores and ``own``
    ``[P]`` the one for the object's class. Few of many fit, and only their scores are ever looked at."""

    count: int
    of: Ints
    candidate: Ints
    scores: Floats
    own: Floats

    @classmethod
    def among(cls, c: Candidates, boxes: Floats, labels: Ints, t: Thresholds) -> "Localised":
        """The pairs of the objects ``boxes`` ``[M, 4]`` of ``labels`` ``[M]`` with the refined boxes that fit them."""
        of, candidate = fitting(boxes, c.refined, t.loc)
        scores = c.scores.take(candidate, axis=0)
        return cls(len(labels), of, candidate, scores, scores[np.arange(len(of)), labels.take(of)])

    def mechanism(self, t: Thresholds) -> Ints:
        """The verdict ``[M]`` as far as it depends on refined boxes; ``PROPOSAL`` where none fits (lines 11 to 15)."""
        found = np.zeros(self.count, dtype=np.int64)  # PROPOSAL
        found[self.of] = BACKGROUND
        (strong,) = (self.scores >= t.cls).ravel().nonzero()
        found[self.of[strong // self.scores.shape[1]]] = INTERCLASS
        found[self.of[self.own >= t.cls]] = DISCARDED
        return found


def best_pair(of: Ints, values: Floats, count: int) -> Ints:
    """For each of ``count`` objects the pair with the largest of ``values`` ``[P]``, the first of equal ones, -1 where
    it has none; ``of`` ``[P]`` is the object of each pair, sorted."""
    pairs = np.bincount(of, minlength=count)
    some = pairs > 0
    found = np.full(count, -1, dtype=np.int64)
    found[some] = np.lexsort((-values, of))[(np.cumsum(pairs) - pairs)[some]]
    return found


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
    t = thresholds or _PAPER
    boxes, labels = checked(candidates, boxes, labels)
    parts = [np.zeros(0, dtype=np.int64)]
    step = max(1, AT_ONCE // max(len(candidates), 1))
    for i in range(0, len(boxes), step):
        near = boxes[i : i + step]
        found = Localised.among(candidates, near, labels[i : i + step], t).mechanism(t)
        (lost,) = (found == PROPOSAL).nonzero()
        if lost.size:  # only there does it matter what was proposed
            found[lost[proposed(candidates, near[lost], t, reading)[0]]] = REGRESSOR
        parts.append(found)
    return parts[1] if len(parts) == 2 else np.concatenate(parts)


def checked(c: Candidates, boxes: Floats, labels: Ints) -> tuple[Floats, Ints]:
    """Boxes as float64 ``[M, 4]`` and labels as int64 within the detector's classes."""
    boxes, labels = np.asarray(boxes, dtype=np.float64).reshape(-1, 4), np.asarray(labels, dtype=np.int64)
    if any(not 0 <= label < c.scores.shape[1] for label in labels.tolist()):
        raise BadArray(f"Expected labels within the detector's {c.scores.shape[1]} classes.")
    return boxes, labels


def proposed(c: Candidates, boxes: Floats, t: Thresholds, reading: Reading) -> tuple[Ints, Ints]:
    """The pairs (object, proposal) of ``boxes`` ``[M, 4]`` with the proposals that localise them, sorted."""
    cells = settled(c, reading) == "cells"
    return centres_inside(boxes, c.proposals) if cells else fitting(boxes, c.proposals, t.loc)


def fitting(boxes: Floats, others: Floats, threshold: float) -> tuple[Ints, Ints]:
    """The pairs (m, k), sorted, of ``boxes`` ``[M, 4]`` (double precision) and ``others`` ``[K, 4]`` whose IoU is
    ≥ ``threshold``.

    The IoU itself is not computed: S / (A + B - S) ≥ θ where S ≥ (A + B) θ / (1 + θ). Single precision does where
    ``others`` have no more; what its rounding could turn is decided by the IoU in double precision.
    """
    if not len(boxes) or not len(others):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    side = float((boxes[:, 2:] - boxes[:, :2]).min())
    doubt = 16 * (1 + float(np.abs(boxes).max()) / max(side, 1e-9))  # of S and of A + B, relative, in epsilons
    single = others.dtype == np.float32 and doubt * _SINGLE < 0.1  # not for specks far from the origin
    doubt = doubt * _SINGLE if single else min(doubt * _DOUBLE, 0.1)
    b: Floats = np.ascontiguousarray(others.T, dtype=np.float32 if single else np.float64)
    a: Floats = boxes.T.astype(b.dtype)[:, :, None]
    sides = np.minimum(a[2:], b[2:, None])
    sides -= np.maximum(a[:2], b[:2, None])
    wide, high = sides
    np.maximum(wide, 0, out=wide)
    above = np.multiply(wide, high, out=high)  # negative where they are apart from top to bottom: less than needed
    own, their = a[2:] - a[:2], np.maximum(b[2:] - b[:2], 0)
    need = np.add(own[0] * own[1], their[0] * their[1], out=wide)
    need *= threshold / (1 + threshold) * (1 - doubt)
    above -= need
    (at,) = (above >= 0).ravel().nonzero()
    m, k = np.divmod(at, len(others))
    (unsure,) = (above.take(at) <= 3 * doubt * need.take(at)).nonzero()
    if unsure.size:
        pairs = others[k[unsure]].astype(np.float64), boxes[m[unsure]]
        stays = np.ones(len(at), np.bool_)
        stays[unsure] = overlap_of_pairs(*pairs, np.zeros(len(unsure), np.bool_)) >= threshold
        m, k = m[stays], k[stays]
    return m, k


def centres_inside(boxes: Floats, cells: Floats) -> tuple[Ints, Ints]:
    """The pairs (m, k), sorted, of ``boxes`` ``[M, 4]`` and ``cells`` ``[K, 4]`` whose centre lies in them."""
    x, y = (cells[:, 0] + cells[:, 2]) / 2, (cells[:, 1] + cells[:, 3]) / 2
    x0, y0, x1, y1 = (boxes[:, i, None] for i in range(4))
    m, k = np.nonzero((x >= x0) & (x <= x1) & (y >= y0) & (y <= y1))
    return m, k
