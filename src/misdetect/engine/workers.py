"""Several local processes on the same cases, each with its own detector, at the other end of a pipe."""

import multiprocessing
import os
import pickle
import signal
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from typing import Any

from misdetect.engine.conversation import Conversation, Lost, Seat
from misdetect.engine.line import Message, work
from misdetect.engine.requests import Case, Finished, Study, UnderWay
from misdetect.said.errors import DetectorFailed

_NOT_HEEDED = [signal.Signals[name] for name in ("SIGINT", "SIGHUP", "SIGBREAK") if hasattr(signal, name)]


def _work(parent: "Connection[Any, Any]", *how: Any) -> None:
    """The body of a worker process."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for number in _NOT_HEEDED:
        signal.signal(number, signal.SIG_IGN)  # the parent decides when to stop
    study, make_detector, asking = how
    work(parent, lambda: asking.pump(make_detector(), study))


class _Process(Seat):
    """A process that does ``_work``."""

    def __init__(self, *how: Any) -> None:
        super().__init__()
        spawn = multiprocessing.get_context("spawn")
        self.line, theirs = spawn.Pipe()
        self.process = spawn.Process(target=_work, args=(theirs, *how), daemon=True)
        with _deaf_to_ctrl_c():
            self.process.start()
        theirs.close()

    def send(self, cases: list[Case]) -> None:
        try:
            self.line.send(cases)
        except OSError:
            raise Lost(self._code()) from None

    def hear(self) -> Sequence[Message]:
        try:
            return [self.line.recv()]
        except (EOFError, OSError, pickle.UnpicklingError):
            self.process.join(5)
            raise Lost(self._code()) from None

    def gone(self) -> str | None:
        return None if self.process.is_alive() or self.line.poll() else self._code()

    def _code(self) -> str:
        return f"exit code {self.process.exitcode}"

    def end(self) -> None:
        self.process.terminate()
        self.process.join(1.0)
        if self.process.is_alive():  # stopped, or deaf to the signal
            self.process.kill()
            self.process.join()
        self.line.close()


@contextmanager
def _deaf_to_ctrl_c() -> Iterator[None]:
    """A worker that is started inside leaves Ctrl-C to its parent from the first moment on, before it can say so
    itself; on Windows only from then on."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # type: ignore[attr-defined, unused-ignore]
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)  # type: ignore[attr-defined, unused-ignore]


class Workers(Conversation):
    """``count`` processes on this machine."""

    def run(self, study: Study, cases: Iterable[Case | None]) -> Iterator[Finished | UnderWay]:
        """As ``Backend.run``."""
        try:
            pickle.dumps((study, self._make))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise DetectorFailed(
                f"this detector or study cannot be sent to workers ({error}); use --workers 1."
            ) from None
        threads = os.environ.get("OMP_NUM_THREADS")
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        try:
            yield from super().run(study, cases)
        finally:
            if threads is None:
                os.environ.pop("OMP_NUM_THREADS", None)

    def _start(self, study: Study) -> _Process:
        return _Process(study, self._make, self._asking)

    def _ready(self, seats: Sequence[Any], seconds: float) -> Sequence[Seat]:
        heard = wait([seat.line for seat in seats], timeout=seconds)
        return [seat for seat in seats if seat.line in heard]

    def _end_all(self) -> None:
        for seat in self._seats:
            seat.process.terminate()  # type: ignore[attr-defined]
        super()._end_all()
