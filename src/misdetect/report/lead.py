"""What a page begins with: the numbers of its studies, and the worst findings, each with how sure it is, what to do,
what that would bring, its pictures and a small chart (which the front end puts beside it, ``findings.js``)."""

import html
import re
from collections.abc import Mapping, Sequence
from typing import Any

from misdetect.drawing.scenes import Row
from misdetect.drawing.words import number, percent
from misdetect.engine.store import Run
from misdetect.report.embedded import matches
from misdetect.report.markup import section, text
from misdetect.studies.contract import Behind, Document, Fact
from misdetect.studies.kinds import kind_of

_TOP = 5
_SHOWN, _AMONG = 3, 24
"""Pictures beside a finding, of different images where there are such among the first of its rows (``findings.js``)."""


def behind_findings(findings: Sequence[Mapping[str, Any]], documents: Mapping[str, Document]) -> list[Behind]:
    """What stands behind each of the first findings, as its study says; else the study's failures."""
    found = []
    for each in findings[:_TOP]:
        told = kind_of(each["study"]).behind if each["study"] in documents else None
        own = {"failure": [True], "study": [each["study"]]}
        found.append(Behind(own) if told is None else told(dict(each), documents[each["study"]]))
    return found


def beside(one: Behind) -> dict[str, Any]:
    """What the script shows beside a finding."""
    return {"filter": dict(one.rows), "chart": None if one.chart is None else {**one.chart, "small": True}}


def top_findings(findings: Sequence[Mapping[str, Any]], behinds: Sequence[Behind]) -> str:
    """The worst findings as HTML, each with how sure it is, what to do about it and what that would bring, and a place
    for its pictures and its chart; that there are none, where there are none."""
    if not findings:
        found = '<p class="fine">Nothing is wrong that these studies could find.</p>'
        return section("wrong", "What is wrong", found)
    items = "".join(_finding(i, each, behinds[i]) for i, each in enumerate(findings[: len(behinds)]))
    more = findings[len(behinds) :]
    rest = "".join(f'<li><a href="#{each["study"]}">{text(each["sentence"])}</a></li>' for each in more)
    if rest:
        rest = f"<details><summary>{len(more)} more, of less weight</summary><ul>{rest}</ul></details>"
    return section("wrong", "What is wrong, the worst first", f'<ol class="findings">{items}</ol>{rest}')


def _finding(i: int, each: Mapping[str, Any], behind: Behind) -> str:
    way, pictures = ("", "")
    if behind.rows:
        way = f' data-behind="{i}"'
        pictures = f'<button type="button"{way}>all pictures of it</button>'
    told = f'<p class="what"><a href="#{each["study"]}"{way}>{text(each["sentence"])}</a></p>'
    told += f'<p class="do"><b>What to do:</b> {_with_commands(each["advice"])}</p>'
    sure = "certain at 90 %, over images" if each.get("interval") else "suspected, not measured"
    told += f'<p class="sure"><b>How sure:</b> {text("; ".join(filter(None, (sure, behind.sure))))}.</p>'
    told += f'<p class="sure"><b>To gain at most:</b> {text(behind.gain)}.</p>' if behind.gain else ""
    return f'<li><div>{told}{pictures}</div><div class="shows" data-finding="{i}"></div></li>'


def _with_commands(advice: str) -> str:
    """Advice as HTML, what stands in `these` as code."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", text(advice))


def facts_of(runs: Mapping[str, tuple[Run, Document]], reported: float) -> list[Fact]:
    """The numbers of ``runs`` (each with its document) that stand at the head of a page."""
    told = ((kind_of(study).head, *each) for study, each in runs.items())
    return [fact for head, run, document in told if head is not None for fact in head(run, document, reported)]


def headed(facts: Sequence[Fact]) -> str:
    """``facts`` as HTML; nothing where there are none."""
    shown = "".join(
        f"<div><dt>{html.escape(fact.name)}</dt><dd>{text(_shown(fact))}<small>{text(fact.told)}</small></dd></div>"
        for fact in facts
    )
    return f'<dl class="head">{shown}</dl>' if shown else ""


def _shown(fact: Fact) -> str:
    if isinstance(fact.value, str):
        return fact.value
    if isinstance(fact.value, int):
        return f"{fact.value:,}"
    return percent(fact.value) if fact.share else number(fact.value)


def telling(one: Behind, rows: Sequence[Row]) -> list[Row]:
    """The rows that stand beside a finding as pictures: their photos come first into the page."""
    if not one.rows:
        return []
    found = [row for row in rows if matches(row, one.rows)][:_AMONG]
    first = dict[str, int]()
    for i, row in enumerate(found):
        first.setdefault(row["image"], i)
    once = set(first.values())
    return [found[i] for i in sorted(range(len(found)), key=lambda i: (i not in once, i))[:_SHOWN]]
