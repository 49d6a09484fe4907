"""What every verb shares: printing a document, progress and messages on stderr, errors as one sentence, exit codes.

A verb parses its arguments, calls the library, and hands a plain dict to ``present``. With ``--json`` that dict is the
only thing on stdout (sorted keys, wall-clock only under ``"timing"``); without it, ``show`` draws it for a person.
"""

import contextlib
import inspect
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Annotated, Any, Literal, TextIO

from cyclopts import Parameter, Token
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from misdetect.said.printable import printable, printable_values, shortened

if TYPE_CHECKING:  # the engine takes longer to import than a page of help to print
    from misdetect.engine import Outcome
    from misdetect.engine import Progress as Report

Json = Annotated[
    bool,
    Parameter(
        name="--json", negative=(), show_default=False, help="Print one JSON document on stdout and nothing else."
    ),
]
Quiet = Annotated[
    bool,
    Parameter(
        name="--quiet",
        negative=(),
        show_default=False,
        help="Say nothing but errors and the result, and nothing of a result that is the file or folder of --out.",
    ),
]
"""As an option of every verb, so that it is known and shown; ``main`` heeds it before the verb is called."""
EVERY = 30.0
"""Seconds between two lines on how far a command is, where there is no terminal to draw a bar on."""
_LONGEST = 2000
"""Characters of a message; a stranger's name may have more."""
Document = Mapping[str, Any]
Show = Callable[[Console, Document], None]


def whole_number(kind: Any, tokens: Sequence[Token]) -> int:
    """The value of an option that is a whole number; on its own Cyclopts rounds 1.5 and takes 0x10."""
    if not re.fullmatch(r"[+-]?[0-9]{1,4000}", tokens[0].value):
        raise ValueError("expected a whole number")
    return int(tokens[0].value)


def shell_options() -> list[inspect.Parameter]:
    """``--quiet`` and ``--json``, which every verb has."""
    return [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=kind)
        for name, kind in (("quiet", Quiet), ("json", Json))
    ]


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


_quiet: list[bool] = []


def is_quiet() -> bool:
    """Whether only the result and errors are wanted."""
    return any(_quiet)


@contextmanager
def hushed(quiet: bool) -> Iterator[None]:
    """Inside, with ``quiet``, nothing is said but the result and errors."""
    _quiet.append(quiet)
    try:
        yield
    finally:
        _quiet.pop()


def tell(sentence: str) -> None:
    """Say ``sentence`` on stderr, unless only the result is wanted."""
    if not is_quiet():
        _say(sentence)


def _say(sentence: str, head: str = "") -> None:
    """Where stderr is closed or full, nobody can be told."""
    try:
        messages().print(Text.assemble((head, "red"), shortened(printable(sentence), _LONGEST)))
    except OSError:
        _silence(sys.stderr)


def complain(sentence: str) -> None:
    """Say on stderr what went wrong."""
    _say(sentence, "misdetect: ")


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


def of_file(show: Show) -> Show:
    """``show`` of a verb whose result is a file or a folder: with ``--quiet`` nothing is said of it."""
    return (lambda console, document: None) if is_quiet() else show


@contextmanager
def watching(title: str) -> "Iterator[Report]":
    """How far a command is, on stderr: a bar, or where that is no terminal a line every half a minute."""
    if is_quiet():
        yield lambda done, total, counts: None
    elif not sys.stderr.isatty():
        yield _lines(title)
    else:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, TextColumn("{task.fields[note]}"), console=messages(), transient=True) as bar:
            task = bar.add_task(title, total=None, note="")

            def report(done: int, total: int, counts: Mapping[str, Any]) -> None:
                of = f"{counts['of']}, " if "of" in counts else ""
                what = _what(title, counts)
                bar.update(task, description=what, completed=done, total=total or None, note=of + _asked(counts))

            yield report


def _lines(title: str) -> "Report":
    last = time.monotonic()

    def report(done: int, total: int, counts: Mapping[str, Any]) -> None:
        nonlocal last
        if time.monotonic() - last >= EVERY:
            last = time.monotonic()
            of = f" of {total}" if total else ""
            tell(f"{_what(title, counts)}: {done}{of} {counts.get('of', 'cases')}, {_asked(counts)}")

    return report


def _what(title: str, counts: Mapping[str, Any]) -> str:
    return f"{title}, {counts['study']}" if "study" in counts else title


def _asked(counts: Mapping[str, Any]) -> str:
    if "images_per_second" in counts:
        return f"{counts['images_per_second']:.1f} images/s"
    return f"{int(counts.get('queries', 0))} asked, {int(counts.get('cached', 0))} from cache"


def remarks(outcome: "Outcome", document: Document) -> None:
    """Say on stderr what a reader of the numbers has to know about how they came about."""
    from misdetect.nouns.labels import told

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
