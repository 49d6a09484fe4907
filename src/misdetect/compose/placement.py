"""Where to insert an object: anywhere, or in the ring around another (paper 4's guided insertion).

Places are left and top in whole pixels. Whether an object may lie there is one question (``free``): fully inside the
image and over none of the others.
"""

import numpy as np

from misdetect.nouns.boxes import Bools, Floats, Ints, intersection

TRIES = 20
"""How often a place is drawn before an insertion is given up, as in paper 4's own code."""


def boxes_at(corners: Ints, size: tuple[int, int]) -> Floats:
    """Boxes ``[N, 4]`` of an object of ``size`` (width, height) with its left and top at ``corners`` ``[N, 2]``."""
    return np.concatenate([corners, corners + np.array(size)], axis=1).astype(np.float64)


def free(boxes: Floats, others: Floats, width: int, height: int) -> Bools:
    """Which of ``boxes`` ``[N, 4]`` lie inside ``width`` × ``height`` and over none of ``others`` ``[M, 4]``."""
    inside = (boxes[:, :2] >= 0).all(axis=1) & (boxes[:, 2] <= width) & (boxes[:, 3] <= height)
    return np.asarray(inside & ~(intersection(boxes, others) > 0).any(axis=1))


def anywhere(
    size: tuple[int, int], width: int, height: int, generator: np.random.Generator, count: int = TRIES
) -> Ints:
    """``count`` places ``[N, 2]`` of an object of ``size`` inside the image, uniform; none where it does not fit."""
    room = np.array([width - size[0], height - size[1]])
    if (room < 0).any():
        return np.zeros((0, 2), dtype=np.int64)
    return generator.integers(0, room + 1, size=(count, 2))


def ring(
    target: Floats, size: tuple[int, int], generator: np.random.Generator, count: int = TRIES, wide: float = 1.0
) -> Ints:
    """``count`` places ``[N, 2]`` of an object of ``size`` around the box ``target`` ``[4]``, uniform over the ring.

    The ring holds the centres at which the object's box neither overlaps the target's nor is farther from it than half
    its own size (times ``wide``) in both directions: between half-sizes (w_t + w_o) / 2 and (w_t + 2 w_o) / 2, and so
    for heights. Rounding to whole pixels moves a centre by at most half a pixel.
    """
    half_target, half_own = (target[2:] - target[:2]) / 2, np.array(size) / 2
    inner, outer = half_target + half_own, half_target + (1 + wide) * half_own
    inside = float(np.prod(inner / outer))  # share of the outer rectangle that is not in the ring
    drawn = generator.uniform(-1, 1, size=(int(4 * count / (1 - inside)) + 8, 2)) * outer
    drawn = drawn[(np.abs(drawn) >= inner).any(axis=1)][:count]
    corners: Ints = np.rint((target[:2] + target[2:]) / 2 + drawn - half_own).astype(np.int64)
    return corners


def first_free(corners: Ints, size: tuple[int, int], others: Floats, width: int, height: int) -> tuple[int, int] | None:
    """The first of ``corners`` where an object of ``size`` may lie, or ``None``."""
    good = np.flatnonzero(free(boxes_at(corners, size), others, width, height))
    return (int(corners[good[0], 0]), int(corners[good[0], 1])) if good.size else None
