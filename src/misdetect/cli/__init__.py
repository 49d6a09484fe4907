"""The ``misdetect`` command: one small file per verb, joined here.

A verb's file is imported when that verb is used, so that none waits for libraries that only another one needs.
"""

import io
import os
import signal
import sys
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from misdetect.cli.shell import fail
from misdetect.errors import MisdetectError

VERBS = {
    "checkup": "Everything misdetect can say about a detector, by default the embedded one on embedded data.",
    "compare": "Finished runs of one study side by side: what differs in their settings, their numbers, shared misses.",
    "data": "Print what is in a data set and what is wrong with it; with --out, export it to COCO.",
    "detect": "Run a detector over data and write COCO results (category ids of the data).",
    "detectors": "List the detector families with their level, what is installed, and the decoders of onnx: files.",
    "explain": "Why each object was missed: which part of the detector failed, with the evidence.",
    "export": "Write the failing images of a run of fuzz as COCO, labelled as their backgrounds are.",
    "fuzz": "Insert objects beside others and see which detections that breaks, within a budget.",
    "pool": "Cut out, refine and store the objects that fuzz inserts into photos.",
    "replay": "Ask again about one case of a run of fuzz; exit code 1 if what happens now is not what happened then.",
    "scan": "Transplant objects over a dense grid and watch what happens to the other detections.",
    "score": "AP, AR and TIDE errors of stored predictions.",
    "zoo": "List the detectors that come with misdetect; train one again.",
}
"""Each verb is the function (or ``Typer``) of its name in the module of its name; its docstring says the same first."""

_UsageError: type[Exception] = typer.BadParameter.__mro__[2]
"""Click's root of usage errors: that of the Click inside Typer, where it has one of its own."""


class _Verbs(TyperGroup):
    """The verbs by name and summary, loaded when one is invoked."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, summary in VERBS.items():
            self.add_command(TyperCommand(name, help=summary))

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        return name, load_verb(name) if name in VERBS else command, rest


def load_verb(name: str) -> Any:
    """The Typer command of a verb, its file imported."""
    verb = getattr(import_module(f"misdetect.cli.{name}"), name)
    if isinstance(verb, typer.Typer):
        return typer.main.get_command(verb)
    alone = typer.Typer(add_completion=False)
    alone.command(name)(verb)
    return typer.main.get_command(alone)


app = typer.Typer(
    name="misdetect", cls=_Verbs, add_completion=False, pretty_exceptions_enable=False, invoke_without_command=True
)


@app.callback()
def misdetect(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Find, explain and fix the failures of object detectors."""
    if version:
        from importlib.metadata import version as installed

        typer.echo(f"misdetect {installed('misdetect')}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main() -> None:
    """Run the command line; every failure is one sentence and an exit code (0, 1, 2, 3 or 130)."""
    as_json = "--json" in sys.argv
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that cannot show a character is no reason to fail
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        code = app(standalone_mode=False)
        if code == 130:  # Typer's answer to KeyboardInterrupt
            raise KeyboardInterrupt
    except MisdetectError as error:
        code = fail(error.kind, str(error), error.exit_code, as_json)
    except _UsageError as error:
        code = fail("usage", error.format_message(), 2, as_json)  # type: ignore[attr-defined]
    except (typer.Abort, KeyboardInterrupt):
        code = fail("interrupted", "interrupted; the same command goes on where this one stopped.", 130, as_json)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        code = fail("file", f"{where}{error.strerror or error}.", 2, as_json)
    except Exception as error:
        if os.environ.get("MISDETECT_TRACEBACK"):
            raise
        sentence = f"{type(error).__name__}: {error}; this is a fault in misdetect, MISDETECT_TRACEBACK=1 shows where."
        code = fail("fault", sentence, 2, as_json)
    sys.exit(code if isinstance(code, int) else 0)


def _interrupt(number: int, frame: object) -> None:
    """Termination is an interruption like Ctrl-C: what is finished is kept, the exit code is 130."""
    raise KeyboardInterrupt
