"""The parent's side of its conversation with workers: who gets which cases, and what becomes of those who are lost.

The parent hands out cases and collects what is finished. A worker that dies, or is not heard of any more, is replaced
and its cases are asked again, one at a time, so that a case that kills its worker is found and given up. Nothing is
sent to a worker that is gone. What a worker is (a process, an actor on a cluster) is known to its ``Seat`` alone.
"""

import time
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from misdetect.engine.backend import Asking
from misdetect.engine.line import ALIVE, Message
from misdetect.engine.requests import Case, Finished, Study, UnderWay
from misdetect.said.errors import DetectorFailed

_AHEAD = 64
"""Cases a worker holds at most beyond those it runs, so that it never waits for the parent. Towards the end it gets its
fair share of what is left instead, so that all finish together however long a case is."""
_SILENT = 60.0
"""Seconds without a sign of life after which a worker counts as stopped."""
_STARTS = 180.0
"""The same until the first one."""
_DEATHS = 3
"""Workers that may be lost one after the other without a case done between them; and with the same case."""


class Lost(Exception):
    """A worker cannot be heard any more; the reason is its text."""


class Seat(ABC):
    """A worker as the parent sees it: what it holds, when it was last heard, whether what it holds is a suspect, which
    it then holds ``alone``. ``batch``: images its detector takes at once, 0 until it is loaded. ``hungry``: what it
    holds does not keep its detector busy."""

    def __init__(self) -> None:
        self.held: dict[int, Case] = {}
        self.closed = self.heard = self.alone = self.hungry = False
        self.batch = 0
        self.last = time.monotonic()

    @abstractmethod
    def send(self, cases: list[Case]) -> None:
        """Hand over ``cases``; ``Lost`` where that cannot be done."""

    @abstractmethod
    def hear(self) -> Sequence[Message]:
        """What it has said; ``Lost`` where it is gone."""

    @abstractmethod
    def gone(self) -> str | None:
        """Why it will never be heard again, where that is known already."""

    @abstractmethod
    def end(self) -> None:
        """Make sure that the worker is gone."""


