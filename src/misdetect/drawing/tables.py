"""Tables as papers print them, in LaTeX.

Nothing but ``tabular`` is used, so that a table compiles wherever it is pasted; names from data and models are escaped.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from misdetect.said.printable import printable

Document = Mapping[str, Any]
_SPECIAL = {letter: f"\\{letter}" for letter in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
}


NONE = "--"


@dataclass(frozen=True)
class Table:
    """``rows`` of text under ``head``; what is in them is plain text."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]

    def latex(self) -> str:
        """As a ``table`` environment; the first column is aligned to the left."""
        lines = [r"\begin{table}", r"\centering", rf"\caption{{{escaped(self.caption)}}}"]
        lines += [rf"\begin{{tabular}}{{l{'r' * (len(self.head) - 1)}}}", r"\hline"]
        lines += [_row(self.head), r"\hline", *map(_row, self.rows), r"\hline", r"\end{tabular}", r"\end{table}"]
        return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    """``text`` as LaTeX prints it."""
    return "".join(_SPECIAL.get(letter, letter) for letter in printable(text))


def _row(cells: Sequence[str]) -> str:
    return " & ".join(map(escaped, cells)) + r" \\"


def called(document: Document) -> str:
    return f"{document['detector'] or 'a detector'} on {document['data']}"


def number(value: float | None, ends: Sequence[float] | None = None, digits: int = 1, times: float = 1) -> str:
    if value is None:
        return NONE
    told = f"{times * value:.{digits}f}"
    return told if ends is None else f"{told} [{times * ends[0]:.{digits}f}, {times * ends[1]:.{digits}f}]"
