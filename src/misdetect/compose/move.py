"""``Moved`` and ``Flipped``: all of a picture elsewhere in its frame, and mirrored. What a box becomes is said too."""

from dataclasses import dataclass, field
from functools import cached_property

import cv2
import numpy as np

from misdetect.compose.paste import drawn_once
from misdetect.nouns.boxes import Floats, clip
from misdetect.nouns.picture import Picture, Pixels, digest


@dataclass(frozen=True, eq=False)
class Moved:
    """``base`` moved right and down ``by`` (whole pixels, either may be negative); what comes in repeats the edge."""

    base: Picture = field(repr=False)
    by: tuple[int, int]

    @cached_property
    def key(self) -> str:
        return digest("moved", self.base.key, self.by)

    def render(self) -> Pixels:
        image = drawn_once(self.base)
        height, width = image.shape[:2]
        x, y = self.by
        wide = cv2.copyMakeBorder(image, max(y, 0), max(-y, 0), max(x, 0), max(-x, 0), cv2.BORDER_REPLICATE)
        return np.ascontiguousarray(wide[max(-y, 0) : max(-y, 0) + height, max(-x, 0) : max(-x, 0) + width])

    def boxes(self, boxes: Floats, width: int, height: int) -> Floats:
        """Where ``boxes`` ``[N, 4]`` of ``base`` lie now, cut to the frame of ``width`` × ``height``."""
        return clip(boxes + np.array([*self.by, *self.by], np.float64), width, height)


@dataclass(frozen=True, eq=False)
class Flipped:
    """``base`` mirrored left to right."""

    base: Picture = field(repr=False)

    @cached_property
    def key(self) -> str:
        return digest("flipped", self.base.key)

    def render(self) -> Pixels:
        return np.ascontiguousarray(drawn_once(self.base)[:, ::-1])

    def boxes(self, boxes: Floats, width: int, height: int) -> Floats:
        """Where ``boxes`` ``[N, 4]`` of ``base`` lie now."""
        return np.stack([width - boxes[:, 2], boxes[:, 1], width - boxes[:, 0], boxes[:, 3]], axis=1)
