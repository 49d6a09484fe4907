"""Strata of a grid: which positions stand for which, and how well the asked ones tell the rates of all.

Positions are grouped by blocks of the grid and by how much of the originals T covers, which is known without asking.
Within a stratum, positions are asked in random order; each asked one stands for ``N_h / n_h``. How many are asked is
decided by the answers of the *neighbours* alone: were it decided by a stratum's own, those where a rare change happened
to be missed would never be corrected, and the rates would come out too low.
"""

from dataclasses import dataclass, field

import numpy as np

from misdetect.nouns.boxes import Bools, Floats, Ints
from misdetect.studies.scan.table import kept_rows

_NEIGHBOUR = 0.5
"""Weight of a neighbouring block's answers in judging a stratum's variance."""


@dataclass(eq=False)
class Strata:
    """``places`` ``[P, 2]`` grid positions (x, y), ``coverage`` ``[P]`` the maximal coverage C_T at each, ``step`` of
    the grid, ``block`` its side in steps. ``values`` ``[P, 2, τ]``: affected (class-aware, agnostic) where asked."""

    places: Ints
    coverage: Floats
    step: int
    block: int
    taus: int
    of: Ints = field(init=False)
    size: Ints = field(init=False)
    asked: Bools = field(init=False)
    values: Bools = field(init=False)

    def __post_init__(self) -> None:
        blocks = self.places // (self.step * self.block)
        kind = np.where(self.coverage == 0, 0, np.where(self.coverage <= 0.2, 1, 2))
        keys, self.of = np.unique(np.column_stack([kind, blocks[:, ::-1]]), axis=0, return_inverse=True)
        self.of = self.of.reshape(-1)
        self.size = np.bincount(self.of, minlength=len(keys))
        self.asked = np.zeros(len(self.places), np.bool_)
        self.values = np.zeros((len(self.places), 2, self.taus), np.bool_)
        near = np.abs(keys[:, None, 1:] - keys[None, :, 1:]).max(axis=2) <= 1
        near &= keys[:, None, 0] == keys[None, :, 0]
        self._around = (near & ~np.eye(len(keys), dtype=np.bool_)) * _NEIGHBOUR
        self._kind = keys[:, 0]
        # which strata each of Table I's rows counts, by one coverage that is typical of the kind
        self._rows = kept_rows(np.array([0.0, 0.1, 1.0])[self._kind])

    def record(self, places: Ints, values: Bools) -> None:
        """Take down the answers ``[M, 2, τ]`` at the indices ``places``."""
        self.asked[places] = True
        self.values[places] = values

    @property
    def counts(self) -> Ints:
        """How many of each stratum were asked."""
        return np.bincount(self.of[self.asked], minlength=len(self.size))

    def weights(self) -> Floats:
        """For each asked position, in the order of the grid, how many it stands for."""
        return np.asarray((self.size / np.maximum(self.counts, 1))[self.of[self.asked]])

    def variances(self, own: float) -> Floats:
        """Judged variance ``[H, 2, τ]`` of one position's answer within each stratum, from its neighbours' answers and,
        with weight ``own``, its own. It is large where S changes and small, but not zero, where it is settled."""
        hits = np.zeros((len(self.size), *self.values.shape[1:]))
        np.add.at(hits, self.of[self.asked], self.values[self.asked])
        counts = self.counts.astype(np.float64)
        mean = np.zeros_like(hits)
        for kind in np.unique(self._kind):
            rows = self._kind == kind
            # half a hit and half a miss more than seen: what was never seen may still be there
            mean[rows] = (hits[rows].sum(axis=0) + 0.5) / (counts[rows].sum() + 1.0)
        pooled = np.tensordot(self._around, hits, axes=1) + own * hits
        share = (pooled + mean) / ((self._around @ counts + own * counts)[:, None, None] + 1.0)
        return np.asarray(share * (1 - share))

    def errors(self) -> tuple[Floats, Floats]:
        """Variance ``[4, τ]`` of the estimated number of affected positions in each of Table I's rows, and the number
        of positions ``[4]`` in each."""
        counts = np.maximum(self.counts, 1)
        # textbook: N² (1 − n/N) S²/n with S² = P (1 − P) N / (N − 1); a stratum of one is known once it is asked
        factor = self.size * (self.size - np.minimum(counts, self.size)) / counts
        factor = factor * self.size / np.maximum(self.size - 1, 1)
        each = factor[:, None, None] * self.variances(own=1.0)
        by_row = np.stack([each[:, 0], each[:, 1], each[:, 0], each[:, 0]])
        return (by_row * self._rows[:, :, None]).sum(axis=1), (self._rows * self.size).sum(axis=1)

    def most_telling(self, row: int, tau: int, count: int) -> Ints:
        """``count`` strata whose next answer would lower the error of one rate most; those exhausted never."""
        counts = self.counts
        variance = self.variances(own=0.0)[:, int(row == 1), tau] * self._rows[row]
        gain = self.size**2 * variance * (1 / np.maximum(counts, 1) - 1 / (counts + 1))
        gain[counts >= self.size] = 0
        best = np.argsort(-gain, kind="stable")[:count]
        return np.asarray(best[gain[best] > 0])
