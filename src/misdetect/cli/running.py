"""What the verbs that run a detector share: options, the progress bar, and what identifies a run."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from misdetect.budget import Budget
from misdetect.cli.shell import messages
from misdetect.data.dataset import Dataset
from misdetect.detectors import load_detector
from misdetect.engine import Outcome, run_study
from misdetect.engine import Progress as Report
from misdetect.engine.requests import Study
from misdetect.errors import BadData
from misdetect.picture import digest

Workers = Annotated[int, typer.Option("--workers", min=1, max=256, help="Local processes, each with its own detector.")]
Batch = Annotated[int | None, typer.Option("--batch", min=1, help="Images per call; default: what the detector likes.")]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Ask again what was asked in earlier runs.")]
Queries = Annotated[int | None, typer.Option("--queries", min=0, help="Ask the detector at most N times.")]


def identity(detector: Any, data: Dataset, limit: int | None, **settings: Any) -> dict[str, Any]:
    """What decides the rows of a run; a run directory with another identity is not resumed."""
    fingerprint = getattr(detector, "fingerprint", None) or _code_of(detector)
    return {
        "detector": {"spec": getattr(detector, "spec", None), "fingerprint": fingerprint},
        "data": {"spec": data.spec, "fingerprint": data.fingerprint, "limit": limit},
        "settings": settings,
    }


def _code_of(detector: object) -> str | None:
    """A hash of the file that defines ``detector``: the least that tells an edited detector from the one before."""
    file = getattr(sys.modules.get(type(detector).__module__), "__file__", None)
    try:
        return None if file is None else f"code {digest(Path(file).read_bytes())}"
    except OSError:
        return None


@dataclass(frozen=True)
class Asking:
    """How a verb asks its detector (the spec ``detector``), the same for all verbs that do."""

    detector: str
    workers: int = 1
    batch: int | None = None
    queries: int | None = None
    no_cache: bool = False

    def budget(self, out: Path) -> Budget | None:
        """The budget of the run ``out``, counted in a file beside it; an earlier sitting's counts on."""
        counted = out.with_name(out.name + ".budget")
        return Budget(queries=self.queries, path=counted) if self.queries is not None or counted.exists() else None

    def run(
        self,
        study: Study,
        model: Any,
        out: Path,
        data: Dataset,
        limit: int | None,
        *,
        budget: Budget | None = None,
        **settings: Any,
    ) -> Outcome:
        """Run ``study`` into ``out`` with progress on stderr, and say there what a reader has to know."""
        if not len(data):
            raise BadData(f"{data.spec} has no images.")
        with watching(study.name) as progress:
            outcome = run_study(
                study,
                model,
                out,
                identity(model, data, limit, **settings),
                make_detector=partial(load_detector, self.detector),
                workers=self.workers,
                batch_size=self.batch,
                cached=not self.no_cache,
                budget=budget,
                progress=progress,
            )
        remarks(outcome)
        return outcome


@contextmanager
def watching(title: str) -> Iterator[Report]:
    """A progress bar on stderr; nothing where stderr is no terminal."""
    columns = (
        TextColumn(title),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=messages(), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(title, total=None, note="")

        def report(done: int, total: int, counts: Mapping[str, Any]) -> None:
            note = f"{int(counts.get('queries', 0))} asked, {int(counts.get('cached', 0))} from cache"
            bar.update(task, completed=done, total=total, note=note)

        yield report


def remarks(outcome: Outcome) -> None:
    """Say on stderr what a reader of the numbers has to know about how they came about."""
    console = messages()
    for note in outcome.notes:
        console.print(f"note: {note}", markup=False)
    clipped = int(outcome.stats.get("clipped", 0))
    if clipped:
        console.print(f"note: {clipped} boxes stuck out of their image and were cut to it.", markup=False)
    if outcome.failed:
        first = outcome.run.errors()["error"][0].as_py()
        console.print(f"warning: {outcome.failed} of {outcome.done} cases failed; the first: {first}", markup=False)
    if outcome.stopped:
        left = outcome.cases - outcome.done
        console.print(
            f"note: the {outcome.stopped} is spent; {left} cases are left, a larger one goes on.", markup=False
        )
