"""``FuzzStudy``: a campaign of metamorphic object insertion against one detector (paper 4).

Backgrounds are asked about first; what is inserted where is then planned in rounds (``plan.py``), in the parent
process. A case (``cases.py``) can run anywhere.
"""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from misdetect.data.dataset import Dataset
from misdetect.data.opened import Opened
from misdetect.engine.requests import Case, Steps
from misdetect.metrics.metamorphic import Change
from misdetect.pools.pool import Pool
from misdetect.said.errors import BadData, NothingToTest
from misdetect.studies.fuzz.cases import Follow, Look, Try
from misdetect.studies.fuzz.plan import Planner, Row, Task
from misdetect.studies.fuzz.reach import Background
from misdetect.studies.fuzz.rows import INSERTION, SCHEMA
from misdetect.studies.fuzz.settings import FuzzSettings
from misdetect.studies.fuzz.workbench import Workbench

PLANNING = 2
"""Changes when a campaign would be planned otherwise: one that was begun by an older version cannot go on."""
TWICE = 5
"""Backgrounds that are asked about twice, to see whether the detector says the same again."""
ENDLESS = 10**6
"""What a campaign plans with where only time, or nothing, limits it."""
_PER_BACKGROUND = 10
"""Without a number of backgrounds, a campaign uses one per so many queries."""


