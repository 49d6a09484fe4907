"""Run the commands that are missing, and keep of each what the claims read: papers/results/RUN-SUBJECT.json.

Runs are resumable, so an interrupted one goes on. A result file is small, has no path of this machine, and is enough to
write the page again. One of full size replaces one of quick size, never the other way round.
"""

import json
import shlex
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import misdetect as md
from misdetect.kept.files import write_atomically
from misdetect.metrics.bootstrap import interval, ratios, resamples
from misdetect.said.errors import MisdetectError
from papers.catalogue import ROOT, SIZES, Catalogue, Query, Question
from papers.verdicts import never

KEPT = {
    "scan": "positions queries affected class_agnostic occlusion_20 no_occlusion scene harm harms control "
    "difference intervals flicker stability outcomes distance own_parts_only",
    "verify": "with_localisation without_localisation best_threshold f_vv_curve missing_recall_curve missing present "
    "by_part ap states prior hallucinations causes edits images",
    "explain": "objects missed miss_rate mechanisms reasons tide sankey potential intervals cases",
    "fuzz": "harm harmful_per_1000 effects attributable attributable_per_1000 attributable_by_type unique_failures "
    "by_control backgrounds insertions queries failing_insertions failure_rate raw_failures raw_failure_rate flicker "
    "control_failures control_asked by_type coverage relocated relocated_unique relocation naturalness intervals "
    "tables",
    "attack": "images objects right clean attacks ladder dcm clsaval mechanisms verdict transfer",
    "harden": "before after change configurations fixed still broken guard sentences",
}
"""What is kept of a study's document."""
_MOST_LABELS = 20
"""Confusion matrices of more classes are not kept: they are large, and no figure shows them whole."""
_CONFIDENCE = 0.9


@dataclass(frozen=True)
class Places:
    """Folders: of the ``runs``, of the ``results``, and of photos and real detectors (``fixtures``)."""

    runs: Path
    results: Path
    fixtures: Path

    def run(self, question: Question) -> Path:
        """The run directory of ``question``."""
        return self.runs / question.size / question.name

    def result(self, question: Question) -> Path:
        """Its result file."""
        return self.results / f"{question.name}.json"

    def arguments(self, question: Question) -> list[str]:
        """The command as it is run here, without ``misdetect``."""
        filled = question.command.replace("{fixtures}", str(self.fixtures))
        if "{lessons}" in filled:
            filled = filled.replace("{lessons}", str(self.runs / question.size / f"lessons-{question.subject.name}"))
        return shlex.split(filled)


def run_missing(catalogue: Catalogue, size: str, places: Places, only: Iterable[str] = ()) -> list[str]:
    """Ask every question that has no result of ``size`` (or better), or only those whose name begins as one of
    ``only`` says; returns what failed, in words. What needs fixtures that are not there is left as it is."""
    failed = []
    for question in catalogue.questions(size):
        if only and not question.name.startswith(tuple(only)):
            continue
        if is_answered(question, places, catalogue):
            continue
        if question.subject.needs_fixtures and not places.fixtures.is_dir():
            print(f"{question.name}: not run, {places.fixtures} is not there", flush=True)
            continue
        print(f"{question.name} ({size}): misdetect {question.command}", flush=True)
        why = _run(question, places)
        if why is None:
            write_result(question, places, catalogue)
        else:
            failed.append(f"{question.name}: {why}")
            print(f"  {why}", flush=True)
    return failed


def is_answered(question: Question, places: Places, catalogue: Catalogue) -> bool:
    """Whether there is a result of this size or a larger one, by a command that is still the same, with all that
    claims ask for."""
    path = places.result(question)
    if not path.exists():
        return False
    found = json.loads(path.read_text(encoding="utf-8"))
    size = found["size"]
    same = found["command"] == catalogue.question(question.run, question.subject.name, size).command
    larger = SIZES.index(size) >= SIZES.index(question.size)
    return same and larger and set(catalogue.queries(question.run)) <= set(found["queries"])


def _run(question: Question, places: Places) -> str | None:
    """Run the command, or go on with it; why it failed, if it did."""
    out, arguments = places.run(question), places.arguments(question)
    document = out.with_suffix(".json")
    if document.exists():
        return None
    out.parent.mkdir(parents=True, exist_ok=True)
    pictures = () if arguments[0] == "harden" else ("--pictures", "0")
    whole = [sys.executable, "-m", "misdetect", *arguments, *pictures, "--out", str(out), "--quiet", "--json"]
    ended = subprocess.run(whole, cwd=ROOT, capture_output=True, text=True, check=False)
    if ended.returncode:
        return (ended.stdout + ended.stderr).strip()[-500:]
    write_atomically(document, ended.stdout.encode())
    return None


def write_result(question: Question, places: Places, catalogue: Catalogue) -> Path:
    """Keep what the claims read of a finished run."""
    out = places.run(question)
    document = json.loads(out.with_suffix(".json").read_text(encoding="utf-8"))
    verb = question.command.split()[0]
    kept = {key: document[key] for key in KEPT[verb].split() if key in document}
    asked = catalogue.queries(question.run)
    found: dict[str, Any] = {
        "command": question.command,
        "size": question.size,
        "document": _without_large_matrices(kept) | {"settings": _plain_settings(document["settings"])},
        "queries": {name: share(out, query) for name, query in asked.items()},
    }
    text = json.dumps(_rounded(found), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    for folder, name in ((places.fixtures, "{fixtures}"), (places.runs, "{runs}"), (ROOT, ".")):
        text = text.replace(str(folder), name)
    path = places.result(question)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, (text + "\n").encode())
    return path


def share(out: Path, query: Query) -> dict[str, Any] | None:
    """What a query says, which returns ``above`` and ``below`` for each image (or pair): the percentage that all
    ``above`` are of all ``below``, and its interval over images. ``None`` where there is nothing to divide by."""
    try:
        rows = md.open(out / query.within if query.within else out).query(query.sql).to_pylist()
    except MisdetectError:  # nothing was found to look into
        return None
    rows.sort(key=lambda row: str(row["image"]))  # groups come in any order, and resamples draw by place
    above, below = ([float(row[name] or 0) for row in rows] for name in ("above", "below"))
    if not sum(below):
        return None
    value, images = 100 * sum(above) / sum(below), sum(1 for each in below if each)
    low, high = (float(end) for end in interval(100 * ratios(resamples(len(rows)), above, below), _CONFIDENCE))
    if low == high:
        low, high = never(value, images, 100, signed=query.signed)
    return {"value": value, "interval": [low, high], "above": sum(above), "below": sum(below), "images": images}


def _without_large_matrices(value: Any) -> Any:
    if isinstance(value, Mapping):
        if len(value.get("labels", ())) > _MOST_LABELS:
            return {key: value[key] for key in ("objects", "on_objects", "on_background", "mode") if key in value}
        return {key: _without_large_matrices(inner) for key, inner in value.items()}
    return value


def _plain_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Those that are single values: others (the pairs of a scan) follow from them and the data."""
    return {key: value for key, value in settings.items() if not isinstance(value, (list, Mapping))}


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 5)
    if isinstance(value, Mapping):
        return {key: _rounded(inner) for key, inner in value.items()}
    return [_rounded(each) for each in value] if isinstance(value, list) else value
