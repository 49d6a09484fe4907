"""Checkups side by side as one self-contained HTML page without a script: findings that are fixed, new and common, then
each study's differences and failures, what was not compared, and the settings that differ. Every name becomes text."""

import html
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from misdetect.drawing.inline import whole_page
from misdetect.drawing.words import UNKNOWN, number, within
from misdetect.kept.files import write_atomically
from misdetect.studies.contract import Document
from misdetect.studies.kinds import kind_of
from misdetect.studies.told import told_changes

_WORDS = {"new": "New", "fixed": "No longer found", "common": "In both"}
_LISTED = 20
"""Failures of each kind that the page lists; ``compare.json`` has more."""


def draw_comparison(document: Document, folder: Path) -> list[Path]:
    """Write ``compare.html`` into ``folder``."""
    names = [run["name"] for run in document["runs"]]
    title = f"{', '.join(names[1:])} against {names[0]}"
    body = f'<header><p class="kicker">misdetect compare</p><h1>{_text(title)}</h1></header><main>'
    body += _findings(document) + _overview(document, names)
    body += "".join(_study(name, each) for name, each in document["studies"].items())
    body += _settings(document, names) + "</main>"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "compare.html"
    write_atomically(path, whole_page(title, body, "").encode())
    return [path]


def _findings(document: Document) -> str:
    found = ""
    for word, title in _WORDS.items():
        items = "".join(_finding(each) for each in document[f"{word}_findings"])
        found += f'<h3>{title}</h3><ol class="findings">{items}</ol>' if items else ""
    nothing = '<p class="fine">No checkup has a finding that could be compared.</p>'
    return _section("findings", "Findings that are new, fixed, and in both", found or nothing)


def _finding(each: Document) -> str:
    now, was = each["second"], each["first"]
    before = f'<p class="do">Before: {_text(was["sentence"])}</p>' if now and was else ""
    advice = f'<p class="do"><b>What to do:</b> {_text(now["advice"])}</p>' if now else ""
    where = "In" if now else "Not in"
    said = f'<p class="what">{where} {_text(each["run"])}: {_text((now or was)["sentence"])}</p>'
    return f"<li><div>{said}{before}{advice}</div></li>"


def _overview(document: Document, names: Sequence[str]) -> str:
    rows = [["", *names]]
    rows += [[key, *(run[key] for run in document["runs"])] for key in ("detector", "data", "images", "findings")]
    told = "".join(f"<p>{_text(note)}</p>" for note in document["notes"])
    lines = [[each["study"], f"not compared: {each['why']}"] for each in document["skipped"]]
    return _section("runs", "What was compared", _table(rows) + told + (_table(lines) if lines else ""))


def _study(name: str, document: Document) -> str:
    found = "".join(
        f"<p>Not paired: {_text(why)}.</p>" for why in document["why_not_paired"] if "differences" in document
    )
    rows = [["", "run", "first", "second", "difference", "interval", ""]]
    for key, second, change in told_changes(document):
        ends = UNKNOWN if change["interval"] is None else "{:.3f} to {:.3f}".format(*change["interval"])
        numbers = [f"{change['first']:.3f}", f"{change['second']:.3f}", f"{change['difference']:+.3f}", ends]
        rows.append([key, second, *numbers, "certain" if change["certain"] else ""])
    found += _table(rows) if len(rows) > 1 else ""
    found += "".join(_failures(each) for each in document["failures"])
    names = [run["name"] for run in document["runs"]]
    every = [["", *names], *([key, *map(_number, each)] for key, each in document["numbers"].items())]
    found += f"<details><summary>All numbers</summary>{_table(every)}</details>"
    return _section(name, kind_of(name).title, found)


def _failures(each: Document) -> str:
    counts = f"{each['fixed']} fixed, {each['new']} new, {each['common']} in both"
    if each["unknown"]:
        counts += f"; of {each['unknown']} it is not known"
    found = f"<p>Failures of {_text(each['second'])} against {_text(each['first'])}: {counts}.</p>"
    for word, title in _WORDS.items():
        rows = [[one[key] for key in ("image", "condition", "label", "outcome", "case")] for one in
                each["listed"][word][:_LISTED]]  # fmt: skip
        if rows:
            table = _table([["image", "condition", "class", "outcome", "case"], *rows])
            found += f"<details><summary>{title}: the first {len(rows)} of {each[word]}</summary>{table}</details>"
    return found


def _settings(document: Document, names: Sequence[str]) -> str:
    rows = [[each["setting"], *map(json.dumps, each["values"])] for each in document["differing_settings"]]
    return _section("settings", "Settings that differ", _table([["", *names], *rows]))


def _number(entry: Any) -> str:
    if entry is None or entry["value"] is None:
        return UNKNOWN
    return number(entry["value"]) + within(entry["interval"])


def _table(rows: Iterable[Sequence[Any]]) -> str:
    lines = ("".join(f"<td>{_text(cell)}</td>" for cell in row) for row in rows)
    return f'<table class="overview">{"".join(f"<tr>{line}</tr>" for line in lines)}</table>'


def _section(name: str, title: str, content: str) -> str:
    return f'<section class="part" id="{_text(name)}"><h2>{_text(title)}</h2>{content}</section>'


def _text(value: Any) -> str:
    return html.escape(str(value))
