"""The ledger as a page carries it: which rows, in which order, with what a view needs beside the ledger's columns.

A page holds every failure of every study, and of the studies of clean images also what was found, since the marks of
curves and matrices stand for those too. Rows are in the order in which they are shown: the worst of each kind first.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from misdetect.engine.store import Run
from misdetect.metrics.slices import bins
from misdetect.nouns.boxes import SIDES
from misdetect.studies.attack.document import settings_of
from misdetect.studies.attack.plan import main_attacks
from misdetect.studies.ledger import ledger

Row = dict[str, Any]
Filter = dict[str, Any]
"""Columns with the values that a row may have there; ``wrong_at`` is a score: see ``wrong_at``."""
Counted = Callable[..., Counter[tuple[Any, ...]]]
"""Called with names of columns: how many rows of one study have each of the combinations of values that there are, the
first in the rows' order first; scores are rounded to four digits."""

MOST = 40_000
"""Rows of a page."""
CLEAN, EDITED = ("explain", "score", "confusion", "verify"), ("scan", "fuzz", "attack")
"""Studies of images as they are, in the order in which their word counts where several tell of one failure; and of
edited ones."""
REPORTED = 0.3
"""From which score on a detection counts as reported where no study says."""
COLUMNS = (
    "study", "case", "image", "object", "condition", "control", "label", *SIDES, "state", "outcome", "harm", "became",
    "score_before", "score", "iou", "flicker", "attributable", "tide", "mechanism", "reason", "by", "size", "scene",
    "failure", "again", "evidence", "replay",
)  # fmt: skip
"""What a row of a page has. ``by``: the attack, or the class of the object that was put in; ``size``: COCO's;
``scene``: the picture that shows it; ``failure``: it harms, and is neither flicker nor what a null control does too;
``again``: another study tells of the same failure of the same image."""
_CODED = ("study", "case", "image", "condition", "label", "state", "outcome", "harm", "became", "tide", "mechanism",
          "reason", "by", "size", "scene", "replay")  # fmt: skip
"""Text columns, written as numbers into a list of words."""


def page_rows(runs: Mapping[str, Run], reported: float = REPORTED) -> tuple[list[Row], int]:
    """The rows of a page of ``runs`` by study, in their order, and how many were left out."""
    rows = [row for study in (*CLEAN, *EDITED) if study in runs for row in _of(study, runs[study], reported)]
    _tell_again(rows)
    if "detect" in runs:
        _replay_by_detect(rows, runs["detect"])
    kept = rows if len(rows) <= MOST else sorted(rows, key=_importance, reverse=True)[:MOST]
    return in_order(kept), len(rows) - len(kept)


def _of(study: str, run: Run, reported: float) -> list[Row]:
    """The rows of one run that a page has, with what it adds to them."""
    about = {row["pair"]: row["t_class"] for row in _pairs(run)} if study == "scan" else {}
    attacks = {each.name for each in main_attacks(settings_of(run))} if study == "attack" else set()
    found = []
    for row in ledger([run]).to_pylist():
        if not _belongs(row):
            continue
        evidence: Any = json.loads(row["evidence"]) if row["evidence"] else None
        if study == "attack" and evidence["attack"] not in attacks:  # a rung of the ladder, which is no condition
            continue
        row["evidence"] = evidence
        row["by"], row["scene"] = _by(row, evidence, about), scene_of(row, evidence)
        row["failure"] = _is_failure(row, reported)
        row["again"] = False
        found.append(row)
    areas = np.array([max(row["x1"] - row["x0"], 0) * max(row["y1"] - row["y0"], 0) for row in found])
    for row, size in zip(found, bins("size", areas).tolist() if found else [], strict=True):
        row["size"] = size
    return found


def _pairs(run: Run) -> list[Row]:
    rows: list[Row] = run.query("SELECT DISTINCT pair, t_class FROM rows WHERE t_class IS NOT NULL").to_pylist()
    return rows


def _belongs(row: Row) -> bool:
    if row["outcome"] in (None, "ignored") or row["x0"] is None:
        return False
    if row["study"] in EDITED:  # of an edited picture only what is not as before
        controlled = row["control"] and row["study"] == "fuzz"  # whose patches are not drawn
        return row["outcome"] != "found" and row["condition"] != "clean" and not controlled
    return bool(row["condition"] == "clean")


def _by(row: Row, evidence: Any, pairs: Mapping[int, str]) -> str | None:
    if row["study"] == "attack":
        return str(evidence["attack"])
    if row["study"] == "fuzz":
        return str(evidence["inserted"])
    return pairs.get(int(row["case"].partition("/")[0])) if row["study"] == "scan" else None


