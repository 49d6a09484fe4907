"""Several local processes on the same cases, each with its own detector.

The parent hands out cases and collects what is finished; a worker runs the same pump as a single process would, so its
rows are the same. A worker that dies, or is not heard of any more, is replaced and its cases are asked again, one at a
time, so that a case that kills its worker is found and given up. Nothing is sent to a worker that is gone.
"""

import contextlib
import multiprocessing
import os
import pickle
import signal
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from typing import Any

from misdetect.engine.backend import Asking, problems_of, requests_of
from misdetect.engine.pump import Pump
from misdetect.engine.requests import Case, Finished, Study
from misdetect.errors import DetectorFailed, MisdetectError

_SEND_EVERY = 0.05
"""Seconds for which a worker gathers finished cases before it sends them."""
_AHEAD = 64
"""Cases a worker holds at most beyond those it runs, so that it never waits for the parent. Towards the end it gets its
fair share of what is left instead, so that all finish together however long a case is."""
_ALIVE = 1.0
"""Seconds between a worker's signs of life."""
_SILENT = 60.0
"""Seconds without one after which a worker counts as stopped."""
_STARTS = 180.0
"""The same while a worker loads its detector."""
_DEATHS = 3
"""Workers that may be lost one after the other without a case done between them; and with the same case."""


class _Line:
    """A worker's connection to the parent: cases come in (an empty list: no more), finished ones go out in batches."""

    def __init__(self, parent: "Connection[Any, Any]") -> None:
        self._parent = parent
        self._lock = threading.Lock()
        self._cases: list[Case] = []
        self._closed = self._hungry = False
        self._finished: list[Finished] = []
        self.batch = 1
        self._sent = time.monotonic()

    def next(self, block: bool) -> Case | None:
        while not self._cases:
            if self._closed:
                raise StopIteration
            if not self._parent.poll():
                if not self._hungry:
                    self.say("hungry", self.batch)
                    self._hungry = True
                if not block:
                    return None
                self.send()  # the parent sends more only when it hears what is done
            batch = self._parent.recv()
            self._closed, self._hungry = not batch, False
            self._cases = batch[::-1]
        return self._cases.pop()

    def add(self, finished: Finished) -> None:
        self._finished.append(finished)
        if time.monotonic() - self._sent > _SEND_EVERY:
            self.send()

    def send(self) -> None:
        if self._finished:
            self.say("finished", self._finished)
        self._finished, self._sent = [], time.monotonic()

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
                    time.sleep(_ALIVE)

        threading.Thread(target=tell, daemon=True).start()


