"""Greedy matching of detections to truths by COCO's rules: the one that AP, TIDE and the studies share.

Detections choose in order of falling score; each takes the free truth of its class with the largest overlap at or above
the threshold; one that finds none but lies in a crowd region of its class is ignored. The optimal (bipartite) matching
is ``boxes.match``; this is not it.
"""

from dataclasses import dataclass

import numpy as np

from misdetect.nouns.boxes import Bools, Floats, Ints, area, coverage, iou
from misdetect.nouns.detections import Detections, Truth


@dataclass(frozen=True, eq=False)
class Matching:
    """``truth_of`` ``[D]``: the truth each detection took, -1 for none; ``detection_of`` ``[T]``: the reverse;
    ``ignored`` ``[D]``: no truth taken, but inside a crowd region (``crowd_of`` ``[D]`` says which, else -1)."""

    truth_of: Ints
    detection_of: Ints
    crowd_of: Ints

    @property
    def ignored(self) -> Bools:
        return self.crowd_of >= 0


@dataclass(frozen=True, eq=False)
class Pairs:
    """Every (detection, truth) pair that shares an image: ``detection``, ``truth`` ``[P]`` indices and ``overlap``
    ``[P]``.

    Sorted by detection, then truth. ``overlap`` is the IoU, or for a crowd truth the share of the detection inside it.
    """

    detection: Ints
    truth: Ints
    overlap: Floats

    def __getitem__(self, rows: Bools) -> "Pairs":
        return Pairs(self.detection[rows], self.truth[rows], self.overlap[rows])


def pairs_within_images(detection_image: Ints, truth_image: Ints) -> tuple[Ints, Ints]:
    """Indices of all pairs that share an image; both inputs are sorted image indices ``[D]`` and ``[T]``."""
    first = np.searchsorted(truth_image, detection_image, side="left")
    partners = np.searchsorted(truth_image, detection_image, side="right") - first
    detection = np.repeat(np.arange(len(detection_image)), partners)
    start_of_run = np.repeat(np.cumsum(partners) - partners, partners)
    truth = np.repeat(first, partners) + np.arange(len(detection)) - start_of_run
    return detection.astype(np.int64), truth.astype(np.int64)


def overlap_of_pairs(detection: Floats, truth: Floats, crowd: Bools) -> Floats:
    """Overlap ``[P]`` of boxes ``detection[i]`` and ``truth[i]`` (``[P, 4]`` each), by COCO's rule for crowds.

    The pairwise matrix is ``boxes.iou`` and ``boxes.coverage``; this is its diagonal, for a million pairs at once.
    """
    sides = np.minimum(detection[:, 2:], truth[:, 2:]) - np.maximum(detection[:, :2], truth[:, :2])
    np.maximum(sides, 0, out=sides)
    shared: Floats = sides[:, 0] * sides[:, 1]
    own = area(detection)
    whole = np.where(crowd, own, own + area(truth) - shared)
    return np.divide(shared, whole, out=np.zeros_like(shared), where=whole > 0)


def match_pairs(
    pairs: Pairs, scores: Floats, same_label: Bools, crowd: Bools, truths: int, iou_threshold: float
) -> Matching:
    """Greedy matching over ``pairs``; ``same_label`` ``[P]`` says which pairs may match, ``crowd`` is ``[T]``.

    Of equal scores the earlier detection chooses first, of equal overlaps the later truth is taken: both as COCO does.
    """
    # COCO's own guard: a threshold of 1 must still accept a perfect box
    able = np.flatnonzero(same_label & (pairs.overlap >= min(iou_threshold, 1 - 1e-10)))
    detection, truth = pairs.detection[able], pairs.truth[able]
    rank = np.empty(len(scores), dtype=np.int64)
    rank[np.argsort(-scores, kind="stable")] = np.arange(len(scores))
    order = np.lexsort((-truth, -pairs.overlap[able], crowd[truth], rank[detection]))
    truth_of, crowd_of = [-1] * len(scores), [-1] * len(scores)
    detection_of = [-1] * truths
    crowds = crowd.tolist()
    for d, t in zip(detection[order].tolist(), truth[order].tolist(), strict=True):
        if truth_of[d] >= 0 or crowd_of[d] >= 0:
            continue
        if crowds[t]:
            crowd_of[d] = t
        elif detection_of[t] < 0:
            truth_of[d], detection_of[t] = t, d
    return Matching(
        np.array(truth_of, dtype=np.int64), np.array(detection_of, dtype=np.int64), np.array(crowd_of, dtype=np.int64)
    )


def greedy_match(detections: Detections, truth: Truth, iou_threshold: float = 0.5) -> Matching:
    """Match one image's ``detections`` to its ``truth``; their labels must index the same names."""
    crowd = np.asarray(truth.crowd, dtype=np.bool_)
    overlap = np.where(crowd, coverage(detections.boxes, by=truth.boxes), iou(detections.boxes, truth.boxes))
    first, second = np.divmod(np.arange(overlap.size), max(len(truth), 1))
    same = detections.labels[first] == truth.labels[second]
    pairs = Pairs(first, second, overlap.reshape(-1))
    return match_pairs(pairs, detections.scores, same, crowd, len(truth), iou_threshold)
