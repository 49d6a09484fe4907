"""Runs of one study side by side: what each was, in which settings they differ, and its headline numbers.

Opens what ``misdetect compare`` is given (run directories, and documents that ``misdetect score --json`` printed) and
refuses what cannot be compared: no run, an unfinished one, different studies. What an explain run says of objects is
compared in ``studies/explain/compare``.
"""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from misdetect.data import load_data
from misdetect.engine.store import Run
from misdetect.errors import BadData, MisdetectError
from misdetect.studies.scan.results import View, table_one

FIRST = ("settings", "data", "detector", "detector_settings", "versions")
"""In this order settings are named: what was asked, of what, of whom."""
_MISSING = object()


@dataclass(frozen=True)
class Opened:
    """One thing to compare: ``name`` it is called by, ``study``, its ``settings`` by dotted name, the ``run`` directory
    or the ``document`` it comes from; ``notes`` on what could not be checked."""

    name: str
    path: Path
    study: str
    settings: Mapping[str, Any]
    run: Run | None
    document: Mapping[str, Any]
    notes: tuple[str, ...] = ()


def open_runs(paths: Sequence[Path]) -> list[Opened]:
    """The finished runs at ``paths``, all of one study; the names are the shortest that tell them apart."""
    if len(paths) < 2:
        raise BadData(f"compare needs two runs or more; only {', '.join(map(str, paths)) or 'none'} was given.")
    resolved = [path.resolve() for path in paths]
    for path, where in zip(paths, resolved, strict=True):
        if resolved.count(where) > 1:
            raise BadData(f"{path} is given twice; compare needs different runs.")
    found = [_open(path, name) for path, name in zip(paths, _names(resolved), strict=True)]
    kinds = {each.study for each in found}
    if len(kinds) > 1:
        said = ", ".join(f"{each.path} is of {each.study}" for each in found)
        raise BadData(f"only runs of one study can be compared: {said}.")
    return found


def _names(paths: Sequence[Path]) -> list[str]:
    """The last parts of ``paths``, as many as are needed for all to differ."""
    most = max(len(path.parts) for path in paths)
    for count in range(1, most + 1):
        names = ["/".join(path.parts[-count:]).removesuffix(".json") for path in paths]
        if len(set(names)) == len(names):
            return names
    return [str(path) for path in paths]


def _open(path: Path, name: str) -> Opened:
    if path.is_file():
        return _open_document(path, name)
    if (path / "checkup.json").is_file() and not (path / "run.json").exists():
        raise BadData(f"{path} is the folder of a checkup, which holds several runs; compare its {path / 'explain'}.")
    run = Run.open(path)
    identity = run.document.get("identity")
    if not isinstance(identity, dict) or not isinstance(identity.get("study"), str):
        raise BadData(f"{path / 'run.json'} does not say what was run: it has no identity.study.")
    said = {key: identity.get(key) for key in FIRST[:3]} | {key: run.document.get(key) for key in FIRST[3:]}
    if wrong := [key for key, value in said.items() if value is not None and not isinstance(value, dict)]:
        raise BadData(f"{path / 'run.json'}: {', '.join(wrong)} should be an object of names and values.")
    try:
        notes = _finished(path, run, identity)
    except (pa.ArrowException, duckdb.Error) as error:
        raise BadData(f"{path / 'parts'} cannot be read: {str(error).splitlines()[0]}.") from None
    return Opened(name, path, identity["study"], flat({k: v or {} for k, v in said.items()}), run, {}, notes)