class Conversation(ABC):
    """A ``Backend`` of ``count`` workers, each with a detector of its own that ``make_detector`` (picklable) makes."""

    def __init__(self, count: int, make_detector: Callable[[], Any], asking: Asking) -> None:
        self._count, self._make, self._asking = count, make_detector, asking
        self.stats: Counter[str] = Counter()
        self.spent = False
        self.notes: tuple[str, ...] = ()
        self._seats: list[Seat] = []
        self._queue: deque[Case] = deque()
        self._suspects: deque[Case] = deque()
        self._exhausted = False
        self._deaths = self._replaced = 0
        self._blamed: Counter[int] = Counter()

    @abstractmethod
    def _start(self, study: Study) -> Seat:
        """A new worker."""

    @abstractmethod
    def _ready(self, seats: list[Seat], seconds: float) -> Sequence[Seat]:
        """Those of ``seats`` that have something to say, waited for at most ``seconds``."""

    def run(self, study: Study, cases: Iterable[Case | None]) -> Iterator[Finished | UnderWay]:
        """As ``Backend.run``."""
        try:
            self._seats = [self._start(study) for _ in range(self._count)]
            yield from self._converse(study, iter(cases))
        finally:
            self._end_all()
            if self._replaced:
                self.notes += (f"{self._replaced} worker processes ended or stopped and were replaced.",)

    def _end_all(self) -> None:
        for seat in self._seats:
            seat.end()

    def _converse(self, study: Study, source: Iterator[Case | None]) -> Iterator[Finished | UnderWay]:
        """Keep every worker supplied, yield what they finish, until all have ended."""
        while True:
            for seat in list(self._seats):
                yield from self._supply(seat, source, study)
            if not self._seats:
                return
            ready = set(self._ready(self._seats, ALIVE))
            for seat in list(self._seats):
                if seat in ready:
                    yield from self._hear(seat, study)
                elif (why := self._overdue(seat)) is not None:
                    yield from self._lose(seat, study, why)

    def _hear(self, seat: Seat, study: Study) -> Iterator[Finished | UnderWay]:
        """Take in what a worker has said."""
        try:
            messages = seat.hear()
        except Lost as why:
            yield from self._lose(seat, study, str(why))
            return
        seat.last, seat.heard = time.monotonic(), True
        for kind, content in messages:
            if kind == "alive" and self._asking.timeout is not None and content > self._asking.timeout:
                yield from self._lose(seat, study, f"the detector took more than {self._asking.timeout:g} s")
                return
            if kind == "failed":
                raise content
            if kind == "hungry":
                seat.batch, seat.hungry = content, True
            elif kind == "cases":
                for event in content:
                    if isinstance(event, Finished):
                        self._deaths = 0
                        seat.held.pop(event.case.index, None)
                yield from content
            elif kind == "end":
                self.stats.update(content[0])
                self.spent = self.spent or content[1]
                self.notes += tuple(note for note in content[2] if note not in self.notes)
                self._dismiss(seat)
                return

    def _dismiss(self, seat: Seat) -> None:
        self._seats.remove(seat)
        seat.end()

    def _overdue(self, seat: Seat) -> str | None:
        """Why a worker counts as lost, if it does."""
        silent = time.monotonic() - seat.last
        if (why := seat.gone()) is not None:
            return why
        return f"not heard for {silent:.0f} s" if silent > (_SILENT if seat.heard else _STARTS) else None

    def _lose(self, seat: Seat, study: Study, why: str) -> Iterator[Finished | UnderWay]:
        """Replace a worker. What it held is suspect; a suspect that loses one worker after the other is given up."""
        self._dismiss(seat)
        self._deaths += 1
        self._replaced += 1
        for case in seat.held.values():
            self._blamed[case.index] += 1
            if seat.alone and self._blamed[case.index] >= _DEATHS:
                self._deaths = 0
                yield Finished(case, [], f"{DetectorFailed.kind}: it lost its worker process each time ({why}).")
            else:
                self._suspects.append(case)
        if self._deaths > max(_DEATHS, self._count):
            raise DetectorFailed(
                f"worker processes keep ending ({why}); out of memory? The run can be resumed, with fewer --workers."
            )
        if self._suspects or self._queue or not self._exhausted:
            self._seats.append(self._start(study))

    def _supply(self, seat: Seat, source: Iterator[Case | None], study: Study) -> Iterator[Finished | UnderWay]:
        """Hand a worker its next cases, or tell it that there are no more."""
        if seat.closed:
            return
        self._fill(source)
        if self.spent:
            cases: list[Case] = []
        elif seat.alone and seat.held:
            return
        elif self._suspects:
            if seat.held or not seat.batch:  # one that waits for a place on a cluster may wait for ever
                return
            cases, seat.alone = [self._suspects.popleft()], True
        else:
            seat.alone = False
            cases = [self._queue.popleft() for _ in range(self._share(seat))]
            if not cases and (self._queue or not self._exhausted or self._held()):
                return  # more may come, from the source or from a worker that is lost
        if not cases and not seat.batch:  # it is still being started, perhaps waits for a place: nobody waits for it
            self._dismiss(seat)
            return
        try:
            seat.send(cases)
        except Lost as why:
            self._queue.extendleft(reversed(cases))
            yield from self._lose(seat, study, str(why))
            return
        seat.held |= {case.index: case for case in cases}
        seat.closed, seat.hungry = not cases, False

    def _share(self, seat: Seat) -> int:
        """How many cases a worker is handed now: towards the end fewer, so that all finish together, but whole
        batches where a case does not fill one by itself: a part of one takes as long."""
        if not seat.batch or not self._queue:
            return 0
        share, batch = min(_AHEAD, max(1, len(self._queue) // (2 * self._count))), seat.batch
        if share > batch:
            share -= share % batch
        elif seat.hungry and len(seat.held) < 2 * batch:
            return min(batch, -(-len(self._queue) // self._count))
        return share if len(seat.held) <= share else 0

    def _held(self) -> bool:
        return any(seat.held for seat in self._seats)

    def _fill(self, source: Iterator[Case | None]) -> None:
        """Look ahead as far as the source can tell before it hears of what is running."""
        while not self._exhausted and not self.spent and len(self._queue) < 2 * self._count * _AHEAD:
            try:
                case = next(source)
            except StopIteration:
                self._exhausted = True
            else:
                if case is None:
                    return
                self._queue.append(case)
