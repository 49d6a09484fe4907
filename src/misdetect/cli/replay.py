"""``misdetect replay``: ask a detector again about one case of a run, and say whether the same happens."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console
from rich.text import Text

from misdetect.api.run import open_run
from misdetect.cli.shell import Document, Json, Quiet, present


def replay(
    run: Annotated[Path, Parameter(help="Run directory.")],
    case: Annotated[str, Parameter(help="Name or number of a case, as in the ledger.")],
    /,
    *,
    detector: Annotated[str | None, Parameter(help="Detector spec; by default that of the run.")] = None,
    trust: Annotated[
        bool,
        Parameter(
            negative=(), show_default=False, help="Run the code, or ask the address, that the run's own spec names."
        ),
    ] = False,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    """Ask again about one case of a run; exit code 1 if what happens now is not what happened then.

    A run directory may come from elsewhere: where its detector is someone's code (python:), an address or a service,
    nothing is loaded or asked unless --detector names it or --trust is given.
    """
    document = open_run(run).replay(case, detector, trust=trust)
    present(document, json, show)
    return 0 if document["reproduced"] else 1


def show(console: Console, document: Document) -> None:
    """The document for a person."""
    said = "the same happens again" if document["reproduced"] else "something else happens now"
    console.print(Text(f"{document['case']}: {said}"), style="bold")
    for change in document.get("changes", ()):
        became = f" as {change['became']}" if change["became"] else ""
        notes = [note for note, on in (("flickers", change["flickers"]), ("forgiven", not change["counts"])) if on]
        told = f"  {change['type']} {change['label']}{became}, {change['score']:.2f} -> {change['after']:.2f}"
        console.print(Text(told + (f" ({', '.join(notes)})" if notes else "")))
    if document.get("differs"):
        console.print(Text(f"  differs in {', '.join(document['differs'])}"))
    if document.get("picture"):
        console.print(Text(f"Picture: {document['picture']}"))
