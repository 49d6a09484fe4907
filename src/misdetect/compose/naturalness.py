"""Naturalness: how much of a photo's gradients an edit leaves in place (paper 4, section 6.3, Table 4).

The histograms of oriented gradients of the edited photo and of its background are intersected, block by block, and the
result is a share of the background's. The histograms are those of OpenCV's ``HOGDescriptor`` over one window as large
as the photo; they are computed here because OpenCV 5 has none, and because only the blocks that an edit reaches need
computing anew. It says that an edit is small and fits the gradients below it, not that the scene makes sense.
"""

from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from misdetect.errors import BadArray
from misdetect.picture import Pixels, check_pixels

_CELL = 8
_BLOCK = 2 * _CELL
_BINS = 9
_VALUES = 4 * _BINS
"""A block is 2 × 2 cells of 9 orientations; blocks lie one cell apart, so they overlap."""
_CLIP = np.float32(0.2)

Singles = NDArray[np.float32]


def _shares() -> Singles:
    """``[8, 4]``: what a pixel of a cell-wide strip gives to the first and second cell of the block that starts in the
    strip, and to those of the block that started one strip before.

    Votes are interpolated between the two cells' centres and fade with a Gaussian of a quarter block around the middle;
    OpenCV puts that middle at 8, not 7.5.
    """
    pixel = np.arange(_BLOCK)
    fading = np.exp(-((pixel - _CELL) ** 2) / (2 * (_BLOCK / 4) ** 2))
    nearness = np.maximum(0, 1 - np.abs((pixel[:, None] + 0.5) / _CELL - 0.5 - np.arange(2)))
    weights = fading[:, None] * nearness
    return np.concatenate([weights[:_CELL], weights[_CELL:]], axis=1).astype(np.float32)


_SHARES = _shares()
_STARTS, _ENDS = np.ascontiguousarray(_SHARES[:, :2]), np.ascontiguousarray(_SHARES[:, 2:])
_SHARES_DOWN = np.ascontiguousarray(_SHARES.T)


def _gradients(image: Pixels) -> tuple[Singles, Singles]:
    """Central differences in x and y, ``[H, W]`` each, of the channel where they are largest. Equal ones: blue, then
    green, as OpenCV chooses for the BGR images that it reads. The image is mirrored at its edges."""
    planes = cv2.split(np.ascontiguousarray(image))[::-1]  # a view of an image would be split eight times slower
    slopes = [
        (cv2.Sobel(plane, cv2.CV_32F, 1, 0, ksize=1), cv2.Sobel(plane, cv2.CV_32F, 0, 1, ksize=1)) for plane in planes
    ]
    x, y = slopes[0]
    strength = x * x + y * y
    for dx, dy in slopes[1:]:
        other = dx * dx + dy * dy
        stronger = cv2.compare(other, strength, cv2.CMP_GT)
        cv2.copyTo(dx, stronger, x)
        cv2.copyTo(dy, stronger, y)
        cv2.max(strength, other, strength)
    return x, y


def _positive(values: Singles) -> Singles:
    """``values`` with what is below 0 set to 0, in place; several times faster than ``np.maximum``."""
    cv2.threshold(values, 0, 0, cv2.THRESH_TOZERO, values)
    return values


