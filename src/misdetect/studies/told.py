"""How a terminal shows runs of one study side by side: their numbers, and how they differ from the first."""

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from misdetect.drawing.terminal import Document, plain_table
from misdetect.drawing.words import UNKNOWN, between
from misdetect.said.gates import written
from misdetect.studies.kinds import kind_of

Change = tuple[str, str, Mapping[str, Any]]
_MOST = 8
"""Of all others the certain ones, at most so many."""


def told_changes(document: Mapping[str, Any]) -> list[Change]:
    """What a person is told of how runs of one study differ from the first: the key as a gate has it, the other run,
    and the change. The headlines, and what else is certain."""
    every = list(_changes(document))
    headlines = kind_of(document["study"]).headlines
    first = [each for key in headlines for each in every if each[0] == key]
    return first + [each for each in every if each[0] not in headlines and each[2]["certain"]][:_MOST]


def _changes(document: Mapping[str, Any]) -> Iterator[Change]:
    runs = [run["name"] for run in document["runs"]]
    for each in document.get("differences", ()):
        if each["first"] == runs[0]:
            yield from ((written(path), each["second"], change) for path, change in _walk(each))


def _walk(node: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    for name, value in node.items():
        if not isinstance(value, Mapping):
            continue
        if "rate" in value and "share" in value:  # a mechanism: of the objects, and of the misses
            value = value["rate"] or {}
        if "difference" in value:
            yield (*path, name), value
        else:
            yield from _walk(value, (*path, name))


def number_cell(entry: Any) -> str:
    if entry is None or entry["value"] is None:
        return UNKNOWN
    value, ends = entry["value"], entry["interval"]
    text = str(value) if isinstance(value, int) else f"{value:.3f}" if abs(value) < 1 else f"{value:.1f}"
    digits = 0 if ends is None or ends[1] - ends[0] >= 2 else 2  # or that of a share would be told as "0..1"
    return f"{text} {between(ends, digits)}".rstrip()


def numbers_table(document: Document, names: list[str]) -> Table:
    table = plain_table(f"Numbers of {document['study']}", "", *(f">{name}" for name in names), wrapped=names)
    for name, entries in document["numbers"].items():
        table.add_row(Text(name), *(number_cell(entry) for entry in entries))
    return table


def show_why_not_paired(console: Console, document: Document) -> None:
    """Say why a difference between the runs may not be the detectors'."""
    for why in document["why_not_paired"]:
        console.print(Text(f"Not paired: {why}."))


def show_changes(console: Console, document: Document) -> None:
    """How runs of one study differ from the first: the headlines, and what else is certain."""
    show_why_not_paired(console, document)
    tables: dict[str, Table] = {}
    for key, second, change in told_changes(document):
        if second not in tables:
            title = f"{document['study']}: {second} against {document['runs'][0]['name']}; * the interval excludes 0"
            tables[second] = plain_table(title, "", ">first", ">second", ">difference")
        told = f"{change['difference']:+.3f} {between(change['interval'], 3)}".rstrip()
        values = (f"{change[name]:.3f}" for name in ("first", "second"))
        tables[second].add_row(Text(key), *values, told + ("*" if change["certain"] else " "))
    for table in tables.values():
        console.print(table)


def change_cell(entry: Any) -> str:
    if entry is None:
        return UNKNOWN
    told = f"{100 * entry['difference']:+.1f} {between(entry['interval'], 1, 100)}".rstrip()
    return told + ("*" if entry["certain"] else " ")
