"""The scan with fewer questions: a coarse grid first, then where S changes, until the rates are known well enough.

One case is a whole pair, since what to ask next depends on all answers so far. It asks in rounds, one position per
stratum first, then where one more answer lowers the error of the worst-known rate of Table I most. It stops when its
part of every rate's variance is small enough, or nothing is left to ask. The null control is asked at the same
positions.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from misdetect.boxes import Floats, Ints, coverage
from misdetect.data.dataset import Dataset, Sample
from misdetect.detections import Detections
from misdetect.engine.requests import Case, Detect, Steps
from misdetect.engine.store import Run
from misdetect.errors import BadSpec, MisdetectError
from misdetect.studies.scan.pairs import Pair, grid
from misdetect.studies.scan.results import ROWS, TAUS, Policy, kept_rows
from misdetect.studies.scan.rows import BOX
from misdetect.studies.scan.strata import Strata
from misdetect.studies.scan.study import OBJECT, Scanning, ScanStudy, Scene

_AT_ONCE = 32
"""Pictures described at a time, so that memory does not grow with a round."""
_ROUND = 0.1
"""Questions of a round, as a share of those asked so far."""


@dataclass(frozen=True)
class Search:
    """``precision``: half the width, in points, that the interval of every rate over all pairs may have. ``block``:
    side in steps of the coarse grid. ``confidence`` of that interval. ``taus`` and ``policy`` say which rates."""

    precision: float = 2.5
    taus: tuple[float, ...] = TAUS
    policy: Policy = "body"
    block: int = 4
    confidence: float = 0.95

    def __post_init__(self) -> None:
        if not 0 < self.precision <= 100 or self.block < 1:
            raise BadSpec(f"precision lies in (0, 100] points. Got {self.precision}.")

    @property
    def z(self) -> float:
        """Standard errors in half an interval."""
        return NormalDist().inv_cdf((1 + self.confidence) / 2)

    def affected(self, rows: Sequence[dict[str, Any]]) -> Any:
        """``[M, 2, τ]``: whether each position is affected, class-aware and agnostic."""
        names = ("score", "agnostic") if self.policy == "body" else ("least", "least_agnostic")
        values = np.array([[row[name] for name in names] for row in rows], dtype=np.float64).reshape(-1, 2)
        return values[:, :, None] < np.array(self.taus)


class AdaptiveScan(ScanStudy):
    """``ScanStudy`` that asks only as much as ``search`` wants to know."""

    def __init__(
        self,
        data: str | Dataset,
        pairs: Sequence[Pair],
        names: Sequence[str],
        scanning: Scanning | None = None,
        limit: int | None = None,
        search: Search | None = None,
    ) -> None:
        super().__init__(data, pairs, names, scanning, limit)
        self.search = search or Search()
        self._frames: list[tuple[Sample, tuple[int, int]]] = []
        self._counts: dict[int, Floats] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_frames": [], "_counts": {}}

    def settings(self) -> dict[str, Any]:
        """What decides the rows."""
        return {**super().settings(), "adaptive": {**asdict(self.search), "taus": list(self.search.taus)}}

    def __len__(self) -> int:
        return len(self.sizes)

    def cases(self) -> Iterator[Case]:
        """One case per pair."""
        return (Case(number, f"{number}", number) for number in range(len(self.sizes)))

    def run(self, case: Case) -> Steps:
        """Ask in rounds until the rates are known, then ask the null control at the same positions."""
        scene = self.scene(case.content)
        before: Detections = yield Detect(scene.background)
        strata = self._strata(scene, before.above(self.scanning.rules.score).boxes)
        allowed = yield from self._allowance(scene.number, before)
        order = np.random.default_rng([self.scanning.seed, 4, scene.number]).permutation(len(scene.positions))
        queue = [[int(i) for i in order if strata.of[i] == h] for h in range(len(strata.size))]
        rows: dict[int, dict[str, Any]] = {}
        wanted: Ints = np.arange(len(strata.size))
        while wanted.size:
            asked = np.array([queue[h].pop(0) for h in wanted])
            found = yield from self.ask(scene, OBJECT, asked, before)
            rows.update(zip(asked.tolist(), found, strict=True))
            strata.record(asked, self.search.affected(found))
            wanted = _next(strata, allowed)
        places = np.flatnonzero(strata.asked)
        result = [rows[i] for i in places.tolist()]
        if self.scanning.trace:
            yield from self.trace_losses(scene, result)
        for condition in self.conditions[1:]:
            result += yield from self.ask(scene, condition, places, before)
        for row, weight in zip(result, np.tile(strata.weights(), len(self.conditions)).tolist(), strict=True):
            row["weight"] = weight
        return result

    def _strata(self, scene: Scene, originals: Floats) -> Strata:
        """The strata of a pair, given the boxes of D_∅."""
        covered = _covered(originals, scene.positions, scene.cutout.size)
        return Strata(scene.positions, covered, self.scanning.step, self.search.block, len(self.search.taus))

    def _allowance(self, number: int, before: Detections) -> Any:
        """The variance ``[4]`` that pair ``number`` may leave in the count of affected positions of each of Table I's
        rows: of what ``precision`` allows for all pairs, its share of the positions that the row counts.

        So the promise holds whatever the other pairs are like. What a row counts is known from the clean images alone;
        every case asks for its own and for those that no other has asked for yet.
        """
        if not self._frames:
            scenes = (self.scene(i) for i in range(len(self.pairs)))
            self._frames = [(scene.background, scene.cutout.size) for scene in scenes]
        self._count(number, before)
        for i, (background, _) in enumerate(self._frames):
            if i not in self._counts:
                with suppress(MisdetectError):  # the case of that pair says so
                    self._count(i, (yield Detect(background)))
        total = sum(self._counts[i] for i in sorted(self._counts))
        return (self.search.precision / 100 / self.search.z) ** 2 * total * self._counts[number]

    def _count(self, number: int, clean: Detections) -> None:
        """Take down how many positions of a pair each of Table I's rows counts: none without detections."""
        background, size = self._frames[number]
        originals = clean.above(self.scanning.rules.score).boxes
        places = grid(background.width, background.height, size, self.scanning.step)
        kept = kept_rows(_covered(originals, places, size)).sum(axis=1)
        self._counts[number] = kept.astype(np.float64) * bool(len(originals))

    def ask(self, scene: Scene, condition: str, places: Ints, before: Detections) -> Any:
        """Rows of the positions at indices ``places``."""
        rows: list[dict[str, Any]] = []
        for start in range(0, len(places), _AT_ONCE):
            some = scene.positions[places[start : start + _AT_ONCE]].tolist()
            after = yield [Detect(scene.picture(condition, x, y, self.scanning.seed)) for x, y in some]
            rows += self.rows(scene, condition, some, before, after)
        return rows

    def uncertainty(self, run: Run, average: str) -> dict[str, Any]:
        """How many positions were asked, and half the interval (points) within which a full scan's rates lie."""
        variances, wholes = [], []
        asked = 0
        for number in range(len(self.pairs)):
            rows = run.query(
                "SELECT x, y, score, agnostic, least, least_agnostic, objects FROM rows "
                "WHERE pair = ? AND condition = 'object' AND before > 0 ORDER BY y, x",
                [number],
            ).to_pylist()
            if not rows:
                continue
            scene = self.scene(number)
            boxes = np.array([[thing[name] for name in BOX] for thing in rows[0]["objects"]], dtype=np.float64)
            strata = self._strata(scene, boxes.reshape(-1, 4))
            where = {(x, y): i for i, (x, y) in enumerate(scene.positions.tolist())}
            strata.record(np.array([where[row["x"], row["y"]] for row in rows]), self.search.affected(rows))
            variance, whole = strata.errors()
            variances.append(variance)
            wholes.append(whole)
            asked += len(rows)
        return {"asked": asked, **self._half_widths(np.array(variances), np.array(wholes), average)}

    def _half_widths(self, variances: Floats, wholes: Floats, average: str) -> dict[str, Any]:
        if average == "images":
            each = variances / np.maximum(wholes, 1)[:, :, None] ** 2
            error = np.sqrt(each.sum(axis=0)) / np.maximum((wholes > 0).sum(axis=0), 1)[:, None]
        else:
            error = np.sqrt(variances.sum(axis=0)) / np.maximum(wholes.sum(axis=0), 1)[:, None]
        half = 100 * self.search.z * error
        return {
            "precision": self.search.precision,
            "confidence": self.search.confidence,
            "half_width": {
                name: {f"{tau:g}": round(float(half[r, t]), 2) for t, tau in enumerate(self.search.taus)}
                for r, name in enumerate(ROWS)
            },
        }


def _covered(originals: Floats, places: Ints, size: tuple[int, int]) -> Floats:
    """C_T ``[P]``: how much of any of ``originals`` an object of ``size`` (width, height) covers at each place."""
    boxes = np.column_stack([places, places + size]).astype(np.float64)
    return np.asarray(coverage(originals, boxes).max(axis=0, initial=0.0))


def _next(strata: Strata, allowed: Floats) -> Ints:
    """The strata to ask next, given the variance ``[4]`` allowed in each row: none if no rate has more."""
    variance, _ = strata.errors()
    excess = np.divide(variance, allowed[:, None], out=np.zeros_like(variance), where=allowed[:, None] > 0)
    row, tau = np.unravel_index(int(excess.argmax()), excess.shape)
    if excess[row, tau] <= 1:
        return np.zeros(0, dtype=np.int64)
    return strata.most_telling(int(row), int(tau), max(8, int(_ROUND * strata.asked.sum())))
