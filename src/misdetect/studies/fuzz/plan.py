"""What a campaign does next: rounds of insertions, then of relocations, then of shrinking, within its queries.

Several rounds are under way at a time, so that the detector need not wait while one is evaluated and the next planned.
A round is planned from the rows of all that are not under way, in order; how long a case takes and which worker had it
does not matter. No round holds more than the budget could pay for if every case under way cost the most it can. What
was reserved for searches and is not needed goes back to insertions, until nothing is left.
"""

import heapq
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from misdetect.boxes import Floats
from misdetect.metrics.metamorphic import Change, Oracle
from misdetect.studies.fuzz.adaptive import Adaptive
from misdetect.studies.fuzz.failures import Key, Register, counted
from misdetect.studies.fuzz.reach import Background, guided_insertion, random_insertion
from misdetect.studies.fuzz.rows import INSERTION, RELOCATION, SHRINKING, Classes, Insertion
from misdetect.studies.fuzz.search import MOST_MOVES, SHRINK_STEPS
from misdetect.studies.fuzz.settings import FuzzSettings

_UNDER_WAY = 4
"""Rounds of insertions at a time."""
_ROUND = 64
"""Cases in a round of a strategy that does not learn, and the most in one of a strategy that does."""
_RESERVED = 0.1
"""Share of the queries kept for relocating, and again for shrinking, where these are wanted."""

_COSTS = {RELOCATION: MOST_MOVES, SHRINKING: 2 * SHRINK_STEPS}
"""Queries that a search takes at most."""
_ENDLESS = 10**9
"""Queries of a campaign that nothing limits."""
_BARREN = 512
"""Insertions in rounds of which none was natural enough to be asked about, before a campaign gives up."""

Row = Mapping[str, Any]
Look = Callable[[int | None], Generator[Any, None, list[Row]]]
"""Asks about the backgrounds that a budget adds: yields their cases, returns their rows."""
HandOut = Callable[["list[Task]"], Generator[Any, None, range]]
"""Starts a round of tasks: yields their cases, returns their indices."""
Wait = Callable[[range], Generator[Any, None, list[tuple[int, Row]]]]
"""Waits for cases: yields as long as it has to, returns ``(case index, row)`` in order."""


@dataclass(frozen=True)
class Task:
    """One case to come: the ``insertion`` to ask about, or to relocate or shrink from. ``known`` failures of the
    background need no control any more; others get as many ``patches`` of null control at most. ``origin`` is the case
    index of the failure that a search starts from, ``change`` the number of the change that shrinking has to keep.
    ``budget``: the queries that were planned with."""

    phase: str
    insertion: Insertion
    known: tuple[Change, ...] = ()
    patches: int = 0
    origin: int = -1
    change: int = -1
    destination: tuple[float, float] | None = None
    budget: int | None = None


class Strategy(Protocol):
    """Plans insertions into the backgrounds it was given, and learns from their rows."""

    def add(self, backgrounds: Sequence[Background]) -> None:
        """Insert into these too."""
        ...

    def plan(self, most: int) -> list[Insertion]:
        """Up to ``most`` insertions; none when there is nothing left to try."""
        ...

    def learn(self, rows: Sequence[Row]) -> None:
        """Take in the rows of the last plan, in order."""
        ...


def shows_flicker(clean: Iterable[Row], rules: Oracle) -> bool:
    """Whether the detector shows scores so low that what merely fell below the threshold can be told from what is
    gone: it was seen to on one of the ``clean`` backgrounds."""
    return any(row["least"] is not None and row["least"] <= rules.low for row in clean)


