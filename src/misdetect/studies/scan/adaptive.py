"""The scan with fewer questions: a coarse grid first, then where S changes, until the rates are known well enough.

One case is a whole pair, since what to ask next depends on all answers so far. It asks in rounds, one position per
stratum first, then where one more answer lowers the error of the worst-known rate of Table I most. It stops when every
rate's interval is narrow enough, or nothing is left to ask. The null control is asked at the same positions.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from misdetect.boxes import Floats, Ints, coverage
from misdetect.data.dataset import Dataset
from misdetect.detections import Detections
from misdetect.engine.requests import Case, Detect, Steps
from misdetect.engine.store import Run
from misdetect.errors import BadSpec
from misdetect.studies.scan.pairs import Pair
from misdetect.studies.scan.results import ROWS, TAUS, Policy
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

    precision: float = 1.0
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
        strata = self.strata(scene, before.above(self.scanning.rules.score).boxes)
        order = np.random.default_rng([self.scanning.seed, 4, scene.number]).permutation(len(scene.positions))
        queue = [[int(i) for i in order if strata.of[i] == h] for h in range(len(strata.size))]
        rows: dict[int, dict[str, Any]] = {}
        wanted: Ints = np.arange(len(strata.size))
        while wanted.size:
            asked = np.array([queue[h].pop(0) for h in wanted])
            found = yield from self.ask(scene, OBJECT, asked, before)
            rows.update(zip(asked.tolist(), found, strict=True))
            strata.record(asked, self.search.affected(found))
            wanted = self._next(strata)
        places = np.flatnonzero(strata.asked)
        result = [rows[i] for i in places.tolist()]
        if self.scanning.trace:
            yield from self.trace_losses(scene, result)
        for condition in self.conditions[1:]:
            result += yield from self.ask(scene, condition, places, before)
        for row, weight in zip(result, np.tile(strata.weights(), len(self.conditions)).tolist(), strict=True):
            row["weight"] = weight
        return result

    def strata(self, scene: Scene, originals: Floats) -> Strata:
        """The strata of a pair, given the boxes of D_∅."""
        boxes = np.column_stack([scene.positions, scene.positions + scene.cutout.size]).astype(np.float64)
        covered = coverage(originals, boxes).max(axis=0, initial=0.0)
        return Strata(scene.positions, covered, self.scanning.step, self.search.block, len(self.search.taus))

    def _next(self, strata: Strata) -> Ints:
        """The strata to ask next: none if every rate is known well enough.

        The mean of K pairs is known √K times better than each, so each pair may be known √K times worse.
        """
        variance, whole = strata.errors()
        half = 100 * self.search.z * np.sqrt(variance) / np.maximum(whole, strata.size.sum() / len(ROWS))[:, None]
        row, tau = np.unravel_index(int(half.argmax()), half.shape)
        if half[row, tau] <= self.search.precision * np.sqrt(len(self.pairs)):
            return np.zeros(0, dtype=np.int64)
        if 2 * strata.asked.sum() > len(strata.asked):  # a sample of most positions saves little: ask the rest
            return np.flatnonzero(strata.counts < strata.size)
        return strata.most_telling(int(row), int(tau), max(8, int(_ROUND * strata.asked.sum())))

    def ask(self, scene: Scene, condition: str, places: Ints, before: Detections) -> Any:
        """Rows of the positions at indices ``places``."""
        rows = []
        for start in range(0, len(places), _AT_ONCE):
            some = scene.positions[places[start : start + _AT_ONCE]].tolist()
            after = yield [Detect(scene.picture(condition, x, y, self.scanning.seed)) for x, y in some]
            rows += [self.row(scene, condition, x, y, before, found) for (x, y), found in zip(some, after, strict=True)]
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
            strata = self.strata(scene, boxes.reshape(-1, 4))
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
