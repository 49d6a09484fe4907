"""Slices: which kinds of objects a mechanism hits more often than others.

``attributes`` measures each object of an image (size, crowding, occlusion, truncation, shape, brightness), ``bins``
names the slice it falls into, ``over_represented`` compares the rate of every mechanism in every slice with the rate
outside it, with a bootstrap interval over images. It knows no detector and no files.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from misdetect.metrics.bootstrap import interval, ratios, resamples
from misdetect.nouns.boxes import Bools, Floats, Ints, coverage, iou
from misdetect.nouns.detections import Truth
from misdetect.nouns.picture import Pixels

BINS: Mapping[str, tuple[tuple[float, ...], tuple[str, ...]]] = {
    "size": ((32.0**2, 96.0**2), ("small", "medium", "large")),
    "crowding": ((1, 4), ("alone", "1-3 neighbours", "4+ neighbours")),
    "occlusion": ((0.05, 0.4), ("clear", "partly covered", "mostly covered")),
    "aspect": ((0.5, 2.0), ("tall", "square", "wide")),
    "brightness": ((64.0, 160.0), ("dark", "middle", "bright")),
}
"""Attribute: its inner edges (a value on an edge belongs to the upper bin) and the names of the bins. Sizes are
COCO's, in square pixels; brightness is mean luma in 0..255; aspect is width / height."""
_BORDER = 1.5
"""Pixels within which a box touches the image's border: annotators round."""


def attributes(truth: Truth, width: int, height: int, pixels: Pixels | None = None) -> dict[str, Floats]:
    """Columns ``[N]`` for the objects of one image of ``width`` × ``height``; crowds count as neighbours.

    ``crowding``: other objects whose box overlaps this one's at all. ``occlusion``: the largest share of its box that
    another object's box covers; which of the two lies in front is not annotated. ``truncation``: 1 where the box
    touches the border. ``brightness``: mean luma in the box, NaN without ``pixels``.
    """
    boxes = truth.boxes
    others = iou(boxes, boxes)
    np.fill_diagonal(others, 0)
    covered = coverage(boxes, by=boxes)
    np.fill_diagonal(covered, 0)
    x0, y0, x1, y1 = boxes.T
    edge = (x0 <= _BORDER) | (y0 <= _BORDER) | (x1 >= width - _BORDER) | (y1 >= height - _BORDER)
    sides = np.maximum(boxes[:, 2:] - boxes[:, :2], 1e-9)
    return {
        "size": np.asarray(truth.areas, dtype=np.float64),
        "crowding": np.count_nonzero(others > 0, axis=1).astype(np.float64),
        "occlusion": covered.max(axis=1, initial=0) if len(boxes) else np.zeros(0),
        "truncation": edge.astype(np.float64),
        "aspect": sides[:, 0] / sides[:, 1],
        "brightness": _brightness(boxes, pixels),
    }


def _brightness(boxes: Floats, pixels: Pixels | None) -> Floats:
    """Mean luma in each box, by one integral image; NaN for boxes outside the picture."""
    if pixels is None or not len(boxes):
        return np.full(len(boxes), np.nan)
    height, width = pixels.shape[:2]
    total = np.asarray(cv2.integral(cv2.cvtColor(np.ascontiguousarray(pixels), cv2.COLOR_RGB2GRAY), sdepth=cv2.CV_64F))
    x0, y0 = (np.clip(np.floor(boxes[:, i]), 0, most).astype(int) for i, most in ((0, width), (1, height)))
    x1, y1 = (np.clip(np.ceil(boxes[:, i]), 0, most).astype(int) for i, most in ((2, width), (3, height)))
    count = (x1 - x0) * (y1 - y0)
    within = total[y1, x1] - total[y0, x1] - total[y1, x0] + total[y0, x0]
    mean: Floats = np.divide(within, count, out=np.full(len(boxes), np.nan), where=count > 0)
    return mean


def bins(name: str, values: Floats) -> "NDArray[np.object_]":
    """The slice ``[N]`` of attribute ``name`` that each value falls into; ``None`` where it is not known."""
    if name == "truncation":
        return np.where(np.asarray(values) > 0, "cut by the border", "whole").astype(object)
    edges, names = BINS[name]
    found = np.array(names, dtype=object)[np.searchsorted(edges, values, side="right")]
    found[np.isnan(np.asarray(values, dtype=np.float64))] = None
    return found


