"""``Batches``: where a training gets its images from. Any data set is one (``DatasetBatches``), read as it is needed.

A batch is a function of (seed, step) alone, so a resumed training sees what it would have seen. Images may be of
several sizes; labels index the detector's names.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol

import numpy as np

from misdetect.data.dataset import Dataset
from misdetect.nouns.boxes import Floats, Ints
from misdetect.nouns.detections import Truth
from misdetect.nouns.labels import Joined
from misdetect.nouns.masks import Masks
from misdetect.nouns.picture import Pixels, digest
from misdetect.said.errors import BadData, BadSpec

Batch = tuple[Sequence[Floats], Sequence[Truth]]
"""Images ``[H, W, 3]`` float32 in 0..255, and what is in each."""


class Batches(Protocol):
    """What a training learns from."""

    @property
    def names(self) -> Sequence[str]:
        """The classes that labels index: the detector's."""
        ...

    @property
    def spec(self) -> str:
        """The data's spec, for people."""
        ...

    @property
    def fingerprint(self) -> str:
        """A hash of everything that decides a batch beside its arguments."""
        ...

    def __len__(self) -> int:
        """How many images there are."""
        ...

    def batch(self, step: int, size: int, seed: int) -> Batch:
        """Batch ``step``, of ``size`` images: the same whenever it is asked for."""
        ...


class DatasetBatches:
    """The images of ``dataset`` for a detector of the classes ``names``, read from the data each time.

    Objects of classes that the detector does not have, crowd regions and absent parts are left out. ``flip`` and small
    changes of brightness and contrast vary the images; ``masks`` are taught where the data has them and the detector
    learns them.
    """

    def __init__(
        self,
        dataset: Dataset,
        names: Sequence[str],
        *,
        flip: bool = True,
        masks: bool = False,
    ) -> None:
        if not len(dataset):
            raise BadData(f"{dataset.spec} has no images to train on.")
        self.dataset, self.names, self.spec = dataset, tuple(names), dataset.spec
        self.flip, self.masks = flip, masks
        self._label = Joined.of(self.names, dataset.names, "the detector", dataset.spec).to_detector
        self.limited_to, self.part = dataset.limited_to, dataset.part

    @property
    def fingerprint(self) -> str:
        """A hash of the data, of which part of it is used, and of how."""
        return digest(self.dataset.fingerprint, self.limited_to, self.part, self.names, self.flip, self.masks)

    def __len__(self) -> int:
        return len(self.dataset)

    def batch(self, step: int, size: int, seed: int) -> Batch:
        """Batch ``step``, see ``Batches``."""
        return varied(self.read, places(len(self), step, size, seed), (seed, step, 1), self.flip)

    def read(self, index: int) -> tuple[Pixels, Truth]:
        """Image ``index`` as it is, and what the detector shall find in it."""
        sample = self.dataset[index]
        truth = sample.truth
        labels = self._label[truth.labels] if len(truth) else truth.labels
        keep = truth.present & ~np.asarray(truth.crowd) & (labels >= 0)
        chosen = truth[keep]
        known = self.masks and chosen.masks is not None and all(map(chosen.masks.has, range(len(chosen))))
        return sample.image, replace(chosen, labels=labels[keep], masks=chosen.masks if known else None)


class Replayed:
    """Every batch of ``batches``, ``replays`` times in a row (the same objects): step ``s`` brings batch ``s //
    replays``. For a ``Change`` that learns about a batch while it is learnt from."""

    def __init__(self, batches: Batches, replays: int) -> None:
        if replays < 1:
            raise BadSpec(f"replays should be at least 1. Got {replays}.")
        self.batches, self.replays = batches, replays
        self.names, self.spec = batches.names, batches.spec
        self.limited_to, self.part = (getattr(batches, name, None) for name in ("limited_to", "part"))
        self._asked: tuple[int, int, int] | None = None
        self._last: Batch = ([], [])

    @property
    def fingerprint(self) -> str:
        """A hash of the batches and of how often each comes."""
        return digest(self.batches.fingerprint, "replayed", self.replays)

    def __len__(self) -> int:
        return len(self.batches)

    def batch(self, step: int, size: int, seed: int) -> Batch:
        """Batch ``step // replays``, see ``Batches``."""
        asked = (step // self.replays, size, seed)
        if asked != self._asked:
            self._asked, self._last = asked, self.batches.batch(*asked)
        return self._last


def places(count: int, step: int, size: int, seed: int) -> Ints:
    """Which of ``count`` images are in batch ``step``: every epoch is a new order of all of them. Those that do not
    fill a batch wait for a later epoch; fewer than a batch takes are repeated."""
    epoch, place = divmod(step, max(1, count // size))
    order = np.random.default_rng((seed, epoch)).permutation(count)
    return np.resize(order, max(count, size))[place * size : (place + 1) * size]


def varied(
    read: Callable[[int], tuple[Pixels, Truth]], indices: Ints, seed: tuple[int, ...], flip: bool
) -> tuple[list[Floats], list[Truth]]:
    """The images at ``indices``, their brightness, contrast and (with ``flip``) left and right varied."""
    dice = np.random.default_rng(seed)
    images, truths = [], []
    for index in indices:
        pixels, truth = read(int(index))
        image = pixels.astype(np.float32)
        if flip and dice.random() < 0.5:
            image, truth = image[:, ::-1], _mirrored(truth, image.shape[1])
        gain, offset = dice.uniform(0.85, 1.15), dice.uniform(-15, 15)
        images.append(np.clip(image * np.float32(gain) + np.float32(offset), 0, 255))
        truths.append(truth)
    return images, truths


def _mirrored(truth: Truth, width: int) -> Truth:
    x0, y0, x1, y1 = truth.boxes.T
    masks = None
    if truth.masks is not None:
        held = truth.masks
        promises = [partial(_mirrored_mask, held, i) for i in range(len(held))]
        masks = Masks(promises, held.height, held.width)
    return replace(truth, boxes=np.stack([width - x1, y0, width - x0, y1], axis=1), masks=masks)


def _mirrored_mask(masks: Masks, index: int) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
    mirrored: np.ndarray[tuple[int, int], np.dtype[np.bool_]] = masks[index][:, ::-1]
    return mirrored
