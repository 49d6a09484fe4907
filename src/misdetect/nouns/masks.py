"""Instance masks that stay compressed until one is looked at.

A COCO-sized data set holds tens of thousands of masks; decoded they would fill the memory. ``Masks`` keeps each one in
the form it came in (polygons, run lengths or an array) and decodes on access.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from hotcoco import mask as coco_mask
from numpy.typing import ArrayLike, NDArray

from misdetect.nouns.boxes import Bools, Ints
from misdetect.said.errors import BadArray

Segment = list[list[float]] | dict[str, Any] | Bools | None
"""COCO polygons, COCO RLE (``{"size": [h, w], "counts": ...}``, plain or compressed), a bool array, or nothing."""


MOST_PIXELS = 1 << 28
"""Of the largest mask that is decoded: more than three times as many as of the largest image that is read."""


def _owned(mask: NDArray[Any]) -> Bools:
    """A copy that neither its giver nor its taker can change."""
    if mask.dtype == np.bool_ and mask.base is None and not mask.flags.writeable:
        return mask
    own = mask.astype(np.bool_)
    own.flags.writeable = False
    return own


class Masks(Sequence[Bools]):
    """``N`` masks of one image of ``height`` × ``width`` pixels; ``masks[i]`` is a bool ``[H, W]`` array.

    A segment may also be a promise, a function without arguments that returns the segment when it is first looked at.
    """

    def __init__(self, segments: Sequence[Segment | Callable[[], Segment]], height: int, width: int) -> None:
        self.height, self.width = int(height), int(width)
        self._segments = tuple(_owned(s) if isinstance(s, np.ndarray) else s for s in segments)

    @classmethod
    def from_array(cls, masks: ArrayLike) -> "Masks":
        """From a ``[N, H, W]`` array; anything that is not 0 belongs to the object."""
        array = np.asarray(masks)
        if array.ndim != 3:
            raise BadArray(f"Expected masks to have shape [N, H, W]. Got {list(array.shape)}.")
        return cls(list(array), array.shape[1], array.shape[2])

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Bools]:
        return (self._decode(self.segment(i)) for i in range(len(self)))

    def __getitem__(self, index: Any) -> Any:
        """``masks[i]`` decodes one mask; a slice or index array gives the ``Masks`` of that selection."""
        if isinstance(index, (int, np.integer)):
            return self._decode(self.segment(int(index)))
        chosen = np.arange(len(self))[index]
        return Masks([self._segments[i] for i in chosen], self.height, self.width)

    def __repr__(self) -> str:
        return f"Masks({len(self)} of {self.width}x{self.height})"

    def has(self, index: int) -> bool:
        """Whether object ``index`` has a mask at all; a promise counts as one."""
        segment = self._segments[index]
        return callable(segment) or (segment is not None and len(segment) > 0)

    def segment(self, index: int) -> Segment:
        """Mask ``index`` in the form it came in."""
        segment = self._segments[index]
        return segment() if callable(segment) else segment

    def rle(self, index: int) -> dict[str, Any]:
        """Mask ``index`` as compressed COCO run lengths, ``counts`` a str."""
        encoded = dict(coco_mask.encode(np.asfortranarray(self[index].astype(np.uint8))))
        counts = encoded["counts"]
        encoded["counts"] = counts.decode("ascii") if isinstance(counts, bytes) else counts
        return encoded

    def to_array(self) -> Bools:
        """All masks, ``[N, H, W]`` bool."""
        if not len(self):
            return np.zeros((0, self.height, self.width), dtype=np.bool_)
        return np.stack(list(self))

    def _decode(self, segment: Segment) -> Bools:
        if self.height * self.width > MOST_PIXELS:
            raise BadArray(f"A mask of {self.width}x{self.height} pixels is more than memory is given for.")
        if isinstance(segment, np.ndarray):
            if segment.shape != (self.height, self.width):
                raise BadArray(f"Expected a mask of shape [{self.height}, {self.width}]. Got {list(segment.shape)}.")
            return segment.astype(np.bool_, copy=False)
        if segment is None or len(segment) == 0:
            return np.zeros((self.height, self.width), dtype=np.bool_)
        try:
            checked = self._checked(segment)
            if not checked:
                return np.zeros((self.height, self.width), dtype=np.bool_)
            rle: Any = coco_mask.fr_py_objects(checked, self.height, self.width)
            if isinstance(rle, list):
                rle = coco_mask.merge(rle)
            decoded: NDArray[Any] = np.asarray(coco_mask.decode(rle))
        except BadArray:
            raise
        except (ValueError, TypeError, KeyError, OverflowError) as error:
            raise BadArray(f"Cannot decode a mask of a {self.width}x{self.height} image: {error}.") from error
        if decoded.shape != (self.height, self.width):
            raise BadArray(f"Expected a mask of shape [{self.height}, {self.width}]. Got {list(decoded.shape)}.")
        return decoded.astype(np.bool_)

    def _checked(self, segment: list[list[float]] | dict[str, Any]) -> list[list[float]] | dict[str, Any]:
        """Refuse, before anything is allocated, what would decode to another size or cost memory without bound."""
        if isinstance(segment, dict):
            size = segment.get("size")
            if size is None or list(size) != [self.height, self.width]:
                raise BadArray(f"Expected a mask of size [{self.height}, {self.width}]. Got {size}.")
            return checked_runs(segment)
        reach = 2 * max(self.height, self.width)  # rasterising costs memory along every edge, also outside the image
        for polygon in segment:
            points = np.asarray(polygon, dtype=np.float64)
            if points.ndim != 1 or points.size % 2 or not (np.abs(points) <= reach).all():
                raise BadArray(
                    f"Expected a polygon as x, y, x, y, … near its {self.width}x{self.height} image. "
                    f"Got {points.size} numbers, the largest {np.abs(points).max():g}."
                )
        return [polygon for polygon in segment if len(polygon) >= 6]  # a point or a line covers no pixel


def checked_runs(segment: dict[str, Any]) -> dict[str, Any]:
    """COCO run lengths, if they are whole numbers from 0 on and cover no more than they say there is. The library that
    decodes them trusts them: it would write, or reserve memory, beyond the image."""
    size, counts = segment.get("size"), segment.get("counts")
    if not isinstance(size, list) or len(size) != 2 or set(map(type, size)) != {int} or min(size) < 0:
        raise BadArray(f"Expected a mask's size as height and width. Got {size!r:.60}.")
    pixels = size[0] * size[1]
    if pixels > MOST_PIXELS:
        raise BadArray(f"A mask of {size[1]}x{size[0]} pixels is more than memory is given for.")
    if isinstance(counts, (str, bytes)):
        runs = _uncompressed(counts)
    elif isinstance(counts, list) and set(map(type, counts)) <= {int} and max(counts, default=0) <= pixels:
        runs = np.array(counts, dtype=np.int64)
    else:
        raise BadArray(
            f"Expected a mask's run lengths as whole numbers of at most {pixels} pixels. Got {counts!r:.60}."
        )
    if len(runs) > pixels + 2 or runs.min(initial=0) < 0 or runs.max(initial=0) > pixels or runs.sum() > pixels:
        raise BadArray(
            f"Expected a mask's run lengths from 0 on that cover at most {pixels} pixels. Got {len(runs)} others."
        )
    return segment


def _uncompressed(counts: str | bytes) -> Ints:
    """Run lengths of COCO's compressed text: five bits a character, from the lowest on; from the fourth run on each is
    the difference to the one before the last."""
    text = counts.encode("utf-8", "surrogatepass") if isinstance(counts, str) else counts
    digits = np.frombuffer(text, dtype=np.uint8).astype(np.int64) - 48
    last = np.flatnonzero(digits & 32 == 0)
    first = np.concatenate([[0], last[:-1] + 1]) if len(last) else last
    if ((digits < 0) | (digits > 63)).any() or (len(digits) and (not len(last) or last[-1] != len(digits) - 1)):
        raise BadArray(f"Expected a mask's compressed run lengths. Got {counts!r:.60}.")
    if (last - first > 6).any():  # 35 bits are more than any image has pixels
        raise BadArray(f"Expected a mask's run lengths of at most seven characters each. Got {counts!r:.60}.")
    if not len(digits):
        return digits
    place = np.arange(len(digits)) - np.repeat(first, last - first + 1)
    runs = np.add.reduceat((digits & 31) << 5 * place, first)
    runs = np.where(digits[last] & 16, runs - (1 << 5 * (last - first + 1)), runs)  # the highest bit is the sign
    runs[1::2], runs[2::2] = np.cumsum(runs[1::2]), np.cumsum(runs[2::2])
    return runs
