"""Where in an image an attack may change pixels: anywhere, on the objects, away from them, or in a patch.

"outside" joins papers 1 and 5: what lies next to an object, or far from it, decides whether it is found. A ``Where`` is
text in settings and a mask per image here; nothing is asked of a detector but the slope that a patch is placed by.
"""

import re
from dataclasses import dataclass
from typing import Literal

import cv2
import numpy as np

from misdetect.nouns.boxes import Bools, Floats
from misdetect.said.errors import BadSpec

_FORMS = "image, inside, outside, outside:DISTANCE or patch:WIDTHxHEIGHT"


@dataclass(frozen=True)
class Where:
    """``kind``, with ``distance`` in pixels (outside) or ``size``, width and height in pixels (patch)."""

    kind: Literal["image", "inside", "outside", "patch"]
    distance: int = 0
    size: tuple[int, int] = (0, 0)

    @classmethod
    def parse(cls, text: str) -> "Where":
        """From ``image``, ``inside``, ``outside[:DISTANCE]`` or ``patch:WxH``."""
        if text in ("image", "inside", "outside"):
            return cls(text)  # type: ignore[arg-type]
        if found := re.fullmatch(r"outside:(\d{1,6})", text):
            return cls("outside", int(found[1]))
        if (found := re.fullmatch(r"patch:(\d{1,6})x(\d{1,6})", text)) and int(found[1]) and int(found[2]):
            return cls("patch", size=(int(found[1]), int(found[2])))
        raise BadSpec(f"where should be {_FORMS}. Got {text!r}.")

    @property
    def by_slope(self) -> bool:
        """Whether the mask depends on where the loss is steep."""
        return self.kind == "patch"

    def mask(self, height: int, width: int, boxes: Floats, slope: Floats | None = None) -> Bools:
        """Pixels ``[H, W]`` that may change, given the objects' ``boxes`` ``[N, 4]`` and for a patch the ``slope``
        ``[H, W, 3]`` at the clean image: it lies where the slope's absolute values sum to most."""
        if self.kind == "image":
            return np.ones((height, width), np.bool_)
        if self.kind == "inside":
            return np.asarray(distances(height, width, boxes) == 0)
        if self.kind == "outside":
            away = distances(height, width, boxes)
            return np.asarray((away > 0) & (away >= self.distance))
        assert slope is not None
        return self._patch(np.abs(slope).sum(axis=2, dtype=np.float64))

    def _patch(self, steepness: Floats) -> Bools:
        height, width = steepness.shape
        wide, high = min(self.size[0], width), min(self.size[1], height)
        total = np.asarray(cv2.integral(steepness, sdepth=cv2.CV_64F))
        window = total[high:, wide:] - total[:-high, wide:] - total[high:, :-wide] + total[:-high, :-wide]
        top, left = np.unravel_index(int(window.argmax()), window.shape)
        mask = np.zeros((height, width), np.bool_)
        mask[top : top + high, left : left + wide] = True
        return mask


def distances(height: int, width: int, boxes: Floats) -> Floats:
    """Distance ``[H, W]`` of each pixel from the nearest that one of ``boxes`` ``[N, 4]`` touches, in pixels: 0 on a
    box, 1 beside it, infinite where there are no boxes."""
    away = np.full((height, width), np.inf)
    across, down = np.arange(width), np.arange(height)
    for x0, y0, x1, y1 in np.asarray(boxes, dtype=np.float64).tolist():
        dx = np.maximum(np.maximum(np.floor(x0) - across, across + 1 - np.ceil(x1)), 0)
        dy = np.maximum(np.maximum(np.floor(y0) - down, down + 1 - np.ceil(y1)), 0)
        np.minimum(away, np.hypot(dx[None, :], dy[:, None]), out=away)
    return away
