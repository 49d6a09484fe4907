"""How a study is run: the settings that all have, and the one way from a kind, a detector and data to a run."""

from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Self

from misdetect.data.dataset import Dataset
from misdetect.data.opened import Opened
from misdetect.detectors import load_detector, remembered
from misdetect.engine import Outcome, Progress, joint_budget, run_study
from misdetect.engine.backend import Asking, requests_of
from misdetect.engine.requests import Study
from misdetect.kept.budget import Budget
from misdetect.nouns.open_names import OpenNames
from misdetect.nouns.protocols import Detector, describe
from misdetect.nouns.settings import PYTHON, RUNNING, Count, Heading, Number, Range
from misdetect.nouns.spec import Spec
from misdetect.said.errors import BadSpec, LevelTooLow
from misdetect.studies.contract import Kind
from misdetect.studies.kinds import kind_of
from misdetect.studies.workforce import Workforce

_SHOWN = 0.05
"""What a detector is asked to show that hides what a study has to see."""
_HOW = Heading("Running")


@dataclass(frozen=True, kw_only=True)
class Running(Workforce):
    """How a study is run; nothing here changes its rows."""

    out: Annotated[Path | None, RUNNING, _HOW] = None
    """Run directory; the same command goes on where it was interrupted. Without one nothing is kept."""
    limit: Annotated[Count | None, RUNNING, _HOW] = None
    """Use only the first N images."""
    batch: Annotated[Count | None, RUNNING, _HOW] = None
    """Images per call; by default what the detector likes."""
    queries: Annotated[Number | None, RUNNING, _HOW] = None
    """Ask the detector at most N times."""
    timeout: Annotated[float | None, RUNNING, _HOW, Range(0.001)] = None
    """With several workers: give up on a call of the detector after so many seconds."""
    cache: Annotated[bool, RUNNING, _HOW] = True
    """Use answers of earlier runs, and remember those of this one."""
    retry_failed: Annotated[bool, RUNNING, _HOW] = False
    """Ask again about cases that failed in earlier sittings."""
    repair: Annotated[bool, RUNNING, _HOW] = False
    """Remove damaged parts and ask again about their cases."""
    progress: Annotated[Progress | None, PYTHON] = None
    """Called with cases done, cases in all and counts."""

    def settled(self, detector: Detector, out: Path) -> Self:
        """These settings for a run of ``detector`` in ``out``."""
        return replace(self, out=out)

    @property
    def faint(self) -> tuple[float, float] | None:
        """From which score on a box is faint, and from which it is a detection, where the study tells one from the
        other; ``None``: it does not."""
        return None

    def asking(self, out: Path) -> Asking:
        """How the detector is asked. A budget is counted in a file beside the run; an earlier sitting's counts on."""
        return Asking(self.batch, self.cache, self.budget(out), timeout=self.timeout)

    @property
    def limited(self) -> bool:
        """Whether these settings limit what may be spent."""
        return self.queries is not None

    def budget(self, out: Path) -> Budget | None:
        """What may be spent, or ``None``."""
        counted = budget_file(out)
        return Budget(queries=self.queries, path=counted) if self.queries is not None or counted.exists() else None


def budget_file(out: Path) -> Path:
    """Where the queries of the run ``out`` are counted."""
    return out.with_name(out.name + ".budget")


def showing_faint(detector: Detector, faint: tuple[float, float] | None) -> tuple[Detector, str | None]:
    """``detector`` with a threshold of its own so low that it shows what is ``faint``, and what was done; the detector
    as it is where it shows that already, where it reports less than what counts as a detection, or where its spec knows
    no such option. Its detections stay the same: a box of a low score suppresses none of a higher one."""
    own, spec = getattr(detector, "settings", {}).get("score"), getattr(detector, "spec", None)
    if faint is None or not isinstance(own, int | float) or not faint[0] < own <= faint[1] or not isinstance(spec, str):
        return detector, None
    shown = min(_SHOWN, max(faint[0], 0.0))
    try:
        open_ = load_detector(Spec.parse(spec).instead("score", f"{shown:g}"), tuple(detector.names))
    except BadSpec:
        return detector, None
    if getattr(detector, "assumed", None):
        open_ = remembered(open_, detector.settings["given"], detector.assumed)  # type: ignore[attr-defined]
    if hasattr(detector, "asked_before"):
        open_.asked_before = detector.asked_before  # type: ignore[attr-defined]
    return open_, f"the detector is asked for scores from {shown:g} on, not {own:g}: what is faint is not gone."


def run_kind(
    kind: Kind, detector: Detector, data: str | Dataset, settings: Running, out: Path
) -> tuple[Study, Outcome]:
    """Run a study into ``out``. The spec that ``detector`` was loaded from is what workers load theirs from."""
    if isinstance(detector.names, OpenNames) and not kind.open_names:
        raise LevelTooLow(
            f"{kind.name} needs a detector whose classes are known beforehand; those of {describe(detector)} are open: "
            "use scan, explain or detect."
        )
    detector, said = showing_faint(detector, settings.faint)
    settings = settings.settled(detector, out)
    spec = getattr(detector, "spec", None)
    own, settled = spec if isinstance(spec, str) else detector, replace(settings, progress=None)
    if kind.asked is not None:
        detector = kind.asked(detector, settings)
    asking = settings.asking(out)
    asking = replace(asking, budget=joint_budget(asking.budget, detector, budget_file(out)))
    opened = Opened(data, settings.limit, getattr(settings, "truth", None))
    study = kind.prepare(detector, opened, settled, asking)  # it may travel to workers
    if study.name != kind.name and kind.registered is not None:
        raise kind.registered.broken(f"what it prepares is a run of {study.name!r}")
    make = partial(_worker_detector, kind.name, own, tuple(detector.names), settled)
    outcome = run_study(
        study,
        detector,
        out,
        make_detector=make,
        workers=settings.workers,
        cluster=settings.elsewhere,
        asking=asking,
        retry_failed=settings.retry_failed,
        repair=settings.repair,
        view=settings.document("view"),
        progress=settings.progress,
    )
    if kind.after is not None and outcome.run.finished:
        kind.after(study, detector, outcome.run, settings, asking)
    counts = Counter(outcome.stats)
    counts.update(requests_of(detector))
    return study, replace(outcome, stats=counts, notes=(*filter(None, [said]), *outcome.notes))


def _worker_detector(study: str, own: Any, names: tuple[str, ...], settings: Running) -> Detector:
    """What a worker asks: its own copy of the detector, as the run has it."""
    detector, asked = load_detector(own, names), kind_of(study).asked
    return detector if asked is None else asked(detector, settings)
