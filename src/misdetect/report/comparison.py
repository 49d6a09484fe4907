"""Runs of one study side by side: what each was, in which settings they differ, its headline numbers.

Opens what is to be compared (run directories, and documents that a verb printed with ``--json``) and refuses what
cannot be: no run, an unfinished one, different studies. Which numbers there are, and what else can be said of several
runs, the study knows (``Kind.numbers``, ``Kind.compare``).
"""

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any

import duckdb
import pyarrow as pa

from misdetect.data.untrusted import read_json
from misdetect.engine.store import RUN_JSON, Run
from misdetect.kept.files import check_local
from misdetect.kept.mirror import address_of
from misdetect.nouns.settings import Range, Settings
from misdetect.report.changed import changed
from misdetect.report.checkups import is_checkup
from misdetect.said.errors import BadData, BadSpec
from misdetect.studies.contract import Document
from misdetect.studies.documents import read_document
from misdetect.studies.kinds import kind_of

FIRST = ("settings", "data", "detector", "detector_settings", "versions")
"""In this order settings are named: what was asked, of what, of whom."""
_MISSING = object()


@dataclass(frozen=True, kw_only=True)
class CompareSettings(Settings):
    """Runs of one study side by side: what differs in their settings, their numbers, shared misses."""

    confidence: Annotated[float, Range(0.01, 0.999)] = 0.9
    """Of the intervals."""
    seed: Annotated[int, Range(0)] = 0
    """Of the images drawn again for the intervals."""


@dataclass(frozen=True)
class Compared:
    """One thing to compare: the ``name`` it is called by, its ``study``, its ``settings`` by dotted name, its
    ``document``, and the ``run`` directory where it is one."""

    name: str
    path: Path
    study: str
    settings: Mapping[str, Any]
    document: Document
    run: Run | None


def compare(paths: Sequence[Path], how: CompareSettings, names: Sequence[str] | None = None) -> Document:
    """The JSON-able document of the runs at ``paths``, which are called by ``names`` (or by the ends of their paths):
    ``runs``, ``settings``, ``differing_settings``, ``numbers``, and what else the study says of several runs."""
    opened = open_all(paths, how, names)
    kind = kind_of(opened[0].study)
    common, differing = settings_of(opened)
    found = [kind.numbers(each.document) for each in opened]
    keys = dict.fromkeys(name for numbers in found for name in numbers)
    document: Document = {
        "study": kind.name,
        "settings": common,
        "differing_settings": differing,
        "resampling": {"confidence": how.confidence, "seed": how.seed},
        "numbers": {name: [asdict(each[name]) if name in each else None for each in found] for name in keys},
        "paired": False,
        "why_not_paired": [f"runs of {kind.name} are set side by side only"],
        "failures": [],
        "notes": [],
        "runs": [_entry(each) for each in opened],
    }
    runs = {each.name: each.run for each in opened if each.run is not None}
    if len(runs) == len(opened):
        document |= kind.compare(runs, how.confidence, how.seed) if kind.compare is not None else {}
        pairs = {(a, b): changed(runs[a], runs[b]) for a, b in combinations(runs, 2)}
        document["failures"] = [{"first": a, "second": b, **found} for (a, b), found in pairs.items() if found]
    said = document.pop("by_run", {})
    for entry in document["runs"]:
        entry |= said.get(entry["name"], {})
    return document


def open_all(paths: Sequence[Path], how: CompareSettings, names: Sequence[str] | None = None) -> list[Compared]:
    """What is at ``paths``, all of one study; without ``names`` they are the shortest that tell them apart."""
    called = endings(distinct_places(paths)) if names is None else names
    found = [_open(path, name, how) for path, name in zip(paths, called, strict=True)]
    if len({each.study for each in found}) > 1:
        said = ", ".join(f"{each.path} is of {each.study}" for each in found)
        raise BadData(f"only runs of one study can be compared: {said}.")
    return found


def distinct_places(paths: Sequence[Path]) -> list[Path]:
    """Where ``paths`` lead, which must be different places."""
    resolved = [Path(os.path.realpath(path)) for path in paths]  # also of links in a circle
    for path, where in zip(paths, resolved, strict=True):
        if resolved.count(where) > 1:
            raise BadData(f"{address_of(path)} is given twice; compare needs different runs.")
    return resolved


