"""What every study is, so that nothing else needs to know which one it has.

A study has settings, makes cases out of data (``engine.requests.Study``), and its rows are read again as a document, as
ledger rows and as headline numbers. ``Kind`` holds these together; ``KINDS`` is the one table of studies.
"""

import json
import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Self

import duckdb

from misdetect.data import unseen
from misdetect.data.dataset import Dataset
from misdetect.data.opened import Opened
from misdetect.detectors import load_detector
from misdetect.engine import Outcome, Progress, joint_budget, run_study
from misdetect.engine.backend import Asking, requests_of
from misdetect.engine.requests import Study
from misdetect.engine.store import DOCUMENT, Run
from misdetect.kept.budget import Budget
from misdetect.kept.files import read_regular, write_atomically
from misdetect.nouns.labels import joining
from misdetect.nouns.open_names import OpenNames, names_in
from misdetect.nouns.picture import digest
from misdetect.nouns.protocols import Detector, describe
from misdetect.nouns.settings import PYTHON, RUNNING, Count, Heading, Number, Range
from misdetect.nouns.spec import Spec
from misdetect.said.errors import BadData, BadSpec, LevelTooLow, MisdetectError, RunMismatch
from misdetect.studies.workforce import Workforce

KINDS = {
    "attack": "misdetect.studies.attack:ATTACK",
    "confusion": "misdetect.studies.confusion:CONFUSION",
    "detect": "misdetect.studies.detect:DETECT",
    "doctor": "misdetect.studies.doctor:DOCTOR",
    "explain": "misdetect.studies.explain:EXPLAIN",
    "fuzz": "misdetect.studies.fuzz:FUZZ",
    "retest": "misdetect.studies.retest:RETEST",
    "scan": "misdetect.studies.scan:SCAN",
    "score": "misdetect.studies.score:SCORE",
    "training": "misdetect.studies.training:TRAINING",
    "verify": "misdetect.studies.verify:VERIFY",
}
_CHECK = "check"
"""Where ``document.json`` has the checksum of everything else in it."""
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


@dataclass(frozen=True)
class Headline:
    """A headline number, with its interval where it has one."""

    value: float | int | None
    interval: Sequence[float] | None = None


Document = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """A study as everything else sees it.

    ``settings``: its class. ``prepare(detector, data, settings, asking)`` makes the ``Study``, and may ask the detector
    first. The rest are functions of a run directory, and need neither detector nor data: ``document``; ``ledger``, a
    SELECT over ``rows`` with the ledger's columns; ``sentences`` of a document, what was found, the most important
    first; ``numbers`` of a document, by name, for comparing runs. ``rebuild`` makes the study of a run again, given its
    data, to draw its pictures or to run one of its cases once more. ``compare(runs, confidence, seed)`` says more of
    several runs than their numbers, where all of them are run directories: documents that a verb printed are compared
    by their numbers where these are all there is to say, or ``by_document`` allows it; ``replay(run, data, case,
    detector)`` more of one case than whether its rows are the same. ``after(study, detector, run, settings, asking)``
    asks more once a run is finished, into a directory of its own inside the run's, where ``document`` finds it.
    ``asked(detector, settings)`` is what a run really asks, where that is not the detector alone. ``stored(spec, data,
    settings)``, of a study that needs no model: what stands for the detector where stored predictions are given, and
    the settings that are left. ``open_names``: whether it can do without knowing a detector's classes beforehand.
    """

    name: str
    settings: type[Any]
    prepare: Callable[[Any, Opened, Any, Asking], Study]
    document: Callable[[Run], Document]
    ledger: Callable[[Run], str]
    sentences: Callable[[Document], list[str]]
    numbers: Callable[[Document], dict[str, Headline]]
    rebuild: Callable[[Run, Dataset], Study]
    compare: Callable[[Mapping[str, Run], float, int], Document] | None = None
    by_document: bool = False
    replay: Callable[[Run, Dataset, str, Detector], Document] | None = None
    after: Callable[[Any, Detector, Run, Any, Asking], None] | None = None
    asked: Callable[[Detector, Any], Detector] | None = None
    stored: Callable[[str, Dataset, Any], tuple[Any, Any]] | None = None
    open_names: bool = False


