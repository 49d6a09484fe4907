"""The inside of the glass box: the boxes and scores that each treatment gives an object, and who is crowded.

Pure functions of arrays. Every number is thrown from a hash of image and object, so it is the same in every run and
whatever else the picture shows. All margins keep clear of the thresholds .5 (IoU) and .3 (score) of paper 3.
"""

from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from misdetect.detectors.glassbox.faults import Treatment
from misdetect.detectors.glassbox.scene import Things
from misdetect.nouns.boxes import Bools, Floats, Ints, area, clip, iou

PER_OBJECT = 4
"""Candidates of each object: the best, and three that are progressively worse."""
_ANCHORS = 4
_JITTER = 0.08
_SUNK = 0.1
_HEALTHY_SHARES = (1.0, 0.95, 0.9, 0.86)
_MISRANKED_SHARES = (0.42, 0.6, 0.68, 0.76)
"""Shares of the object's box along one side, nested: IoU with the object is the share itself, .42 < .5 for the poor box
and more for the good ones, while the poor box overlaps each good one by .42 / share > .5 and so suppresses it."""


@dataclass(frozen=True, eq=False)
class Inside:
    """Candidates of ``N`` objects: ``proposals`` and ``refined`` ``[N, 4, 4]``, ``right`` ``[N, 4]`` the score for the
    object's own class and ``wrong`` ``[N, 4]`` that for the class it is taken for."""

    proposals: Floats
    refined: Floats
    right: Floats
    wrong: Floats


def throw(key: str, tokens: list[str]) -> Floats:
    """Numbers ``[N, 32]`` in [0, 1), by image and object."""
    bytes_ = b"".join(blake2b(repr((key, token)).encode(), digest_size=64).digest() for token in tokens)
    return np.frombuffer(bytes_, dtype="<u2").reshape(-1, 32) / 65536


def inside(things: Things, key: str, treatment: Ints, targets: Floats, width: int, height: int) -> Inside:
    """The candidates of ``things`` under their ``treatment`` ``[N]``; ``targets`` ``[N, 4]`` are the boxes to which a
    shifting regressor moves."""
    dice = throw(key, things.tokens.tolist())
    boxes = things.boxes
    spread = np.repeat(boxes[:, None], PER_OBJECT, axis=1)
    sides = np.concatenate([boxes[:, 2:] - boxes[:, :2]] * 2, axis=1)
    jitter = (2 * dice[:, :16].reshape(-1, PER_OBJECT, 4) - 1) * _JITTER
    proposals = clip((spread + jitter * sides[:, None]).reshape(-1, 4), width, height).reshape(-1, PER_OBJECT, 4)
    places = dice[:, 16:24].reshape(-1, PER_OBJECT, 2)
    shares = np.broadcast_to(np.array(_HEALTHY_SHARES)[None, :, None], places.shape)
    refined = _part(boxes, shares, places)
    refined[:, 0] = boxes

    # the worse ones lie in .42 to .71, below the best one of every object: top-k and cap cut whole objects
    right = np.stack([0.85 + 0.13 * dice[:, 24], *(0.72 - 0.1 * j + 0.09 * dice[:, 24 + j] for j in (1, 2, 3))], axis=1)
    wrong = np.zeros_like(right)

    is_ = {kind: treatment == kind for kind in Treatment}
    slivers = np.ones(places.shape)
    slivers[:, :, 0] = 0.25 + 0.2 * dice[:, :4]
    unproposed = is_[Treatment.UNPROPOSED]
    proposals[unproposed] = refined[unproposed] = _part(boxes, slivers, places)[unproposed]
    shifted = is_[Treatment.SHIFTED]
    refined[shifted] = targets[shifted, None]
    misranked = is_[Treatment.MISRANKED]
    refined[misranked] = _nested(boxes, dice)[misranked]
    low = unproposed | is_[Treatment.SUNK]
    right[low] *= _SUNK
    renamed = is_[Treatment.RENAMED]
    wrong[renamed] = right[renamed]
    right[renamed] *= 0.05
    return Inside(proposals, refined, right, wrong)


def _part(boxes: Floats, shares: Floats, places: Floats) -> Floats:
    """Boxes ``[N, J, 4]`` inside ``boxes`` ``[N, 4]``: ``shares`` ``[N, J, 2]`` of width and height, at ``places``
    ``[N, J, 2]`` from the left and top (0) to the right and bottom (1)."""
    size = (boxes[:, 2:] - boxes[:, :2])[:, None]
    corner = boxes[:, None, :2] + (1 - shares) * size * places
    return np.concatenate([corner, corner + shares * size], axis=2)


def _nested(boxes: Floats, dice: Floats) -> Floats:
    """Boxes that share one side of the object's and reach further and further across it: the first is the poor one."""
    shares = np.ones((len(boxes), PER_OBJECT, 2))
    across = (dice[:, 28] < 0.5).astype(int)
    shares[np.arange(len(boxes)), :, across] = _MISRANKED_SHARES
    return _part(boxes, shares, np.repeat(np.round(dice[:, None, 29:31]), PER_OBJECT, axis=1))


def shifted(boxes: Floats, by: Floats, others: Floats, width: int, height: int) -> Floats:
    """``boxes`` ``[N, 4]`` moved by ``by`` ``[N]`` of their side, each left, right, up or down: where it overlaps the
    ``others`` (the same boxes first, itself not counted) and leaves the image the least."""
    size = (boxes[:, 2:] - boxes[:, :2]) * by[:, None]
    steps = np.array([[-1, 0], [1, 0], [0, -1], [0, 1]])[None] * size[:, None]
    options = boxes[:, None] + np.concatenate([steps, steps], axis=2)
    cut = clip(options.reshape(-1, 4), width, height)
    overlap = iou(cut, others).reshape(len(boxes), 4, len(others))
    rows = np.arange(len(boxes))
    overlap[rows, :, rows] = 0
    whole = np.repeat(np.maximum(area(boxes), 1e-9), 4)
    cost = overlap.max(axis=2, initial=0) + (1 - area(cut) / whole).reshape(len(boxes), 4)
    best: Floats = cut.reshape(len(boxes), 4, 4)[rows, cost.argmin(axis=1)]
    return best


def reach(of: list[Floats], boxes: Floats) -> Floats:
    """How far others come: ``[N]``, the largest IoU of each of ``boxes`` with any candidate of *another* object.

    ``of`` holds arrays ``[M, J, 4]``, the boxes that each object may have; object ``i`` is that of box ``i``, and those
    from ``N`` on belong to none of them.
    """
    if not len(boxes):
        return np.zeros(0)
    every = np.concatenate(of, axis=1)
    overlap = iou(every.reshape(-1, 4), boxes).reshape(*every.shape[:2], len(boxes)).max(axis=1)
    rows = np.arange(len(boxes))
    overlap[rows, rows] = 0
    return np.asarray(overlap.max(axis=0))


def anchors(width: int, height: int, taken: Floats) -> tuple[Floats, Ints, Bools]:
    """Background proposals: the cells of a fixed grid ``[16, 4]``, their numbers, and which lie clear of ``taken``."""
    x, y = np.meshgrid(np.arange(_ANCHORS), np.arange(_ANCHORS))
    corner = np.stack([x.ravel() * width, y.ravel() * height], axis=1) / _ANCHORS
    cells = np.concatenate([corner, corner + np.array([width, height]) / _ANCHORS], axis=1)
    clear: Bools = iou(cells, taken).max(axis=1, initial=0) < 0.3
    return cells, np.arange(len(cells)), clear
