"""What may be inserted into a background, and beside what: the paper's rule, widened step by step.

Level 0 is the paper's: for each label that is detected, the most similar object of that label in the pool, at the mean
size of these detections, in the ring around one of them. Level 1 adds other sizes and the next most similar objects,
level 2 objects of labels that occur together with those in the data, level 3 wider rings around any object. A higher
level is only tried where the ones before it found no place, except by the adaptive strategy, which chooses among all.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from itertools import islice, permutations
from typing import Any

import numpy as np

from misdetect.boxes import Floats, area
from misdetect.compose.paste import drawn_once
from misdetect.compose.placement import anywhere, first_free, ring
from misdetect.data.dataset import Dataset, Sample
from misdetect.detections import Detections
from misdetect.pool.pool import Pool
from misdetect.pool.similarity import Similarity
from misdetect.studies.fuzz.rows import Insertion, detections_of

SIZES = (0.7, 0.5, 1.4, 1.8)
"""Level 1: shares of the mean width and height."""
VARIETY = 3
"""Level 1: how many objects of a label are offered, the most similar first."""
COMPANIONS = 3
"""Level 2: how many labels that are not in the image are offered."""
WIDE = 3.0
"""Level 3: how many times wider the ring is."""
_LEAST_SIDE = 8
_LOOKED_AT = 500
"""Images whose annotations say which labels occur together."""


@dataclass(frozen=True)
class Offer:
    """Object ``cutout`` of the pool at ``width`` × ``height`` pixels, allowed from ``level`` of reach on; ``label`` is
    its class for the detector (-1: one that the image does not have)."""

    cutout: int
    width: int
    height: int
    level: int
    label: int

    @property
    def size(self) -> tuple[int, int]:
        """Width and height."""
        return self.width, self.height

    def as_dict(self) -> dict[str, int]:
        """For a background's row."""
        return dict(zip(("cutout", "width", "height", "level", "label"), astuple(self), strict=True))


@dataclass(frozen=True, eq=False)
class Scene:
    """A background as planning sees it: image index, size in pixels, everything detected on it, which of that is above
    the threshold ``score`` (``firm`` ``[M, 4]``, the obstacles, with their ``labels``), and the offers."""

    image: int
    width: int
    height: int
    score: float
    before: Detections
    firm: Floats
    labels: tuple[int, ...]
    offers: tuple[Offer, ...]

    @classmethod
    def of_row(cls, row: Mapping[str, Any], score: float) -> "Scene":
        """From a background's row."""
        before = detections_of(row["detections"])
        firm = before.above(score)
        offers = tuple(Offer(**offer) for offer in row["offers"])
        size = row["width"], row["height"]
        return cls(row["image"], *size, score, before, firm.boxes, tuple(firm.labels.tolist()), offers)

    def place(self, offer: Offer, target: int, corners: Any) -> Insertion | None:
        """``offer`` at the first of ``corners`` where it may lie."""
        at = first_free(corners, offer.size, self.firm, self.width, self.height)
        return None if at is None else Insertion(self.image, offer.cutout, at, offer.size, target, offer.level)


def companions(data: Dataset) -> dict[str, list[str]]:
    """For each label of ``data`` the others that occur in the same images, most often first."""
    together: dict[str, Counter[str]] = {}
    for sample in islice(data, _LOOKED_AT):
        present = sorted({data.names[int(label)] for label in sample.truth.labels})
        for one, other in permutations(present, 2):
            together.setdefault(one, Counter())[other] += 1
    return {one: [name for name, _ in sorted(found.items(), key=_often)] for one, found in together.items()}


def _often(item: tuple[str, int]) -> tuple[int, str]:
    return -item[1], item[0]


def offers(
    sample: Sample,
    firm: Detections,
    names: Sequence[str],
    pool: Pool,
    similarity: Similarity,
    reach: int,
    together: Mapping[str, Sequence[str]],
) -> list[Offer]:
    """What the pool has for ``sample``, on which ``firm`` was detected by a detector with class ``names``."""
    found: list[Offer] = []
    image = drawn_once(sample)  # what is inserted there will need it too
    for label in sorted(set(firm.labels.tolist())):
        boxes = firm.boxes[firm.labels == label]
        for rank, chosen in enumerate(similarity.ranked(names[label], image, boxes, exclude=sample)[:VARIETY]):
            found += _sizes(pool, chosen, boxes, min(rank, 1), label, (1.0,))
            found += _sizes(pool, chosen, boxes, 1, label, SIZES)
    if reach >= 2:
        for name in _absent_companions(firm, names, pool, together):
            for chosen in similarity.ranked(name, image, firm.boxes, exclude=sample)[:1]:
                found += _sizes(pool, chosen, firm.boxes, 2, -1, (1.0, min(SIZES)))
    fitting = [offer for offer in found if offer.width <= sample.width and offer.height <= sample.height]
    return [offer for offer in fitting if offer.level <= reach]


def _sizes(pool: Pool, chosen: int, boxes: Floats, level: int, label: int, factors: Sequence[float]) -> Iterator[Offer]:
    """Object ``chosen`` with the mean area of ``boxes`` times each factor squared, its own proportions kept."""
    width, height = pool[chosen].size
    scale = float(np.sqrt(area(boxes).mean() / (width * height)))
    for factor in factors:
        sides = [max(1, round(factor * scale * side)) for side in (width, height)]
        if min(sides) >= _LEAST_SIDE:
            yield Offer(chosen, sides[0], sides[1], level, label)


def _absent_companions(
    firm: Detections, names: Sequence[str], pool: Pool, together: Mapping[str, Sequence[str]]
) -> list[str]:
    present = [names[label] for label in sorted(set(firm.labels.tolist()))]
    ranked = dict.fromkeys(name for one in present for name in together.get(one, ()) if name not in present)
    return [name for name in ranked if pool.of(name)][:COMPANIONS]


def random_insertion(scene: Scene, reach: int, generator: np.random.Generator) -> Insertion | None:
    """An object of the label of a random detection anywhere in the background; ``None`` where no place is found."""
    target = int(generator.integers(len(scene.firm)))
    for level in range(reach + 1):
        for offer in _shuffled(_allowed(scene, level, scene.labels[target]), generator):
            corners = anywhere(offer.size, scene.width, scene.height, generator)
            if (placed := scene.place(offer, -1, corners)) is not None:
                return placed
    return None


def guided_insertion(scene: Scene, reach: int, generator: np.random.Generator) -> Insertion | None:
    """An object in the ring around a random detection of its own label; ``None`` where no place is found."""
    target = int(generator.integers(len(scene.firm)))
    for level in range(min(reach, 2) + 1):
        for offer in _shuffled(_allowed(scene, level, scene.labels[target]), generator):
            corners = ring(scene.firm[target], offer.size, generator)
            if (placed := scene.place(offer, target, corners)) is not None:
                return placed
    if reach >= 3:
        for offer in _shuffled([offer for offer in scene.offers if offer.level <= 2], generator):
            for other in generator.permutation(len(scene.firm)).tolist():
                corners = ring(scene.firm[other], offer.size, generator, wide=WIDE)
                if (placed := scene.place(offer, other, corners)) is not None:
                    return Insertion(scene.image, placed.cutout, placed.at, placed.size, other, 3)
    return None


def _allowed(scene: Scene, level: int, label: int) -> list[Offer]:
    return [offer for offer in scene.offers if offer.level == level and offer.label in (label, -1)]


def _shuffled(found: list[Offer], generator: np.random.Generator) -> list[Offer]:
    return [found[i] for i in generator.permutation(len(found))]
