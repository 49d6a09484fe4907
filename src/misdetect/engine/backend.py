"""``Backend``: what runs cases. In this process here, in local workers in ``workers``, on a cluster in ``cluster``.

A study does not know which one runs it, and its rows are the same. What a backend did is in its ``stats`` and ``spent``
when its ``run`` is over.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from misdetect.engine.cache import UNBOUNDED, Cache
from misdetect.engine.pump import Grants, Journal, Pump
from misdetect.engine.requests import Case, Finished, Study, UnderWay
from misdetect.kept.budget import Budget


class Backend(Protocol):
    """Runs cases of a study against a detector. ``stats`` counts what ``Pump.stats`` does, over all it ran; ``spent``:
    the budget ended it; ``notes`` are worth telling a reader of the results."""

    @property
    def stats(self) -> "Counter[str]": ...
    @property
    def spent(self) -> bool: ...
    @property
    def notes(self) -> tuple[str, ...]: ...

    def run(self, study: Study, cases: Iterable[Case | None]) -> Iterator[Finished | UnderWay]:
        """Yield each of ``cases`` as it finishes, and how far it is where ``study`` wants to know; ``None`` among them
        says that the next depends on those under way."""
        ...


@dataclass(frozen=True)
class Asking:
    """How a detector is asked, wherever that happens. ``journal``: the file in which answers that cost something are
    kept (``None``: nowhere); ``timeout``: seconds after which a call to the detector is given up, where that is
    possible; ``inline``: call it in the thread that asks, see ``Pump``."""

    batch_size: int | None = None
    cached: bool = True
    budget: Budget | None = None
    journal: Path | None = None
    timeout: float | None = None
    inline: bool = False

    def pump(self, detector: Any, study: Study, grants: Grants | None = None, journal: Journal | None = None) -> Pump:
        """A pump that asks in this way. Whoever cannot reach the files of budget and journal brings who can."""
        return Pump(
            detector,
            study,
            batch_size=self.batch_size,
            cache=Cache() if self.cached else None,
            journal=self.open_journal() if journal is None else journal,
            budget=self.budget if grants is None else grants,
            inline=self.inline,
        )

    def open_journal(self) -> Cache | None:
        """The journal, or ``None`` where there is none."""
        return None if self.journal is None else Cache(self.journal, UNBOUNDED, needed=True)


@dataclass(frozen=True)
class Cluster:
    """Where cases run beyond this machine: a Ray cluster at ``address`` (``None``: the one that Ray finds, or one of
    this machine's own), ``cpus`` and ``gpus`` for each worker; ``ship``: the data's images travel there."""

    address: str | None = None
    cpus: float = 1.0
    gpus: float = 0.0
    ship: bool = False


def problems_of(pump: Pump) -> tuple[str, ...]:
    """Why its cache or journal is off, if one is."""
    return tuple(kept.problem for kept in (pump.cache, pump.journal) if kept is not None and kept.problem)


def requests_of(detector: Any) -> "Counter[str]":
    """What an endpoint counts itself, since it was last asked: ``requests``, and ``retried`` ones among them. Any other
    detector is asked by a pump alone, which counts."""
    return Counter(detector.counted() if hasattr(detector, "counted") else {})


class InProcess:
    """The cases run in this process."""

    def __init__(self, detector: Any, asking: Asking) -> None:
        self._detector, self._asking = detector, asking
        self.stats: Counter[str] = Counter()
        self.spent = False
        self.notes: tuple[str, ...] = ()

    def run(self, study: Study, cases: Iterable[Case | None]) -> Iterator[Finished | UnderWay]:
        """As ``Backend.run``."""
        pump = self._asking.pump(self._detector, study)
        self.stats = pump.stats
        try:
            yield from pump.run(cases)
        finally:
            self.spent = pump.spent
            self.notes = problems_of(pump)
