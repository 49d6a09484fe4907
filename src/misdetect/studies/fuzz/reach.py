"""What may be inserted into a background, and beside what: the paper's rule, widened step by step.

Reach 0 is the paper's: for each label that is detected, the most similar object of that label in the pool, at the mean
size of these detections, in the ring around one of them. Reach 1 adds other sizes and the next most similar objects,
reach 2 objects of labels that occur together with those in the data, reach 3 wider rings around any object. A wider
reach is only tried where the ones before it found no place, except by the adaptive strategy, which chooses among all.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, permutations
from typing import Any

import numpy as np

from misdetect.compose.paste import drawn_once
from misdetect.compose.placement import anywhere, first_free, ring
from misdetect.data.dataset import Dataset, Sample
from misdetect.nouns.boxes import Floats, area
from misdetect.nouns.detections import Detections
from misdetect.pools.pool import Pool
from misdetect.pools.similarity import Similarity
from misdetect.studies.fuzz.rows import Classes, Insertion

SIZES = (0.7, 0.5, 1.4, 1.8)
"""Reach 1: shares of the mean width and height."""
VARIETY = 3
"""Reach 1: how many objects of a label are offered, the most similar first."""
COMPANIONS = 3
"""Reach 2: how many labels that are not in the image are offered."""
WIDE = 3.0
"""Reach 3: how many times wider the ring is."""
_LEAST_SIDE = 8
_LOOKED_AT = 500
"""Images whose annotations say which labels occur together."""


@dataclass(frozen=True)
class Offer:
    """Object ``cutout`` of the pool at ``width`` × ``height`` pixels, allowed from ``reach`` on; ``label`` is the class
    beside which it may lie (``None``: one that the image does not have, which may lie beside all)."""

    cutout: int
    width: int
    height: int
    reach: int
    label: str | None

    @property
    def size(self) -> tuple[int, int]:
        """Width and height."""
        return self.width, self.height


@dataclass(frozen=True, eq=False)
class Background:
    """An image that objects are inserted into, as planning sees it: image index, size in pixels, everything detected on
    it, the class names of that (``names``), which of it is above the threshold ``score`` (``firm`` ``[M, 4]``, the
    obstacles, with their ``labels`` and what the annotations say of them: ``objects`` and ``right``), and the offers.
    ``within``: the part (x0, y0, x1, y1 in pixels) that the adaptive strategy has to keep to, where it has to."""

    image: int
    width: int
    height: int
    score: float
    before: Detections
    names: tuple[str, ...]
    firm: Floats
    labels: tuple[str, ...]
    objects: tuple[int | None, ...]
    right: tuple[bool | None, ...]
    offers: tuple[Offer, ...]
    within: tuple[int, int, int, int] | None = None

    @classmethod
    def of_row(cls, row: Mapping[str, Any], score: float, classes: Classes) -> "Background":
        """From a background's row."""
        before = classes.detections(row["detections"])
        firm = [record for record in row["detections"] if record["score"] >= score]
        return cls(
            row["number"],
            row["width"],
            row["height"],
            score,
            before,
            tuple(record["label"] for record in row["detections"]),
            before.above(score).boxes,
            tuple(record["label"] for record in firm),
            tuple(record["object"] for record in firm),
            tuple(record["right"] for record in firm),
            tuple(Offer(**offer) for offer in row["offers"]),
        )

    def place(self, offer: Offer, beside: int | None, corners: Any) -> Insertion | None:
        """``offer`` at the first of ``corners`` where it may lie, ``beside`` that one of ``firm``."""
        at = first_free(corners, offer.size, self.firm, self.width, self.height)
        if at is None:
            return None
        thing = None if beside is None else int(np.flatnonzero(self.before.scores >= self.score)[beside])
        return Insertion(self.image, offer.cutout, at, offer.size, thing, offer.reach)


def companions(data: Dataset) -> dict[str, list[str]]:
    """For each label of ``data`` the others that occur in the same images, most often first."""
    together: dict[str, Counter[str]] = {}
    for sample in islice(data, _LOOKED_AT):
        present = sorted({data.names[int(label)] for label in sample.truth.labels})
        for one, other in permutations(present, 2):
            together.setdefault(one, Counter())[other] += 1
    return {one: sorted(found, key=lambda name: (-found[name], name)) for one, found in together.items()}


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
            found += _sizes(pool, chosen, boxes, min(rank, 1), names[label], (1.0,))
            found += _sizes(pool, chosen, boxes, 1, names[label], SIZES)
    if reach >= 2:
        for name in _absent_companions(firm, names, pool, together):
            for chosen in similarity.ranked(name, image, firm.boxes, exclude=sample)[:1]:
                found += _sizes(pool, chosen, firm.boxes, 2, None, (1.0, min(SIZES)))
    fitting = [offer for offer in found if offer.width <= sample.width and offer.height <= sample.height]
    return [offer for offer in fitting if offer.reach <= reach]


def _sizes(
    pool: Pool, chosen: int, boxes: Floats, reach: int, label: str | None, factors: Sequence[float]
) -> Iterator[Offer]:
    """Object ``chosen`` with the mean area of ``boxes`` times each factor squared, its own proportions kept."""
    width, height = pool[chosen].size
    scale = float(np.sqrt(area(boxes).mean() / (width * height)))
    for factor in factors:
        sides = [max(1, round(factor * scale * side)) for side in (width, height)]
        if min(sides) >= _LEAST_SIDE:
            yield Offer(chosen, sides[0], sides[1], reach, label)


def _absent_companions(
    firm: Detections, names: Sequence[str], pool: Pool, together: Mapping[str, Sequence[str]]
) -> list[str]:
    present = [names[label] for label in sorted(set(firm.labels.tolist()))]
    ranked = dict.fromkeys(name for one in present for name in together.get(one, ()) if name not in present)
    return [name for name in ranked if pool.of(name)][:COMPANIONS]


def random_insertion(background: Background, reach: int, generator: np.random.Generator) -> Insertion | None:
    """An object of the label of a random detection anywhere in the background; ``None`` where no place is found."""
    label = background.labels[int(generator.integers(len(background.firm)))]
    for wide in range(reach + 1):
        for offer in _shuffled(_allowed(background, wide, label), generator):
            corners = anywhere(offer.size, background.width, background.height, generator)
            if (placed := background.place(offer, None, corners)) is not None:
                return placed
    return None


def guided_insertion(background: Background, reach: int, generator: np.random.Generator) -> Insertion | None:
    """An object in the ring around a random detection of its own label; ``None`` where no place is found."""
    beside = int(generator.integers(len(background.firm)))
    for wide in range(min(reach, 2) + 1):
        for offer in _shuffled(_allowed(background, wide, background.labels[beside]), generator):
            corners = ring(background.firm[beside], offer.size, generator)
            if (placed := background.place(offer, beside, corners)) is not None:
                return placed
    if reach >= 3:
        for offer in _shuffled([offer for offer in background.offers if offer.reach <= 2], generator):
            for other in generator.permutation(len(background.firm)).tolist():
                corners = ring(background.firm[other], offer.size, generator, wide=WIDE)
                if (placed := background.place(offer, other, corners)) is not None:
                    return replace(placed, reach=3)
    return None


def _allowed(background: Background, reach: int, label: str) -> list[Offer]:
    return [offer for offer in background.offers if offer.reach == reach and offer.label in (label, None)]


def _shuffled(found: list[Offer], generator: np.random.Generator) -> list[Offer]:
    return [found[i] for i in generator.permutation(len(found))]
