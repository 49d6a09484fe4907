"""A worker's side of its conversation with the parent, wherever it runs: cases come in, what is finished goes out.

``work`` is the body of every worker: the same pump as in a single process, so its rows are the same. How words travel
is a ``Channel``: a pipe between processes of one machine (``workers``), calls of an actor on a cluster (``cluster``).
"""

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

from misdetect.engine.backend import problems_of, requests_of
from misdetect.engine.pump import Pump
from misdetect.engine.requests import Case, Finished, UnderWay
from misdetect.said.errors import DetectorFailed, MisdetectError

ALIVE = 1.0
"""Seconds between a worker's signs of life."""
_SEND_EVERY = 0.02
"""Seconds for which a worker gathers what it has to say of cases before it says it."""

Message = tuple[str, Any]
"""What a worker says: ``("alive", seconds of the longest call)``, ``("hungry", batch)``, ``("cases", events)``,
``("failed", error)``, ``("end", (stats, spent, notes))``."""


class Channel(Protocol):
    """How a worker hears and speaks; an ``OSError`` or ``EOFError`` where the parent is gone."""

    def poll(self) -> bool:
        """Whether cases have come that were not yet received."""
        ...

    def recv(self) -> list[Case]:
        """The next cases, waited for; an empty list: no more."""
        ...

    def send(self, message: Message, /) -> None:
        """Tell the parent."""
        ...


class _Line:
    """A worker's end of a channel: a source of cases, and what is finished goes out in batches."""

    def __init__(self, parent: Channel) -> None:
        self._parent = parent
        self._lock = threading.Lock()
        self._cases: list[Case] = []
        self._closed = self._hungry = False
        self._events: list[Finished | UnderWay] = []
        self.batch = 1
        self._sent = time.monotonic()

    def next(self, block: bool) -> Case | None:
        while not self._cases:
            if self._closed:
                raise StopIteration
            if not self._parent.poll():
                if not self._hungry:
                    self.send()  # what comes next may depend on it
                    self.say("hungry", self.batch)
                    self._hungry = True
                if not block:
                    return None
                self.send()
            batch = self._parent.recv()
            self._closed, self._hungry = not batch, False
            self._cases = batch[::-1]
        return self._cases.pop()

    def add(self, event: Finished | UnderWay) -> None:
        self._events.append(event)
        if time.monotonic() - self._sent > _SEND_EVERY:
            self.send()

    def send(self) -> None:
        if self._events:
            self.say("cases", self._events)
        self._events, self._sent = [], time.monotonic()

    def say(self, kind: str, content: Any = None) -> None:
        with self._lock:
            self._parent.send((kind, content))

    def stay_alive(self, pump: Callable[[], Pump | None]) -> None:
        """Say every second, from a thread of its own, that this worker lives, and how long the detector has been at
        what it is doing."""

        def tell() -> None:
            with contextlib.suppress(OSError):  # the parent is gone: the main thread will see
                while True:
                    running = pump()
                    self.say("alive", 0.0 if running is None else running.longest_call())
                    time.sleep(ALIVE)

        threading.Thread(target=tell, daemon=True).start()


def work(parent: Channel, make_pump: Callable[[], Pump]) -> None:
    """The body of a worker: run what ``parent`` hands out through the pump that it makes for itself."""
    pump: Pump | None = None
    line = _Line(parent)
    line.stay_alive(lambda: pump)
    try:
        try:
            pump = make_pump()
            line.batch = pump.batch_size
            for event in pump.run(line):
                line.add(event)
            line.send()
            line.say("end", (pump.stats + requests_of(pump.detector), pump.spent, problems_of(pump)))
        except MisdetectError as error:
            line.say("failed", error)
        except SystemExit as error:
            line.say("failed", DetectorFailed(f"the detector ended its process (exit code {error.code})."))
        except (BrokenPipeError, EOFError, ConnectionResetError):
            raise
        except Exception as error:
            line.say("failed", DetectorFailed(f"a worker failed: {type(error).__name__}: {error}"))
    except (OSError, EOFError):  # the parent is gone: nobody is left to tell
        return
