"""``checkup``: every study that a detector and its data allow, within a time, and one report: the main job.

How much each study may ask is planned once, from how fast the detector is, and kept in ``plan.json``: an interrupted
checkup goes on with the same plan, and ends with the same rows.
"""

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from misdetect.api.run import Place, Run, open_run
from misdetect.api.studies import DataLike, DetectorLike, load_again, looked_at, saying_assumed, study, with_keywords
from misdetect.data import load_data
from misdetect.data.dataset import Dataset
from misdetect.engine import Progress
from misdetect.kept.mirror import address_of, local_path
from misdetect.nouns.protocols import Detector, level
from misdetect.report.checkups import PLAN, REPORT, is_checkup, read_checkup, write_checkup
from misdetect.report.findings import findings
from misdetect.said import gates
from misdetect.said.errors import BadData, MisdetectError
from misdetect.studies.contract import Document, Examined, InCheckup, Kind
from misdetect.studies.kinds import in_checkup, kind_of
from misdetect.studies.running import budget_file
from misdetect.suites.checkup.page import checkup_page
from misdetect.suites.checkup.plan import plan_for
from misdetect.suites.checkup.settings import CheckupSettings

_LOOKED = 50
"""Samples in which annotations and states are looked for."""


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

    def ask(self, kind: Kind, how: InCheckup, subject: Any, settings: Mapping[str, Any]) -> None:
        """Run a study into a folder of its name, unless a budget has ended before. ``subject`` is a run that is studied
        in place of the detector: that asks nothing."""
        out = self.out / kind.name
        if self.spent and subject is None:
            self.skip(kind.name, "the budget was spent before; a larger one goes on.")
            return
        try:
            kind.check()
            if subject is not None:
                run = study(kind.name)(subject, subject.data, out=out, **settings)
            else:
                common = {**self.common, "progress": _named(self.how.progress, kind.name)}
                run = study(kind.name)(self.model, self.source, out=out, **common, **settings)
        except MisdetectError as error:
            if how.required:
                raise
            self.skip(kind.name, str(error))
            return
        if subject is None:
            self.spent = run.outcome is not None and run.outcome.stopped is not None
        if run.document["done"]:
            self.runs[kind.name] = run
        else:
            self.skip(kind.name, "the budget was spent before its first question; a larger one goes on.")

    def skip(self, name: str, why: str) -> None:
        self.skipped.append({"study": name, "why": why})


def _named(progress: Progress | None, study: str) -> Progress | None:
    """``progress``, which is also told which study it is of."""
    if progress is None:
        return None
    return lambda done, total, counts: progress(done, total, {**counts, "study": study})


def _checkup(detector: DetectorLike, data: DataLike, how: CheckupSettings) -> Checkup:
    began = time.monotonic()
    place = Place(how.out)
    out = place.path
    # an endpoint's own limits hold for all studies together, so they share one count
    shown = looked_at(data, how.limit)
    needed = next((kind.name for kind in in_checkup() if kind.checkup is not None and kind.checkup.required), "")
    model = load_again(detector, out / needed, data=shown, counted=budget_file(out))
    source = data if isinstance(data, str) else load_data(data, model.names)
    opened = load_data(source).limit(how.limit)
    if not len(opened):
        raise BadData(f"{opened.spec} has no images.")
    plan = plan_for(model, opened, out, how)
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
    first = next(iter(patient.runs.values()))
    if model is not detector and first.outcome is not None:
        first.outcome = saying_assumed(first.outcome, model)
    document = _document(patient, plan)
    write_checkup(out, document)
    checkup_page(patient.runs, document, out / REPORT, how.pictures, time.monotonic() - began)
    return Checkup(place, patient.runs, document)


def _studies(patient: _Patient, plan: Mapping[str, int]) -> None:
    """All of them, those that explain others first, each as it says itself what a checkup makes of it."""
    first = [patient.data[i].truth for i in range(min(len(patient.data), _LOOKED))]
    annotated, states = any(map(len, first)), any(truth.states is not None for truth in first)
    for kind in in_checkup():
        examined = Examined(patient.data, annotated, states, plan, patient.runs, patient.how.limit)
        how = kind.checkup
        assert how is not None
        settings = how.settings(examined)
        read = patient.runs.get(kind.reads) if kind.reads is not None else None
        if isinstance(settings, str):
            patient.skip(kind.name, settings)
        elif settings is not None and (kind.reads is None or (read is not None and read.document["finished"])):
            patient.ask(kind, how, read, settings)


def _document(patient: _Patient, plan: Mapping[str, int]) -> Document:
    studies = {name: {**run.document, **_sitting(run), "out": run.address} for name, run in patient.runs.items()}
    for name, found in studies.items():
        how = kind_of(name).checkup
        if how is not None and how.more is not None:
            found |= how.more(patient.runs[name].directory)
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
        "settings": {"minutes": patient.how.minutes, "limit": patient.how.limit, "plan": dict(plan)},
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