class FuzzStudy:
    """A campaign on ``opened`` with objects of ``pool``, for a detector with class ``names``.

    ``how.queries`` is what the first sitting plans with (``None``: all insertions of the strategy), ``most`` what this
    one may plan with; a larger number goes on where the smaller ones ended. ``shown_from``: the lowest score that the
    detector reports, where that is certain. ``bench`` makes its pictures.
    """

    name = "fuzz"
    schema: pa.Schema = SCHEMA

    def __init__(
        self,
        opened: Opened,
        pool: Pool,
        names: Sequence[str],
        how: FuzzSettings,
        most: int | None = None,
        shown_from: float | None = None,
    ) -> None:
        if not len(pool):
            raise BadData(f"the pool {pool.found_at} is empty, so there is nothing to insert; relax its limits.")
        if not any(pool.of(name) for name in names):
            raise BadData(
                f"the pool {pool.found_at} has no label in common with the detector: it has "
                f"{', '.join(pool.labels[:4])}, the detector knows {', '.join(names[:4])}."
            )
        self.how = replace(how, reach=how.allowed)
        self.bench = Workbench(opened, pool, names, self.how, shown_from)
        self._most, self._planned, self._asked = most, 0, 0
        self._looked: list[int] = []
        self._rows: dict[int, list[Row]] = {}
        self._answers: dict[int, int] = {}
        self._planner: Planner | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_rows": {}, "_answers": {}, "_planner": None}

    @property
    def data(self) -> Dataset:
        """What backgrounds are taken from."""
        return self.bench.data

    def settings(self) -> dict[str, Any]:
        """What decides the rows, for ``run.json``: the settings, the queries planned with, and the pool."""
        pool = self.bench.pool
        own = {"queries": self.how.queries, "pool": pool.found_at, "pool_fingerprint": pool.fingerprint}
        own["planning"] = PLANNING
        return self.how.document() | own

    def backgrounds(self, queries: int | None) -> list[int]:
        """Images that are used with so many queries, at random; more queries add to those of fewer."""
        wanted = self.how.backgrounds
        if wanted is None and queries is not None:
            wanted = max(1, queries // _PER_BACKGROUND)
        order = np.random.default_rng([self.how.seed, 4]).permutation(len(self.data))
        return [int(i) for i in order[:wanted]]

    def __len__(self) -> int:
        """Cases planned so far; more come as they are planned."""
        return max(len(self.backgrounds(self.how.queries)), self._planned)

    def progress(self) -> tuple[int, int]:
        """Questions answered, and how many the campaign may ask; 0 where nothing, or only time, limits them."""
        limit = max((n for n in (self.how.queries, self._most) if n is not None), default=ENDLESS)
        return self._asked, limit if limit < ENDLESS else 0

    def learn(self, index: int, rows: list[Row]) -> None:
        """Take in the rows of a case that is done."""
        self._rows[index] = rows
        self._answers.pop(index, None)
        self._asked += sum(row["queries"] for row in rows)

    def answered(self, index: int, questions: int) -> None:
        """Take in how far a case is that goes on."""
        self._answers[index] = questions

    def cases(self) -> Iterator[Case | None]:
        """Backgrounds first, then what is planned from what was found."""
        budgets = self._budgets()
        planner = self._planner = Planner(self.how, self.bench.classes, budgets)
        planner.look((yield from self._look(budgets[0])))
        self._check(len(self._looked), list(planner.backgrounds.values()))
        yield from planner.cases(self._look, self._hand_out, self._wait)

    def _look(self, queries: int | None) -> "Generator[Case | None, None, list[Row]]":
        """Yield the backgrounds that so many queries add; returns their rows."""
        first, known = self._planned, len(self._looked)
        self._looked = self.backgrounds(queries)
        budget = queries if first else None  # the first ones belong to every budget
        new = list(enumerate(self._looked))[known:]
        self._planned += len(new)
        for index, (i, image) in enumerate(new, first):
            yield Case(index, f"clean/{image}", Look(image, i < TWICE, budget))
        while not all(i in self._rows for i in range(first, self._planned)):
            yield None
        return [row for i in range(first, self._planned) for row in self._rows[i]]

    def _check(self, chosen: int, backgrounds: list[Background]) -> None:
        """Refuse a campaign that could not insert anything, or break nothing."""
        if not backgrounds:
            raise NothingToTest(
                f"no detections of score {self.how.score:g} or more on {chosen} backgrounds of {self.data.spec}, so "
                "nothing can fail there; lower --score."
            )
        if not any(background.offers for background in backgrounds):
            raise NothingToTest(
                f"the pool {self.bench.pool.found_at} has nothing for what is detected on {len(backgrounds)} "
                f"backgrounds of {self.data.spec}; use a larger pool, more backgrounds or --reach 2."
            )

    def _budgets(self) -> list[int | None]:
        """The queries that each sitting plans with: the first, the larger ones of which there are rows, and this one's
        if it is larger still. What was planned with smaller ones stays as it was."""
        first = self.how.queries
        if first is None:
            return [None]
        seen = {row["budget"] for rows in self._rows.values() for row in rows if row["budget"] is not None}
        budgets: list[int | None] = sorted(seen | {first})
        larger = self._most is not None and self._most > max(seen | {first})
        return [*budgets, self._most] if larger else budgets

    def _hand_out(self, tasks: list[Task]) -> "Generator[Case, None, range]":
        """Yield the cases of tasks; returns their indices."""
        first, plan = self._planned, self._planner
        self._planned += len(tasks)
        assert plan is not None
        for i, task in enumerate(tasks, first):
            background = plan.backgrounds[task.insertion.image]
            tried = Try(task, background, plan.noisy, plan.told)
            case = tried if task.phase == INSERTION else Follow(task, background, self._kept(task))
            yield Case(i, f"{task.phase}/{i}", case)
        return range(first, self._planned)

    def _wait(self, index: int, answers: int) -> "Generator[None, None, list[Row] | None]":
        """Wait until so many questions of a case are answered; returns its rows if it is done."""
        while index not in self._rows and self._answers.get(index, 0) < answers:
            yield None
        return self._rows.get(index)

    def _kept(self, task: Task) -> Change | None:
        """The change that a shrunk case has to keep."""
        if task.change < 0:
            return None
        return self.bench.classes.change(self._rows[task.origin][0]["changes"][task.change])

    def image_of(self, case: Case) -> str:
        """The background of a case, to name it by if it fails."""
        about = case.content
        return self.data[about.image if isinstance(about, Look) else about.task.insertion.image].id

    def run(self, case: Case) -> Steps:
        """Ask about a background, an insertion, or all that a search wants to know."""
        steps: Steps = case.content.steps(self.bench)
        return steps
