"""The engine: the only thing that talks to a detector. ``run_study`` runs a study into a run directory; ``ask`` asks
about a few pictures and keeps nothing."""

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from misdetect.engine.backend import Asking, Backend, Cluster, InProcess
from misdetect.engine.cache import forget_answers
from misdetect.engine.identity import identity
from misdetect.engine.indices import Indices
from misdetect.engine.installed import versions
from misdetect.engine.requests import Case, Detect, Finished, Steps, Study, UnderWay
from misdetect.engine.store import FLUSH_SECONDS, JOURNAL, Run
from misdetect.engine.workers import Workers
from misdetect.kept.budget import Budget
from misdetect.nouns.detections import Detections
from misdetect.nouns.picture import Picture
from misdetect.said.errors import BadCluster, BadData, BadImage, DetectorFailed, MisdetectError, NothingToTest

Progress = Callable[[int, int, Mapping[str, Any]], None]
"""Called with cases done, cases in all, and the counts so far. Of a study with a budget of its own, ``counts["of"]``
says what is counted instead ("queries"); 0 in all: nobody knows."""

_COUNTED = ("queries", "cached", "shared", "retried", "requests", "clipped")
"""What a sitting tells of itself. ``requests`` are an endpoint's, with its retries and that for class names."""
_RECALLED = 1 << 16
"""Rows of earlier sittings in memory at once."""


@dataclass(frozen=True)
class Outcome:
    """How a sitting ended: ``cases`` in all, ``done`` over all sittings, ``failed`` among these, ``stats`` of this one;
    ``stopped`` says what ended it before all cases were done."""

    run: Run
    cases: int
    done: int
    failed: int
    stats: Mapping[str, Any]
    seconds: float
    stopped: str | None = None
    notes: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """What this sitting did, for ``--json``: it differs from one to the next, so it is not in document.json."""
        counts = {key: int(value) for key, value in self.stats.items() if key != "detector_seconds"}
        return {
            "engine": {key: counts.get(key, 0) for key in _COUNTED},
            "stopped": self.stopped,
            "timing": {
                "seconds": round(self.seconds, 3),
                "detector_seconds": round(float(self.stats.get("detector_seconds", 0)), 3),
            },
        }


def run_study(
    study: Study,
    detector: Any,
    out: Path | str,
    *,
    make_detector: Callable[[], Any] | None = None,
    workers: int | None = None,
    cluster: Cluster | None = None,
    asking: Asking | None = None,
    retry_failed: bool = False,
    repair: bool = False,
    view: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    flush_seconds: float = FLUSH_SECONDS,
) -> Outcome:
    """Run ``study`` against ``detector`` into the run directory ``out``, or go on where an earlier sitting stopped.

    With ``workers`` > 1, or on a ``cluster`` (there as many as it has room for by default), ``make_detector``
    (picklable) builds each worker's own detector. ``retry_failed``: cases that failed in earlier sittings are asked
    again. ``repair``: what is damaged in ``out`` is moved away, and its cases are asked again. ``view``: how the rows
    are shown, kept for whoever opens the run. An interruption leaves everything finished on disk. Raises
    ``DetectorFailed`` only if not a single case could be done.
    """
    started = time.monotonic()
    asking = asking or Asking()
    if not len(study.data):
        raise BadData(f"{study.data.spec} has no images.")
    run = start_run(study, detector, out, repair=repair)
    try:
        budget = joint_budget(asking.budget, detector, run.path / "budget")
        costs = budget is not None or hasattr(detector, "budget")
        journal = run.path / JOURNAL if costs else None
        asking = replace(asking, budget=budget, journal=journal)
        if budget is not None:
            budget.grant(0)  # the count begins with the run, also where all is answered from the cache
        backend = _backend(detector, make_detector, workers, cluster, asking)
        done = _run(study, run, backend, retry_failed, progress, flush_seconds)
        run.note(cases=len(study), view=dict(view or {}))
        failed = _failed(run, done)
        stopped = "budget" if backend.spent and not run.finished else None
        if journal is not None and stopped is None:
            forget_answers(journal)
    except (NothingToTest, BadCluster) as error:  # as long as the lock is held, nobody else goes on with it
        if run.new and (isinstance(error, NothingToTest) or not run.done()):
            run.discard()
            if asking.budget is not None:
                asking.budget.forget()
        raise
    finally:
        try:
            if asking.budget is not None:
                asking.budget.settle()
        finally:
            run.close()
    seconds = time.monotonic() - started
    notes = (*run.repaired, *backend.notes)
    return Outcome(run, len(study), done, failed, backend.stats, seconds, stopped, notes)


