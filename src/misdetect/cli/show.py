"""``misdetect show``: the document of a run or a checkup again; neither its detector nor its data is needed."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console
from rich.text import Text

from misdetect.api.run import open_run
from misdetect.cli.checkup import show as show_checkup
from misdetect.cli.gates import FailIf, Gates, JUnit
from misdetect.cli.shell import Document, Json, Quiet
from misdetect.cli.studies import shown
from misdetect.kept.mirror import local_path
from misdetect.nouns.labels import told
from misdetect.report.checkups import is_checkup, read_checkup
from misdetect.studies.kinds import kind_of


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
        return gates.conclude(read_checkup(run), json, show_checkup)
    opened = open_run(run)

    def drawn(console: Console, document: Document) -> None:
        console.print(Text(repr(opened).splitlines()[0]), style="bold")
        for note in document.get("notes", ()):
            console.print(Text(f"note: {note}"))
        shown(kind_of(opened.study))(console, document)
        for note in told(document["joining"]):
            console.print(Text(f"note: {note}"))

    return gates.conclude({**opened.document, "out": opened.address}, json, drawn)