@dataclass(frozen=True)
class Sliced:
    """One mechanism in one slice: counts, its rate there (misses by it / objects) and outside, the difference with its
    interval, all rates in 0..1. ``lift`` is rate / rate outside, ``None`` where nothing is hit outside."""

    attribute: str
    value: str
    mechanism: str
    objects: int
    hit: int
    rate: float
    rate_outside: float
    difference: float
    low: float
    high: float
    lift: float | None

    @property
    def certain(self) -> bool:
        """Whether the interval excludes 0: the mechanism is over-represented here, by these images."""
        return self.low > 0


def over_represented(
    slices: Mapping[str, Sequence[Any]],
    hits: Mapping[str, Bools],
    image: Ints,
    *,
    confidence: float = 0.9,
    least: int = 10,
    repeats: int = 1000,
    seed: int = 0,
) -> list[Sliced]:
    """Every mechanism in every slice of at least ``least`` objects, the surest over-representation first.

    ``slices``: attribute → the value of each object ``[N]`` (``None``: not known); ``hits``: mechanism → which objects
    it made missed ``[N]``; ``image`` ``[N]``: from 0, what is drawn again by the bootstrap.
    """
    if not len(image):
        return []
    masks: list[tuple[str, str, Bools]] = []
    for attribute, values in slices.items():
        column = np.asarray(values, dtype=object)
        known = sorted({str(value) for value in column if value is not None})
        masks += [(attribute, value, np.asarray(column == value)) for value in known]
    masks = [m for m in masks if least <= int(m[2].sum()) <= len(image) - 1]
    images = int(image.max()) + 1
    draws = resamples(images, repeats, seed)
    names = list(hits)
    columns = np.stack([np.ones(len(image)), *(hits[name].astype(np.float64) for name in names)], axis=1)
    every = per_image(columns, image, images)
    found: list[Sliced] = []
    for attribute, value, mask in masks:
        inner = per_image(columns[mask], image[mask], images)
        whole = np.concatenate([inner[None].sum(axis=1), draws @ inner])
        rest = np.concatenate([(every - inner)[None].sum(axis=1), draws @ (every - inner)])
        rate, outside = _rates(whole), _rates(rest)
        low, high = interval((rate - outside)[1:], confidence)
        for i, name in enumerate(names):
            if whole[0, i + 1] == 0:
                continue
            found.append(
                Sliced(
                    attribute, value, name, int(whole[0, 0]), int(whole[0, i + 1]), float(rate[0, i]),
                    float(outside[0, i]), float(rate[0, i] - outside[0, i]), float(low[i]), float(high[i]),
                    float(rate[0, i] / outside[0, i]) if outside[0, i] > 0 else None,
                )
            )  # fmt: skip
    return sorted(found, key=lambda s: (-s.low, -s.difference, s.attribute, s.value, s.mechanism))


def per_image(columns: Floats, image: Ints, images: int) -> Floats:
    """Sums ``[images, J]`` of ``columns`` ``[N, J]``."""
    return np.stack([np.bincount(image, column, minlength=images) for column in columns.T], axis=1)


def _rates(counts: Floats) -> Floats:
    """Hits over objects: ``counts`` ``[R, 1 + J]`` → ``[R, J]``, 0 where there is no object."""
    return np.divide(counts[:, 1:], counts[:, :1], out=np.zeros_like(counts[:, 1:]), where=counts[:, :1] > 0)


def rate_intervals(
    hits: Floats, among: Floats, image: Ints, *, confidence: float = 0.9, repeats: int = 1000, seed: int = 0
) -> list[tuple[float, float]]:
    """Intervals of ``J`` rates Σ hits / Σ among, both ``[N, J]`` of 0 and 1, drawing images again; NaN where nothing is
    to be divided by."""
    images = int(image.max()) + 1
    above, below = (per_image(np.asarray(part, dtype=np.float64), image, images) for part in (hits, among))
    low, high = interval(ratios(resamples(images, repeats, seed), above, below), confidence)
    return [(float(a), float(b)) for a, b in zip(low, high, strict=True)]
