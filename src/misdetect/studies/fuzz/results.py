"""A campaign read from its rows: the phases, and the distinct failures of its insertions, the worst first."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from misdetect.engine.store import Run
from misdetect.metrics.control import Control
from misdetect.metrics.harm import HARMFUL
from misdetect.studies.fuzz.failures import Key, Register, counted
from misdetect.studies.fuzz.rows import CLEAN, INSERTION, RELOCATION, SHRINKING
from misdetect.studies.fuzz.settings import FuzzSettings

Row = Mapping[str, Any]
Order = tuple[bool, bool, bool, float, int]


def order(row: Row, change: Mapping[str, Any]) -> Order:
    """How bad ``change`` of ``row`` is, the worst first: the object's doing (or what would be if flicker could be
    told), harmful, most score lost (or won, by an extra one); what is equal stays in the order of cases."""
    lost = abs(change["score"] - change["after"])
    return not change["attributable"], not change["cleared"], change["harm"] != HARMFUL, -lost, row["case_index"]


@dataclass
class Distinct:
    """One failure: its ``key``, the ``row`` and ``change`` that show it best (attributable, then harmful, then most
    score lost), and in how many cases (``times``) it shows."""

    key: Key
    row: Row
    change: Mapping[str, Any]
    times: int = 1

    @property
    def attributable(self) -> bool:
        """Whether it is the inserted object's doing."""
        return bool(self.change["attributable"])

    def by_patches(self, control: Control) -> bool | None:
        """Whether it is none that patches of texture make; ``None`` where that is not clear."""
        seen = self.change["patches"]
        if self.change["cleared"]:
            return True
        return False if seen and control.clear(len(seen), sum(seen)) is False else None

    @property
    def order(self) -> Order:
        """The worst failures, and the best evidence of each, come first."""
        return order(self.row, self.change)


@dataclass(frozen=True, eq=False)
class Campaign:
    """The rows of a run by phase, in order of cases, and the distinct failures of its insertions."""

    how: FuzzSettings
    clean: list[Row]
    insertions: list[Row]
    relocations: list[Row]
    shrunk: list[Row]
    distinct: list[Distinct]

    @classmethod
    def of(cls, run: Run) -> "Campaign":
        """Read ``run``."""
        how = FuzzSettings.of(run.chosen)
        phases: dict[str, list[Row]] = defaultdict(list)
        for row in run.table().to_pylist():
            phases[row["phase"]].append(row)
        found = _distinct(phases[INSERTION], how.count_flicker)
        return cls(how, phases[CLEAN], phases[INSERTION], phases[RELOCATION], phases[SHRINKING], found)

    @cached_property
    def place(self) -> dict[str, int]:
        """The number of each background, in the order of their cases."""
        return {row["image"]: i for i, row in enumerate(self.clean)}

    @cached_property
    def asked(self) -> list[Row]:
        """Insertions that were natural enough to be asked about."""
        return [row for row in self.insertions if row["failed"] is not None]

    @cached_property
    def failing(self) -> list[Row]:
        """Insertions that fail."""
        return [row for row in self.asked if counted(row, self.how.count_flicker)]

    @property
    def everything(self) -> list[Row]:
        """The rows of all phases."""
        return [*self.clean, *self.insertions, *self.relocations, *self.shrunk]

    @property
    def queries(self) -> int:
        """Questions of all phases."""
        return sum(row["queries"] for row in self.everything)

    @property
    def relocated(self) -> list[Row]:
        """Relocations that got anywhere."""
        return [row for row in self.relocations if row["progress"] > 0]

    @property
    def attributable(self) -> list[Distinct]:
        """Distinct failures that are the inserted object's doing."""
        return [failure for failure in self.distinct if failure.attributable]


def _distinct(insertions: Sequence[Row], count_flicker: bool) -> list[Distinct]:
    register = Register()
    found: dict[Key, Distinct] = {}
    for row in insertions:
        for change in counted(row, count_flicker):
            key = register.key(row["image"], change)
            new, known = Distinct(key, row, change), found.get(key)
            if known is not None:
                new.times = known.times = known.times + 1
            if known is None or new.order < known.order:
                found[key] = new
    return sorted(found.values(), key=lambda failure: failure.order)
