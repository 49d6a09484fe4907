"""A data set without files: any image of it is made on demand from (split, seed, index, size).

The splits have streams of their own, so no image of one is ever in another. A sample keeps its annotation and its
address, not its pixels; the last few images are remembered, so that reading truth and pixels draws a scene once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import cv2
import numpy as np
from hotcoco import mask as coco_mask
from numpy.typing import NDArray

from misdetect.data.dataset import Dataset, Sample
from misdetect.data.procedural.draw.dice import Dice
from misdetect.nouns.detections import Truth
from misdetect.nouns.masks import Masks, Segment
from misdetect.nouns.picture import Pixels, digest
from misdetect.nouns.spec import Spec
from misdetect.said.errors import BadSpec

SPLITS = {"train": (0, 20_000), "val": (1, 1_000), "test": (2, 1_000)}
"""Each split's stream and its usual number of images."""
_REMEMBERED = 48
_IDS = 100
"""Each image has this many object ids to itself."""
_SIZES = (32, 2048)
_MOST = 10**9


@dataclass(frozen=True)
class Made:
    """A finished image ``[size, size, 3]`` with its annotation."""

    image: Pixels
    truth: Truth


Make = Callable[[Dice, int, int], Made]
"""Makes an image from dice, its size, and the id of its first object."""


@dataclass(frozen=True)
class Kind:
    """One procedural data set: raise ``version`` whenever an image of it changes, for caches and stored results."""

    name: str
    version: int
    stream: int
    names: tuple[str, ...]
    make: Make
    size: int


@dataclass(frozen=True)
class Generator:
    """Makes the samples of one split, seed and size of a ``Kind``."""

    kind: Kind
    split: str
    seed: int
    size: int

    def made(self, index: int) -> Made:
        """Image ``index`` with its annotation, drawn now or remembered."""
        return remembered(self, index)

    def key(self, index: int) -> str:
        """Hash of the image's address, which decides its content."""
        return digest(self.kind.name, self.kind.version, self.split, self.seed, self.size, index)

    def sample(self, index: int) -> Sample:
        """Sample ``index``; nothing is drawn before its truth or pixels are asked for."""
        name = f"{self.kind.name}-{self.split}-{self.seed}-{index:06d}"
        return Sample(
            id=name,
            source=Drawn(self, index),
            truth=lambda: self.made(index).truth,
            width=self.size,
            height=self.size,
            image_id=index,
            file_name=f"{name}.png",
        )


@dataclass(frozen=True)
class Drawn:
    """The source of a procedural sample's pixels."""

    generator: Generator
    index: int

    def read(self) -> Pixels:
        return self.generator.made(self.index).image

    def key(self) -> str:
        return self.generator.key(self.index)

    def larger(self, factor: int) -> Sample:
        """The same scene, drawn with sides ``factor`` times as long."""
        own = self.generator
        return Generator(own.kind, own.split, own.seed, own.size * factor).sample(self.index)


@lru_cache(_REMEMBERED)
def remembered(generator: Generator, index: int) -> Made:
    """Image ``index`` of ``generator``, whoever asks: each study opens the data anew, and figures ask for it again."""
    kind = generator.kind
    dice = Dice.seeded(kind.stream, SPLITS[generator.split][0], generator.seed, index)
    made = kind.make(dice, generator.size, index * _IDS)
    made.image.flags.writeable = False
    return made


def load(kind: Kind, spec: Spec) -> Dataset:
    """The data set that ``NAME:SPLIT[,size=…][,count=…][,seed=…]`` names; nothing is drawn yet."""
    split = spec.target or "val"
    if split not in SPLITS:
        raise BadSpec(f"{spec.text!r}: {kind.name} has the splits {', '.join(SPLITS)}. Got {split!r}.")
    size, seed = spec.take("size", kind.size), spec.take("seed", 0)
    count = spec.take("count", SPLITS[split][1])
    spec.finish()
    if not _SIZES[0] <= size <= _SIZES[1]:
        raise BadSpec(f"{spec.text!r}: size={size} should be from {_SIZES[0]} to {_SIZES[1]} pixels.")
    if seed < 0 or not 1 <= count <= _MOST:
        wrong = f"seed={seed} should be 0 or more" if seed < 0 else f"count={count} should be from 1 to {_MOST}"
        raise BadSpec(f"{spec.text!r}: {wrong}.")
    generator = Generator(kind, split, seed, size)
    fingerprint = digest(kind.name, kind.version, split, seed, size, count)
    return Dataset(spec.text, kind.names, count, generator.sample, fingerprint=fingerprint)


def regions(
    owners: NDArray[np.uint8], present: Sequence[int]
) -> tuple[list[tuple[int, int, int, int]], list[Segment], list[int]]:
    """Tight box (x0, y0, x1, y1), run-length mask and pixels of each owner in ``present``."""
    boxes: list[tuple[int, int, int, int]] = []
    segments: list[Segment] = []
    areas: list[int] = []
    columns = cv2.transpose(owners)  # run lengths go down the columns
    for owner in present:
        mask = (columns == owner).view(np.uint8)
        y, x, h, w = cv2.boundingRect(mask)
        boxes.append((x, y, x + w, y + h))
        segments.append(dict(coco_mask.encode(mask.T)))
        areas.append(int(np.count_nonzero(mask)))
    return boxes, segments, areas


def annotate(owners: NDArray[np.uint8], labels: Sequence[int], first: int) -> Truth:
    """The truth of a picture in which owner ``k + 1`` has the class ``labels[k]`` and the id ``first + k``.

    In pictures much smaller than usual an object may be left without a pixel; it is left out of the truth.
    """
    shown = np.flatnonzero(np.bincount(owners.ravel(), minlength=len(labels) + 1)[1:])
    boxes, segments, areas = regions(owners, (shown + 1).tolist())
    height, width = owners.shape
    return Truth(
        np.array(boxes, dtype=np.float64).reshape(-1, 4),
        np.array(labels, dtype=np.int64)[shown],
        shown + first,
        areas=np.array(areas, dtype=np.float64),
        masks=Masks(segments, height, width),
    )
