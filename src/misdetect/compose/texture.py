"""``texture``: a piece of the background in the shape of an object, for the control of paper 1's scan.

A paste changes the scene by what it shows and by the mere fact that it is pasted: hard edges, hidden pixels. The same
mask filled with pixels from elsewhere in the same image changes it by the latter only. It is a ``Cutout`` without a
label, so ``Paste`` draws it like any object.
"""

from dataclasses import dataclass, field
from functools import cached_property

import cv2
import numpy as np

from misdetect.compose.paste import drawn_once
from misdetect.data.cutouts import Cutout
from misdetect.nouns.picture import Picture, digest
from misdetect.said.errors import BadArray


@dataclass(frozen=True, eq=False)
class Texture(Cutout):
    """A cutout whose pixels are those of a picture; named by where they come from, since that is cheaper to hash."""

    made_of: tuple[str, str, int, int] = field(default=("", "", 0, 0), repr=False)

    @cached_property
    def key(self) -> str:
        return digest("texture", self.made_of)


def texture(background: Picture, shape: Cutout, corner: tuple[int, int]) -> Texture:
    """The pixels of ``background`` behind the mask of ``shape`` laid with its left and top at ``corner`` (pixels)."""
    x, y = corner
    width, height = shape.size
    pixels = drawn_once(background)
    if not (0 <= x <= pixels.shape[1] - width and 0 <= y <= pixels.shape[0] - height):
        raise BadArray(
            f"Expected a {width}x{height} patch inside the {pixels.shape[1]}x{pixels.shape[0]} image. "
            f"Got one at {x}, {y}."
        )
    patch = cv2.cvtColor(pixels[y : y + height, x : x + width], cv2.COLOR_RGB2RGBA)
    rgba = cv2.copyTo(patch, shape.mask.view(np.uint8))  # 0 outside the mask
    rgba[:, :, 3] = shape.rgba[:, :, 3]
    return Texture(rgba, "", made_of=(background.key, shape.key, x, y))


def elsewhere(
    width: int, height: int, box: tuple[int, int, int, int], generator: np.random.Generator, tries: int = 64
) -> tuple[int, int]:
    """Left and top of a patch as large as ``box`` that does not overlap it, at random in ``width`` × ``height``.

    Where the box is so large that none is found, the corner of the image farthest from it: least overlap.
    """
    x0, y0, x1, y1 = box
    free_x, free_y = width - (x1 - x0), height - (y1 - y0)
    for _ in range(tries):
        x, y = int(generator.integers(free_x + 1)), int(generator.integers(free_y + 1))
        if abs(x - x0) >= x1 - x0 or abs(y - y0) >= y1 - y0:
            return x, y
    return (0 if 2 * x0 > free_x else free_x), (0 if 2 * y0 > free_y else free_y)
