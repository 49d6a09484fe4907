"""What every verb shares: printing a document, progress and messages on stderr, errors as one sentence, exit codes.

A verb parses its arguments, calls the library, and hands a plain dict to ``present``. With ``--json`` that dict is the
only thing on stdout (sorted keys, wall-clock only under ``"timing"``); without it, ``show`` draws it for a person.
"""

import contextlib
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Annotated, Any, Literal, TextIO

from cyclopts import Parameter, Token
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from misdetect.printable import printable, printable_values, shortened

if TYPE_CHECKING:  # the engine takes longer to import than a page of help to print
    from misdetect.engine import Outcome
    from misdetect.engine import Progress as Report

Json = Annotated[
    bool,
    Parameter(
        name="--json", negative=(), show_default=False, help="Print one JSON document on stdout and nothing else."
    ),
]
_LONGEST = 2000
"""Characters of a message; a stranger's name may have more."""
Document = Mapping[str, Any]
Show = Callable[[Console, Document], None]


def whole_number(kind: Any, tokens: Sequence[Token]) -> int:
    """The value of an option that is a whole number; on its own Cyclopts rounds 1.5 and takes 0x10."""
    if not re.fullmatch(r"[+-]?[0-9]{1,4000}", tokens[0].value):
        raise ValueError("expected a whole number")
    return int(tokens[0].value)


def json_option() -> Any:
    """The annotation of ``--json``."""
    return Json


def messages() -> Console:
    """The console for progress, warnings and errors: stderr."""
    return _console(stderr=True)


class _Console(Console):
    """One that goes on when its reader has gone (``| head``); Rich alone would end the command."""

    def on_broken_pipe(self) -> None:
        _silence(self.file)


def _silence(stream: IO[str]) -> None:
    """From here on ``stream`` leads nowhere, or the interpreter would complain when it exits."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def tell(sentence: str, head: str = "") -> None:
    """Say ``sentence`` on stderr; where that is closed or full, nobody can be told."""
    try:
        messages().print(Text.assemble((head, "red"), shortened(printable(sentence), _LONGEST)))
    except OSError:
        _silence(sys.stderr)


def complain(sentence: str) -> None:
    """Say on stderr what went wrong."""
    tell(sentence, "misdetect: ")


def annotate(title: str, sentence: str) -> None:
    """Mark ``sentence`` as an error on the page of a run of GitHub's, which reads such lines on stderr too."""
    told, name = printable(sentence).replace("%", "%25"), printable(title).replace("%", "%25")  # neither has line ends
    name = name.replace(":", "%3A").replace(",", "%2C")
    with contextlib.suppress(OSError):
        print(f"::error title={name}::{told}", file=sys.stderr, flush=True)


def _console(*, stderr: bool = False, file: TextIO | None = None) -> Console:
    """Plain where ``NO_COLOR`` is set: Rich alone would leave out colours but not bold."""
    system: Literal["auto"] | None = None if os.environ.get("NO_COLOR") else "auto"
    return _Console(stderr=stderr, file=file, color_system=system, highlight=False, emoji=False, soft_wrap=True)


def document_console() -> Console:
    """The console of what was asked for, help and documents: stdout, also while that is kept from everybody else."""
    return _console(file=_document[-1] if _document else sys.stdout)


def present(document: Document, as_json: bool, show: Show) -> None:
    """Print ``document``: as JSON on stdout, or drawn by ``show(console, document)``."""
    if as_json:
        _write(json.dumps(document, sort_keys=True, indent=2, allow_nan=False) + "\n")
        return
    console = document_console()
    with console.capture() as drawn:
        show(console, printable_values(document))
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


def unfinished(document: Document) -> str | None:
    """The line that says how far an unfinished run got; ``None`` of a finished one."""
    if document["finished"]:
        return None
    of = f" of {document['cases']}" if document["cases"] is not None else ""
    why = f"; stopped: {document['stopped']}" if document.get("stopped") else ""
    return f"{document['done']}{of} cases done{why}"


@contextmanager
def watching(title: str) -> "Iterator[Report]":
    """A progress bar on stderr; nothing where stderr is no terminal."""
    columns = (
        TextColumn(title),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=messages(), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(title, total=None, note="")

        def report(done: int, total: int, counts: Mapping[str, Any]) -> None:
            note = f"{int(counts.get('queries', 0))} asked, {int(counts.get('cached', 0))} from cache"
            of = f"{counts['of']}, " if "of" in counts else ""
            bar.update(task, completed=done, total=total or None, note=of + note)

        yield report


def remarks(outcome: "Outcome", document: Document) -> None:
    """Say on stderr what a reader of the numbers has to know about how they came about."""
    from misdetect.labels import told

    joined = told(document["joining"]) if "joining" in document else ()
    said = [f"note: {note}" for note in (*outcome.notes, *joined, *document.get("notes", ()))]
    clipped = int(outcome.stats.get("clipped", 0))
    if clipped:
        said.append(f"note: {clipped} boxes stuck out of their image and were cut to it.")
    if outcome.failed:
        first = document["failures"][0]
        said.append(
            f"warning: {outcome.failed} of {outcome.done} cases failed (--retry-failed asks again); the first, "
            f"{first['case']}: {first['error']}"
        )
    if outcome.stopped:
        left = outcome.cases - outcome.done
        said.append(f"note: the {outcome.stopped} is spent; {left} cases are left, a larger one goes on.")
    for sentence in said:
        tell(sentence)


def fail(kind: str, sentence: str, code: int, as_json: bool) -> int:
    """Report an error the way the user asked for and return its exit code."""
    sentence = shortened(printable(" ".join(sentence.split())), _LONGEST)
    if as_json:
        try:
            _write(json.dumps({"error": {"exit_code": code, "kind": kind, "message": sentence}}) + "\n")
            return code
        except OSError as error:
            sentence = f"{error.filename}: {error.strerror}; {sentence}"
    complain(sentence)
    return code


_document: list[TextIO] = []
"""Where documents go while stdout is kept from everybody else."""


@contextmanager
def stdout_kept() -> Iterator[None]:
    """Inside, stdout belongs to the document: whatever a detector or a library prints goes to stderr instead."""
    real: TextIO = sys.stdout
    shared = None
    _document.append(real)
    try:
        if real is not None and real is sys.__stdout__:  # also for what is written without Python
            with contextlib.suppress(OSError, ValueError):
                real.flush()
                shared = os.dup(real.fileno())
                _document[-1] = os.fdopen(os.dup(shared), "w", encoding=real.encoding, errors="replace")
                os.dup2(sys.stderr.fileno(), real.fileno())
        sys.stdout = sys.stderr
        yield
    finally:
        sys.stdout = real
        if _document.pop() is not real and shared is not None:
            with contextlib.suppress(OSError, ValueError):
                sys.stderr.flush()
                os.dup2(shared, real.fileno())
                os.close(shared)


def _write(text: str) -> None:
    """``text`` to stdout, now; a reader that has gone (``| head``) is no error, a full disk is."""
    out = _document[-1] if _document else sys.stdout
    try:
        out.write(text)
        out.flush()
    except OSError as error:
        _silence(out)
        if not isinstance(error, BrokenPipeError):
            raise OSError(error.errno, error.strerror, "stdout") from None