def _strips(x: Singles, y: Singles) -> Singles:
    """``[9, H / 8, 4, W]``: for each orientation, what the pixels of each strip of 8 rows give to the cells of blocks.

    A gradient's length is shared between the two orientations nearest to its own.
    """
    length, place = cv2.cartToPolar(x, y)
    place *= np.float32(_BINS / np.pi)
    place -= np.float32(0.5)
    place -= (place >= np.float32(_BINS - 0.5)) * np.float32(_BINS)  # a gradient and its opposite are one orientation
    height, width = length.shape
    strips: Singles = np.empty((_BINS, height // _CELL, 4, width), dtype=np.float32)
    votes: Singles = np.empty_like(length)
    for k in range(_BINS):  # one orientation at a time stays in the processor's cache
        np.subtract(place, np.float32(k), out=votes)
        np.abs(votes, out=votes)
        np.subtract(np.float32(1), votes, out=votes)
        _positive(votes)
        if k == 0:  # from between the last orientation and the first
            votes += _positive(place - np.float32(_BINS - 1))
        elif k == _BINS - 1:
            votes += _positive(-place)
        votes *= length
        np.matmul(_SHARES_DOWN, votes.reshape(height // _CELL, _CELL, width), out=strips[k])
    return strips


def _blocks(x: Singles, y: Singles) -> Singles:
    """``[H / 8 - 1, W / 8 - 1, 36]``: the normalised histograms of all blocks, cells by column as OpenCV lists them,
    from the gradients of an image whose sides are multiples of 8."""
    strips = _strips(x, y)
    rows = strips[:, :-1, :2] + strips[:, 1:, 2:]
    tiles = rows.reshape(-1, _CELL)
    shape = (*rows.shape[:3], rows.shape[3] // _CELL, 2)
    cells = (tiles @ _STARTS).reshape(shape)[:, :, :, :-1] + (tiles @ _ENDS).reshape(shape)[:, :, :, 1:]
    blocks: Singles = cells.transpose(1, 3, 4, 2, 0).reshape(shape[1], shape[3] - 1, _VALUES)
    blocks /= _norm(blocks) + np.float32(0.1 * _VALUES)
    np.minimum(blocks, _CLIP, out=blocks)
    blocks /= _norm(blocks) + np.float32(1e-3)
    return blocks


def _norm(blocks: Singles) -> Singles:
    norm: Singles = np.sqrt(np.einsum("yxk,yxk->yx", blocks, blocks))[:, :, None]
    return norm


def _fitted(image: Pixels) -> Pixels:
    """``image`` cut to a multiple of 8 pixels at the right and bottom; a side below 16 repeats its last pixel to 16."""
    height, width = image.shape[:2]
    if min(height, width) < _BLOCK:
        below, beside = max(0, _BLOCK - height), max(0, _BLOCK - width)
        image = cv2.copyMakeBorder(image, 0, below, 0, beside, cv2.BORDER_REPLICATE)
        height, width = image.shape[:2]
    return image[: height - height % _CELL, : width - width % _CELL]


def hog(image: Pixels) -> Singles:
    """Histograms of oriented gradients of an RGB image, ``[rows, columns, 36]`` float32, a block of 16 × 16 pixels each
    8 pixels: ``cv2.HOGDescriptor((W, H), (16, 16), (8, 8), (8, 8), 9)`` of the image in BGR."""
    return _blocks(*_gradients(_fitted(check_pixels(image))))


class Naturalness:
    """The naturalness of edits of one photo, whose own histograms are computed once.

    >>> natural = Naturalness(photo)                      # doctest: +SKIP
    >>> natural.of(paste.render(), paste.box)             # doctest: +SKIP
    0.987
    """

    def __init__(self, background: Pixels) -> None:
        self._shape = check_pixels(background).shape
        self._hog = hog(background)
        self._total = float(self._hog.sum(dtype=np.float64))

    def of(self, edited: Pixels, box: Sequence[int] | None = None) -> float:
        """The share of the background's histograms that ``edited`` has too, in 0..1; 1 where nothing changed.

        ``box`` (x0, y0, x1, y1 in whole pixels, it may stick out) is where the two may differ; without it, anywhere. A
        background without any gradient has naturalness 0 as soon as the edit shows one.
        """
        if check_pixels(edited).shape != self._shape:
            raise BadArray(
                f"Expected an edit of the background's size {list(self._shape[:2])}. Got {list(edited.shape[:2])}."
            )
        rows, columns = self._reached(box)
        if rows.start >= rows.stop or columns.start >= columns.stop:
            return 1.0
        before, after = self._hog[rows, columns], self._region(_fitted(edited), rows, columns)
        if not self._total:
            return 0.0 if after.any() else 1.0
        lost = float(np.maximum(before - after, 0).sum(dtype=np.float64))
        return max(0.0, 1.0 - lost / self._total)

    def _reached(self, box: Sequence[int] | None) -> tuple[slice, slice]:
        """The blocks that a change inside ``box`` can alter: a gradient looks one pixel further than its own."""
        rows, columns = self._hog.shape[:2]
        if box is None or min(self._shape[:2]) < _BLOCK:  # a small image's edge is repeated, wherever its box ends
            return slice(0, rows), slice(0, columns)
        x0, y0, x1, y1 = box
        if x0 >= x1 or y0 >= y1:
            return slice(0, 0), slice(0, 0)
        first_row, first_column = ((v - 1) // _CELL - 1 for v in (y0, x0))
        last_row, last_column = (v // _CELL for v in (y1, x1))
        return (
            slice(max(first_row, 0), min(last_row + 1, rows)),
            slice(max(first_column, 0), min(last_column + 1, columns)),
        )

    @staticmethod
    def _region(image: Pixels, rows: slice, columns: slice) -> Singles:
        """The histograms of a rectangle of blocks, from its pixels and one more on each side where there is one."""
        top, bottom = rows.start * _CELL, (rows.stop + 1) * _CELL
        left, right = columns.start * _CELL, (columns.stop + 1) * _CELL
        above, beside = min(top, 1), min(left, 1)
        x, y = _gradients(image[top - above : bottom + 1, left - beside : right + 1])
        inner = slice(above, above + bottom - top), slice(beside, beside + right - left)
        return _blocks(np.ascontiguousarray(x[inner]), np.ascontiguousarray(y[inner]))


def naturalness(edited: Pixels, background: Pixels) -> float:
    """The share of ``background``'s histograms of oriented gradients that ``edited`` has too, in 0..1."""
    return Naturalness(background).of(edited)
