"""The page of a checkup: what is wrong in plain sentences, a line per study, then each study with its figures.

It works from ``file://`` and loads nothing. Names of classes, files and detectors are escaped.
"""

import html
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from misdetect.report.page import paragraphs, pictures, settings_table, write_page

_TOP = 5
_TITLES = {
    "doctor": "Is it wired up right?",
    "detect": "What it reports",
    "score": "How good it is",
    "explain": "Why objects are missed",
    "confusion": "What is taken for what",
    "scan": "What a foreign object does to the rest",
    "fuzz": "What breaks when an object is inserted",
    "verify": "Does it see parts that are missing?",
    "attack": "Which loss breaks it",
}


class Shown(Protocol):
    """What the page wants of a run."""

    @property
    def sentences(self) -> list[str]: ...
    def figures(self, most: int) -> Sequence[Path]: ...


def checkup_page(runs: Mapping[str, Shown], document: Mapping[str, Any], path: Path, most: int) -> Path:
    """Write the page of a checkup's ``document`` to ``path``; at most ``most`` pictures of each kind per study."""
    parts, seen = [_top(document["findings"]), _overview(runs, document["skipped"])], set[bytes]()
    for study, run in runs.items():
        drawn = run.figures(most) if document["studies"][study]["finished"] else []
        found = paragraphs(run.sentences) + pictures(drawn, seen)
        found += settings_table(document["studies"][study]["settings"])
        parts.append(f'<section id="{study}"><h2>{_TITLES.get(study, study)}</h2>{found}</section>')
    data, detector = document["data"], document["detector"]
    told = f"{data['images']} images, data {data['fingerprint']}; detector {detector['level']}, {detector['settings']}"
    parts.append(f"<footer><p>{html.escape(told)}</p></footer>")
    return write_page(path, f"{detector['spec'] or 'A detector'} on {data['spec']}", parts)


def _top(findings: Sequence[Mapping[str, Any]]) -> str:
    if not findings:
        return "<p><b>Nothing is wrong that these studies could find.</b></p>"
    items = "".join(
        f'<li><a href="#{each["study"]}">{html.escape(each["sentence"])}</a> <i>{html.escape(each["advice"])}</i></li>'
        for each in findings[:_TOP]
    )
    return f"<h2>What is wrong, the worst first</h2><ol>{items}</ol>"


def _overview(runs: Mapping[str, Shown], skipped: Sequence[Mapping[str, str]]) -> str:
    found = {f'<a href="#{study}">{study}</a>': (run.sentences or ["–"])[0] for study, run in runs.items()}
    found |= {html.escape(each["study"]): f"not run: {each['why']}" for each in skipped}
    rows = "".join(f"<tr><td>{study}</td><td>{html.escape(said)}</td></tr>" for study, said in found.items())
    return f"<h2>Study by study</h2><table>{rows}</table>"
