"""The papers' tables as LaTeX, one row per run (per detector, in the papers), out of documents alone.

Nothing but ``tabular`` is used, so that a table compiles wherever it is pasted; names from data and models are escaped.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from misdetect.said.errors import BadData
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
_NONE = "--"


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


def latex(documents: Sequence[Document]) -> str:
    """The tables of runs of one study."""
    study = documents[0]["study"]
    if study not in TABLES:
        raise BadData(f"the papers have no table that a run of {study} fills; those of {', '.join(TABLES)} do.")
    return "\n".join(table.latex() for table in TABLES[study](documents))


def _called(document: Document) -> str:
    return f"{document['detector'] or 'a detector'} on {document['data']}"


def _number(value: float | None, ends: Sequence[float] | None = None, digits: int = 1, times: float = 1) -> str:
    if value is None:
        return _NONE
    told = f"{times * value:.{digits}f}"
    return told if ends is None else f"{told} [{times * ends[0]:.{digits}f}, {times * ends[1]:.{digits}f}]"


def _scan(documents: Sequence[Document]) -> Iterator[Table]:
    """Paper 1, Table I: one table per row of it, with the null control below each run."""
    titles = {
        "affected": "all positions",
        "class_agnostic": "class agnostic",
        "occlusion_20": "at most 20 % occlusion",
        "no_occlusion": "no occlusion",
    }
    for key, title in titles.items():
        taus = list(documents[0][key])
        rows = []
        for document in documents:
            ends = document["intervals"]
            parts = [(_called(document), document, ends)]
            if document["null_control"] is not None:
                parts.append(("  null control", document["null_control"], ends["null_control"]))
            for name, rates, ranges in parts:
                cells = (_number(rates[key].get(tau), ranges[key].get(tau)) for tau in taus)
                rows.append([name, *cells])
        caption = f"Average effect of transplanting objects: percent of positions affected, {title}, by threshold on S."
        yield Table(caption, ["", *taus], rows)


def _verify(documents: Sequence[Document]) -> Iterator[Table]:
    """Paper 2, Table 1."""
    numbers = {"present_recall": "present recall", "missing_recall": "missing recall", "f_vv": "F_vv"}
    rows = [
        [f"{_called(document)}, {said} localisation", *(_number(part[n], part["intervals"][n], 3) for n in numbers)]
        for document in documents
        for said, part in (("with", document["with_localisation"]), ("without", document["without_localisation"]))
    ]
    yield Table("Visual verification of parts.", ["", *numbers.values()], rows)


def _explain(documents: Sequence[Document]) -> Iterator[Table]:
    """Paper 3, Tables I and II: the false negative rate, and the mechanisms' shares of it."""
    names = list(dict.fromkeys(name for document in documents for name in document["mechanisms"]))
    rows = []
    for document in documents:
        ends, missed = document["intervals"], document["missed"]
        shares = (
            _number(document["mechanisms"].get(name, 0) / missed, (ends["shares"] or {}).get(name), 1, 100)
            if missed
            else _NONE
            for name in names
        )
        rows.append([_called(document), _number(document["miss_rate"], ends["miss_rate"], 1, 100), *shares])
    caption = "False negative rate, in percent of the objects, and false negative mechanisms, in percent of the misses."
    yield Table(caption, ["", "FNR", *names], rows)


def _fuzz(documents: Sequence[Document]) -> Iterator[Table]:
    """Paper 4, Tables 1, 3 and 4, counted as the paper does, and what is left of it after the controls."""
    found = [(document, document["tables"]) for document in documents]
    yield Table(
        "Result overview.",
        ["", "synthetic images", "detected objects", "images causing failures", "percent", "USD"],
        [
            [
                _called(document),
                str(tables["1"]["synthetic_images"]),
                str(tables["1"]["detected_objects"]),
                str(tables["1"]["images_causing_failures"]),
                _number(tables["1"]["share_causing_failures"], None, 1, 100),
                _number(tables["1"]["usd"], None, 2),
            ]
            for document, tables in found
        ],
    )
    yield Table(
        "Breakdown of images causing failures.",
        ["", "inserted object", "relocated object", "unique of these"],
        [[_called(document), *map(str, tables["3"].values())] for document, tables in found],
    )
    yield Table(
        "Naturalness: average HOG intersection with the background, in percent.",
        ["", "inserted object", "relocated object"],
        [[_called(document), *map(_number, tables["4"].values())] for document, tables in found],
    )
    ends = "intervals"
    yield Table(
        "Distinct failures that inserted objects, and no patches of texture, cause.",
        ["", "attributable", "harmful", "harmful per 1,000 queries"],
        [
            [
                _called(document),
                str(document["attributable"]),
                str(document["harm"]["harmful"]),
                _number(document["harmful_per_1000"], document[ends]["harmful_per_1000"]),
            ]
            for document in documents
        ],
    )


def _attack(documents: Sequence[Document]) -> Iterator[Table]:
    """Paper 5: AP under attacks on either loss."""
    for document in documents:
        parts = {"clean": document["clean"], **document["attacks"]}
        rows = [
            [
                name,
                _number(part["AP"], part["intervals"].get("AP"), 3),
                _number(part["AP50"], part["intervals"].get("AP50"), 3),
                _number(part["success"], part["intervals"].get("success"), 1, 100),
            ]
            for name, part in parts.items()
        ]
        settings = document["settings"]
        caption = f"{_called(document)}: AP under attack, eps {settings['eps']:g} of 255, {settings['steps']} steps."
        yield Table(caption, ["attack", "AP", "AP50", "objects lost, percent"], rows)


def _score(documents: Sequence[Document]) -> Iterator[Table]:
    """COCO's numbers and TIDE's errors."""
    for caption, key, digits in (("COCO's numbers.", "ap", 3), ("TIDE errors, in points of AP50.", "tide", 2)):
        names = list(documents[0][key])
        rows = [[_called(each), *(_number(each[key].get(name), None, digits) for name in names)] for each in documents]
        yield Table(caption, ["", *names], rows)


TABLES: Mapping[str, Callable[[Sequence[Document]], Iterator[Table]]] = {
    "scan": _scan,
    "verify": _verify,
    "explain": _explain,
    "fuzz": _fuzz,
    "attack": _attack,
    "score": _score,
}
"""What the papers' tables are filled by."""
