"""``Dice``: the one source of chance in a scene.

It hands out numbers from a block drawn once from a seeded PCG64 stream, because a Python float from an array is ten
times cheaper than a call of a NumPy generator. Each object owns dice of its own, so leaving one object out of a scene
changes nothing about the others.
"""

from array import array
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

T = TypeVar("T")


class Dice:
    """A stream of uniform numbers in [0, 1), repeated after ``len(values)`` throws."""

    def __init__(self, values: "array[float]") -> None:
        self._values = values
        self._next = 0

    @classmethod
    def seeded(cls, *entropy: int, throws: int = 4096) -> "Dice":
        """Dice for one image; equal ``entropy`` (non-negative integers) gives equal throws on every machine."""
        stream = np.random.Generator(np.random.PCG64(np.random.SeedSequence(entropy)))
        return cls(array("d", stream.random(throws).tobytes()))

    def child(self, throws: int = 160) -> "Dice":
        """Dice of its own for one object, cut from this stream."""
        start = self._next
        self._next += throws
        if self._next > len(self._values):
            start, self._next = 0, throws
        return Dice(self._values[start : start + throws])

    def rewind(self) -> None:
        """Start over, so that an object can be drawn again exactly as before."""
        self._next = 0

    def unit(self) -> float:
        """Uniform in [0, 1)."""
        if self._next >= len(self._values):
            self._next = 0
        value = self._values[self._next]
        self._next += 1
        return value

    def between(self, low: float, high: float) -> float:
        """Uniform in [low, high)."""
        return low + (high - low) * self.unit()

    def whole(self, low: int, high: int) -> int:
        """Uniform integer from ``low`` to ``high``, both included."""
        return low + int(self.unit() * (high - low + 1))

    def chance(self, probability: float) -> bool:
        return self.unit() < probability

    def pick(self, options: Sequence[T]) -> T:
        return options[int(self.unit() * len(options))]

    def sign(self) -> float:
        return 1.0 if self.unit() < 0.5 else -1.0
