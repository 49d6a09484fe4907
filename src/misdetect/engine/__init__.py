"""The engine: the only thing that talks to a detector. ``run_study`` is its one entrance."""

import json
import platform
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from misdetect.budget import Budget
from misdetect.engine.cache import Cache
from misdetect.engine.pump import Finished, Pump
from misdetect.engine.requests import Study
from misdetect.engine.store import FLUSH_SECONDS, Run
from misdetect.engine.workers import run_in_processes
from misdetect.errors import BadImage, DetectorFailed

Progress = Callable[[int, int, Mapping[str, Any]], None]
"""Called with cases done, cases in all, and the counts so far."""


@dataclass(frozen=True)
class Outcome:
    """How a run ended: ``cases`` in all, ``done`` over all sittings, ``failed`` among these, ``stats`` of this one."""

    run: Run
    cases: int
    done: int
    failed: int
    stats: Mapping[str, Any]
    seconds: float
    stopped: str | None = None
    notes: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """For ``--json``: counts, and wall-clock under ``timing``."""
        counts = {key: int(value) for key, value in self.stats.items() if key not in ("detector_seconds", "spent")}
        return {
            "cases": self.cases,
            "done": self.done,
            "failed": self.failed,
            "engine": {key: counts.get(key, 0) for key in ("queries", "cached", "shared", "retried", "clipped")},
            "stopped": self.stopped,
            "timing": {
                "seconds": round(self.seconds, 3),
                "detector_seconds": round(float(self.stats.get("detector_seconds", 0)), 3),
            },
        }


def versions() -> dict[str, str]:
    """Versions of what results can depend on."""
    found = {"python": platform.python_version()}
    for package in (
        "misdetect",
        "numpy",
        "opencv-python-headless",
        "onnxruntime",
        "torch",
        "torchvision",
        "transformers",
    ):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def run_study(
    study: Study,
    detector: Any,
    out: Path | str,
    identity: Mapping[str, Any],
    *,
    make_detector: Callable[[], Any] | None = None,
    workers: int = 1,
    batch_size: int | None = None,
    cached: bool = True,
    budget: Budget | None = None,
    progress: Progress | None = None,
    flush_seconds: float = FLUSH_SECONDS,
) -> Outcome:
    """Run ``study`` against ``detector`` into the run directory ``out``, or go on where an earlier sitting stopped.

    ``identity`` is what decides the rows: settings, detector and data with their fingerprints, seed. With ``workers``
    > 1, ``make_detector`` (picklable) builds each worker's own detector. An interruption leaves everything finished on
    disk. Raises ``DetectorFailed`` only if not a single case could be done.
    """
    started = time.monotonic()
    run = Run.start(
        out,
        {"study": study.name, **identity},
        study.schema,
        command=sys.argv[1:],
        versions=versions(),
        detector_settings=json.loads(json.dumps(getattr(detector, "settings", {}), default=str)),
    )
    stats: Counter[str] = Counter()
    cache = Cache() if cached and workers == 1 else None
    try:
        budget = _joint_budget(budget, getattr(detector, "limits", {}), run.path / "budget")
        known = run.done()
        if known and hasattr(study, "learn"):
            _recall(run, known, study.learn)
        waiting = (case for case in study.cases() if case is None or case.index not in known)
        finished: Iterator[Finished]
        if workers > 1:
            if make_detector is None:
                raise DetectorFailed("several workers need a detector spec, not a detector object; use one worker.")
            finished = run_in_processes(
                workers, study, make_detector, waiting, stats, batch_size=batch_size, cached=cached, budget=budget
            )
        else:
            pump = Pump(detector, study, batch_size=batch_size, cache=cache, budget=budget)
            stats = pump.stats
            finished = pump.run(waiting)

        def report(done: int) -> None:
            if progress is not None:
                progress(done, len(study), stats)

        done = _collect(run, study, finished, len(known), flush_seconds, report)
        spent = bool(stats.pop("spent", 0)) if workers > 1 else pump.spent
        failed = _failed(run, done)
    finally:
        run.close()
    notes = (cache.problem,) if cache is not None and cache.problem else ()
    stopped = "budget" if spent else None
    return Outcome(run, len(study), done, failed, stats, time.monotonic() - started, stopped, notes)


def _collect(
    run: Run, study: Study, finished: Iterator[Finished], done: int, flush_seconds: float, report: Callable[[int], Any]
) -> int:
    """Take down what is ``finished``, and let a study that works in rounds know; how many are ``done`` at the end."""
    learn = getattr(study, "learn", None)
    try:
        for item in finished:
            run.add(item, flush_seconds=flush_seconds)
            if learn is not None:
                learn(item.case.index, item.rows)
            done += 1
            report(done)
    finally:
        finished.close()  # type: ignore[attr-defined]
        run.flush()
    return done


def _failed(run: Run, done: int) -> int:
    """How many cases of ``run`` failed. If all that were ``done`` did, it is forgotten, and the first reason raised."""
    errors = run.errors()
    if errors.num_rows and errors.num_rows == done:
        run.discard()
        first = errors["error"][0].as_py()
        unreadable = first.partition(":")[0] in BadImage.kinds()  # then the data is at fault, not the detector
        raise (BadImage if unreadable else DetectorFailed)(f"not one of {done} cases could be done; the first: {first}")
    return int(errors.num_rows)


def _recall(run: Run, known: set[int], learn: Callable[[int, list[Any]], None]) -> None:
    """Tell a study that works in rounds what earlier sittings found."""
    rows: dict[int, list[Any]] = {index: [] for index in known}
    for row in run.table().to_pylist():
        rows[row["case_index"]].append(row)
    for index, found in rows.items():
        learn(index, found)


def _joint_budget(asked: Budget | None, limits: Mapping[str, Any], path: Path) -> Budget | None:
    """``asked`` and an endpoint's own ``limits`` as one budget in a file, so that they hold for all workers and
    sittings together: each worker's copy of the endpoint only knows what it spends itself."""
    if limits.get("queries") is None and limits.get("usd") is None:
        return asked
    if asked is None:
        return Budget(**limits, path=path)
    queries = [n for n in (limits["queries"], asked.queries) if n is not None]
    usd = [n for n in (limits["usd"], asked.usd) if n is not None]
    price = max(limits["price"], asked.price)
    return Budget(min(queries, default=None), min(usd, default=None), price, asked.minutes, asked.path or path)
