"""The pictures of a page: each once, however many failures show it, made smaller, and no more than the page may weigh.

An edited picture is kept as the patch that differs from its photo, so that a hundred insertions into one photo cost a
hundred small patches. Nothing here knows of runs or studies.
"""

import base64
import hashlib
import io
from dataclasses import dataclass

import cv2
import numpy as np
from PIL import Image

from misdetect.nouns.picture import Pixels

LONGEST = 560
"""Pixels of the longer side of a photo in a page, about what a card or the evidence shows of it; larger ones are made
smaller."""
_QUALITY, _EFFORT = 72, 2
"""Of WebP: with twice the effort files are a twentieth smaller, and take twice as long."""
_AROUND = 2
"""Pixels around a patch, so that its edge is that of the photo."""


@dataclass(frozen=True)
class Patch:
    """The part of an edited picture that differs: its picture's key, and where it lies in the photo's own pixels."""

    key: str
    x: float
    y: float
    width: float
    height: float

    def document(self) -> list[float | str]:
        """As JSON."""
        return [self.key, *(round(value, 2) for value in (self.x, self.y, self.width, self.height))]


class Album:
    """Pictures by the hash of their content, as data addresses; ``most`` bytes of them in all."""

    def __init__(self, most: int) -> None:
        self.pictures: dict[str, str] = {}
        self._left = most

    @property
    def full(self) -> bool:
        """Whether nothing more will be taken."""
        return self._left <= 0

    def photo(self, image: Pixels) -> str | None:
        """The key of ``image``, made smaller where it is large; ``None`` where there is no room for it."""
        return self._add(shrunk(image)[0])

    def patch(self, image: Pixels, edited: Pixels) -> Patch | None:
        """What ``edited`` changes in ``image``; ``None`` where that is nothing, or where there is no room for it."""
        if image.shape != edited.shape:
            return None
        differs = (image != edited).any(axis=2)
        rows, columns = np.flatnonzero(differs.any(axis=1)), np.flatnonzero(differs.any(axis=0))
        if not rows.size:
            return None
        small, factor = shrunk(edited)
        height, width = small.shape[:2]
        x0, y0 = (max(int(end[0] * factor) - _AROUND, 0) for end in (columns, rows))
        x1, y1 = (
            min(int((end[-1] + 1) * factor) + 1 + _AROUND, most) for end, most in ((columns, width), (rows, height))
        )
        key = self._add(small[y0:y1, x0:x1])
        return None if key is None else Patch(key, *(v / factor for v in (x0, y0, x1 - x0, y1 - y0)))

    def _add(self, image: Pixels) -> str | None:
        return self._keep(webp(image), "image/webp")

    def _keep(self, data: bytes, kind: str) -> str | None:
        key = hashlib.blake2b(data, digest_size=8).hexdigest()
        if key not in self.pictures:
            address = f"data:{kind};base64,{base64.b64encode(data).decode()}"
            if len(address) > self._left:
                self._left = 0  # what follows is less important: no smaller picture slips in
                return None
            self._left -= len(address)
            self.pictures[key] = address
        return key


def webp(image: Pixels, quality: int = _QUALITY) -> bytes:
    """``image`` as a WebP file."""
    stream = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(image)).save(stream, "WEBP", quality=quality, method=_EFFORT)
    return stream.getvalue()


def shrunk(image: Pixels, longest: int = LONGEST) -> tuple[Pixels, float]:
    """``image`` with its longer side at most ``longest``, and the factor."""
    factor = longest / max(image.shape[:2])
    if factor >= 1:
        return image, 1.0
    small: Pixels = np.asarray(cv2.resize(image, None, fx=factor, fy=factor, interpolation=cv2.INTER_AREA))
    return small, small.shape[1] / image.shape[1]
