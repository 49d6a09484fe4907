"""What every verb shares: printing a document, progress and messages on stderr, errors as one sentence, exit codes.

A verb parses its arguments, calls the library, and hands a plain dict to ``present``. With ``--json`` that dict is the
only thing on stdout (sorted keys, wall-clock only under ``"timing"``); without it, ``show`` draws it for a person.
"""

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout and nothing else.")]
Seed = Annotated[int, typer.Option("--seed", help="Seed of everything random.")]
Limit = Annotated[int | None, typer.Option("--limit", min=1, help="Use only the first N images.")]
DetectorSpec = Annotated[str, typer.Option("--detector", help="Detector spec; `misdetect detectors` lists them.")]
DataSpec = Annotated[str, typer.Option("--data", help="Data spec, e.g. coco:instances.json or rooms:val.")]

Document = Mapping[str, Any]


def messages() -> Console:
    """The console for progress, warnings and errors: stderr."""
    return _console(stderr=True)


def _console(*, stderr: bool = False) -> Console:
    """Plain where ``NO_COLOR`` is set: Rich alone would leave out colours but not bold."""
    system: Literal["auto"] | None = None if os.environ.get("NO_COLOR") else "auto"
    return Console(stderr=stderr, color_system=system, highlight=False, emoji=False, soft_wrap=True)


def present(document: Document, as_json: bool, show: Callable[[Console, Document], None]) -> None:
    """Print ``document``: as JSON on stdout, or drawn by ``show(console, document)``."""
    if as_json:
        _write(json.dumps(document, sort_keys=True, indent=2, allow_nan=False) + "\n")
        return
    console = _console()
    with console.capture() as drawn:
        show(console, document)
    _write(drawn.get())


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


def fail(kind: str, sentence: str, code: int, as_json: bool) -> int:
    """Report an error the way the user asked for and return its exit code."""
    sentence = " ".join(sentence.split())
    if as_json:
        _write(json.dumps({"error": {"exit_code": code, "kind": kind, "message": sentence}}) + "\n")
    else:
        messages().print(Text.assemble(("misdetect: ", "red"), sentence))
    return code


def _write(text: str) -> None:
    """``text`` to stdout, now; a reader that has gone (``| head``) is no error."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the interpreter complains when it exits
