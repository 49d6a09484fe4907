"""``Refinement``: which extracted objects are good enough to be inserted elsewhere (paper 4, section 4.2).

The paper keeps the largest tenth of each class, against small and fragmentary objects alike. Here each reason is a
criterion of its own, judged by the mask alone, so that no photo is read for an object that is not kept. Cutting and
storing objects is ``misdetect.pools.pool``.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import cv2
import numpy as np

from misdetect.nouns.boxes import Bools
from misdetect.nouns.settings import Number, Settings, Share

CRITERIA = ("min_side", "max_side", "border", "component", "solidity", "keep")
"""In the order in which they are applied; an object counts for the first one that it fails."""


@dataclass(frozen=True)
class Outline:
    """An object that is not cut yet: row ``row`` of the truth of image ``image`` (index in the data), its class, and
    the tight box of its mask, x0, y0, x1, y1 in pixels."""

    image: int
    row: int
    label: str
    box: tuple[int, int, int, int]

    @property
    def size(self) -> int:
        """Pixels of its crop, which is what the paper calls image size."""
        x0, y0, x1, y1 = self.box
        return (x1 - x0) * (y1 - y0)


@dataclass(frozen=True)
class Refinement(Settings):
    """What an object must be like to stay; docs/pool.md lists the options. The defaults were chosen
    by looking at contact sheets.

    ``min_side`` pixels of its shorter side at least, ``max_side`` as share of the image's width and height at most,
    ``border`` pixels between it and the image's edge at least; no second piece above ``component`` of its area, and an
    area of at least ``solidity`` of its convex hull's. Of what is left, the largest ``keep`` of each class stay, and
    all of a class with fewer than ``few``.
    """

    keep: Share = 0.10
    few: Number = 6
    component: Share = 0.05
    border: Number = 3
    solidity: Share = 0.4
    max_side: Share = 0.8
    min_side: Number = 16

    def fault(self, mask: Bools, box: tuple[int, int, int, int], width: int, height: int) -> str | None:
        """The first criterion that an object fails by itself, or None.

        ``mask`` is cropped to ``box``, which lies in a ``width`` × ``height`` image.
        """
        x0, y0, x1, y1 = box
        if min(x1 - x0, y1 - y0) < self.min_side:
            return "min_side"
        if x1 - x0 > self.max_side * width or y1 - y0 > self.max_side * height:
            return "max_side"
        if min(x0, y0, width - x1, height - y1) < self.border:
            return "border"
        if second_piece(mask) > self.component:
            return "component"
        return "solidity" if solidity(mask) < self.solidity else None

    def largest(self, outlines: Sequence[Outline]) -> list[Outline]:
        """The largest of each class, in the order they came in; of equal ones the earlier."""
        by_label: dict[str, list[int]] = defaultdict(list)
        for i, outline in enumerate(outlines):
            by_label[outline.label].append(i)
        kept: list[int] = []
        for places in by_label.values():
            count = len(places) if len(places) < self.few else max(1, ceil(self.keep * len(places) - 1e-9))
            kept += sorted(places, key=lambda i: (-outlines[i].size, i))[:count]
        return [outlines[i] for i in sorted(kept)]


def second_piece(mask: Bools) -> float:
    """The share of the second largest connected piece in the mask's area; pieces that touch at a corner are one."""
    count, _, stats, _ = cv2.connectedComponentsWithStats(mask.astype(np.uint8), connectivity=8)
    if count < 3:
        return 0.0
    areas = np.sort(stats[1:, cv2.CC_STAT_AREA])
    return float(areas[-2] / areas.sum())


def solidity(mask: Bools) -> float:
    """Area of the mask / area of its convex hull, pixels being unit squares: 1 for a rectangle, low for a sickle."""
    rows = np.flatnonzero(mask.any(axis=1))
    lines = mask[rows]
    starts, ends = lines.argmax(axis=1), mask.shape[1] - lines[:, ::-1].argmax(axis=1)
    # the hull of a row's pixels is that of its first and last; their corners are enough
    corners = [np.stack([x, y], axis=1) for x in (starts, ends) for y in (rows, rows + 1)]
    hull = cv2.convexHull(np.concatenate(corners).astype(np.float32))
    return float(np.count_nonzero(mask) / cv2.contourArea(hull))