class Listed:
    """Random and guided insertion: ``per_object`` of them per detection, background by background in turn, so that a
    budget that ends early has seen as many backgrounds as it could. Each says how many draws before it found no place,
    the last one also of those after it."""

    def __init__(self, how: FuzzSettings) -> None:
        self._how = how
        self._turns: list[tuple[int, int, Background]] = []
        """How often each background had its turn, a heap: who had the fewest is next."""
        self._given = self._dropped = 0
        self._next: Insertion | None = None

    def add(self, backgrounds: Sequence[Background]) -> None:
        """Those that come later have their turns first, until all have had as many."""
        for number, background in enumerate(backgrounds, self._given):
            heapq.heappush(self._turns, (0, number, background))
        self._given += len(backgrounds)
        self._next = self._next or self._placed()

    def _placed(self) -> Insertion | None:
        """The next insertion that has a place; ``None`` after the last."""
        draw = random_insertion if self._how.strategy == "random" else guided_insertion
        while self._turns:
            turn, number, background = heapq.heappop(self._turns)
            if turn < len(background.firm) * self._how.per_object:
                heapq.heappush(self._turns, (turn + 1, number, background))
                generator = np.random.default_rng([self._how.seed, 5, background.image, turn])
                drawn = draw(background, self._how.allowed, generator)
                if drawn is not None:
                    placed, self._dropped = replace(drawn, dropped=self._dropped), 0
                    return placed
                self._dropped += 1
        return None

    def plan(self, most: int) -> list[Insertion]:
        """The next ``most`` of the list."""
        found: list[Insertion] = []
        while self._next is not None and len(found) < min(most, _ROUND):
            found.append(self._next)
            self._next = self._placed()
        if found and self._next is None:
            found[-1], self._dropped = replace(found[-1], dropped=found[-1].dropped + self._dropped), 0
        return found

    def learn(self, rows: Sequence[Row]) -> None:
        """Nothing to learn."""


