"""The ledger as a page carries it: which rows, in which order, with what a view needs beside the ledger's columns.

A page holds every failure of every study, and of the studies of clean images also what was found, since the marks of
curves and matrices stand for those too. Rows are in the order in which they are shown: the worst of each kind first.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from misdetect.drawing.scenes import Row
from misdetect.drawing.values import Counted, Filter
from misdetect.engine.store import Run
from misdetect.nouns.boxes import SIDES
from misdetect.studies import looked
from misdetect.studies.kinds import REPORTED, kind_of, looked_at
from misdetect.studies.ledger import ledger, query

MOST = 40_000
"""Rows of a page."""
COLUMNS = (
    "study", "case", "image", "object", "condition", "control", "label", *SIDES, "state", "outcome", "harm", "became",
    "score_before", "score", "iou", "flicker", "attributable", "tide", "mechanism", "reason", "by", "size", "scene",
    "failure", "again", "evidence", "replay",
)  # fmt: skip
"""What a row of a page has. ``by``: the attack, or the class of the object that was put in; ``size``: COCO's;
``scene``: the picture that shows it; ``failure``: it harms, and is neither flicker nor what a control does too;
``again``: another study tells of the same failure of the same image."""
_CODED = ("study", "case", "image", "condition", "label", "state", "outcome", "harm", "became", "tide", "mechanism",
          "reason", "by", "size", "scene", "replay")  # fmt: skip
"""Text columns, written as numbers into a list of words."""


def page_rows(runs: Mapping[str, Run], reported: float = REPORTED) -> tuple[list[Row], int]:
    """The rows of a page of ``runs`` by study, in their order, and how many were left out."""
    known = looked_at()
    rows = [row for study in known if study in runs for row in _of(runs[study], reported)]
    _tell_again([row for row in rows if not known[row["study"]].edited])
    _replay_by_asking(rows, runs)
    kept = rows if len(rows) <= MOST else sorted(rows, key=_importance, reverse=True)[:MOST]
    return in_order(kept), len(rows) - len(kept)


def _of(run: Run, reported: float) -> list[Row]:
    """The rows of one run that a page has, with what it adds to them."""
    rows: list[Row] = query([run], looked.looked_at(run, reported)).to_pylist()
    for row in rows:
        row["evidence"] = json.loads(row["evidence"]) if row["evidence"] else None
        row["again"] = False
    return rows


def _tell_again(rows: Sequence[Row]) -> None:
    """Mark failures among ``rows``, of images as they are, that an earlier study tells of already."""
    told: set[Any] = set()
    for row in rows:
        if row["failure"]:
            box = tuple(round(row[side]) for side in SIDES)
            one = (row["image"], row["object"]) if row["object"] is not None else (row["image"], row["label"], box)
            row["again"] = one in told
            told.add(one)


def _replay_by_asking(rows: Sequence[Row], runs: Mapping[str, Run]) -> None:
    """What a study says that asks nothing was computed from detections: what is asked again is the image."""
    silent = {name for name, each in looked_at().items() if not each.asks}
    evidence = {name: kind_of(name).evidence for name in runs}
    asking = {name: each.knows for name, each in evidence.items() if each is not None and each.boxes and each.asks}
    if not asking or not silent & runs.keys():
        return
    asked = {
        row["image"]: row["replay"] for row in ledger([runs[min(asking, key=lambda name: asking[name])]]).to_pylist()
    }
    for row in rows:
        if row["study"] in silent:
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