def kind_of(study: str) -> Kind:
    """The study of that name; its files are imported when it is first asked for."""
    if study not in KINDS:
        raise BadData(f"this misdetect has no study {study!r}; it has {', '.join(KINDS)}.")
    module, _, name = KINDS[study].partition(":")
    found: Kind = getattr(import_module(module), name)
    return found


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


def document_of(run: Run) -> Document:
    """The document of ``run``, from its directory alone: what it is, how far it got, its settings, what it found."""
    identity, failed = run.about["identity"], run.errors().to_pylist()
    own: Document = {
        "study": run.study,
        "detector": identity["detector"]["spec"],
        "data": identity["data"]["spec"],
        "cases": run.cases,
        "done": len(run.done()),
        "failed": len(failed),
        "failures": [{name: each[name] for name in ("case", "image", "error")} for each in failed],
        "finished": run.finished,
        "settings": {
            **run.settings,
            **run.about.get("view", {}),
            "limit": identity["data"]["limit"],
            "detector": run.about["detector_settings"],
        },
    }
    found = kind_of(run.study).document(run)
    settings = own["settings"] | found.pop("settings", {})
    own["settings"] = dict(sorted(settings.items()))  # those read again from run.json come in another order
    own["joining"] = joining(names_in(identity["detector"]), identity["data"]["names"])
    return own | found


def read_document(run: Run) -> Document:
    """The document of ``run``: as kept in ``document.json``, or computed again where that is damaged or does not fit
    the rows."""
    path = run.path / DOCUMENT
    try:
        found: Document = json.loads(read_regular(path).decode())
        sound = found.pop(_CHECK) == _checksum(found)
        shown = {**run.settings, **run.about.get("view", {})}
        current = (found["done"], found["cases"], found["failed"]) == (len(run.done()), run.cases, len(run.failed()))
        if sound and current and all(found["settings"].get(name) == value for name, value in shown.items()):
            return found
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, MisdetectError):  # of the rows
            raise
    try:
        return document_of(run)
    except (duckdb.Error, LookupError, ValueError) as error:  # most studies cannot say anything of no rows at all
        if isinstance(error, MisdetectError) or run.done():
            raise
        raise BadData(
            f"{run.address} has nothing to show: no case is done yet. The command that made it goes on."
        ) from error


def keep_document(run: Run) -> Document:
    """Compute the document of ``run`` and keep it beside the rows."""
    found: Document = json.loads(json.dumps(document_of(run), allow_nan=False))
    text = json.dumps({**found, _CHECK: _checksum(found)}, indent=2) + "\n"
    write_atomically(run.path / DOCUMENT, text.encode())
    return found


def _checksum(document: Document) -> str:
    return digest(json.dumps(document))


def data_of(run: Run, *, trust: bool = False) -> Dataset:
    """The data that ``run`` looked at, opened again: pictures need it. It must be the same. A run directory is data: a
    place beyond this machine that it names is only read where that was opened here before, or with ``trust``."""
    known = run.about["identity"]["data"]
    if known["part"] is not None or known["spec"] == "memory:":
        raise BadData(f"{run.address}: its data was chosen in Python and cannot be opened again from the run alone.")
    for spec in (known["spec"], run.settings.get("truth"), run.settings.get("pool")):
        plain = str(spec or "").removeprefix("mirrored:")
        if not trust and (place := unseen(plain)) is not None:
            raise BadSpec(
                f"{run.address} looked at {plain}, and {place} was never opened on this machine: a run may come from "
                f"elsewhere, so name it yourself first (misdetect data {shlex.quote(plain)})."
            )
    found = Opened(known["spec"], known["limit"], run.settings.get("truth")).data
    if found.fingerprint != known["fingerprint"]:
        raise RunMismatch(f"the data {known['spec']} has changed since {run.address} was run.")
    return found
