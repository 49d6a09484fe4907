"""Which image of the data is this? By its description where there is one, else by its pixels.

Pixels are hashed in a grid of tiles; an edited image still shares most tiles with the one it was made from. Only the
hashes are kept (512 bytes per image), made image by image as far as a search has to go.
"""

from collections import OrderedDict
from collections.abc import Iterator
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from misdetect.data.dataset import Dataset, Sample
from misdetect.detectors.glassbox.scene import Known, Layer, layer_of
from misdetect.nouns.picture import Pixels

Hashes = NDArray[np.uint64]
_GRID = 8
_KEEP = 8
_FLAT = np.uint64(1)


def tiles(image: Pixels) -> Hashes:
    """Hashes ``[64]`` of a grid of tiles. The lowest bit marks a tile of one colour, which proves nothing."""
    rows = np.linspace(0, image.shape[0], _GRID + 1).astype(int)
    columns = np.linspace(0, image.shape[1], _GRID + 1).astype(int)
    found = np.zeros(_GRID * _GRID, dtype=np.uint64)
    for i in range(_GRID):
        for j in range(_GRID):
            tile = image[rows[i] : rows[i + 1], columns[j] : columns[j + 1]]
            flat = tile.size == 0 or bool((tile == tile[0, 0]).all())
            value = int.from_bytes(blake2b(np.ascontiguousarray(tile).tobytes(), digest_size=8).digest(), "little")
            found[i * _GRID + j] = value | 1 if flat else value & ~1
    return found


class _Shelf:
    """The hashes of the images of one size, in the order they were read."""

    def __init__(self) -> None:
        self.waiting: list[int] = []
        self.indices: list[int] = []
        self.table = np.zeros((16, _GRID * _GRID), dtype=np.uint64)

    def add(self, index: int, hashes: Hashes) -> None:
        if len(self.indices) == len(self.table):
            self.table = np.concatenate([self.table, np.zeros_like(self.table)])
        self.table[len(self.indices)] = hashes
        self.indices.append(index)

    def best(self, hashes: Hashes, first: int = 0) -> tuple[int, int]:
        """Index of the image, from the ``first`` on, that shares the most telling tiles, and how many it shares; an
        identical image shares all of them."""
        known = self.table[first : len(self.indices)]
        if not len(known):
            return -1, 0
        same = known == hashes
        shared = (same & ((hashes & _FLAT) == 0)).sum(axis=1)
        shared[same.all(axis=1)] = len(hashes)
        row = int(shared.argmax())
        return self.indices[first + row], int(shared[row])


class Recogniser:
    """Finds images of ``dataset``; keeps the last few it found."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset
        self._ids: dict[str, int] = {}
        self._shelves: dict[tuple[int, int], _Shelf] = {}
        self._met = 0
        self._kept: OrderedDict[int, Known] = OrderedDict()

    def by_sample(self, sample: Sample) -> Known | None:
        """The data's own sample that shows the same as ``sample``, or ``None``: a sample of other data may carry other
        labels under the same numbers."""
        while sample.id not in self._ids and self._meet() is not None:
            pass
        if sample.id not in self._ids:
            return None
        known = self._known(self._ids[sample.id])
        mine = known.sample
        if mine is sample or mine.source == sample.source or mine.key == sample.key:
            return known
        return None

    def by_pixels(self, image: Pixels) -> tuple[Known, list[Layer]] | None:
        """The image that ``image`` is, or was made from, and the layer of pixels that differ; ``None`` if unknown."""
        hashes = tiles(image)
        telling = int(((hashes & _FLAT) == 0).sum())
        size = image.shape[1], image.shape[0]
        shelf = self._shelves.setdefault(size, _Shelf())
        index, shared = shelf.best(hashes)
        more = self._unread(size)
        # half of the telling tiles is no coincidence; below that the whole data has to be searched for the best
        while 2 * shared < max(telling, 1):
            first = len(shelf.indices)
            sample = next(more, None)
            if sample is None:
                break
            shelf.add(sample[0], tiles(sample[1].image))
            found, votes = shelf.best(hashes, first)
            if votes > shared:
                index, shared = found, votes
        if not shared:
            return None
        known = self._known(index)
        layer = layer_of((known.sample.image != image).any(axis=2), -1, "", True)
        return known, [] if layer is None else [layer]

    def _known(self, index: int) -> Known:
        if index not in self._kept:
            self._kept[index] = Known(index, self.dataset[index])
            while len(self._kept) > _KEEP:
                self._kept.popitem(last=False)
        self._kept.move_to_end(index)
        return self._kept[index]

    def _meet(self) -> tuple[int, Sample] | None:
        """The next sample of the data, noted by id and size but not yet read."""
        if self._met >= len(self.dataset):
            return None
        index, sample = self._met, self.dataset[self._met]
        self._met += 1
        self._ids.setdefault(sample.id, index)
        self._shelves.setdefault((sample.width, sample.height), _Shelf()).waiting.append(index)
        return index, sample

    def _unread(self, size: tuple[int, int]) -> Iterator[tuple[int, Sample]]:
        """Samples of ``size`` that are not hashed yet, in the data's order."""
        shelf = self._shelves[size]
        while True:
            while shelf.waiting:
                index = shelf.waiting.pop(0)
                yield index, self.dataset[index]
            if self._meet() is None:
                return
