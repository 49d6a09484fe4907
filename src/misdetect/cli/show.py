"""``misdetect show``: the document of a run or a checkup again; neither its detector nor its data is needed."""

from importlib import import_module
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console
from rich.text import Text

from misdetect.api import open_run
from misdetect.cli.gates import FailIf, Gates, JUnit
from misdetect.cli.shell import Document, Json, Quiet, Show
from misdetect.kept.mirror import local_path
from misdetect.nouns.labels import told
from misdetect.report.checkups import is_checkup, read_checkup
from misdetect.studies.contract import kind_of


def show(
    run: Annotated[Path, Parameter(help="Run directory, or folder of a checkup.")],
    /,
    *,
    fail_if: FailIf = None,
    junit: JUnit = None,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    """The document of a run or a checkup again, from its directory alone."""
    gates = Gates.of({"fail_if": fail_if, "junit": junit})
    run = local_path(run)
    if is_checkup(run):
        return gates.conclude(read_checkup(run), json, _shown("checkup"))
    opened = open_run(run)

    def drawn(console: Console, document: Document) -> None:
        console.print(Text(repr(opened).splitlines()[0]), style="bold")
        for note in document.get("notes", ()):
            console.print(Text(f"note: {note}"))
        _shown(opened.study)(console, document)
        for note in told(document["joining"]):
            console.print(Text(f"note: {note}"))

    return gates.conclude({**opened.document, "out": opened.address}, json, drawn)


def _shown(study: str) -> Show:
    """How the verb of ``study`` shows its document; a study without a verb says its document's sentences."""
    try:
        found: Show = import_module(f"misdetect.cli.{study}").show
    except ModuleNotFoundError:
        return lambda console, document: console.print(Text("\n".join(kind_of(study).sentences(dict(document)))))
    return found
