"""The page that is served, and its charts: the report's, of runs of several detectors, with rows from the server."""

import html
import json
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import duckdb

from misdetect.app.pictures import Pictures
from misdetect.app.shelf import Shelf, Shelved
from misdetect.app.store import Edition
from misdetect.data.dataset import Dataset
from misdetect.drawing.values import Chart
from misdetect.report.findings import findings
from misdetect.report.page import (
    chart_places,
    named_charts,
    paragraphs,
    section,
    settings_table,
    top_findings,
    words_block,
)
from misdetect.report.views import charts_of
from misdetect.said.errors import MisdetectError
from misdetect.said.glossary import WORDS
from misdetect.studies.contract import Document
from misdetect.studies.documents import data_of, read_document
from misdetect.studies.kinds import kind_of, words


class Home:
    """One edition of the page: its HTML, and what its script asks for first (``meta``)."""

    def __init__(self, shelf: Shelf, edition: Edition, pictures: Pictures) -> None:
        self._shelf, self._edition, self._pictures = shelf, edition, pictures
        self.problems = [*shelf.problems, *edition.problems]
        self._several = len({each.detector for each in shelf.runs}) > 1
        self._documents: dict[int, Document] = {}
        for each in shelf.runs:
            try:
                with each.lock:
                    self._documents[each.number] = read_document(each.run)
            except (MisdetectError, duckdb.Error, LookupError, ValueError) as error:
                self.problems.append(f"{each.name}: {str(error).splitlines()[0]}")
        self._charts = {each.number: self._of(each) for each in shelf.runs}

    def _of(self, each: Shelved) -> list[Chart]:
        """The charts of one run; where others are of the same study, its marks lead to its own rows."""
        if each.number not in self._documents:
            return []
        try:
            with each.lock:
                charts = charts_of(
                    each.study, each.run, self._documents[each.number], self._edition.counted(each), self._data(each)
                )
        except (MisdetectError, duckdb.Error, LookupError, ValueError) as error:
            self.problems.append(f"{each.name}: {str(error).splitlines()[0]}")
            return []
        if sum(other.study == each.study for other in self._shelf.runs) > 1:
            for chart in charts:
                _narrow(chart, each.name)
        for chart in charts:
            for one in chart.get("maps", ()):
                one["image"] = f"{each.detector}/{each.data}/{one['image']}"
        return charts

    @staticmethod
    def _data(each: Shelved) -> Dataset | None:
        try:
            return data_of(each.run)
        except MisdetectError:
            return None

    def meta(self, *, version: int, write: bool) -> dict[str, Any]:
        """What the script of the page is told first."""
        images: dict[str, Any] = {}
        for each in self._shelf.runs:
            mapped = [one["image"] for chart in self._charts[each.number] for one in chart.get("maps", ())]
            images |= self._pictures.images(each, {key: key.split("/", 2)[2] for key in mapped}) if mapped else {}
        named = [named_charts(f"run{number}", charts) for number, charts in self._charts.items()]
        return {
            "images": images,
            "scenes": {},
            "reported": self._shelf.reported(self._shelf.runs[0]),
            "words": words(),
            "glossary": dict(WORDS),
            "charts": {name: chart for charts in named for name, chart in charts.items()},
            "version": version,
            "write": write,
            "several": self._several,
        }

    @cached_property
    def title(self) -> str:
        """What the page is about."""
        detectors = list(dict.fromkeys(each.detector for each in self._shelf.runs))
        data = list(dict.fromkeys(each.run.about["identity"]["data"]["spec"] for each in self._shelf.runs))
        shown = [
            f"{', '.join(each[:3])}{f' and {len(each) - 3} more' if len(each) > 3 else ''}"
            for each in (detectors, data)
        ]
        return f"{shown[0]} on {shown[1]}"

    def html(self, *, playground: bool) -> str:
        """The whole page."""
        body = [
            f'<header><p class="kicker">misdetect serve</p><h1>{html.escape(self.title)}</h1></header>',
            self._navigation(playground),
            "<main><md-state></md-state>",
            self._findings(),
            self._overview(),
            self._gallery(),
            *(self._section(each) for each in self._shelf.runs),
        ]
        said = " ".join([*body, json.dumps(self._charts)])
        body += [words_block(said), "</main>", self._footer()]
        return document(self.title, "".join(body), "served.js")

    def _navigation(self, playground: bool) -> str:
        links = {"studies": "Study by study", "failures": "Failures"}
        links |= {f"run{each.number}": self._called(each) for each in self._shelf.runs}
        shown = "".join(f'<a href="#{to}">{html.escape(name)}</a>' for to, name in links.items())
        way = '<a href="/playground"><b>Playground</b></a>' if playground else ""
        return f"<nav><div>{way}{shown}</div></nav>"

    def _called(self, each: Shelved) -> str:
        return f"{each.study} · {each.detector}" if self._several else each.study

    def _findings(self) -> str:
        """What is wrong with the detector, where there is one."""
        if self._several or len({each.data for each in self._shelf.runs}) > 1:
            return ""
        found = findings({each.study: self._documents[each.number] for each in self._finished()})
        if not found:
            return ""
        shown = top_findings(found, self._edition.failing())
        for each in self._shelf.runs:
            shown = shown.replace(f'href="#{each.study}"', f'href="#run{each.number}"')
        return shown

    def _finished(self) -> Sequence[Shelved]:
        return [each for each in self._shelf.runs if self._documents.get(each.number, {}).get("finished")]

    def _overview(self) -> str:
        lines = []
        for each in self._shelf.runs:
            said = (self._sentences(each) or ["nothing to show yet"])[0]
            name = f'<a href="#run{each.number}">{html.escape(self._called(each))}</a>'
            lines.append(f"<tr><td>{name}</td><td>{html.escape(said)}{html.escape(self._state(each))}</td></tr>")
        said = "".join(f'<p class="problem">{html.escape(problem)}</p>' for problem in self.problems)
        kind = "overview several" if self._several else "overview"
        return section("studies", "Study by study", f'{said}<table class="{kind}">{"".join(lines)}</table>')

    def _state(self, each: Shelved) -> str:
        document = self._documents.get(each.number)
        if document is None or document["finished"]:
            return ""
        return f" ({document['done']} of {document['cases'] or 'some'} cases done)"

    def _sentences(self, each: Shelved) -> list[str]:
        document = self._documents.get(each.number)
        return [] if document is None else kind_of(each.study).sentences(document)

    def _gallery(self) -> str:
        said = (
            f"{self._edition.rows:,} rows of the ledger. A click, or Enter, opens the evidence and the command that "
            "asks again; a click on any mark of the charts below shows exactly the rows behind it here. The address "
            "holds what is chosen: it can be sent on."
        )
        lacking = "".join(
            f'<p class="problem">Photos are lacking: {html.escape(why)}</p>' for why in self._pictures.lacking()
        )
        warned = "<noscript><p>Charts and gallery need JavaScript, which is switched off here.</p></noscript>"
        content = f"<p>{said}</p>{lacking}{warned}<md-gallery></md-gallery><md-evidence></md-evidence>"
        return section("failures", "Failures, one by one", content)

    def _section(self, each: Shelved) -> str:
        title = kind_of(each.study).title
        charts = chart_places(named_charts(f"run{each.number}", self._charts[each.number]))
        found = paragraphs(self._sentences(each)) + (f'<div class="charts">{charts}</div>' if charts else "")
        if each.number in self._documents:
            found += settings_table(self._documents[each.number]["settings"])
        shown = f"{html.escape(title)}" + (f" — {html.escape(each.detector)}" if self._several else "")
        return section(f"run{each.number}", shown, found)

    def _footer(self) -> str:
        rows = "".join(
            f"<dt>{html.escape(each.name)}</dt><dd>{html.escape(each.study)}, {html.escape(each.detector)}, "
            f"{html.escape(each.run.about['identity']['data']['spec'])}</dd>"
            for each in self._shelf.runs
        )
        return f"<footer><h2>Runs</h2><dl>{rows}</dl></footer>"


def document(title: str, body: str, script: str) -> str:
    """A page of ``body``, which is HTML, under ``title``, which is not, with the front end's ``script``."""
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<title>{html.escape(title)}</title><link rel="icon" href="data:,">'
        '<link rel="stylesheet" href="/front/style.css">'
        f'<script type="module" src="/front/{script}"></script>'
    )
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{body}</body></html>'


def _narrow(chart: Any, run: str) -> None:
    """Add to every filter in ``chart`` that rows are of ``run``."""
    if isinstance(chart, list):
        for each in chart:
            _narrow(each, run)
    elif isinstance(chart, dict):
        for name, value in chart.items():
            if name in ("filter", "behind") and isinstance(value, dict):
                chart[name] = {**value, "run": [run]}
            else:
                _narrow(value, run)