class Planner:
    """Rounds of tasks. ``budgets`` are the queries of the first sitting and the larger ones that the campaign was
    resumed with: each is planned when the one before it is used up, so that what was done stays as it was.

    ``noisy``: every failure is asked about twice; ``told``: what flickers can be told from what fails.
    """

    def __init__(self, how: FuzzSettings, classes: Classes, budgets: Sequence[int | None]) -> None:
        self.backgrounds: dict[int, Background] = {}
        self.how, self.spent, self._classes = how, 0, classes
        self.noisy, self.told = False, False
        self._budgets, self._budget = tuple(budgets), budgets[0]
        adaptive = how.strategy == "adaptive"
        self._strategy: Strategy = Adaptive(how.allowed, how.rules, how.seed) if adaptive else Listed(how)
        self._round = _ROUND if how.queries is None or not adaptive else min(_ROUND, max(8, how.queries // 128))
        self._failing: list[tuple[int, Row]] = []
        self._known: dict[int, list[Change]] = {}
        self._followed: set[tuple[str, int, int]] = set()

    def look(self, rows: Sequence[Row]) -> None:
        """Take in the ``rows`` of backgrounds that were asked about."""
        self.spent += sum(row["queries"] for row in rows)
        self.noisy |= any(row["differs"] for row in rows)
        self.told |= shows_flicker(rows, self.how.rules)
        score = self.how.score
        usable = [row for row in rows if any(d["score"] >= score for d in row["detections"])]
        found = [Background.of_row(row, score, self._classes) for row in usable]
        self.backgrounds |= {each.image: each for each in found}
        self._strategy.add(found)

    def rounds(self, look: Look, hand_out: HandOut, wait: Wait) -> Iterator[Any]:
        """Plan all rounds, ``look`` at the backgrounds of each budget, ``hand_out`` cases and ``wait`` for them,
        yielding what these yield."""
        for number, budget in enumerate(self._budgets):
            self._budget = budget
            if number:
                self.look((yield from look(budget)))
            before = -1
            while self.spent > before:  # as long as what was reserved and not needed pays for more
                before = self.spent
                reserve = int(_RESERVED * (self._limit - before))
                yield from self._search(self._limit - reserve * (self.how.relocate + self.how.shrink), hand_out, wait)
                if self.how.relocate:
                    kept = self._limit - reserve * self.how.shrink
                    yield from self._follow(RELOCATION, self._relocations(), kept, hand_out, wait)
                if self.how.shrink:
                    yield from self._follow(SHRINKING, self._shrinkings(), self._limit, hand_out, wait)
            yield from self._search(self._limit, hand_out, wait, to_the_last=True)

    @property
    def _limit(self) -> int:
        return _ENDLESS if self._budget is None else self._budget

    def _search(self, limit: int, hand_out: HandOut, wait: Wait, to_the_last: bool = False) -> Iterator[Any]:
        """Rounds of insertions until ``limit`` queries are spent; ``to_the_last``: also where what is left only pays
        for as many patches as clear a failure if all are harmless."""
        under_way = deque[range]()
        barren = 0
        while True:
            while barren < _BARREN and len(under_way) < _UNDER_WAY:
                tasks = self._insertions(limit, sum(map(len, under_way)), to_the_last)
                if not tasks:
                    break
                under_way.append((yield from self._hand_out(tasks, hand_out)))
            if not under_way:
                return
            found = yield from wait(under_way.popleft())
            asked = sum(row["queries"] for _, row in found)
            self.spent += asked
            barren = 0 if asked else barren + len(found)
            self._strategy.learn([row for _, row in found])
            self._failing += [(index, row) for index, row in found if counted(row, self.how.count_flicker)]
            self._remember(row for _, row in found)

    def _insertions(self, limit: int, under_way: int, to_the_last: bool) -> list[Task]:
        """The next round, with as many cases ``under_way``."""
        own, patches = 1 + self.noisy, self.how.patches
        cost = own + patches
        left = limit - self.spent - under_way * cost
        room = left // cost
        if to_the_last and not under_way and own + self.how.control.fewest <= left < cost:
            room, patches = 1, left - own
        if room <= 0:
            return []
        # what is left at the end is divided, or the second round would have to wait for the first
        plan = self._strategy.plan(min(self._round, -(-room // _UNDER_WAY)))
        return [Task(INSERTION, edit, tuple(self._known.get(edit.image, ())), patches) for edit in plan]

    def _hand_out(self, tasks: list[Task], hand_out: HandOut) -> Generator[Any, None, range]:
        """The budget goes into the rows: a resumed campaign plans with the same ones."""
        return hand_out([replace(task, budget=self._budget) for task in tasks])

    def _remember(self, rows: Iterable[Row]) -> None:
        """What has been found to be an object's doing: nobody pays for that twice."""
        for row in rows:
            found = [self._classes.change(change) for change in row["changes"] if change["cleared"]]
            self._known.setdefault(row["number"], []).extend(found)

    def _follow(self, phase: str, tasks: list[Task], limit: int, hand_out: HandOut, wait: Wait) -> Iterator[Any]:
        tasks = [task for task in tasks if (phase, task.origin, task.change) not in self._followed]
        while tasks and (room := max(0, limit - self.spent) // _COSTS[phase]):
            now, tasks = tasks[:room], tasks[room:]
            self._followed |= {(phase, task.origin, task.change) for task in now}
            found = yield from wait((yield from self._hand_out(now, hand_out)))
            self.spent += sum(row["queries"] for _, row in found)

    def _relocations(self) -> list[Task]:
        return [
            Task(
                RELOCATION,
                Insertion.of_row(row),
                origin=index,
                destination=self._destination(row["number"]),
            )
            for index, row in self._failing
        ]

    def _destination(self, image: int) -> tuple[float, float]:
        wanted, background = self.how.destination, self.backgrounds[image]
        if wanted == "centroid":
            centres: Floats = (background.firm[:, :2] + background.firm[:, 2:]) / 2
            x, y = centres.mean(axis=0).tolist()
            return x, y
        centre = background.width / 2, background.height / 2
        return centre if wanted == "centre" else (float(wanted[0]), float(wanted[1]))

    def _shrinkings(self) -> list[Task]:
        """The first case of each failure that is an object's doing."""
        register, seen = Register(), set[Key]()
        tasks = []
        for index, row in self._failing:
            for number, change in enumerate(row["changes"]):
                key = register.key(row["image"], change)
                if change["cleared"] and key not in seen:
                    seen.add(key)
                    tasks.append(Task(SHRINKING, Insertion.of_row(row), origin=index, change=number))
        return tasks
