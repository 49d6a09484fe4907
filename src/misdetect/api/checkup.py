"""``checkup``: every study that a detector and its data allow, within a time, and one report: the main job.

How much each study may ask is planned once, from how fast the detector is, and kept in ``plan.json``: an interrupted
checkup goes on with the same plan, and ends with the same rows.
"""

import json
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from math import ceil, sqrt
from pathlib import Path
from typing import Annotated, Any

from misdetect.api.run import Place, Run, open_run
from misdetect.api.score import score
from misdetect.api.studies import (
    DataLike,
    DetectorLike,
    attack,
    confusion,
    detect,
    doctor,
    explain,
    fuzz,
    known_names,
    scan,
    verify,
    with_keywords,
)
from misdetect.data import load_data
from misdetect.data.dataset import Dataset
from misdetect.detectors import load_detector
from misdetect.engine import Progress
from misdetect.kept.files import write_atomically
from misdetect.kept.mirror import address_of, local_path
from misdetect.nouns.protocols import Detector, as_white_box, level
from misdetect.nouns.settings import PYTHON, RUNNING, Count, Heading, Number, Range
from misdetect.report.checkup import checkup_page
from misdetect.report.checkups import PLAN, REPORT, is_checkup, read_checkup, write_checkup
from misdetect.report.findings import findings
from misdetect.said import gates
from misdetect.said.errors import BadData, BadImage, MisdetectError
from misdetect.studies.contract import Document, budget_file
from misdetect.studies.detect import coco_results, write_results
from misdetect.studies.score.costs import tide_intervals
from misdetect.studies.workforce import Workforce

_HOW = Heading("Running")
_SHARES = {"images": 0.25, "scan": 0.15, "fuzz": 0.2, "verify": 0.1, "attack": 0.2}
"""Of the time; what is left goes to looking for mistakes of wiring, to figures and to the report."""
_MOST = {"images": 1000, "scan": 3000, "fuzz": 1500, "attack": 24}
_PAIRS = 6
_WIRING = 24
"""Images on which mistakes of wiring are looked for."""
_TIMED, _LEAST = 8, 0.005
"""Images by which the detector is timed, and the seconds that a question takes at the least, with all around it."""
_BACKWARD = 3
"""What a gradient costs, in calls of ``detect``."""
_STEPS, _RUNGS = 10, 8


@dataclass(frozen=True, kw_only=True)
class CheckupSettings(Workforce):
    """Everything misdetect can say about a detector: every study that it and the data allow, and one report."""

    out: Annotated[Path | None, RUNNING, _HOW] = None
    """Folder for everything that is found; the same command goes on where it was interrupted."""
    minutes: Annotated[float, RUNNING, _HOW, Range(0.1)] = 5
    """About how long it may take; a slow detector is asked less."""
    limit: Annotated[Count | None, RUNNING, _HOW] = None
    """Use only the first N images."""
    cache: Annotated[bool, RUNNING, _HOW] = True
    """Use answers of earlier runs, and remember those of this one."""
    pictures: Annotated[Number, RUNNING, _HOW] = 4
    """Failures drawn of each kind."""
    progress: Annotated[Progress | None, PYTHON] = None
    """Called with cases done, cases in all and counts."""


