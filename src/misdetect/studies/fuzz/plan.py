"""What a campaign does next: insertions, and of those that fail relocations and shrinking, within its queries.

A number of cases is under way at a time, so that no worker waits while another finishes a long one. Their answers are
counted in turn: one of the first case, one of the second, …, and round again. A case that has all of its answers then
makes room for the next, which is planned from all that made room before it. That order is the same whatever the number
of workers and however long an answer takes. Nothing is handed out that the budget could not pay for if every case under
way cost the most it can.
"""

import heapq
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from misdetect.metrics.metamorphic import Change, Oracle
from misdetect.nouns.boxes import Floats
from misdetect.studies.fuzz.adaptive import Adaptive
from misdetect.studies.fuzz.failures import Key, Register, counted
from misdetect.studies.fuzz.reach import Background, guided_insertion, random_insertion
from misdetect.studies.fuzz.rows import INSERTION, RELOCATION, SHRINKING, Classes, Insertion
from misdetect.studies.fuzz.search import MOST_MOVES, SHRINK_STEPS
from misdetect.studies.fuzz.settings import FuzzSettings

_UNDER_WAY = 4
"""Rounds of cases at a time."""
_TURNS = 16
"""Cases among which answers are counted in turn; those behind them are under way so that no worker waits."""
_LAST = 16
"""Adaptive insertions that what is left of the queries in the end is divided among, by asking fewer patches: else the
last would wait for each other."""
_ROUND = 64
"""Insertions planned at once by a strategy that does not learn, and the most by one that does."""
_SHARE = 0.1
"""Share of the queries that relocating may take, and again shrinking, as long as there is something to insert."""

_COSTS = {RELOCATION: MOST_MOVES, SHRINKING: 2 * SHRINK_STEPS}
"""Queries that a search takes at most."""
_ENDLESS = 10**9
"""Queries of a campaign that nothing limits."""
_BARREN = 512
"""Insertions in a row of which none was natural enough to be asked about, before a campaign gives up."""

Row = Mapping[str, Any]
Look = Callable[[int | None], Generator[Any, None, list[Row]]]
"""Asks about the backgrounds that a budget adds: yields their cases, returns their rows."""
HandOut = Callable[["list[Task]"], Generator[Any, None, range]]
"""Starts tasks: yields their cases, returns their indices."""
Wait = Callable[[int, int], Generator[Any, None, Sequence[Row] | None]]
"""Waits until so many questions of a case are answered: yields as long as it has to, returns its rows if it is done."""


