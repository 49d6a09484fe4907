"""``Mixture``: the batches of paper 4's three configurations: photos, and a share of synthetic images among them."""

from collections import OrderedDict
from collections.abc import Sequence
from functools import partial

from misdetect.data.dataset import Dataset
from misdetect.nouns.detections import Truth
from misdetect.nouns.picture import Pixels, digest
from misdetect.training.batches import Batch, DatasetBatches, places, varied

_KEPT = 1 << 30
"""Bytes of decoded images that are kept: a training reads each many times."""


class Mixture:
    """Batches of ``photos``, of which ``share`` of every batch come from ``synthetic``, for a detector of the classes
    ``names``. Images are varied as in every training."""

    def __init__(
        self, photos: Dataset, names: Sequence[str], *, synthetic: Dataset | None = None, share: float = 0.0, flip: bool
    ) -> None:
        self.photos = DatasetBatches(photos, names, flip=flip)
        self.synthetic = None if synthetic is None or not share else DatasetBatches(synthetic, names, flip=flip)
        self.names, self.spec, self.share, self.flip = tuple(names), photos.spec, share if self.synthetic else 0.0, flip
        self._kept: OrderedDict[tuple[bool, int], tuple[Pixels, Truth]] = OrderedDict()
        self._bytes = 0

    @property
    def fingerprint(self) -> str:
        """A hash of both, and of how they are mixed."""
        other = None if self.synthetic is None else self.synthetic.fingerprint
        return digest(self.photos.fingerprint, other, self.share)

    def __len__(self) -> int:
        return len(self.photos) + (0 if self.synthetic is None else len(self.synthetic))

    def batch(self, step: int, size: int, seed: int) -> Batch:
        """Batch ``step``, see ``Batches``: first the photos, then the synthetic images."""
        made = round(self.share * size)
        parts = [(False, len(self.photos), size - made)]
        if self.synthetic is not None:
            parts.append((True, len(self.synthetic), made))
        images, truths = [], []
        for other, count, wanted in parts:
            if wanted:
                chosen = places(count, step, wanted, seed + other)
                found = varied(partial(self._read, other), chosen, (seed, step, 1 + other), self.flip)
                images += found[0]
                truths += found[1]
        return images, truths

    def _read(self, other: bool, index: int) -> tuple[Pixels, Truth]:
        key = other, index
        if key in self._kept:
            return self._kept[key]
        source = self.synthetic if other else self.photos
        assert source is not None
        found = source.read(index)
        self._bytes += found[0].nbytes
        self._kept[key] = found
        while self._bytes > _KEPT and len(self._kept) > 1:
            self._bytes -= self._kept.popitem(last=False)[1][0].nbytes
        return found