def _open_document(path: Path, name: str) -> Opened:
    """A document that ``misdetect score --json`` printed."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise BadData(f"{path} is neither a run directory nor a JSON document: {error}.") from None
    if not isinstance(document, dict) or not all(isinstance(document.get(k), dict) for k in ("ap", "tide", "settings")):
        raise BadData(
            f"{path} is not a document of `misdetect score --json`: it lacks ap, tide or settings. "
            "Of other verbs compare takes the run directory."
        )
    return Opened(name, path, "score", flat({"settings": document["settings"]}), None, document)


def _finished(path: Path, run: Run, identity: Mapping[str, Any]) -> tuple[str, ...]:
    """Refuse a run of which cases are missing; a note where that cannot be told."""
    done, wanted = len(run.done()), _cases(run, identity)
    if wanted is None and done:
        return (f"{path}: whether all cases are done cannot be told, its data cannot be opened from here.",)
    if wanted is None or done < wanted:
        command = shlex.join(["misdetect", *map(str, run.document.get("command") or [identity["study"], "…"])])
        known = f"{done} cases" if wanted is None or identity["study"] == "scan" else f"{done} of {wanted} cases"
        raise BadData(f"{path} is not finished: {known} are done; go on with: {command}")
    return ()


def _cases(run: Run, identity: Mapping[str, Any]) -> int | None:
    """How many cases the run has in all, where that can be told: from itself, its limit, or its data."""
    settings, data = identity.get("settings") or {}, identity.get("data") or {}
    done, stated, limit = len(run.done()), run.document.get("cases"), data.get("limit")
    if isinstance(stated, int):
        return stated
    if identity["study"] == "scan":
        if settings.get("adaptive"):
            return len(settings["pairs"])
        rows = run.query("SELECT count(*) AS rows FROM rows").to_pylist()[0]["rows"]
        wanted = settings.get("positions", 0) * (2 if settings.get("null") else 1)
        return done if run.errors().num_rows or rows >= wanted else done + 1
    if isinstance(limit, int) and done >= limit:
        return limit
    try:
        return len(load_data(data["spec"]).limit(limit))
    except (MisdetectError, OSError, KeyError):
        return None


def flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """A nested mapping by dotted names."""
    found: dict[str, Any] = {}
    for key, inner in value.items():
        if isinstance(inner, Mapping) and inner:
            found |= flat(inner, f"{prefix}{key}.")
        elif not isinstance(inner, Mapping):
            found[f"{prefix}{key}"] = inner
    return found


def settings_of(runs: Sequence[Opened]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
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


def numbers(run: Opened, confidence: float, seed: int) -> dict[str, dict[str, Any]]:
    """The headline numbers of a scan, detect or score run: ``{name: {"value", "interval"}}``."""
    if run.study == "scan":
        return _scan_numbers(run, confidence, seed)
    if run.study == "detect":
        return _detect_numbers(run)
    if run.study == "score":
        document = run.document
        found = {**document["ap"], **{f"tide.{key}": value for key, value in document["tide"].items()}}
        return {key: {"value": value, "interval": None} for key, value in found.items()}
    raise BadData(f"compare has no numbers for runs of {run.study} yet; it takes explain, scan, detect and score.")


def _scan_numbers(run: Opened, confidence: float, seed: int) -> dict[str, dict[str, Any]]:
    """Table I's first and last row, in percent of the positions, and the same less the null control, by τ."""
    assert run.run is not None
    table = table_one(run.run, View(confidence=confidence, seed=seed))
    parts = [("", table, table["intervals"])]
    if table["difference"] is not None:
        parts.append(("difference.", table["difference"], table["intervals"]["difference"]))
    return {
        f"{prefix}{row}.{tau}": {"value": value, "interval": ranges[row][tau]}
        for prefix, rates, ranges in parts
        for row in ("affected", "no_occlusion")
        for tau, value in rates[row].items()
    }


def _detect_numbers(run: Opened) -> dict[str, dict[str, Any]]:
    assert run.run is not None
    images = len(run.run.done())
    found = run.run.query(
        "SELECT count(*) AS detections, count(*) FILTER (score >= 0.5) AS sure, avg(score) AS mean FROM rows"
    ).to_pylist()[0]
    values = {
        "images": images,
        "failed": run.run.errors().num_rows,
        "detections": found["detections"],
        "per_image": found["detections"] / images if images else None,
        "of_score_half": found["sure"],
        "mean_score": found["mean"],
    }
    return {key: {"value": value, "interval": None} for key, value in values.items()}
