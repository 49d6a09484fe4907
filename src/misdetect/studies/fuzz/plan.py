"""What a campaign does next: rounds of insertions, then of relocations, then of shrinking, within its queries.

Several rounds are under way at a time, so that the detector need not wait while one is evaluated and the next planned.
A round is planned from the rows of all that are not under way, in order; how long a case takes and which worker had it
does not matter. No round holds more than the budget could pay for if every case under way cost the most it can.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from misdetect.boxes import Floats
from misdetect.metrics.metamorphic import Change
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

_BARREN = 512
"""Insertions in rounds of which none was natural enough to be asked about, before a campaign gives up."""

Row = Mapping[str, Any]
HandOut = Callable[["list[Task]"], Generator[Any, None, range]]
"""Starts a round of tasks: yields their cases, returns their indices."""
Wait = Callable[[range], Generator[Any, None, list[tuple[int, Row]]]]
"""Waits for cases: yields as long as it has to, returns ``(case index, row)`` in order."""


@dataclass(frozen=True)
class Task:
    """One case to come: the ``insertion`` to ask about, or to relocate or shrink from. ``known`` failures of the
    background need no control any more. ``origin`` is the case index of the failure that a search starts from,
    ``change`` the number of the change that shrinking has to keep. ``budget``: the queries that were planned with."""

    phase: str
    insertion: Insertion
    known: tuple[Change, ...] = ()
    origin: int = -1
    change: int = -1
    destination: tuple[float, float] | None = None
    budget: int | None = None


class Strategy(Protocol):
    """Plans insertions, and learns from their rows."""

    def plan(self, most: int) -> list[Insertion]:
        """Up to ``most`` insertions; none when there is nothing left to try."""
        ...

    def learn(self, rows: Sequence[Row]) -> None:
        """Take in the rows of the last plan, in order."""
        ...


class Listed:
    """Random and guided insertion: ``per_object`` of them per detection, background by background in turn, so that a
    budget that ends early has seen as many backgrounds as it could. Each says how many draws before it found no place,
    the last one also of those after it."""

    def __init__(self, backgrounds: Sequence[Background], how: FuzzSettings) -> None:
        self._backgrounds, self._how = backgrounds, how
        self._draws = self._drawn()
        self._dropped = 0
        self._next = self._placed()

    def _drawn(self) -> Iterator[Insertion | None]:
        draw = random_insertion if self._how.strategy == "random" else guided_insertion
        most = max((len(each.firm) for each in self._backgrounds), default=0) * self._how.per_object
        for turn in range(most):
            for background in self._backgrounds:
                if turn < len(background.firm) * self._how.per_object:
                    generator = np.random.default_rng([self._how.seed, 5, background.image, turn])
                    yield draw(background, self._how.allowed, generator)

    def _placed(self) -> Insertion | None:
        """The next insertion that has a place; ``None`` after the last."""
        for drawn in self._draws:
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
            found[-1] = replace(found[-1], dropped=found[-1].dropped + self._dropped)
        return found

    def learn(self, rows: Sequence[Row]) -> None:
        """Nothing to learn."""


class Planner:
    """Rounds of tasks for ``backgrounds``; ``spent`` queries so far, ``noisy``: every failure is asked about twice.

    ``budgets`` are the queries of the first sitting and the larger ones that the campaign was resumed with: each is
    planned when the one before it is used up, so that what was done stays as it was.
    """

    def __init__(
        self,
        backgrounds: Sequence[Background],
        how: FuzzSettings,
        classes: Classes,
        spent: int,
        noisy: bool,
        budgets: Sequence[int | None],
    ) -> None:
        self.backgrounds = {each.image: each for each in backgrounds}
        self.how, self.spent, self._classes = how, spent, classes
        self._budgets, self._budget = tuple(budgets), budgets[0]
        self._costs = {INSERTION: 3 if noisy else 2, RELOCATION: MOST_MOVES, SHRINKING: 2 * SHRINK_STEPS}
        adaptive = how.strategy == "adaptive"
        self._strategy: Strategy = (
            Adaptive(backgrounds, how.allowed, how.rules, how.seed) if adaptive else Listed(backgrounds, how)
        )
        self._round = _ROUND if how.queries is None or not adaptive else min(_ROUND, max(8, how.queries // 128))
        self._failing: list[tuple[int, Row]] = []
        self._known: dict[int, list[Change]] = {}
        self._followed: set[tuple[str, int, int]] = set()

    def rounds(self, hand_out: HandOut, wait: Wait) -> Iterator[Any]:
        """Plan all rounds, ``hand_out`` their cases and ``wait`` for them, yielding what these yield."""
        for budget in self._budgets:
            self._budget = budget
            yield from self._search(hand_out, wait)
            if self.how.relocate:
                yield from self._follow(RELOCATION, self._relocations(), hand_out, wait)
            if self.how.shrink:
                yield from self._follow(SHRINKING, self._shrinkings(), hand_out, wait)

    def _room(self, phase: str, reserved: float = 0.0, under_way: int = 0) -> int:
        """How many cases of ``phase`` the queries that are left pay for, with as many as are ``under_way``."""
        if self._budget is None:
            return 10**9
        left = self._budget * (1 - reserved) - self.spent
        return max(0, int(left) // self._costs[phase] - under_way)

    def _search(self, hand_out: HandOut, wait: Wait) -> Iterator[Any]:
        reserved = _RESERVED * (self.how.relocate + self.how.shrink)
        under_way = deque[range]()
        barren = 0
        while True:
            while barren < _BARREN and len(under_way) < _UNDER_WAY:
                room = self._room(INSERTION, reserved, sum(map(len, under_way)))
                # what is left at the end is divided, or the second round would have to wait for the first
                plan = self._strategy.plan(min(self._round, -(-room // _UNDER_WAY))) if room else []
                if not plan:
                    break
                tasks = [Task(INSERTION, edit, tuple(self._known.get(edit.image, ()))) for edit in plan]
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

    def _hand_out(self, tasks: list[Task], hand_out: HandOut) -> Generator[Any, None, range]:
        """The budget goes into the rows: a resumed campaign plans with the same ones."""
        return hand_out([replace(task, budget=self._budget) for task in tasks])

    def _remember(self, rows: Iterable[Row]) -> None:
        """The adaptive strategy does not pay for the control of what it has found before; the paper's two do."""
        if self.how.strategy == "adaptive":
            for row in rows:
                found = [self._classes.change(change) for change in row["changes"] if change["attributable"]]
                self._known.setdefault(row["number"], []).extend(found)

    def _follow(self, phase: str, tasks: list[Task], hand_out: HandOut, wait: Wait) -> Iterator[Any]:
        reserved = _RESERVED if phase == RELOCATION and self.how.shrink else 0.0
        tasks = [task for task in tasks if (phase, task.origin, task.change) not in self._followed]
        while tasks and (room := self._room(phase, reserved)):
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
        """The first case of each attributable failure."""
        register, seen = Register(), set[Key]()
        tasks = []
        for index, row in self._failing:
            for number, change in enumerate(row["changes"]):
                key = register.key(row["image"], change)
                if change["attributable"] and key not in seen:
                    seen.add(key)
                    tasks.append(Task(SHRINKING, Insertion.of_row(row), origin=index, change=number))
        return tasks
