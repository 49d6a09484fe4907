"""The scan with fewer questions: a coarse grid first, then where S changes, until the rates are known well enough.

One case is a whole pair, since what to ask next depends on all answers so far. It asks in rounds, one position per
stratum first, then where one more answer lowers the error of the worst-known rate of Table I most. It stops when its
part of every rate's variance is small enough, or nothing is left to ask. The control is asked at the same
positions.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from misdetect.data.dataset import Sample
from misdetect.data.opened import Opened
from misdetect.engine.requests import Case, Detect, Steps
from misdetect.engine.store import Run
from misdetect.nouns.boxes import Floats, Ints, boxes_of, coverage
from misdetect.nouns.detections import Detections
from misdetect.said.errors import MisdetectError
from misdetect.studies.scan.pairs import Transplant
from misdetect.studies.scan.rows import OBJECT
from misdetect.studies.scan.settings import TAUS, Average, Policy, ScanSettings
from misdetect.studies.scan.strata import Strata
from misdetect.studies.scan.study import OpenPair, ScanStudy
from misdetect.studies.scan.table import ROWS, kept_rows

_AT_ONCE = 32
"""Pictures described at a time, so that memory does not grow with a round."""
_ROUND = 0.1
"""Questions of a round, as a share of those asked so far."""


@dataclass(frozen=True)
class Search:
    """``precision``: half the width, in points, that the interval of every rate over all pairs may have. ``block``:
    side in steps of the coarse grid. ``confidence`` of that interval. ``tau`` and ``policy`` say which rates."""

    precision: float = 2.5
    tau: tuple[float, ...] = TAUS
    policy: Policy = "body"
    block: int = 4
    confidence: float = 0.95

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> "Search":
        """From ``run.json``."""
        return cls(**{**document, "tau": tuple(document["tau"])})

    @property
    def z(self) -> float:
        """Standard errors in half an interval."""
        return NormalDist().inv_cdf((1 + self.confidence) / 2)

    def affected(self, rows: Sequence[Mapping[str, Any]]) -> Any:
        """``[M, 2, τ]``: whether each position is affected, class-aware and agnostic."""
        names = ("score", "agnostic") if self.policy == "body" else ("least", "least_agnostic")
        values = np.array([[row[name] for name in names] for row in rows], dtype=np.float64).reshape(-1, 2)
        return values[:, :, None] < np.array(self.tau)

    def strata(self, transplant: Transplant, step: int, originals: Floats) -> Strata:
        """The strata of a pair, given the boxes of D_∅."""
        places = transplant.grid(step)
        return Strata(places, covered(originals, places, transplant.size), step, self.block, len(self.tau))


class AdaptiveScan(ScanStudy):
    """``ScanStudy`` that asks only as much as ``search`` wants to know."""

    def __init__(
        self, opened: Opened, transplants: Sequence[Transplant], names: Sequence[str], how: ScanSettings
    ) -> None:
        super().__init__(opened, transplants, names, how)
        self.search = Search(how.precision, how.tau, how.policy)
        self._backgrounds: list[Sample] = []
        self._counts: dict[int, Floats] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_backgrounds": [], "_counts": {}}

    def search_settings(self) -> Mapping[str, Any]:
        """How positions are chosen, for ``run.json``."""
        return {**asdict(self.search), "tau": list(self.search.tau)}

    def __len__(self) -> int:
        return len(self.transplants)

    def cases(self) -> Iterator[Case]:
        """One case per pair."""
        return (Case(number, f"{number}", number) for number in range(len(self.transplants)))

    def run(self, case: Case) -> Steps:
        """Ask in rounds until the rates are known, then ask the control at the same positions."""
        pair = self.open_pair(case.content)
        before: Detections = yield Detect(pair.background)
        originals = before.above(self.how.score).boxes
        strata = self.search.strata(self.transplants[pair.number], self.how.step, originals)
        allowed = yield from self._allowance(pair.number, before)
        order = np.random.default_rng([self.how.seed, 4, pair.number]).permutation(len(pair.positions))
        queue = [[int(i) for i in order if strata.of[i] == h] for h in range(len(strata.size))]
        rows: dict[int, dict[str, Any]] = {}
        wanted: Ints = np.arange(len(strata.size))
        while wanted.size:
            asked = np.array([queue[h].pop(0) for h in wanted])
            found = yield from self.ask(pair, OBJECT, asked, before)
            rows.update(zip(asked.tolist(), found, strict=True))
            strata.record(asked, self.search.affected(found))
            wanted = _next(strata, allowed)
        places = np.flatnonzero(strata.asked)
        result = [rows[i] for i in places.tolist()]
        if self.how.trace:
            yield from self.trace_losses(pair, result, before)
        for condition in self.conditions[1:]:
            result += yield from self.ask(pair, condition, places, before)
        for row, weight in zip(result, np.tile(strata.weights(), len(self.conditions)).tolist(), strict=True):
            row["weight"] = weight
        return result

    def _allowance(self, number: int, before: Detections) -> Any:
        """The variance ``[4]`` that pair ``number`` may leave in the count of affected positions of each of Table I's
        rows: of what ``precision`` allows for all pairs, its share of the positions that the row counts.

        So the promise holds whatever the other pairs are like. What a row counts is known from the clean images alone;
        every case asks for its own and for those that no other has asked for yet.
        """
        if not self._backgrounds:
            self._backgrounds = [self.data[each.pair.background] for each in self.transplants]
        self._count(number, before)
        for i, background in enumerate(self._backgrounds):
            if i not in self._counts:
                with suppress(MisdetectError):  # the case of that pair says so
                    self._count(i, (yield Detect(background)))
        total = sum(self._counts[i] for i in sorted(self._counts))
        return (self.search.precision / 100 / self.search.z) ** 2 * total * self._counts[number]

    def _count(self, number: int, clean: Detections) -> None:
        """Take down how many positions of a pair each of Table I's rows counts: none without detections."""
        transplant = self.transplants[number]
        originals = clean.above(self.how.score).boxes
        kept = kept_rows(covered(originals, transplant.grid(self.how.step), transplant.size)).sum(axis=1)
        self._counts[number] = kept.astype(np.float64) * bool(len(originals))

    def ask(self, pair: OpenPair, condition: str, places: Ints, before: Detections) -> Any:
        """Rows of the positions at indices ``places``."""
        rows: list[dict[str, Any]] = []
        for start in range(0, len(places), _AT_ONCE):
            some = pair.positions[places[start : start + _AT_ONCE]].tolist()
            after = yield [Detect(pair.picture(condition, x, y, self.how.seed)) for x, y in some]
            rows += self.rows(pair, condition, some, before, after)
        return rows


