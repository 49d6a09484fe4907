"""``Faded``: an object laid over a picture with less than full opacity, for shrinking a failing edit towards none."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from misdetect.compose.paste import Paste, drawn_once
from misdetect.nouns.picture import Pixels, digest
from misdetect.said.errors import BadArray


@dataclass(frozen=True, eq=False)
class Faded:
    """``paste`` blended with what lies below it: ``opacity`` 1 is the paste itself, 0 the picture without it."""

    paste: Paste
    opacity: float

    def __post_init__(self) -> None:
        if not 0 <= self.opacity <= 1:
            raise BadArray(f"Expected an opacity in [0, 1]. Got {self.opacity}.")

    @cached_property
    def key(self) -> str:
        return self.paste.key if self.opacity == 1 else digest("faded", self.paste.key, float(self.opacity))

    @property
    def base(self) -> object:
        """The picture below, for detectors that want to know what was edited."""
        return self.paste.base

    def render(self) -> Pixels:
        edited = self.paste.render()
        x0, y0, x1, y1 = box = self._inside()
        edited[y0:y1, x0:x1] = self.part(box)
        return edited

    def part(self, box: tuple[int, int, int, int]) -> Pixels:
        """What ``render`` shows inside ``box`` (x0, y0, x1, y1 in pixels, inside the picture), and no more is drawn."""
        edited = self.paste.part(box)
        x0, y0, x1, y1 = box
        mixed = self.opacity * edited + (1 - self.opacity) * drawn_once(self.paste.base)[y0:y1, x0:x1]
        return np.rint(mixed).astype(np.uint8)

    def _inside(self) -> tuple[int, int, int, int]:
        """The part of the paste's box that lies inside the picture."""
        height, width = drawn_once(self.paste.base).shape[:2]
        x0, y0, x1, y1 = (max(v, 0) for v in self.paste.box)
        return min(x0, width), min(y0, height), min(x1, width), min(y1, height)
