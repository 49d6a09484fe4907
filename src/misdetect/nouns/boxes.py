"""Geometry of axis-aligned boxes: the one IoU, the one coverage, the one matching and the one NMS of the project.

Boxes are ``[N, 4]`` arrays of ``x0, y0, x1, y1`` in absolute pixels with exclusive right and bottom edges, so a box's
area is ``(x1 - x0) * (y1 - y0)``. Everything is vectorised; float32 stays float32, all else is computed in float64.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from misdetect.nouns.assignment import heaviest
from misdetect.said.errors import BadArray

Floats = NDArray[np.floating[Any]]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


def as_boxes(boxes: ArrayLike, *, what: str = "boxes") -> Floats:
    """``boxes`` as a float ``[N, 4]`` array, itself where it is one; an empty sequence becomes ``[0, 4]``."""
    try:
        array = np.asarray(boxes)
    except ValueError as error:
        raise BadArray(f"Expected {what} to have shape [N, 4]. Got rows of different lengths.") from error
    if array.dtype != np.float32:
        if array.size and array.dtype.kind not in "fiub":
            raise BadArray(f"Expected {what} to be numbers of shape [N, 4]. Got {array.dtype} values.")
        array = array.astype(np.float64, copy=False)
    if array.size == 0:
        return array.reshape(0, 4)
    if array.ndim != 2 or array.shape[1] != 4:
        raise BadArray(f"Expected {what} to have shape [N, 4]. Got {list(array.shape)}.")
    return array


def area(boxes: ArrayLike) -> Floats:
    """Areas ``[N]`` in square pixels; an inverted box has area 0."""
    return _area(as_boxes(boxes))


def _area(boxes: Floats) -> Floats:
    sides: Floats = np.maximum(boxes[:, 2:] - boxes[:, :2], 0)
    return np.asarray(sides[:, 0] * sides[:, 1])


def intersection(a: ArrayLike, b: ArrayLike) -> Floats:
    """Pairwise intersection areas ``[N, M]`` in square pixels."""
    return _intersection(as_boxes(a), as_boxes(b))


def _intersection(a: Floats, b: Floats) -> Floats:
    ax0, ay0, ax1, ay1 = a.T[:, :, None]
    bx0, by0, bx1, by1 = np.ascontiguousarray(b.T)  # NumPy's loops run along it, several numbers at a time
    shared: Floats = np.minimum(ax1, bx1)
    shared -= np.maximum(ax0, bx0)
    np.maximum(shared, 0, out=shared)
    height = np.minimum(ay1, by1)
    height -= np.maximum(ay0, by0)
    shared *= np.maximum(height, 0, out=height)
    return shared


def _alike(a: ArrayLike, b: ArrayLike) -> tuple[Floats, Floats]:
    """Both as boxes of one type: areas rounded otherwise than their intersection would give ratios above 1."""
    a, b = as_boxes(a), as_boxes(b)
    return (a, b) if a.dtype == b.dtype else (a.astype(np.float64), b.astype(np.float64))


def iou(a: ArrayLike, b: ArrayLike) -> Floats:
    """Pairwise intersection over union ``[N, M]`` in [0, 1]; two boxes without area have IoU 0."""
    a, b = _alike(a, b)
    shared = _intersection(a, b)
    union = _area(a)[:, None] + _area(b)[None, :]
    union -= shared
    return np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)


def coverage(boxes: ArrayLike, by: ArrayLike) -> Floats:
    """Share of each of ``boxes`` ``[N]`` covered by each of ``by`` ``[M]``: |b ∩ T| / |b|, ``[N, M]`` in [0, 1]."""
    b, by = _alike(boxes, by)
    shared = _intersection(b, by)
    own = _area(b)[:, None]
    return np.divide(shared, own, out=np.zeros_like(shared), where=own > 0)


def gaps(a: ArrayLike, b: ArrayLike) -> Floats:
    """Pairwise distances ``[N, M]`` in pixels between the nearest points of boxes; 0 where they touch or overlap."""
    a, b = _alike(a, b)
    apart = [
        np.maximum(0, np.maximum(a[:, None, k] - b[None, :, k + 2], b[None, :, k] - a[:, None, k + 2])) for k in (0, 1)
    ]
    return np.asarray(np.hypot(*apart))


def match(weights: ArrayLike) -> tuple[Ints, Ints]:
    """Maximum-weight bipartite matching of a non-negative ``[N, M]`` matrix.

    Returns the matched rows and columns, rows ascending. Pairs of weight 0 are no match and are left out, so an edge
    can be forbidden by setting its weight to 0.
    """
    w = np.asarray(weights, dtype=np.float64)
    if w.ndim != 2:
        raise BadArray(f"Expected weights to have shape [N, M]. Got {list(w.shape)}.")
    strange = ~((w >= 0) & np.isfinite(w))
    if strange.any():
        raise BadArray(f"Expected weights to be finite and not negative. Got {w[strange][0]:g}.")
    rows, columns = heaviest(w)
    real = w[rows, columns] > 0
    return rows[real], columns[real]


def clip(boxes: ArrayLike, width: float, height: float) -> Floats:
    """``boxes`` ``[N, 4]`` cut to an image of ``width`` × ``height`` pixels."""
    b = as_boxes(boxes).copy()
    np.clip(b[:, 0::2], 0, width, out=b[:, 0::2])
    np.clip(b[:, 1::2], 0, height, out=b[:, 1::2])
    return b


def xywh_to_xyxy(boxes: ArrayLike) -> Floats:
    """Left, top, width, height to corners."""
    b = as_boxes(boxes)
    return np.concatenate([b[:, :2], b[:, :2] + b[:, 2:]], axis=1)


def xyxy_to_xywh(boxes: ArrayLike) -> Floats:
    """Corners to left, top, width, height."""
    b = as_boxes(boxes)
    return np.concatenate([b[:, :2], b[:, 2:] - b[:, :2]], axis=1)


def cxcywh_to_xyxy(boxes: ArrayLike) -> Floats:
    """Centre, width, height to corners."""
    b = as_boxes(boxes)
    half = b[:, 2:] / 2
    return np.concatenate([b[:, :2] - half, b[:, :2] + half], axis=1)


def nms(
    boxes: ArrayLike,
    scores: ArrayLike,
    threshold: float,
    labels: ArrayLike | None = None,
    *,
    chunk: int = 64,
) -> tuple[Ints, Ints]:
    """Greedy non-maximum suppression that remembers who suppressed whom.

    A box is suppressed by the best-scored kept box with which its IoU is ``> threshold`` (of the same label, where
    ``labels`` are given). Ties in score keep the input order.

    Returns ``kept``, indices by falling score, and ``suppressor`` ``[N]``: for each box the index of the kept box that
    suppressed it, or -1 where it was kept. Works through chunks sorted by label and score, so that a chunk meets only
    the labels it holds and memory is ``chunk × N``, not N².
    """
    b, falling = as_boxes(boxes), -np.asarray(scores)
    group = None if labels is None else np.asarray(labels)
    order = np.argsort(falling, kind="stable") if group is None else np.lexsort((falling, group))
    group = None if group is None else group[order]
    b = b[order]
    suppressor = np.full(len(b), -1, dtype=np.int64)
    kept: list[Ints] = []
    left = np.arange(len(b))  # neither kept nor suppressed yet
    while left.size:
        rows = left[:chunk]
        stop = left.size if group is None else int(np.searchsorted(group[left], group[rows[-1]], side="right"))
        columns = left[:stop]  # whose prefix is exactly `rows`
        overlaps = iou(b[rows], b[columns]) > threshold
        if group is not None:
            overlaps &= group[rows][:, None] == group[columns][None, :]
        square = overlaps[:, : len(rows)]
        square &= rows[None, :] > rows[:, None]
        alive = _survivors(square)
        by = overlaps[alive]
        struck = by.any(axis=0)
        suppressor[columns[struck]] = rows[alive][by[:, struck].argmax(axis=0)]
        kept.append(rows[alive])
        rest = suppressor[columns] < 0
        rest[: len(rows)] = False
        left = np.concatenate([columns[rest], left[stop:]])
    result = np.full(len(b), -1, dtype=np.int64)
    by = suppressor >= 0
    result[order[by]] = order[suppressor[by]]
    survivors: Ints = order[np.concatenate(kept)] if kept else np.zeros(0, dtype=np.int64)
    if group is not None:
        survivors = np.sort(survivors)
        survivors = survivors[np.argsort(falling[survivors], kind="stable")]
    return survivors, result


def _survivors(overlaps: Bools) -> Bools:
    """Which of ``N`` boxes, best first, are kept, where ``overlaps`` ``[N, N]`` says whom each suppresses if it is."""
    # a row as one whole number, a bit for each box: a step is over before NumPy would have been called
    packed = np.packbits(overlaps, axis=1, bitorder="little")
    width, rows = packed.shape[1], packed.tobytes()
    struck = 0
    for i in np.flatnonzero(packed.any(axis=1)).tolist():
        if not struck >> i & 1:
            struck |= int.from_bytes(rows[i * width : (i + 1) * width], "little")
    bits = np.frombuffer(struck.to_bytes(width, "little"), np.uint8)
    kept: Bools = np.unpackbits(bits, count=len(overlaps), bitorder="little") == 0
    return kept


SIDES = ("x0", "y0", "x1", "y1")
"""A box's columns in rows and tables."""


def sides(box: Any, prefix: str = "") -> dict[str, float]:
    """One box ``[4]`` as columns of a row."""
    return {prefix + name: float(value) for name, value in zip(SIDES, box, strict=True)}


def boxes_of(rows: Iterable[Mapping[str, Any]], prefix: str = "") -> Floats:
    """The boxes ``[N, 4]`` of ``rows`` that have them as columns."""
    names = [prefix + name for name in SIDES]
    return np.array([[row[name] for name in names] for row in rows], dtype=np.float64).reshape(-1, 4)