def uncertainty(run: Run, average: Average) -> dict[str, Any] | None:
    """Of an adaptive ``run``: how many positions were asked, and half the interval (points) within which a full scan's
    rates lie. ``None`` of a full scan."""
    settings = run.settings
    if settings["adaptive"] is None:
        return None
    search = Search.of(settings["adaptive"])
    images = sorted({each["background"] for each in settings["transplants"]})
    variances, wholes = np.zeros((len(images), len(ROWS), len(search.tau))), np.zeros((len(images), len(ROWS)))
    asked = 0
    for number, each in enumerate(settings["transplants"]):
        rows = run.query(
            "SELECT x, y, score, agnostic, least, least_agnostic, objects FROM rows "
            "WHERE pair = ? AND condition = 'object' AND before > 0 ORDER BY y, x",
            [number],
        ).to_pylist()
        if not rows:
            continue
        strata = search.strata(Transplant.of(each), settings["step"], boxes_of(rows[0]["objects"]))
        where = {(x, y): i for i, (x, y) in enumerate(strata.places.tolist())}
        strata.record(np.array([where[row["x"], row["y"]] for row in rows]), search.affected(rows))
        variance, whole = strata.errors()
        variances[images.index(each["background"])] += variance
        wholes[images.index(each["background"])] += whole
        asked += len(rows)
    half = 100 * search.z * errors(variances, wholes, average)
    return {
        "asked": asked,
        "positions": settings["positions"],
        "share": round(100 * asked / settings["positions"], 2),
        "precision": search.precision,
        "confidence": search.confidence,
        "half_width": {
            name: {f"{tau:g}": round(float(half[r, t]), 2) for t, tau in enumerate(search.tau)}
            for r, name in enumerate(ROWS)
        },
    }


def errors(variances: Floats, wholes: Floats, average: Average) -> Floats:
    """Standard errors ``[4, τ]`` of the rates, from the variances ``[images, 4, τ]`` of the numbers of affected
    positions and the positions ``[images, 4]`` that each row counts."""
    if average == "images":
        each = variances / np.maximum(wholes, 1)[:, :, None] ** 2
        return np.asarray(np.sqrt(each.sum(axis=0)) / np.maximum((wholes > 0).sum(axis=0), 1)[:, None])
    return np.asarray(np.sqrt(variances.sum(axis=0)) / np.maximum(wholes.sum(axis=0), 1)[:, None])


def covered(originals: Floats, places: Ints, size: tuple[int, int]) -> Floats:
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
