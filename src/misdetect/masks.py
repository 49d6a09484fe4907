"""Instance masks that stay compressed until one is looked at.

A COCO-sized data set holds tens of thousands of masks; decoded they would fill the memory. ``Masks`` keeps each one in
the form it came in (polygons, run lengths or an array) and decodes on access.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from hotcoco import mask as coco_mask
from numpy.typing import ArrayLike, NDArray

from misdetect.boxes import Bools
from misdetect.errors import BadArray

Segment = list[list[float]] | dict[str, Any] | Bools | None
"""COCO polygons, COCO RLE (``{"size": [h, w], "counts": ...}``, plain or compressed), a bool array, or nothing."""


class Masks(Sequence[Bools]):
    """``N`` masks of one image of ``height`` × ``width`` pixels; ``masks[i]`` is a bool ``[H, W]`` array."""

    def __init__(self, segments: Sequence[Segment], height: int, width: int) -> None:
        self.height, self.width = int(height), int(width)
        self._segments = tuple(segments)

    @classmethod
    def from_array(cls, masks: ArrayLike) -> "Masks":
        """From a ``[N, H, W]`` array; anything that is not 0 belongs to the object."""
        array = np.asarray(masks)
        if array.ndim != 3:
            raise BadArray(f"Expected masks to have shape [N, H, W]. Got {list(array.shape)}.")
        return cls([m.astype(np.bool_) for m in array], array.shape[1], array.shape[2])

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Bools]:
        return (self._decode(s) for s in self._segments)

    def __getitem__(self, index: Any) -> Any:
        """``masks[i]`` decodes one mask; a slice or index array gives the ``Masks`` of that selection."""
        if isinstance(index, (int, np.integer)):
            return self._decode(self._segments[int(index)])
        chosen = np.arange(len(self))[index]
        return Masks([self._segments[i] for i in chosen], self.height, self.width)

    def __repr__(self) -> str:
        return f"Masks({len(self)} of {self.width}x{self.height})"

    def has(self, index: int) -> bool:
        """Whether object ``index`` has a mask at all."""
        return self._segments[index] is not None and self._segments[index] != []

    def segment(self, index: int) -> Segment:
        """Mask ``index`` in the form it came in."""
        return self._segments[index]

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
        if isinstance(segment, np.ndarray):
            if segment.shape != (self.height, self.width):
                raise BadArray(f"Expected a mask of shape [{self.height}, {self.width}]. Got {list(segment.shape)}.")
            return segment
        if segment is None or len(segment) == 0:
            return np.zeros((self.height, self.width), dtype=np.bool_)
        try:
            rle: Any = coco_mask.fr_py_objects(segment, self.height, self.width)
            if isinstance(rle, list):
                rle = coco_mask.merge(rle)
            decoded: NDArray[Any] = np.asarray(coco_mask.decode(rle))
        except (ValueError, TypeError, KeyError) as error:
            raise BadArray(f"Cannot decode a mask of a {self.width}x{self.height} image: {error}.") from error
        if decoded.shape != (self.height, self.width):
            raise BadArray(f"Expected a mask of shape [{self.height}, {self.width}]. Got {list(decoded.shape)}.")
        return decoded.astype(np.bool_)
