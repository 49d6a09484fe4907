"""How documents are shown in a terminal: plain tables, how far a run got, where its pictures are."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

Document = Mapping[str, Any]


def plain_table(title: str, *headings: str, wrapped: Sequence[str] = ()) -> Table:
    """A table without lines; headings that start with ">" are aligned to the right, only ``wrapped`` ones may wrap."""
    plain = Table(title=f"\n{title}", title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in headings:
        side: Literal["left", "right"] = "right" if heading.startswith(">") else "left"
        name = heading.removeprefix(">")
        plain.add_column(
            Text(name), justify=side, no_wrap=name not in wrapped, overflow="fold" if name in wrapped else "ellipsis"
        )
    return plain


def show_progress(console: Console, document: Document) -> None:
    """Say of an unfinished run how far it got."""
    if (line := unfinished(document)) is not None:
        console.print(line)


def show_pictures(console: Console, document: Document, most: int = 3) -> None:
    """Name the first of the pictures that were drawn."""
    for path in document.get("pictures", ())[:most]:
        console.print(Text(f"Picture: {path}"))


def unfinished(document: Document) -> str | None:
    """The line that says how far an unfinished run got; ``None`` of a finished one."""
    if document["finished"]:
        return None
    of = f" of {document['cases']}" if document["cases"] is not None else ""
    why = f"; stopped: {document['stopped']}" if document.get("stopped") else ""
    return f"{document['done']}{of} cases done{why}"
