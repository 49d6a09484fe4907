"""Annotated shapes as they stand in files, one by one, and the columns that become of them.

For the formats that describe each object at length (LabelMe, CVAT, VOC, DelftBikes): boxes, polygons and painted masks
in pixels. The checks are those of every other format.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np

from misdetect.data.dataset import Warned
from misdetect.data.faults import BadMask
from misdetect.data.sanity import checked
from misdetect.data.table import Objects
from misdetect.nouns.boxes import Bools, Floats, Ints, xyxy_to_xywh
from misdetect.nouns.masks import Segment

CIRCLE = 64
"""Corners of the polygon that stands for a circle or an ellipse."""


@runtime_checkable
class Placed(Protocol):
    """A mask that is made when it is looked at."""

    def within(self, width: int, height: int, where: str) -> Bools:
        """The mask of the whole image, ``[height, width]``; ``where`` names it for a message."""
        ...


@dataclass(frozen=True)
class Painted:
    """A mask that was painted inside a rectangle: ``pixels`` gives its part of the image, whose corner is ``left``,
    ``top``."""

    left: int
    top: int
    pixels: Callable[[], Bools]

    def within(self, width: int, height: int, where: str) -> Bools:
        part = self.pixels()
        right, bottom = self.left + part.shape[1], self.top + part.shape[0]
        if min(self.left, self.top) < 0 or right > width or bottom > height:
            raise BadMask(
                f"{where}: the mask reaches from {self.left}, {self.top} to {right}, {bottom}, out of its "
                f"{width}x{height} image."
            )
        mask = np.zeros((height, width), dtype=np.bool_)
        mask[self.top : bottom, self.left : right] = part
        return mask


@dataclass
class Shape:
    """One object: its ``box`` in pixels, x0, y0, x1, y1 unless ``objects`` is told another form; ``segment`` its mask,
    ``area`` that of the mask, in pixels.

    ``where`` names it for a message. ``state`` is what is known of it as a part; empty where the data says nothing.
    """

    image: int
    name: str
    box: Sequence[float]
    where: str
    segment: Segment | Placed = None
    area: float | None = None
    crowd: bool = False
    state: str = ""


class Shapes(list[Shape]):
    """All shapes of the data ``source``, in the order of its files. ``left_out`` counts those that cover nothing, by
    what a message calls them."""

    def __init__(self, source: Path) -> None:
        super().__init__()
        self._source, self.left_out = source, Counter[str]()

    @property
    def names(self) -> list[str]:
        """The classes: the names found, sorted."""
        return sorted({shape.name for shape in self})

    def objects(
        self,
        names: Sequence[str],
        sizes: Ints,
        *,
        form: str = "xyxy",
        origin: int = 0,
        crowds: bool = True,
        outside: bool = False,
    ) -> tuple[Objects, list[Warned]]:
        """The checked columns, and what is odd about some; ``sizes`` ``[M, 2]`` is width, height of each image, 0 where
        it is unknown, ``names`` the classes; ``form`` and ``origin`` as in ``checked``. Crowds are dropped unless
        ``crowds``, and what lies outside its image unless ``outside``."""
        label = {name: i for i, name in enumerate(names)}
        raw = np.array([shape.box for shape in self], dtype=np.float64).reshape(-1, 4)
        image = np.array([shape.image for shape in self], dtype=np.int64)
        boxes, keep, odd = checked(raw, image, sizes, lambda row: self[row].where, form=form, origin=origin)
        whole = xyxy_to_xywh(boxes)[:, 2:].prod(axis=1).tolist()
        crowd = np.array([shape.crowd for shape in self], dtype=np.bool_)
        keep = (keep | outside) & (~crowd | crowds)
        objects = Objects(
            image=image,
            boxes=boxes,
            labels=np.array([label[shape.name] for shape in self], dtype=np.int64),
            crowd=crowd,
            areas=np.array([box if s.area is None else s.area for s, box in zip(self, whole, strict=True)]),
            states=tuple(shape.state for shape in self) if any(shape.state for shape in self) else None,
            masked=np.array([shape.segment is not None for shape in self], dtype=np.bool_),
        ).take(keep)
        if self.left_out:
            kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self.left_out.items()))
            odd.append(Warned("shape-without-area", self.left_out.total(), f"{self._source}: {kinds}; left out"))
        return objects, odd

    def segment(self, record: int, width: int, height: int) -> Segment:
        """The mask of shape ``record``; what was painted inside a rectangle is put where it belongs."""
        segment = self[record].segment
        return segment.within(width, height, self[record].where) if isinstance(segment, Placed) else segment


def outline(points: Floats) -> tuple[list[float], list[list[float]], float]:
    """Corners, COCO polygons and area in pixels of the polygon ``points`` ``[N, 2]``."""
    low, high = points.min(axis=0), points.max(axis=0)  # NaN stays NaN, for the checks to find
    return [*low.tolist(), *high.tolist()], [points.reshape(-1).tolist()], polygon_area(points.reshape(-1))


def polygon_area(polygon: Floats) -> float:
    """Area of ``x, y, x, y, …`` by the shoelace formula."""
    x, y = polygon[0::2], polygon[1::2]
    with np.errstate(all="ignore"):  # absurd numbers are named by the checks of their boxes
        return float(abs(np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1))) / 2)


def ellipse(centre: Sequence[float], radii: Sequence[float]) -> Floats:
    """Points ``[CIRCLE, 2]`` of an ellipse whose axes lie along the image's."""
    turn = np.linspace(0, 2 * np.pi, CIRCLE, endpoint=False)
    points: Floats = np.asarray(centre) + np.column_stack([np.cos(turn), np.sin(turn)]) * np.asarray(radii)
    return points


def rotated(points: Floats, degrees: float) -> Floats:
    """``points`` ``[N, 2]`` turned clockwise, as one sees them, about the middle of their bounding box."""
    middle = (points.min(axis=0) + points.max(axis=0)) / 2
    sine, cosine = np.sin(np.radians(degrees)), np.cos(np.radians(degrees))
    turned: Floats = (points - middle) @ np.array([[cosine, sine], [-sine, cosine]]) + middle
    return turned