def scene_of(row: Row, evidence: Any) -> str:
    """The key of the picture that shows a row of the ledger."""
    if row["study"] == "scan":
        return scan_scene(int(row["case"].partition("/")[0]), evidence["x"], evidence["y"], control=row["control"])
    if row["study"] == "fuzz":
        return f"fuzz/{row['case']}"
    if row["study"] == "attack":
        return f"attack/{row['image']}/{evidence['attack']}"
    return f"clean/{row['image']}"


def scan_scene(pair: int, x: int, y: int, *, control: bool) -> str:
    """The key of one position of a scan."""
    return f"scan/{pair}/{x},{y}" + ("/null" if control else "")


def _is_failure(row: Row, reported: float) -> bool:
    if row["study"] == "score" and row["outcome"] == "extra" and row["score"] < reported:
        return False  # it costs precision at thresholds that nobody uses
    sure = not row["control"] and not row["flicker"] and row["attributable"] is not False
    return bool(sure and row["harm"] == "harmful" and row["outcome"] != "found")


def _tell_again(rows: Sequence[Row]) -> None:
    """Mark failures of clean images that an earlier study tells of already."""
    told: set[Any] = set()
    for row in rows:
        if row["study"] in CLEAN and row["failure"]:
            box = tuple(round(row[side]) for side in SIDES)
            one = (row["image"], row["object"]) if row["object"] is not None else (row["image"], row["label"], box)
            row["again"] = one in told
            told.add(one)


def _replay_by_detect(rows: Sequence[Row], run: Run) -> None:
    """Scores are computed from detections: what is asked again is the image."""
    asked = {row["image"]: row["replay"] for row in ledger([run]).to_pylist()}
    for row in rows:
        if row["study"] == "score":
            row["replay"] = asked.get(row["image"])


def _importance(row: Row) -> tuple[bool, bool, float]:
    return row["failure"], row["outcome"] not in ("found", "extra"), row["score"] or 0.0


def in_order(rows: Sequence[Row]) -> list[Row]:
    """Failures first, in turns one of each study and outcome, the worst of each first: of what was found before what
    was surest, of what was never found the largest, of what is extra the surest. What is told again comes last."""
    groups: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row["failure"], not row["again"], row["study"], row["outcome"]].append(row)
    turns = []
    for (failure, once, _, _), group in groups.items():
        group.sort(key=_severity, reverse=True)
        turns += [((not failure, not once, turn), row) for turn, row in enumerate(group)]
    return [row for _, row in sorted(turns, key=lambda each: each[0])]


def _severity(row: Row) -> float:
    if row["outcome"] == "extra":
        return float(row["score"] or 0)
    if row["score_before"] is not None:
        return float(row["score_before"])
    return float((row["x1"] - row["x0"]) * (row["y1"] - row["y0"]))


def counted(rows: Sequence[Row], study: str) -> Counted:
    """The rows of ``study`` among ``rows``, to be counted."""
    own = [row for row in rows if row["study"] == study]

    def values(name: str) -> list[Any]:
        found = [row[name] for row in own]
        return [None if each is None else round(each, 4) for each in found] if name == "score" else found

    return lambda *names: Counter(zip(*map(values, names), strict=True))


def as_columns(rows: Sequence[Row]) -> dict[str, Any]:
    """``rows`` as JSON: a list for each column; text as places in a list of words, -1 where there is none."""
    found: dict[str, Any] = {}
    for name in COLUMNS:
        values = [row[name] for row in rows]
        if name in _CODED:
            words = {word: i for i, word in enumerate(dict.fromkeys(v for v in values if v is not None))}
            found[name] = {"words": list(words), "codes": [-1 if v is None else words[v] for v in values]}
        else:
            found[name] = [round(v, 4) if isinstance(v, float) else v for v in values]
    return found


def wrong_at(row: Row, score: float) -> bool:
    """Whether a row of score is an error at that threshold: an object that no detection of that score finds, or a
    detection of that score which finds none."""
    own = row["score"]
    return bool(own is not None and own >= score) if row["outcome"] == "extra" else own is None or own < score


def matches(row: Row, wanted: Filter) -> bool:
    """Whether ``row`` is among those that ``wanted`` asks for; the page's script does the same (``filter.js``)."""
    return all(wrong_at(row, values) if name == "wrong_at" else row[name] in values for name, values in wanted.items())
