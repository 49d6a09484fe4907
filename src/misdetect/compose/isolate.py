"""``Isolate``: a picture of which only a box, or only an object inside it, is left (paper 1, Fig. 3).

What lies outside the box can be set to zero or to noise, what lies inside it without belonging to the object to zero.
So one sees whether a label comes from the object, from the rest of its box, or from beyond.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np

from misdetect.compose.paste import drawn_once
from misdetect.nouns.boxes import Bools
from misdetect.nouns.picture import Picture, Pixels, digest
from misdetect.said.errors import BadArray

Outside = Literal["keep", "zero", "noise"]
Inside = Literal["keep", "zero"]


@dataclass(frozen=True, eq=False)
class Isolate:
    """``base`` with the pixels outside ``box`` (x0, y0, x1, y1, whole pixels) and those inside it that are not in
    ``mask`` (``[H, W]`` bool) kept or replaced. Noise is uniform over 0..255 for each pixel and colour, by ``seed``."""

    base: Picture = field(repr=False)
    box: tuple[int, int, int, int]
    mask: Bools = field(repr=False)
    outside: Outside = "keep"
    inside: Inside = "keep"
    seed: int = 0

    @cached_property
    def key(self) -> str:
        seed = self.seed if self.outside == "noise" else None
        return digest("isolate", self.base.key, self.box, np.packbits(self.mask), self.outside, self.inside, seed)

    def render(self) -> Pixels:
        image = drawn_once(self.base).copy()
        if self.mask.shape != image.shape[:2]:
            raise BadArray(f"Expected a mask of the picture's size {image.shape[:2]}. Got {self.mask.shape}.")
        x0, y0, x1, y1 = self.box
        within = np.zeros(image.shape[:2], dtype=np.bool_)
        within[max(y0, 0) : y1, max(x0, 0) : x1] = True
        if self.outside == "zero":
            image[~within] = 0
        elif self.outside == "noise":
            noise = np.random.default_rng(self.seed).integers(0, 256, image.shape, dtype=np.uint8)
            image[~within] = noise[~within]
        if self.inside == "zero":
            image[within & ~self.mask] = 0
        return image
