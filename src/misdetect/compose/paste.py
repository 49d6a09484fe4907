"""``Paste``: an object laid over a picture by its mask, described before it is drawn.

Hard paste, no blending (paper 1): a pixel comes from the cutout where its alpha is at least one half, else from the
picture below. The description is the cache key; it renders only when a batch is filled.
"""

from collections import OrderedDict
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import index
from threading import Lock

import cv2
import numpy as np

from misdetect.data.cutouts import Cutout
from misdetect.nouns.picture import Picture, Pixels, digest
from misdetect.said.errors import BadArray

_OPAQUE = 128
_KEEP = 96 << 20
"""Bytes of rendered pictures that are kept: about a hundred photos, or a few large ones."""
_drawn: "OrderedDict[str, Pixels]" = OrderedDict()
_lock = Lock()


def drawn_once(base: Picture) -> Pixels:
    """``base`` rendered; the last few are kept, since a study pastes thousands of times on the same photo."""
    with _lock:
        if base.key in _drawn:
            _drawn.move_to_end(base.key)
            return _drawn[base.key]
    pixels = base.render()
    with _lock:
        _drawn[base.key] = pixels
        while len(_drawn) > 1 and sum(kept.nbytes for kept in _drawn.values()) > _KEEP:
            _drawn.popitem(last=False)
    return pixels


def lay(image: Pixels, patch: Pixels, at: tuple[int, int], mask: Pixels | None = None) -> None:
    """Copy ``patch`` ``[h, w, 3]`` into ``image``, left and top ``at`` (it may stick out), where ``mask`` is not 0."""
    (x, y), (height, width), (rows, columns) = at, patch.shape[:2], image.shape[:2]
    left, top, right, bottom = max(-x, 0), max(-y, 0), min(columns - x, width), min(rows - y, height)
    if left < right and top < bottom:
        inside = slice(top, bottom), slice(left, right)
        target = image[y + top : y + bottom, x + left : x + right]
        if mask is None:
            target[...] = patch[inside]
        else:
            cv2.copyTo(patch[inside], mask[inside], target)


def _resized(rgba: Pixels, size: tuple[int, int]) -> Pixels:
    """``rgba`` at ``size`` (width, height); colours are weighted by alpha, or the transparent would darken the edge."""
    shrinks = size[0] * size[1] < rgba.shape[0] * rgba.shape[1]
    weighted = rgba.astype(np.float32)
    weighted[:, :, :3] *= weighted[:, :, 3:] / 255
    weighted = cv2.resize(weighted, size, interpolation=cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR)
    weighted[:, :, :3] *= 255 / np.maximum(weighted[:, :, 3:], 1)
    result: Pixels = np.clip(np.rint(weighted), 0, 255).astype(np.uint8)
    return result


def resized(cutout: Cutout, size: tuple[int, int]) -> Cutout:
    """``cutout`` at ``size`` (width, height) with a hard edge: what ``Paste`` would draw of it at that size."""
    if size == cutout.size:
        return cutout
    rgba = _resized(cutout.rgba, size)
    rgba[:, :, 3] = np.where(rgba[:, :, 3] >= _OPAQUE, 255, 0)
    return replace(cutout, rgba=rgba)


@dataclass(frozen=True, eq=False)
class Paste:
    """``cutout`` on ``base`` with its top-left corner ``at`` (x, y), in pixels; ``size`` (width, height) resizes it.

    Parts outside the picture are cut off. A ``size`` that is the cutout's own is no resize and becomes ``None``.
    """

    base: Picture = field(repr=False)
    cutout: Cutout = field(repr=False)
    at: tuple[int, int]
    size: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        try:
            x, y = (index(v) for v in self.at)
            size = None if self.size is None else tuple(index(v) for v in self.size)
        except (TypeError, ValueError) as error:
            raise BadArray(f"Expected at and size as two whole numbers each. Got {self.at} and {self.size}.") from error
        if size is not None and (len(size) != 2 or min(size) < 1):
            raise BadArray(f"Expected a paste size of at least 1x1 pixels. Got {'x'.join(map(str, size))}.")
        object.__setattr__(self, "at", (x, y))
        object.__setattr__(self, "size", None if size == self.cutout.size else size)

    @cached_property
    def key(self) -> str:
        return digest("paste", self.base.key, self.cutout.key, self.at, self.size)

    @property
    def box(self) -> tuple[int, int, int, int]:
        """Where the cutout's box lies: x0, y0, x1, y1 in pixels, not cut to the picture."""
        width, height = self.size or self.cutout.size
        return self.at[0], self.at[1], self.at[0] + width, self.at[1] + height

    def render(self) -> Pixels:
        return self._on(drawn_once(self.base).copy(), (0, 0))

    def part(self, box: tuple[int, int, int, int]) -> Pixels:
        """What ``render`` shows inside ``box`` (x0, y0, x1, y1 in pixels, inside the picture), and no more is drawn."""
        x0, y0, x1, y1 = box
        return self._on(drawn_once(self.base)[y0:y1, x0:x1].copy(), (x0, y0))

    def _on(self, image: Pixels, corner: tuple[int, int]) -> Pixels:
        """Draw on ``image``, whose left and top lie at ``corner`` of the picture."""
        rgba = self.cutout.rgba if self.size is None else _resized(self.cutout.rgba, self.size)
        at = self.at[0] - corner[0], self.at[1] - corner[1]
        lay(image, cv2.cvtColor(rgba, cv2.COLOR_RGBA2RGB), at, (rgba[:, :, 3] >= _OPAQUE).view(np.uint8))
        return image
