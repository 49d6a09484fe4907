"""``Resent``: a picture changed before it is sent, so that it makes up for what a detector's wiring does to it.

Where channels are taken in the wrong order, a picture with its channels swapped is seen right; where a photo is
stretched to a square, one that is padded to a square first keeps its shape. Each edit also knows the way back for
boxes. What no picture of 8 bits can make up for (a network that is fed 0..1 for 0..255) is not here.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import cv2
import numpy as np
from numpy.typing import ArrayLike

from misdetect.compose.paste import drawn_once
from misdetect.nouns.boxes import Floats, Ints
from misdetect.nouns.picture import Picture, Pixels, digest

GREY = 114
"""What is around a letterboxed image: YOLO's grey."""
_MEAN, _STD = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])

Side = int | Ints
"""A width or height in pixels, or one for each of several boxes."""
Size = tuple[Side, Side]
"""Width and height."""


def four(x: ArrayLike, y: ArrayLike) -> Floats:
    """``x, y, x, y``, for each box if there is one of each for every box."""
    return np.stack(np.broadcast_arrays(*(np.asarray(each, np.float64) for each in (x, y, x, y))), axis=-1)


@dataclass(frozen=True)
class Edit:
    """``draw(pixels)`` is the picture that is sent; ``back(boxes, width, height)`` brings boxes ``[N, 4]`` from it to
    the picture of ``width`` × ``height`` that it was made of, and ``size`` tells the size of what is sent."""

    draw: Callable[[Pixels], Pixels]
    back: Callable[[Floats, Side, Side], Floats] = lambda boxes, width, height: boxes
    size: Callable[[Side, Side], Size] = lambda width, height: (width, height)
    turns: bool = False
    """Whether pixels change places, so that a detector may also answer in the places of the picture it saw."""
    square: bool = False
    """Whether a square picture stays what it is."""


def resize(pixels: Pixels, sides: Size) -> Pixels:
    """``pixels`` ``[H, W, 3]`` at the width and height ``sides``: averaged where it shrinks, else interpolated."""
    size = int(sides[0]), int(sides[1])
    shrinks = size[0] * size[1] < pixels.shape[0] * pixels.shape[1]
    result: Pixels = np.asarray(cv2.resize(pixels, size, interpolation=cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR))
    return result


def _padded(pixels: Pixels) -> Pixels:
    height, width = pixels.shape[:2]
    canvas: Pixels = np.full((max(height, width),) * 2 + (3,), GREY, np.uint8)
    canvas[:height, :width] = pixels
    return canvas


def _scaled(factor: float) -> Edit:
    def size(width: Side, height: Side) -> Size:
        sides = (np.maximum(1, np.rint(np.multiply(side, factor))).astype(np.int64) for side in (width, height))
        return next(sides), next(sides)

    def back(boxes: Floats, width: Side, height: Side) -> Floats:
        return boxes * four(width, height) / four(*size(width, height))

    return Edit(lambda p: resize(p, size(p.shape[1], p.shape[0])), back, size)


def _to_square(width: Side, height: Side) -> Size:
    side: Side = np.maximum(width, height)
    return side, side


def _corners(boxes: Floats) -> Floats:
    """Corners in order, after an axis was turned round."""
    return np.concatenate([np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])], axis=1)


def _turned(draw: Callable[[Pixels], Pixels], point: Callable[[Floats, Floats, Side, Side], Sequence[Floats]]) -> Edit:
    """An edit that moves pixels; ``point(x, y, width, height)`` brings a point of the sent picture back."""

    def back(boxes: Floats, width: Side, height: Side) -> Floats:
        ends = [np.stack(point(boxes[:, i], boxes[:, i + 1], width, height), axis=1) for i in (0, 2)]
        return _corners(np.concatenate(ends, axis=1))

    swaps = draw(np.zeros((1, 2, 3), np.uint8)).shape[:2] == (2, 1)
    size = (lambda width, height: (height, width)) if swaps else (lambda width, height: (width, height))
    return Edit(lambda p: np.ascontiguousarray(draw(p)), back, size, turns=True)


def _toned(tone: Callable[[Floats], Floats]) -> Edit:
    """An edit of each pixel's value, 0..1 and RGB."""
    return Edit(lambda p: np.clip(np.rint(tone(p / 255.0) * 255), 0, 255).astype(np.uint8))


EDITS: dict[str, Edit] = {
    "swap": Edit(lambda p: np.ascontiguousarray(p[:, :, ::-1])),
    "pad": Edit(_padded, size=_to_square, square=True),
    "stretch": Edit(
        lambda p: resize(p, _to_square(p.shape[1], p.shape[0])),
        lambda boxes, width, height: boxes * four(width, height) / four(*_to_square(width, height)),
        _to_square,
        square=True,
    ),
    "grey-imagenet": _toned(lambda p: p * _STD + _MEAN),
    "grey-symmetric": _toned(lambda p: (p + 1) / 2),
    "sharpen-imagenet": _toned(lambda p: (p - _MEAN) / _STD),
    "sharpen-symmetric": _toned(lambda p: 2 * p - 1),
    "planar": Edit(lambda p: np.ascontiguousarray(p.transpose(2, 0, 1)).reshape(p.shape)),
    "transpose": _turned(lambda p: p.transpose(1, 0, 2), lambda x, y, w, h: (y, x)),
    "left": _turned(lambda p: np.rot90(p, 1), lambda x, y, w, h: (w - y, x)),
    "right": _turned(lambda p: np.rot90(p, 3), lambda x, y, w, h: (y, h - x)),
    "round": _turned(lambda p: np.rot90(p, 2), lambda x, y, w, h: (w - x, h - y)),
    "mirror": _turned(lambda p: p[:, ::-1], lambda x, y, w, h: (w - x, y)),
    "flip": _turned(lambda p: p[::-1], lambda x, y, w, h: (x, h - y)),
    "half": _scaled(0.5),
    "double": _scaled(2.0),
}
"""By name. ``left``, ``right`` and ``round`` turn by 90, 90 and 180 degrees, ``mirror`` swaps left and right, ``flip``
top and bottom; ``planar`` sends the three planes one after the other where pixels are expected."""


@dataclass(frozen=True, eq=False)
class Resent:
    """``base`` after the edit called ``how``."""

    base: Picture = field(repr=False)
    how: str

    @cached_property
    def key(self) -> str:
        return digest("resent", self.base.key, self.how)

    def render(self) -> Pixels:
        return EDITS[self.how].draw(drawn_once(self.base))


def resent(base: Picture, edits: Sequence[str]) -> Picture:
    """``base`` after ``edits``, one after the other."""
    for how in edits:
        base = Resent(base, how)
    return base


def sent_size(edits: Sequence[str], width: Side, height: Side) -> Size:
    """Width and height of a picture of ``width`` × ``height`` after ``edits``."""
    for how in edits:
        width, height = EDITS[how].size(width, height)
    return width, height


def come_back(boxes: Floats, edits: Sequence[str], width: Side, height: Side, *, turned: bool = True) -> Floats:
    """``boxes`` ``[N, 4]`` on ``resent`` brought back to the picture of ``width`` × ``height`` (or one size per box)
    before ``edits``; without ``turned`` those that move pixels are left out: the detector answered in the places of
    what it saw."""
    sizes: list[Size] = [(width, height)]
    for how in edits:
        sizes.append(EDITS[how].size(*sizes[-1]))
    for how, size in zip(reversed(edits), reversed(sizes[:-1]), strict=True):
        if turned or not EDITS[how].turns:
            boxes = EDITS[how].back(boxes, *size)
    return boxes
