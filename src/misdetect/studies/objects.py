"""Annotated objects that two runs judged: which are the same ones, and whether one run is right more often."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from misdetect.nouns.boxes import Floats, Ints

REPEATS = 1000


_SAME = 0.01
"""Pixels by which the same object's box may differ: annotations are rounded on their way through formats."""


Key = tuple[str, int]


class Objects(Protocol):
    """The objects that a run judged: ``keys`` (image, id) and ``boxes`` ``[N, 4]``."""

    @property
    def keys(self) -> list[Key]: ...

    @property
    def boxes(self) -> Floats: ...


@dataclass(frozen=True, eq=False)
class Common:
    """The objects that two runs have in common, as rows of each, and ``why_not`` where they cannot be taken for the
    same ones."""

    first: Ints
    second: Ints
    why_not: str | None

    @classmethod
    def of(cls, a: "Objects", b: "Objects") -> "Common":
        place = {key: i for i, key in enumerate(b.keys)}
        both = [(i, place[key]) for i, key in enumerate(a.keys) if key in place]
        first, second = np.array(both, dtype=np.int64).reshape(-1, 2).T
        if not both:
            return cls(first, second, "they have no object in common")
        moved = np.abs(a.boxes[first] - b.boxes[second]).max(axis=1) > _SAME
        if moved.any():
            image, number = a.keys[int(first[moved.argmax()])]
            why = f"object {number} of image {image} lies elsewhere in the other: these are different annotations"
            return cls(first, second, why)
        return cls(first, second, None)


def mcnemar(only_first: int, only_second: int) -> float:
    """McNemar's exact test of two counts that should be alike, for objects that are independent."""
    from scipy.stats import binom  # takes longer to import than the comparison takes

    count = only_first + only_second
    return min(1.0, 2 * float(binom.cdf(min(only_first, only_second), count, 0.5))) if count else 1.0
