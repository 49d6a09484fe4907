"""``Covered``: a picture of which some pixels are taken away, by grey or by what lies around them."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import cv2
import numpy as np

from misdetect.compose.paste import drawn_once
from misdetect.nouns.boxes import Bools
from misdetect.nouns.picture import Picture, Pixels, digest
from misdetect.said.errors import BadArray

Filling = Literal["inpaint", "grey"]
_GREY = 114
"""As detectors pad with it, most of them know it as nothing."""
_RADIUS = 2


@dataclass(frozen=True, eq=False)
class Covered:
    """``base`` without the pixels of ``mask`` (``[H, W]`` bool): grey, or inpainted from the edge of the mask inwards
    (by OpenCV's Navier-Stokes method, which leaves no edges but no texture either)."""

    base: Picture = field(repr=False)
    mask: Bools = field(repr=False)
    filling: Filling = "inpaint"

    @cached_property
    def key(self) -> str:
        how = (cv2.INPAINT_NS, _RADIUS) if self.filling == "inpaint" else _GREY
        return digest("covered", self.base.key, self.mask.shape, np.packbits(self.mask), how)

    def render(self) -> Pixels:
        image = drawn_once(self.base)
        if self.mask.shape != image.shape[:2]:
            raise BadArray(f"Expected a mask of the picture's size {image.shape[:2]}. Got {self.mask.shape}.")
        if self.filling == "inpaint":
            return np.asarray(
                cv2.inpaint(np.ascontiguousarray(image), self.mask.view(np.uint8), _RADIUS, cv2.INPAINT_NS)
            )
        covered = image.copy()
        covered[self.mask] = _GREY
        return covered
