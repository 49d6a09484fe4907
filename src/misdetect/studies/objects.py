"""Annotated objects that several runs judged: which are the same ones, what became of them in each run, and how their
shares differ when images are drawn again.

Runs are compared like with like (*paired*) where the same objects were judged by the same rules.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from misdetect.metrics.beta import binomial_below
from misdetect.metrics.bootstrap import resamples, with_measured
from misdetect.metrics.slices import per_image
from misdetect.nouns.boxes import Floats, Ints, boxes_of
from misdetect.studies.contract import Document

REPEATS = 1000
_SAME = 0.01
"""Pixels by which the same object's box may differ: annotations are rounded on their way through formats."""
Key = tuple[str, int]


@dataclass(frozen=True, eq=False)
class Judged:
    """The objects of one run: ``keys`` (image, id), ``boxes`` ``[N, 4]``, what became of each (``fate`` ``[N]``), the
    ``rules`` that decide it, and the run's ``document``."""

    keys: list[Key]
    boxes: Floats
    fate: NDArray[np.object_]
    rules: Mapping[str, Any]
    document: Document

    @classmethod
    def of(
        cls, rows: Sequence[Mapping[str, Any]], fate: Sequence[str], rules: Mapping[str, Any], document: Document
    ) -> "Judged":
        """Of ``rows`` that have an image, an id and a box."""
        keys = [(row["image"], row["id"]) for row in rows]
        return cls(keys, boxes_of(rows), np.array(fate, dtype=object), rules, document)

    def shared_by(self, fates: Sequence[str]) -> Floats:
        """``[N, K]`` of 0 and 1: which of ``fates`` each object has."""
        return np.asarray(self.fate[:, None] == np.array(fates, dtype=object)[None, :], dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Common:
    """The objects that two runs have in common, as rows of each, and ``why_not`` where they cannot be taken for the
    same ones."""

    first: Ints
    second: Ints
    why_not: str | None

    @classmethod
    def of(cls, a: Judged, b: Judged) -> "Common":
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

    @property
    def same(self) -> bool:
        """Whether they can be taken for the same ones."""
        return self.why_not is None


Commons = Mapping[tuple[str, str], Common]
"""By the names of two runs."""


def in_common(runs: Mapping[str, Judged]) -> Commons:
    """What every two of ``runs`` have in common."""
    return {(a, b): Common.of(runs[a], runs[b]) for a, b in combinations(runs, 2)}


def why_not_paired(runs: Mapping[str, Judged], commons: Commons) -> list[str]:
    """Why a difference to the first of ``runs`` is not only the detector's: other objects, other rules."""
    found, name = [], next(iter(runs))
    for (a, b), common in commons.items():
        if a != name:
            continue
        if not common.same:
            found.append(f"{a} and {b} are not over the same objects: {common.why_not}")
        if rules := [key for key, value in runs[a].rules.items() if value != runs[b].rules[key]]:
            found.append(f"{a} and {b} judge by different rules: {', '.join(rules)}")
    return found


def drawn_again(
    a: Judged, b: Judged, common: Common, columns: Callable[[Judged], Floats], seed: int
) -> tuple[Floats, Floats] | None:
    """Σ ``columns`` ``[N, K]`` over the objects of each run: ``[1 + REPEATS, K]``, as measured and then of images drawn
    again. Over the objects that both have, and the same images for both, where they are the same; else each run's own,
    and differences are less certain. ``None`` where a run has none."""
    rows = (common.first, common.second) if common.same else (np.arange(len(a.keys)), np.arange(len(b.keys)))
    if not len(rows[0]) or not len(rows[1]):
        return None

    def sums(run: Judged, chosen: Ints, seed: int) -> Floats:
        place: dict[str, int] = {}
        image = np.array([place.setdefault(run.keys[i][0], len(place)) for i in chosen.tolist()], dtype=np.int64)
        return with_measured(resamples(len(place), REPEATS, seed)) @ per_image(columns(run)[chosen], image, len(place))

    return sums(a, rows[0], seed), sums(b, rows[1], seed if common.same else seed + 1)


def mcnemar(only_first: int, only_second: int) -> float:
    """McNemar's exact test of two counts that should be alike, for objects that are independent."""
    count = only_first + only_second
    return min(1.0, 2 * binomial_below(min(only_first, only_second), count)) if count else 1.0