def start_run(study: Study, detector: Any, out: Path | str, *, repair: bool = False) -> Run:
    """The run directory ``out``, created for ``study`` of ``detector``, or opened again to go on with it."""
    return Run.start(
        out,
        identity(study.name, study.settings(), detector, study.data),
        study.schema,
        repair=repair,
        command=sys.argv[1:],
        versions=versions(),
        detector_settings=json.loads(json.dumps(getattr(detector, "settings", {}), default=str)),
    )


def _backend(
    detector: Any,
    make_detector: Callable[[], Any] | None,
    workers: int | None,
    cluster: Cluster | None,
    asking: Asking,
) -> Backend:
    if cluster is None and workers in (None, 1):
        return InProcess(detector, asking)
    if make_detector is None:
        raise DetectorFailed("several workers need a detector spec, not a detector object; use one worker.")
    if cluster is None:
        return Workers(workers or 1, make_detector, asking)
    from misdetect.engine.cluster import RayWorkers

    return RayWorkers(workers, cluster, make_detector, asking)


def _run(
    study: Study, run: Run, backend: Backend, retry_failed: bool, progress: Progress | None, flush_seconds: float
) -> int:
    """Run what is not done yet; how many are done at the end."""
    # a part that was moved away may have held the later answer to a case that failed first
    again = run.failed() if retry_failed or run.repaired else Indices()
    known = run.done() - again
    if hasattr(study, "learn"):
        _recall(run, study.learn)

    def report(done: int) -> None:
        if progress is None:
            return
        if hasattr(study, "progress"):
            done, total = study.progress()
            progress(done, total, {**backend.stats, "of": "queries"})
        else:
            progress(done, len(study), backend.stats)

    waiting = (case for case in study.cases() if case is None or case.index not in known)
    return _collect(run, study, backend.run(study, waiting), again, len(known), flush_seconds, report)


def _collect(
    run: Run,
    study: Study,
    events: Iterator[Finished | UnderWay],
    again: Indices,
    done: int,
    flush_seconds: float,
    report: Callable[[int], Any],
) -> int:
    """Take down what is finished, and let a study that works in rounds know; how many are ``done`` at the end."""
    learn = getattr(study, "learn", None)
    try:
        for item in events:
            if isinstance(item, UnderWay):
                study.answered(item.case.index, item.questions)  # type: ignore[attr-defined]
                continue
            if item.error is not None:
                item = replace(item, image=_image(study, item.case))
            run.add(item, flush_seconds=flush_seconds)
            if learn is not None and item.case.index not in again:
                learn(item.case.index, item.rows)
            done += 1
            report(done)
    finally:
        events.close()  # type: ignore[attr-defined]
        run.flush()
    return done


def _image(study: Study, case: Case) -> str:
    """The image that ``case`` is about: what it is called by, unless the study says otherwise."""
    return str(study.image_of(case)) if hasattr(study, "image_of") else case.id


def _failed(run: Run, done: int) -> int:
    """How many cases of ``run`` failed. If all that were ``done`` did, it is forgotten, and the first reason raised."""
    errors = run.errors()
    if errors.num_rows and errors.num_rows == done:
        run.discard()
        raise _fault(f"not one of {done} cases could be done; the first: ", errors["error"][0].as_py())
    return int(errors.num_rows)