def _work(parent: "Connection[Any, Any]", study: Study, make_detector: Callable[[], Any], asking: Asking) -> None:
    """The body of a worker process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to stop
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    pump: Pump | None = None
    line = _Line(parent)
    line.stay_alive(lambda: pump)
    try:
        try:
            pump = asking.pump(make_detector(), study)
            line.batch = pump.batch_size
            for finished in pump.run(line):
                line.add(finished)
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


class _Worker:
    """A process as the parent sees it: what it holds, when it was last heard, whether what it holds is a suspect, which
    it then holds ``alone``. ``batch``: images its detector takes at once, 0 until it is loaded. ``hungry``: what it
    holds does not keep its detector busy."""

    def __init__(self, start: Callable[[Any], Any]) -> None:
        self.line, theirs = multiprocessing.get_context("spawn").Pipe()
        self.process = start(theirs)
        theirs.close()
        self.held: dict[int, Case] = {}
        self.closed = self.heard = self.alone = self.hungry = False
        self.batch = 0
        self.last = time.monotonic()

    def send(self, cases: list[Case]) -> bool:
        """Hand over ``cases``; whether it could be done."""
        try:
            self.line.send(cases)
        except OSError:
            return False
        self.held |= {case.index: case for case in cases}
        self.closed, self.hungry = not cases, False
        return True

    def end(self) -> None:
        """Make sure that the process is gone."""
        self.process.terminate()
        self.process.join(1.0)
        if self.process.is_alive():  # stopped, or deaf to the signal
            self.process.kill()
            self.process.join()
        self.line.close()


class Workers:
    """``count`` processes, each with a detector of its own that ``make_detector`` (picklable) makes."""

    def __init__(self, count: int, make_detector: Callable[[], Any], asking: Asking) -> None:
        self._count, self._make, self._asking = count, make_detector, asking
        self.stats: Counter[str] = Counter()
        self.spent = False
        self.notes: tuple[str, ...] = ()
        self._workers: list[_Worker] = []
        self._queue: deque[Case] = deque()
        self._suspects: deque[Case] = deque()
        self._exhausted = False
        self._deaths = self._replaced = 0
        self._blamed: Counter[int] = Counter()

    def run(self, study: Study, cases: Iterable[Case | None]) -> Iterator[Finished]:
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
            self._workers = [self._start(study) for _ in range(self._count)]
            yield from self._converse(study, iter(cases))
        finally:
            for worker in self._workers:
                worker.process.terminate()
            for worker in self._workers:
                worker.end()
            if threads is None:
                os.environ.pop("OMP_NUM_THREADS", None)
            if self._replaced:
                self.notes += (f"{self._replaced} worker processes ended or stopped and were replaced.",)

    def _start(self, study: Study) -> _Worker:
        def process(line: Any) -> Any:
            made = multiprocessing.get_context("spawn").Process(
                target=_work, args=(line, study, self._make, self._asking), daemon=True
            )
            # a worker leaves Ctrl-C to its parent from the first moment on, before it can say so itself
            before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            try:
                made.start()
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
            return made

        return _Worker(process)

    def _converse(self, study: Study, source: Iterator[Case | None]) -> Iterator[Finished]:
        """Keep every worker supplied, yield what they finish, until all have ended."""
        while True:
            for worker in list(self._workers):
                yield from self._supply(worker, source, study)
            if not self._workers:
                return
            ready = wait([worker.line for worker in self._workers], timeout=_ALIVE)
            for worker in list(self._workers):
                if worker.line in ready:
                    yield from self._hear(worker, study)
                elif (why := self._overdue(worker)) is not None:
                    yield from self._lose(worker, study, why)

    def _hear(self, worker: _Worker, study: Study) -> Iterator[Finished]:
        """Take in one message."""
        try:
            kind, content = worker.line.recv()
        except (EOFError, OSError, pickle.UnpicklingError):
            worker.process.join(5)
            yield from self._lose(worker, study, f"exit code {worker.process.exitcode}")
            return
        worker.last, worker.heard = time.monotonic(), True
        if kind == "alive" and self._asking.timeout is not None and content > self._asking.timeout:
            yield from self._lose(worker, study, f"the detector took more than {self._asking.timeout:g} s")
        elif kind == "failed":
            raise content
        elif kind == "hungry":
            worker.batch, worker.hungry = content, True
        elif kind == "finished":
            self._deaths = 0
            for finished in content:
                worker.held.pop(finished.case.index, None)
            yield from content
        elif kind == "end":
            self.stats.update(content[0])
            self.spent = self.spent or content[1]
            self.notes += tuple(note for note in content[2] if note not in self.notes)
            self._workers.remove(worker)
            worker.end()

    def _overdue(self, worker: _Worker) -> str | None:
        """Why a worker counts as lost, if it does."""
        silent = time.monotonic() - worker.last
        if not worker.process.is_alive() and not worker.line.poll():
            return f"exit code {worker.process.exitcode}"
        return f"not heard for {silent:.0f} s" if silent > (_SILENT if worker.heard else _STARTS) else None

    def _lose(self, worker: _Worker, study: Study, why: str) -> Iterator[Finished]:
        """Replace a worker. What it held is suspect; a suspect that loses one worker after the other is given up."""
        worker.end()
        self._workers.remove(worker)
        self._deaths += 1
        self._replaced += 1
        for case in worker.held.values():
            self._blamed[case.index] += 1
            if worker.alone and self._blamed[case.index] >= _DEATHS:
                self._deaths = 0
                yield Finished(case, [], f"{DetectorFailed.kind}: it lost its worker process each time ({why}).")
            else:
                self._suspects.append(case)
        if self._deaths > max(_DEATHS, self._count):
            raise DetectorFailed(
                f"worker processes keep ending ({why}); out of memory? The run can be resumed, with fewer --workers."
            )
        if self._suspects or self._queue or not self._exhausted:
            self._workers.append(self._start(study))

    def _supply(self, worker: _Worker, source: Iterator[Case | None], study: Study) -> Iterator[Finished]:
        """Hand ``worker`` its next cases, or tell it that there are no more."""
        if worker.closed:
            return
        self._fill(source)
        if self.spent:
            cases: list[Case] = []
        elif worker.alone and worker.held:
            return
        elif self._suspects:
            if worker.held:
                return
            cases, worker.alone = [self._suspects.popleft()], True
        else:
            worker.alone = False
            cases = [self._queue.popleft() for _ in range(self._share(worker))]
            if not cases and (self._queue or not self._exhausted or self._held()):
                return  # more may come, from the source or from a worker that is lost
        if not worker.send(cases):
            self._queue.extendleft(reversed(cases))
            yield from self._lose(worker, study, f"exit code {worker.process.exitcode}")

    def _share(self, worker: _Worker) -> int:
        """How many cases ``worker`` is handed now: towards the end fewer, so that all finish together, but whole
        batches where a case does not fill one by itself: a part of one takes as long."""
        if not worker.batch or not self._queue:
            return 0
        share, batch = min(_AHEAD, max(1, len(self._queue) // (2 * self._count))), worker.batch
        if share > batch:
            share -= share % batch
        elif worker.hungry and len(worker.held) < 2 * batch:
            return min(batch, -(-len(self._queue) // self._count))
        return share if len(worker.held) <= share else 0

    def _held(self) -> bool:
        return any(worker.held for worker in self._workers)

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