@dataclass(frozen=True)
class Plan:
    """How much each study asks: ``images`` for those that look at each image once, positions of ``scan`` over all
    pairs, queries of ``fuzz``, images of ``attack``."""

    images: int
    scan: int
    fuzz: int
    attack: int

    @classmethod
    def of(cls, seconds: float, query: float, images: int, inside: float | None = None) -> "Plan":
        """For ``seconds`` in all, a detector that takes ``query`` seconds per image (``inside``: when it is looked
        into, where that is another number), and data of ``images``."""
        inside = query if inside is None else inside
        asks = {name: int(share * seconds / query) for name, share in _SHARES.items()}
        asks |= {"images": int(_SHARES["images"] * seconds / (query + inside))}  # detect and explain ask once each
        asks |= {"attack": int(_SHARES["attack"] * seconds / inside)}
        gradients = 2 * (_STEPS + 2) * _BACKWARD  # per image, on two losses
        return cls(
            images=max(min(asks["images"], _MOST["images"], images), min(images, 16)),
            scan=max(min(asks["scan"] // 2, _MOST["scan"]), 60),  # each position with its null control
            fuzz=max(min(asks["fuzz"], _MOST["fuzz"]), 60),
            attack=max(min(asks["attack"] // (2 * gradients), _MOST["attack"], images), min(images, 4)),
        )


class Checkup:
    """What was found: ``runs`` by study, and all of it as one ``document``, also in ``checkup.json`` in ``path``."""

    def __init__(self, place: Place, runs: Mapping[str, Run], document: Document) -> None:
        self.path, self.runs, self.document, self._place = place.path, dict(runs), document, place

    @property
    def report(self) -> Path:
        """The page of all of it."""
        return self.path / REPORT

    def check(self, fail_if: str | Iterable[str]) -> list[gates.Verdict]:
        """Judge what was found by the gates ``fail_if``, such as "scan.affected[0.5] > 10"; see ``misdetect.check``."""
        return gates.check(self.document, fail_if)

    def __repr__(self) -> str:
        said = [f"  {each['sentence']} {each['advice']}" for each in self.document["findings"][:5]]
        return "\n".join(
            [f"checkup -> {address_of(self.path)}", *(said or ["  Nothing is wrong that could be found."])]
        )

    def _repr_html_(self) -> str:
        return "".join(f"<div>{run._repr_html_()}</div>" for run in self.runs.values())


class _Patient:
    """Runs studies one after the other; what cannot be run is ``skipped``, with the reason."""

    def __init__(self, model: Detector, source: str | Dataset, data: Dataset, out: Path, how: CheckupSettings) -> None:
        self.model, self.source, self.data, self.out, self.how = model, source, data, out, how
        self.runs: dict[str, Run] = {}
        self.skipped: list[dict[str, str]] = []
        self.spent = False
        self.common: dict[str, Any] = {**how.workforce, "cache": how.cache}

    def ask(self, name: str, study: Callable[..., Run], **settings: Any) -> None:
        """Run ``study`` into a folder of its name, unless a budget has ended before."""
        if self.spent:
            self.skip(name, "the budget was spent before; a larger one goes on.")
            return
        try:
            common = {**self.common, "progress": _named(self.how.progress, name)}
            run = study(self.model, self.source, out=self.out / name, **common, **settings)
        except MisdetectError as error:
            if name == "detect":  # what cannot be asked at all cannot be checked
                raise
            self.skip(name, str(error))
            return
        self.spent = run.outcome is not None and run.outcome.stopped is not None
        if run.document["done"]:
            self.runs[name] = run
        else:
            self.skip(name, "the budget was spent before its first question; a larger one goes on.")

    def skip(self, name: str, why: str) -> None:
        self.skipped.append({"study": name, "why": why})


def _named(progress: Progress | None, study: str) -> Progress | None:
    """``progress``, which is also told which study it is of."""
    if progress is None:
        return None
    return lambda done, total, counts: progress(done, total, {**counts, "study": study})


def _checkup(detector: DetectorLike, data: DataLike, how: CheckupSettings) -> Checkup:
    place = Place(how.out)
    out = place.path
    # an endpoint's own limits hold for all studies together, so they share one count
    model = load_detector(detector, known_names(detector, out / "detect"), counted=budget_file(out))
    source = data if isinstance(data, str) else load_data(data, model.names)
    opened = load_data(source).limit(how.limit)
    if not len(opened):
        raise BadData(f"{opened.spec} has no images.")
    plan = _plan(model, opened, out, how)
    patient = _Patient(model, source, opened, out, how)
    try:
        _studies(patient, plan)
        if not patient.runs:
            raise BadData(f"nothing could be checked: {patient.skipped[0]['why']}")
    except MisdetectError:
        if [path.name for path in out.iterdir()] == [PLAN]:  # what is refused leaves nothing behind
            (out / PLAN).unlink()
            out.rmdir()
        raise
    document = _document(patient, plan)
    write_checkup(out, document)
    checkup_page(patient.runs, document, out / REPORT, how.pictures)
    return Checkup(place, patient.runs, document)


def _studies(patient: _Patient, plan: Plan) -> None:
    """All of them, those that explain others first. Data without truth gets those that need none."""
    annotated = any(len(patient.data[i].truth) for i in range(min(len(patient.data), 50)))
    states = any(patient.data[i].truth.states is not None for i in range(min(len(patient.data), 50)))
    if annotated:
        patient.ask("doctor", doctor, images=_WIRING, limit=patient.how.limit)
    patient.ask("detect", detect, limit=plan.images)
    if annotated and "detect" in patient.runs and patient.runs["detect"].document["finished"]:
        found = patient.runs["detect"]
        write_results(patient.out / "results.json", coco_results(found.directory, found.data))
        try:
            patient.runs["score"] = score(found, found.data, out=patient.out / "score")
        except MisdetectError as error:
            patient.skip("score", str(error))
    patient.ask("explain", explain, limit=plan.images)
    if annotated:
        patient.ask("confusion", confusion, limit=plan.images)
    height, width = patient.data[0].height, patient.data[0].width
    patient.ask("scan", scan, limit=plan.images, pairs=_PAIRS, step=_step(width, height, plan.scan))
    patient.ask("fuzz", fuzz, limit=plan.images, queries=plan.fuzz)
    if states:
        patient.ask("verify", verify, limit=plan.images)
    else:
        patient.skip("verify", "no part of the data has a state; see docs/verify.md for data that has.")
    if annotated:
        patient.ask("attack", attack, limit=plan.attack, steps=_STEPS, ladder=min(_RUNGS, plan.attack))
    else:
        patient.skip("attack", "nothing is annotated here, and losses are measured against annotations.")


def _step(width: int, height: int, positions: int) -> int:
    """The grid's step in pixels, so that all pairs together have about so many ``positions``."""
    return max(4, ceil(sqrt(width * height * _PAIRS / positions)))


def _plan(model: Detector, data: Dataset, out: Path, how: CheckupSettings) -> Plan:
    """As the first sitting planned it, or from how fast the detector is now."""
    path, asked = out / PLAN, {"minutes": how.minutes, "limit": how.limit, "images": len(data)}
    with suppress(OSError, ValueError, LookupError, TypeError):  # none yet, or one that cannot be read: planned anew
        kept = json.loads(path.read_text(encoding="utf-8"))
        if kept["for"] == asked:
            return Plan(**kept["plan"])
    query, (white, _) = _seconds(model, data), as_white_box(model)
    inside = query if white is model else _seconds(white, data)
    hands = how.workers or 1
    plan = Plan.of(60 * how.minutes, query / hands, len(data), inside / hands)
    out.mkdir(parents=True, exist_ok=True)
    write_atomically(path, (json.dumps({"for": asked, "plan": asdict(plan)}, indent=2) + "\n").encode())
    return plan


def _seconds(model: Detector, data: Dataset) -> float:
    """What one image takes. A detector that costs money is not asked for that: it is taken for a slow one."""
    if getattr(model, "limits", None) or hasattr(model, "budget"):
        return 0.5
    images = []
    for sample in data[:_TIMED]:
        try:
            images.append(sample.image)
        except BadImage:
            continue
    if not images:
        return 0.5
    try:
        model.detect(images[:1])  # the first call may load something
        began = time.perf_counter()
        model.detect(images)
    except Exception:  # whatever a stranger's detector may raise: the studies will say it
        return 0.5
    return max((time.perf_counter() - began) / len(images), _LEAST)


def _document(patient: _Patient, plan: Plan) -> Document:
    studies = {name: {**run.document, **_sitting(run), "out": run.address} for name, run in patient.runs.items()}
    if "score" in studies:
        studies["score"]["intervals"] = {"tide": tide_intervals(patient.runs["score"].directory)}
    first = next(iter(patient.runs.values())).directory.about
    about = first["identity"]["data"]
    return {
        "detector": {
            "spec": getattr(patient.model, "spec", None),
            "level": level(patient.model),
            "settings": first["detector_settings"],
        },
        "data": {key: about[key] for key in ("spec", "fingerprint")} | {"images": len(patient.data)},
        "findings": findings(studies),
        "studies": studies,
        "skipped": patient.skipped,
        "settings": {"minutes": patient.how.minutes, "limit": patient.how.limit, "plan": asdict(plan)},
        "report": address_of(patient.out / REPORT),
        "out": address_of(patient.out),
    }


def _sitting(run: Run) -> Document:
    return {} if run.outcome is None else run.outcome.document()


def open_any(path: Path | str) -> Run | Checkup:
    """The run in the directory ``path``, or the checkup in that folder; neither detector nor data is needed, but for
    photos in figures."""
    folder = local_path(path)
    if not is_checkup(folder):
        return open_run(folder)
    document = read_checkup(folder)
    there = [name for name in document["studies"] if (folder / name).is_dir()]
    return Checkup(Place(folder), {name: open_run(folder / name) for name in there}, document)


checkup = with_keywords(_checkup, CheckupSettings, "checkup")
