"""``compare``: finished runs of one study, or checkups, side by side."""

import html
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

from misdetect import report
from misdetect.api.run import Run
from misdetect.drawing.words import UNKNOWN, number, within
from misdetect.kept.mirror import local_path
from misdetect.report import checkup_comparison
from misdetect.report.checkup_comparison import STUDY
from misdetect.report.comparison import CompareSettings
from misdetect.said import gates
from misdetect.studies.contract import Document
from misdetect.studies.told import told_changes

_DEFAULT = CompareSettings()


class Placed(Protocol):
    """A checkup: something in a folder of its own."""

    @property
    def path(self) -> Path: ...


RunLike = Run | Placed | Path | str
"""A run or a checkup, its directory, or a document that a verb printed with ``--json``."""


class Comparison:
    """Runs side by side: ``document`` says what differs in their settings, their numbers, and what else the study has
    to say of several runs."""

    def __init__(self, document: Document) -> None:
        self.document = document

    def figures(self, folder: Path | str) -> list[Path]:
        """Draw what can be drawn of the comparison into ``folder``, and return the files."""
        return report.draw_comparison(self.document, Path(folder))

    def check(self, fail_if: str | Iterable[str]) -> list[gates.Verdict]:
        """Judge the differences by the gates ``fail_if``, such as "AP falls by 0.01"; see ``misdetect.check``."""
        return gates.check(self.document, fail_if)

    @property
    def _names(self) -> list[str]:
        return [run["name"] for run in self.document["runs"]]

    def _rows(self) -> list[list[str]]:
        if self.document["study"] != STUDY:
            return [[name, *map(_told, entries)] for name, entries in self.document["numbers"].items()]
        rows: dict[str, dict[str, str]] = {}
        for study, each in self.document["studies"].items():
            for key, second, change in told_changes(each):
                row = rows.setdefault(f"{study}.{key}", {self._names[0]: f"{change['first']:.3f}"})
                row[second] = _told({"value": change["second"], "interval": None}) + ("*" if change["certain"] else " ")
        return [[key, *(row.get(name, UNKNOWN) for name in self._names)] for key, row in rows.items()]

    @property
    def _title(self) -> str:
        if self.document["study"] != STUDY:
            return f"{len(self._names)} runs of {self.document['study']}"
        counts = ", ".join(f"{len(self.document[f'{word}_findings'])} {word}" for word in ("fixed", "new", "common"))
        return f"{len(self._names)} checkups; findings: {counts}; * the difference is certain"

    def __repr__(self) -> str:
        rows = [["", *self._names], *self._rows()]
        wide = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join([row[0].ljust(wide[0]), *(cell.rjust(w) for cell, w in zip(row[1:], wide[1:], strict=True))])
            for row in rows
        ]
        return "\n".join([self._title, *(f"  {line}" for line in lines)])

    def _repr_html_(self) -> str:
        def line(cells: list[str], tag: str) -> str:
            return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

        body = "".join(line(row, "td") for row in self._rows())
        return f"<table>{line([self.document['study'], *self._names], 'th')}{body}</table>"


def _told(entry: Any) -> str:
    if entry is None or entry["value"] is None:
        return UNKNOWN
    value = entry["value"]
    return (str(value) if isinstance(value, int) else number(value)) + within(entry["interval"])


def compare(
    run: RunLike,
    other: RunLike,
    *more: RunLike,
    confidence: float = _DEFAULT.confidence,
    seed: int = _DEFAULT.seed,
) -> Comparison:
    """Finished runs of one study side by side: what differs in their settings, their numbers, shared misses. Of
    checkups the same, study by study, and which findings are fixed, new and common.

    ``confidence`` is that of the intervals, ``seed`` that of the images drawn again for them. Neither detector nor data
    is needed.
    """
    paths = [local_path(each) if isinstance(each, Path | str) else each.path for each in (run, other, *more)]
    return Comparison(checkup_comparison.compare(paths, CompareSettings(confidence=confidence, seed=seed)))