@dataclass(frozen=True)
class Task:
    """One case to come: the ``insertion`` to ask about, or to relocate or shrink from. ``known`` failures of the
    background need no control any more; others get as many ``patches`` of control at most. ``origin`` is the case
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


@dataclass(eq=False)
class _UnderWay:
    """A ``task`` that was handed out as case ``index``, the queries it takes at ``most``, and how many of its
    ``answers`` were counted."""

    index: int
    task: Task
    most: int
    answers: int = 0

    def ends(self, rows: Sequence[Row] | None) -> bool:
        """Whether its last answer was counted. Of a case that failed nobody knows later on how far it came: it counts
        as one that took the most it could."""
        return rows is not None and self.answers >= (max(1, rows[0]["queries"]) if rows else self.most)


class Planner:
    """Hands out tasks. ``budgets`` are the queries of the first sitting and the larger ones that the campaign was
    resumed with: each is planned when the one before it is used up, so that what was done stays as it was.

    ``noisy``: every failure is asked about twice; ``told``: what flickers can be told from what fails.
    """

    def __init__(self, how: FuzzSettings, classes: Classes, budgets: Sequence[int | None]) -> None:
        self.backgrounds: dict[int, Background] = {}
        self.how, self.spent, self._classes = how, 0, classes
        self.noisy, self.told = False, False
        self._budgets, self._budget = tuple(budgets), budgets[0]
        adaptive = how.strategy == "adaptive"
        self._strategy: Adaptive | Listed = Adaptive(how.allowed, how.rules, how.seed) if adaptive else Listed(how)
        self._round = _ROUND if how.queries is None or not adaptive else min(_ROUND, max(8, how.queries // 128))
        self._under_way: list[_UnderWay] = []
        self._follow_ups: dict[str, deque[Task]] = {SHRINKING: deque(), RELOCATION: deque()}
        self._taken: dict[str, int] = {}
        self._last = _LAST if adaptive else 1
        self._begun = self._barren = 0
        self._known: dict[int, list[Change]] = {}
        self._register, self._shrunk = Register(), set[Key]()

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

    def cases(self, look: Look, hand_out: HandOut, wait: Wait) -> Iterator[Any]:
        """Plan all that the budgets pay for, ``look`` at the backgrounds of each, ``hand_out`` cases and ``wait`` for
        them, yielding what these yield."""
        for number, budget in enumerate(self._budgets):
            self._budget = budget
            if number:
                self.look((yield from look(budget)))
            self._begun = self._limit - self.spent
            self._taken = {RELOCATION: 0, SHRINKING: 0}
            self._barren = 0
            yield from self._spend(hand_out, wait)

    @property
    def _limit(self) -> int:
        return _ENDLESS if self._budget is None else self._budget

    @property
    def _left(self) -> int:
        """Queries left if every case under way costs the most it can."""
        return self._limit - self.spent - sum(each.most for each in self._under_way)

    def _spend(self, hand_out: HandOut, wait: Wait) -> Iterator[Any]:
        """Keep cases under way until the budget is used up, or there is nothing left to try."""
        while True:
            while tasks := self._next():
                # the budget goes into the rows: a resumed campaign plans with the same ones
                tasks = [replace(task, budget=self._budget) for task in tasks]
                indices = yield from hand_out(tasks)
                self._under_way += [
                    _UnderWay(i, task, self._cost(task)) for i, task in zip(indices, tasks, strict=True)
                ]
            if not self._under_way:
                return
            each = self._under_way.pop(0)
            rows = yield from wait(each.index, each.answers + 1)
            each.answers += 1
            if each.ends(rows):
                self._learn(each, rows or ())
            else:
                self._under_way.insert(_TURNS - 1, each)

    def _cost(self, task: Task) -> int:
        """Queries that a task takes at most."""
        return _COSTS.get(task.phase, 1 + self.noisy + task.patches)

    def _next(self) -> list[Task]:
        """What is handed out next; nothing where it has to wait for what is under way."""
        phase = self._due()
        return (self._insertions() or self._leftover()) if phase is None else self._search(phase)

    def _due(self) -> str | None:
        """The kind of search whose turn it is: within its share, and relocation only as long as there is enough for
        insertions besides."""
        kept = {RELOCATION: min(_TURNS * (1 + self.noisy + self.how.patches), self._begun // 2), SHRINKING: 0}
        for phase, waiting in self._follow_ups.items():
            cost = _COSTS[phase]
            fits = self._taken[phase] + cost <= max(cost, int(_SHARE * self._begun))
            if waiting and fits and cost + kept[phase] <= self._limit - self.spent:
                return phase
        return None

    def _search(self, phase: str) -> list[Task]:
        """The next search of a kind, if it can be paid for."""
        if not self._follow_ups[phase] or _COSTS[phase] > self._left:
            return []
        self._taken[phase] += _COSTS[phase]
        return [self._follow_ups[phase].popleft()]

    def _leftover(self) -> list[Task]:
        """A search beyond its share, where nothing is inserted any more."""
        if any(each.task.phase == INSERTION for each in self._under_way):
            return []
        return self._search(SHRINKING) or self._search(RELOCATION)

    def _insertions(self) -> list[Task]:
        """The next insertions, when there is room for a whole round, or as many as the budget still pays for."""
        if self._barren >= _BARREN or len(self._under_way) > (_UNDER_WAY - 1) * self._round:
            return []
        own = 1 + self.noisy
        fewer = (self._limit - self.spent) // self._last - own
        patches = min(self.how.patches, max(self.how.control.fewest, fewer))
        room = self._left // (own + patches)
        plan = self._strategy.plan(min(self._round, room)) if room > 0 else []
        return [Task(INSERTION, edit, tuple(self._known.get(edit.image, ())), patches) for edit in plan]

    def _learn(self, done: _UnderWay, rows: Sequence[Row]) -> None:
        """Take in the ``rows`` of a case."""
        asked = sum(row["queries"] for row in rows)
        self.spent += asked
        if done.task.phase != INSERTION:
            self._taken[done.task.phase] -= done.most - asked
            return
        self._barren = 0 if asked else self._barren + 1
        self._strategy.learn(rows)
        for row in rows:
            # what has been found to be an object's doing: nobody pays for that twice
            found = [self._classes.change(change) for change in row["changes"] if change["cleared"]]
            self._known.setdefault(row["number"], []).extend(found)
            if counted(row, self.how.count_flicker):
                self._note_follow_ups(done, row)

    def _note_follow_ups(self, done: _UnderWay, row: Row) -> None:
        """Every failing insertion is relocated; of each failure that is an object's doing the first is shrunk."""
        if self.how.relocate:
            goal = self._destination(row["number"])
            moved = Task(RELOCATION, done.task.insertion, origin=done.index, destination=goal)
            self._follow_ups[RELOCATION].append(moved)
        if not self.how.shrink:
            return
        for number, change in enumerate(row["changes"]):
            key = self._register.key(row["image"], change)
            if change["cleared"] and key not in self._shrunk:
                self._shrunk.add(key)
                shrunk = Task(SHRINKING, done.task.insertion, origin=done.index, change=number)
                self._follow_ups[SHRINKING].append(shrunk)

    def _destination(self, image: int) -> tuple[float, float]:
        wanted, background = self.how.destination, self.backgrounds[image]
        if wanted == "centroid":
            centres: Floats = (background.firm[:, :2] + background.firm[:, 2:]) / 2
            x, y = centres.mean(axis=0).tolist()
            return x, y
        centre = background.width / 2, background.height / 2
        return centre if wanted == "centre" else (float(wanted[0]), float(wanted[1]))
