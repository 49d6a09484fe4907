"""``Indices``: which cases, as ranges: ten million of them are a few numbers where they are finished in order.

It is a set of whole numbers and can be compared with any other; it never changes. Nothing here knows what a case is.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Set
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


class Indices(Set[int]):
    """Whole numbers >= 0, held as ``bounds``: ``[n, 2]`` first ones and ends (exclusive) of ranges that are in order
    and do not touch each other."""

    def __init__(self, numbers: "Iterable[int] | Ints" = ()) -> None:
        if isinstance(numbers, Indices):
            self.bounds: Ints = numbers.bounds
            return
        held = np.asarray(numbers if isinstance(numbers, np.ndarray) else list(numbers), np.int64)
        self.bounds = _joined(np.stack([held, held + 1], axis=1).reshape(-1, 2))

    @classmethod
    def below(cls, end: int) -> "Indices":
        """0 to ``end`` - 1."""
        return cls._of(np.array([[0, end]] if end > 0 else [], np.int64).reshape(-1, 2))

    @classmethod
    def union(cls, sets: "Iterable[Indices]") -> "Indices":
        """All that are in one of ``sets``."""
        return cls._of(_joined(np.concatenate([np.empty((0, 2), np.int64), *(each.bounds for each in sets)])))

    @classmethod
    def read(cls, written: list[Any]) -> "Indices":
        """What ``written`` said; a ``ValueError`` where that is no list of different whole numbers >= 0 and of pairs of
        them."""
        pairs = [each for each in written if type(each) is list]
        alone = [each for each in written if type(each) is not list] if pairs else written
        if not set(map(type, chain(alone, *pairs))) <= {int} or not all(len(pair) == 2 for pair in pairs):
            raise ValueError("no list of whole numbers and pairs of them")
        try:
            single, ranges = np.array(alone, np.int64), np.array(pairs, np.int64).reshape(-1, 2)
        except OverflowError as error:
            raise ValueError(str(error)) from None
        bounds = np.concatenate([np.stack([single, single], axis=1), ranges]) + np.array([0, 1])
        if (bounds < 0).any() or (bounds[:, 1] <= bounds[:, 0]).any():
            raise ValueError("no range of cases")
        found = cls._of(_joined(bounds))
        if len(found) != int((bounds[:, 1] - bounds[:, 0]).sum()):
            raise ValueError("a case is listed twice")
        return found

    def written(self) -> list[int | list[int]]:
        """For JSON: numbers that stand alone, and ``[first, last]`` of others."""
        return [first if end == first + 1 else [first, end - 1] for first, end in self.bounds.tolist()]

    @classmethod
    def _of(cls, bounds: Ints) -> "Indices":
        made = cls.__new__(cls)
        made.bounds = bounds
        return made

    @cached_property
    def _ends(self) -> "memoryview[Any]":
        return self.bounds.ravel().data

    def __contains__(self, number: object) -> bool:
        return isinstance(number, int) and bisect_right(self._ends, number) % 2 == 1

    def __iter__(self) -> Iterator[int]:
        return chain.from_iterable(range(first, end) for first, end in self.bounds.tolist())

    def __len__(self) -> int:
        return int((self.bounds[:, 1] - self.bounds[:, 0]).sum())

    def __repr__(self) -> str:
        return f"Indices({self.told()})"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Indices):
            return np.array_equal(self.bounds, other.bounds)
        return super().__eq__(other)

    __hash__ = None  # type: ignore[assignment]

    def __or__(self, other: Iterable[Any]) -> "Indices":
        return Indices.union((self, Indices(other)))

    def __and__(self, other: Iterable[Any]) -> "Indices":
        return self._both(Indices(other), inside=True)

    def __sub__(self, other: Iterable[Any]) -> "Indices":
        return self._both(Indices(other), inside=False)

    def _both(self, other: "Indices", inside: bool) -> "Indices":
        """What of this one is ``inside`` of ``other``, or outside of it."""
        at = np.concatenate([self.bounds.ravel(), other.bounds.ravel()])
        steps = np.zeros((len(at), 2), np.int64)
        for column, first, held in ((0, 0, self), (1, self.bounds.size, other)):
            steps[first : first + held.bounds.size, column] = np.tile([1, -1], len(held.bounds))
        order = np.argsort(at, kind="stable")
        at, (mine, theirs) = at[order], np.cumsum(steps[order], axis=0).T
        chosen = (mine > 0) & ((theirs > 0) == inside)
        bounds = np.stack([at[:-1], at[1:]], axis=1)[chosen[:-1]]
        return Indices._of(_joined(bounds[bounds[:, 0] < bounds[:, 1]]))

    def told(self, most: int = 8) -> str:
        """For a message: "3, 10-19, …"."""
        some = [str(first) if end == first + 1 else f"{first}-{end - 1}" for first, end in self.bounds[:most].tolist()]
        return ", ".join(some + ["…"] * (len(self.bounds) > most))


def _joined(bounds: Ints) -> Ints:
    """Ranges in order, those joined that touch or overlap."""
    if len(bounds) < 2:
        return bounds
    bounds = bounds[np.argsort(bounds[:, 0], kind="stable")]
    ends = np.maximum.accumulate(bounds[:, 1])
    new = np.concatenate([[True], bounds[1:, 0] > ends[:-1]])
    last = np.concatenate([np.flatnonzero(new)[1:] - 1, [len(bounds) - 1]])
    return np.stack([bounds[new, 0], ends[last]], axis=1)