def endings(paths: Sequence[Path]) -> list[str]:
    """The last parts of ``paths``, as many as are needed for all to differ."""
    most = max(len(path.parts) for path in paths)
    for count in range(1, most + 1):
        names = [str(Path(*path.parts[-count:])).removesuffix(".json") for path in paths]
        if len(set(names)) == len(names):
            return names
    return [str(path) for path in paths]


def _open(path: Path, name: str, how: CompareSettings) -> Compared:
    if path.is_file():
        return _open_document(path, name)
    run = Run.open(path)
    try:
        _refuse_unfinished(run)
        document = read_document(_shown_as(run, how))
    except (pa.ArrowException, duckdb.Error) as error:
        raise BadData(f"{path / 'parts'} cannot be read: {str(error).splitlines()[0]}.") from None
    said = {key: run.about["identity"].get(key) for key in FIRST[:3]} | {key: run.about.get(key) for key in FIRST[3:]}
    settings = {key: {k: v for k, v in (part or {}).items() if k != "names"} for key, part in said.items()}
    return Compared(name, path, run.study, flat(settings), document, run)


def _refuse_unfinished(run: Run) -> None:
    if run.finished:
        return
    done = len(run.done())
    known = f"{done} cases" if run.cases is None else f"{done} of {run.cases} cases"
    command = shlex.join(["misdetect", *map(str, run.about.get("command") or [run.study, "…"])])
    raise BadData(f"{run.address} is not finished: {known} are done; go on with: {command}")


def _shown_as(run: Run, how: CompareSettings) -> Run:
    """``run``, its intervals as this comparison has them, where the study has any."""
    view = run.about.get("view", {})
    return Run(run.path, {**run.about, "view": view | {k: v for k, v in how.document().items() if k in view}})


def _open_document(path: Path, name: str) -> Compared:
    """A document that a verb printed with ``--json``; those of older versions of ``score`` do not name their study."""
    document, _ = read_json(path, what="a run directory or a document that a study printed with --json")
    try:
        kind = kind_of(document.get("study", "score"))
        kind.numbers(document)
        settings = flat({"settings": document["settings"]})
    except (LookupError, TypeError, AttributeError):
        raise BadData(
            f"{path} is not a document that a study printed with --json; compare its run directory."
        ) from None
    if (kind.compare is not None and not kind.by_document) or not document.get("finished", True):
        raise BadData(f"{path}: of {kind.name} compare takes finished run directories, not documents.")
    return Compared(name, path, kind.name, settings, document, None)


def _entry(each: Compared) -> dict[str, Any]:
    """What is said of every run. Documents of older versions of ``score`` say less."""
    document, counts = each.document, each.document.get("counts", {})
    images = counts.get("images") if each.run is None else each.run.about["identity"]["data"]["images"]
    said = {key: document.get(key) for key in ("detector", "data")}
    return {
        "name": each.name,
        "path": address_of(each.path),
        **said,
        "images": images,
        "failed": document.get("failed", 0),
    }


def flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """A nested mapping by dotted names."""
    found: dict[str, Any] = {}
    for key, inner in value.items():
        if isinstance(inner, Mapping) and inner:
            found |= flat(inner, f"{prefix}{key}.")
        elif not isinstance(inner, Mapping):
            found[f"{prefix}{key}"] = inner
    return found


def settings_of(runs: Sequence[Compared]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The settings that all ``runs`` share, and those in which they differ, ``{"setting", "values"}`` with one value
    per run (``None`` where a run has no such setting); what was asked comes before what of and whom."""
    names = sorted(
        dict.fromkeys(key for each in runs for key in each.settings),
        key=lambda key: (FIRST.index(key.split(".")[0]), key),
    )
    common, differing = {}, []
    for key in names:
        values = [each.settings.get(key, _MISSING) for each in runs]
        if all(value == values[0] for value in values):
            common[key] = values[0]
        else:
            differing.append({"setting": key, "values": [None if value is _MISSING else value for value in values]})
    return common, differing


def check_folder(folder: Path) -> None:
    """Refuse a folder that the figures of a comparison must not be drawn into."""
    check_local(folder)
    if (folder / RUN_JSON).exists() or is_checkup(folder) or (folder.exists() and not folder.is_dir()):
        raise BadSpec(
            f"{folder}: this is a run directory, a checkup or a file; expected another folder for the comparison."
        )
