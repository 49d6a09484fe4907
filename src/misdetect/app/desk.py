"""``Desk``: one detector, many who ask, and of each asker only the newest question waits.

Whoever drags an object over a photo asks faster than a detector answers. A question that is still waiting when its
asker has a newer one is dropped and never reaches the detector; one that the detector is at is finished. Different
askers take turns. Behind the desk is the engine's pump, in a thread of its own for as long as the desk is open: a
thread that is new to torch costs as much as an image.
"""

from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Condition, Thread
from typing import Any

from misdetect.engine import joint_budget
from misdetect.engine.backend import Asking
from misdetect.engine.requests import Case, Finished, Request, Steps
from misdetect.said.errors import BadData, BadImage, DetectorFailed, MisdetectError

_MOST = 64
"""Askers that may wait at a time."""


class Dropped(Exception):
    """A newer question of the same asker took this one's place."""


class Overrun(MisdetectError):
    """More askers wait than the desk lets in. Try again when some have their answers."""

    kind = "overrun"


@dataclass(eq=False)
class _Ticket:
    """Some questions, which ``turn`` of their asker they are of, and where their ``answers`` or the error will be."""

    requests: Sequence[Request]
    turn: int
    answers: "Future[list[Any]]" = field(default_factory=Future)

    def fail(self, error: Exception) -> None:
        """Tell whoever asked, unless they know already, or have gone."""
        if not self.answers.done():
            self.answers.set_exception(error)


@dataclass(eq=False)
class _Questions:
    """The study behind the desk: a case is a ticket, its rows are nobody's."""

    name: str = "playground"
    schema: Any = None
    data: Any = None

    def settings(self) -> dict[str, Any]:
        return {}

    def __len__(self) -> int:
        return 0

    def cases(self) -> Iterable[Case]:
        return ()

    def run(self, case: Case) -> Steps:
        ticket: _Ticket = case.content
        found = yield list(ticket.requests)
        if not ticket.answers.done():  # as it is where the desk was closed meanwhile
            ticket.answers.set_result(found)
        return []


@dataclass(eq=False)
class Desk:
    """Asks ``detector``. Predictions are remembered while it is open, and kept nowhere."""

    detector: Any
    _waiting: dict[str, _Ticket] = field(default_factory=dict)
    _changed: Condition = field(default_factory=Condition)
    _thread: Thread | None = None
    _under_way: _Ticket | None = None
    _closed: str = ""

    def ask(self, asker: str, requests: Sequence[Request], turn: int = 0) -> list[Any]:
        """The answers to ``requests``, when it is their turn; ``Dropped`` where ``asker`` asks something newer before
        that, a ``DetectorFailed`` or ``BadImage`` where there is none. ``turn``: what comes late, after something of a
        later turn, is not newer for that."""
        return self.asked(asker, requests, turn).result()

    def asked(self, asker: str, requests: Sequence[Request], turn: int = 0) -> "Future[list[Any]]":
        """The same, for who does not want to wait here."""
        ticket = _Ticket(requests, turn)
        with self._changed:
            if self._closed:
                raise BadData(self._closed)
            older = self._waiting.get(asker)
            if older is not None and older.turn > turn:
                raise Dropped
            if older is None and len(self._waiting) >= _MOST:
                raise Overrun(f"{_MOST} others wait for this detector; try again later.")
            self._waiting[asker] = ticket  # in the place of the older one: whoever asks often waits no longer
            if older is not None:
                older.fail(Dropped())
            if self._thread is None:
                self._thread = Thread(target=self._work, name="desk", daemon=True)
                self._thread.start()
            self._changed.notify_all()
        return ticket.answers

    def close(self) -> None:
        """Answer nobody any more."""
        self._close("the playground is closed.")

    def _close(self, why: str) -> None:
        with self._changed:
            self._closed = self._closed or why
            left = [*self._waiting.values(), *([self._under_way] if self._under_way else [])]
            self._waiting.clear()
            self._changed.notify_all()
        for ticket in left:
            ticket.fail(BadData(self._closed))

    def next(self, block: bool) -> Case | None:
        """For the pump: the ticket that has waited longest. None while another is under way, so that what is asked next
        is chosen when the detector is free and not before."""
        if not block:
            return None
        with self._changed:
            while True:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                if self._closed:
                    raise StopIteration
                asker = next(iter(self._waiting))
                self._under_way = ticket = self._waiting.pop(asker)
                if ticket.answers.set_running_or_notify_cancel():  # else whoever asked has gone
                    return Case(0, asker, ticket)

    def _work(self) -> None:
        """Answer tickets until the desk is closed or the detector's own budget is spent."""
        try:
            asking = Asking(cached=False, budget=joint_budget(None, self.detector, None), inline=True)
            for event in asking.pump(self.detector, _Questions()).run(self):
                if isinstance(event, Finished) and event.error is not None:
                    event.case.content.fail(_fault(event.error))
            self._close("the detector's own budget is spent; nothing was asked.")
        except Exception as error:  # of this program: whoever waits is told rather than left waiting
            self._close(f"asking the detector ended with {type(error).__name__}: {error}")


def _fault(error: str) -> MisdetectError:
    kind, _, told = error.partition(": ")
    return (BadImage if kind in BadImage.kinds() else DetectorFailed)(told)
