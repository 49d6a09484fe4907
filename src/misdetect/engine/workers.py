"""Several local processes on the same cases, each with its own detector.

The parent hands out cases and collects what is finished; a worker runs the same pump as a single process would, so its
rows are the same. This file is the seam for other kinds of workers: whatever can take cases and give back ``Finished``
(a Ray cluster, say) can stand in for ``run_in_processes`` without a study noticing.
"""

import multiprocessing
import os
import pickle
import signal
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from typing import Any

from misdetect.budget import Budget
from misdetect.engine.cache import Cache
from misdetect.engine.pump import Finished, Pump
from misdetect.engine.requests import Case, Study
from misdetect.errors import DetectorFailed, MisdetectError

_SEND_EVERY = 0.05
"""Seconds for which a worker gathers finished cases before it sends them."""
_AHEAD = 64
"""Cases a worker holds at most beyond those it runs, so that it never waits for the parent. Towards the end it gets its
fair share of what is left instead, so that all finish together however long a case is."""


class _Line:
    """A worker's connection to the parent: cases come in (an empty list: no more), finished ones go out in batches."""

    def __init__(self, parent: "Connection[Any, Any]") -> None:
        self._parent = parent
        self._cases: list[Case] = []
        self._closed = False
        self._finished: list[Finished] = []
        self._sent = time.monotonic()

    def next(self, block: bool) -> Case | None:
        while not self._cases:
            if self._closed:
                raise StopIteration
            if not self._parent.poll():
                if not block:
                    return None
                self.send()  # the parent sends more only when it hears what is done
            batch = self._parent.recv()
            self._closed = not batch
            self._cases = batch[::-1]
        return self._cases.pop()

    def add(self, finished: Finished) -> None:
        self._finished.append(finished)
        if time.monotonic() - self._sent > _SEND_EVERY:
            self.send()

    def send(self) -> None:
        if self._finished:
            self._parent.send(("finished", self._finished))
        self._finished, self._sent = [], time.monotonic()


def _work(
    parent: "Connection[Any, Any]",
    study: Study,
    make_detector: Callable[[], Any],
    batch_size: int | None,
    cached: bool,
    budget: Budget | None,
) -> None:
    """The body of a worker process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to stop
    try:
        pump = Pump(make_detector(), study, batch_size=batch_size, cache=Cache() if cached else None, budget=budget)
        line = _Line(parent)
        for finished in pump.run(line):
            line.add(finished)
        line.send()
        parent.send(("end", (pump.stats, pump.spent)))
    except MisdetectError as error:
        parent.send(("failed", error))
    except (BrokenPipeError, EOFError):  # the parent is gone: nobody is left to tell
        return


def run_in_processes(
    count: int,
    study: Study,
    make_detector: Callable[[], Any],
    cases: Iterable[Case | None],
    stats: "Counter[str]",
    *,
    batch_size: int | None = None,
    cached: bool = True,
    budget: Budget | None = None,
) -> Iterator[Finished]:
    """Yield finished cases from ``count`` processes; ``stats`` is added up in place (``spent`` > 0: budget used up)."""
    try:
        pickle.dumps((study, make_detector))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise DetectorFailed(f"this detector or study cannot be sent to workers ({error}); use --workers 1.") from None
    context = multiprocessing.get_context("spawn")
    threads = os.environ.get("OMP_NUM_THREADS")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    workers: dict[Connection[Any, Any], Any] = {}
    source = iter(cases)
    try:
        for _ in range(count):
            mine, theirs = context.Pipe()
            process = context.Process(
                target=_work, args=(theirs, study, make_detector, batch_size, cached, budget), daemon=True
            )
            process.start()
            theirs.close()
            workers[mine] = process
        yield from _converse(workers, source, stats)
    finally:
        for process in workers.values():
            process.terminate()
        for connection, process in workers.items():
            process.join()
            connection.close()
        if threads is None:
            os.environ.pop("OMP_NUM_THREADS", None)


def _converse(
    workers: "dict[Connection[Any, Any], Any]", source: Iterator[Case | None], stats: "Counter[str]"
) -> Iterator[Finished]:
    """Keep every worker supplied, yield what they finish, until all have ended."""
    held = dict.fromkeys(workers, 0)
    closed: set[Connection[Any, Any]] = set()
    queue: deque[Case] = deque()
    exhausted = False

    def fill() -> None:
        """Look ahead as far as the source can tell before it hears of what is running."""
        nonlocal exhausted
        while not exhausted and len(queue) < 2 * len(workers) * _AHEAD:
            try:
                case = next(source)
            except StopIteration:
                exhausted = True
            else:
                if case is None:
                    return
                queue.append(case)

    def supply(worker: "Connection[Any, Any]") -> None:
        fill()
        share = min(_AHEAD, max(1, len(queue) // (2 * len(workers))))
        if worker in closed or held[worker] > share:
            return
        batch = [queue.popleft() for _ in range(min(share, len(queue)))]
        if batch or exhausted:
            worker.send(batch)
            held[worker] += len(batch)
        if not batch and exhausted:
            closed.add(worker)

    for worker in workers:
        supply(worker)
    while held:
        ready = set(wait(list(held)))
        for worker in [connection for connection in held if connection in ready]:
            try:
                kind, content = worker.recv()
            except (EOFError, ConnectionResetError):
                workers[worker].join(5)
                raise DetectorFailed(
                    f"a worker process died (exit code {workers[worker].exitcode}); out of memory? "
                    "The run can be resumed."
                ) from None
            if kind == "failed":
                raise content
            if kind == "finished":
                held[worker] -= len(content)
                supply(worker)
                yield from content
                for other in held:  # what was just learnt may be what the next cases depend on
                    if held[other] == 0:
                        supply(other)
            if kind == "end":
                stats.update(content[0])
                stats["spent"] += int(content[1])
                del held[worker]