def _fault(before: str, error: str) -> MisdetectError:
    """``error`` of a case as an exception: of the data where an image could not be read, else of the detector."""
    unreadable = error.partition(":")[0] in BadImage.kinds()
    return (BadImage if unreadable else DetectorFailed)(before + error)


def _recall(run: Run, learn: Callable[[int, list[Any]], None]) -> None:
    """Tell a study that works in rounds what earlier sittings found. A case that failed first was planned with as one
    that found nothing, and stays so even if it succeeded when it was asked again: the plan would change under it."""
    failed, seen = run.ever_failed(), Indices()
    rows: list[dict[str, Any]] = []
    for batch in run.batches("SELECT * FROM rows ORDER BY case_index, row", _RECALLED):
        rows += batch.to_pylist()
        seen |= Indices(batch["case_index"].to_numpy())
        last = rows[-1]["case_index"] if rows else None  # its rows may go on in the next batch
        for index, found in groupby([row for row in rows if row["case_index"] != last], itemgetter("case_index")):
            learn(index, [] if index in failed else list(found))
        rows = [row for row in rows if row["case_index"] == last]
    if rows:
        learn(rows[0]["case_index"], [] if rows[0]["case_index"] in failed else rows)
    for index in run.done() - seen:
        learn(index, [])


def joint_budget(asked: Budget | None, detector: Any, path: Path | None) -> Budget | None:
    """``asked`` and an endpoint's own limits as one budget in a file, so that they hold for all workers and sittings
    together: each worker's copy of the endpoint only knows what it spends itself. What was asked of the endpoint before
    there was a budget (its class names) is counted too. Without a ``path`` it is counted in memory."""
    budget = _joint(asked, getattr(detector, "limits", {}), getattr(detector, "counted_in", None) or path)
    before = int(getattr(detector, "asked_before", 0))
    if budget is not None and before:
        budget.grant(before)
        detector.asked_before = 0
    return budget


def _joint(asked: Budget | None, limits: Mapping[str, Any], path: Path | None) -> Budget | None:
    if limits.get("queries") is None and limits.get("usd") is None:
        return asked
    if asked is None:
        return Budget(**limits, path=path)
    queries = [n for n in (limits["queries"], asked.queries) if n is not None]
    usd = [n for n in (limits["usd"], asked.usd) if n is not None]
    price = max(limits["price"], asked.price)
    return Budget(min(queries, default=None), min(usd, default=None), price, asked.minutes, asked.path or path)


@dataclass(eq=False)
class _Pictures:
    """A study without rows: one case per picture, whose answers are kept in ``found``."""

    pictures: Sequence[Picture]
    found: "dict[int, Detections]"
    name: str = "ask"
    schema: Any = None
    data: Any = None

    def settings(self) -> dict[str, Any]:
        return {}

    def __len__(self) -> int:
        return len(self.pictures)

    def cases(self) -> Iterable[Case]:
        return (Case(i, str(i)) for i in range(len(self.pictures)))

    def run(self, case: Case) -> Steps:
        self.found[case.index] = yield Detect(self.pictures[case.index])
        return []


def ask(
    detector: Any,
    pictures: Sequence[Picture],
    asking: Asking | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[Detections | str | None]:
    """What ``detector`` sees in each of ``pictures``: its detections, the reason why it could not be asked, or ``None``
    where the budget did not allow it. Raises if none could be answered."""
    found: dict[int, Detections] = {}
    study = _Pictures(pictures, found)
    answers: list[Detections | str | None] = [None] * len(pictures)
    done = 0
    for finished in (asking or Asking()).pump(detector, study).run(study.cases()):
        assert isinstance(finished, Finished)  # nobody wants to know how far they are
        at = finished.case.index
        answers[at] = finished.error or found[at]
        done += 1
        if progress is not None:
            progress(done, len(pictures))
    errors = [answer for answer in answers if isinstance(answer, str)]
    if errors and len(errors) == done:
        raise _fault("no image could be asked about: ", errors[0])
    return answers
