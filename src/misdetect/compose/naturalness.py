"""Naturalness: how much of a photo's gradients an edit leaves in place (paper 4, section 6.3, Table 4).

The histograms of oriented gradients of the edited photo and of its background are intersected, block by block, and the
result is a share of the background's. The histograms are those of OpenCV's ``HOGDescriptor`` over one window as large
as the photo; they are computed here because OpenCV 5 has none, and because only the blocks that an edit reaches need
computing anew. It says that an edit is small and fits the gradients below it, not that the scene makes sense.
"""

import cv2
import numpy as np
from numpy.typing import NDArray

from misdetect.compose.paste import drawn_once, lay
from misdetect.nouns.picture import Picture, Pixels, Raw, check_pixels
from misdetect.said.errors import BadArray

_CELL = 8
_BLOCK = 2 * _CELL
_BINS = 9
_VALUES = 4 * _BINS
"""A block is 2 × 2 cells of 9 orientations; blocks lie one cell apart, so they overlap."""
_CLIP = np.float32(0.2)
_BAND = 12
"""Rows of blocks computed at a time: what is in between stays in the processor's cache."""

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
    height, width = image.shape[:2]
    planes = np.empty((3, height, width), dtype=np.int16)
    for plane, channel in zip(planes[::-1], cv2.split(np.ascontiguousarray(image)), strict=True):  # a view is slow
        plane[...] = channel
    x, y = np.zeros((2, 3, height, width), dtype=np.float32)
    np.subtract(planes[:, :, 2:], planes[:, :, :-2], out=x[:, :, 1:-1])
    np.subtract(planes[:, 2:], planes[:, :-2], out=y[:, 1:-1])
    strength = x * x
    strength += y * y
    for k in (1, 2):
        stronger = cv2.compare(strength[k], strength[0], cv2.CMP_GT)
        for values in (x, y, strength):
            cv2.copyTo(values[k], stronger, values[0])
    return x[0], y[0]


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
    fitted = _fitted(check_pixels(image))
    rows, columns = (side // _CELL - 1 for side in fitted.shape[:2])
    bands = [slice(start, min(start + _BAND, rows)) for start in range(0, rows, _BAND)]
    return np.concatenate([_region(fitted, band, slice(0, columns)) for band in bands])


def _region(
    image: Pixels, rows: slice, columns: slice, patch: Pixels | None = None, at: tuple[int, int] = (0, 0)
) -> Singles:
    """The histograms of a rectangle of blocks of ``image`` (its sides multiples of 8) with ``patch`` on it, from its
    pixels and one more on each side where there is one."""
    left, top = max(columns.start * _CELL - 1, 0), max(rows.start * _CELL - 1, 0)
    part = image[top : (rows.stop + 1) * _CELL + 1, left : (columns.stop + 1) * _CELL + 1]
    if patch is not None:
        part = part.copy()
        lay(part, patch, (at[0] - left, at[1] - top))
    x, y = _gradients(part)
    inner = tuple(
        slice(span.start * _CELL - first, (span.stop + 1) * _CELL - first)
        for span, first in ((rows, top), (columns, left))
    )
    return _blocks(np.ascontiguousarray(x[inner]), np.ascontiguousarray(y[inner]))


class Naturalness:
    """The naturalness of edits of one photo: for each edit only the blocks that it reaches are computed.

    >>> natural = Naturalness(sample)                         # doctest: +SKIP
    >>> natural.of(paste.part(paste.box), paste.box[:2])      # doctest: +SKIP
    0.987

    With ``keep``, the photo's own histograms stay in memory (``nbytes``); without, they are computed again where an
    edit reaches.
    """

    def __init__(self, background: Picture, keep: bool = True) -> None:
        image = drawn_once(background)
        blocks = hog(image)
        self._background = background
        self._shape, self._blocks = image.shape[:2], blocks.shape[:2]
        self._total = float(blocks.sum(dtype=np.float64))
        self._hog = blocks if keep else None

    @property
    def nbytes(self) -> int:
        """Bytes of the histograms that are kept."""
        return 0 if self._hog is None else self._hog.nbytes

    def of(self, patch: Pixels, at: tuple[int, int] = (0, 0)) -> float:
        """The share of the photo's histograms that are left when ``patch`` ``[h, w, 3]`` lies on it with its left and
        top ``at`` (pixels; it may stick out), in 0..1; 1 where nothing changed.

        A photo without any gradient has naturalness 0 as soon as the edit shows one.
        """
        rows, columns = self._reached(at, check_pixels(patch).shape[:2])
        if rows.start >= rows.stop or columns.start >= columns.stop:
            return 1.0
        image = drawn_once(self._background)
        if min(self._shape) < _BLOCK:  # its edge is repeated, and the change with it
            edited = image.copy()
            lay(edited, patch, at)
            after = hog(edited)
        else:
            after = _region(_fitted(image), rows, columns, patch, at)
        if not self._total:
            return 0.0 if after.any() else 1.0
        before = _region(_fitted(image), rows, columns) if self._hog is None else self._hog[rows, columns]
        lost = float(np.maximum(before - after, 0).sum(dtype=np.float64))
        return max(0.0, 1.0 - lost / self._total)

    def _reached(self, at: tuple[int, int], size: tuple[int, ...]) -> tuple[slice, slice]:
        """The blocks that a change ``at`` a place can alter: a gradient looks one pixel further than its own."""
        if min(self._shape) < _BLOCK:  # a small image's edge is repeated, wherever the change ends
            return slice(0, self._blocks[0]), slice(0, self._blocks[1])
        if 0 in size:
            return slice(0, 0), slice(0, 0)
        starts = [max((v - 1) // _CELL - 1, 0) for v in reversed(at)]
        ends = [(v + side) // _CELL + 1 for v, side in zip(reversed(at), size, strict=True)]
        rows, columns = (slice(*three) for three in zip(starts, map(min, ends, self._blocks), strict=True))
        return rows, columns


def naturalness(edited: Pixels, background: Pixels) -> float:
    """The share of ``background``'s histograms of oriented gradients that ``edited`` has too, in 0..1."""
    if check_pixels(edited).shape != check_pixels(background).shape:
        sizes = [list(image.shape[:2]) for image in (background, edited)]
        raise BadArray(f"Expected an edit of the background's size {sizes[0]}. Got {sizes[1]}.")
    return Naturalness(Raw(background), keep=False).of(edited)
