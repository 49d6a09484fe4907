"""``misdetect demo``: a small checkup of the embedded detector on embedded data, as a first look."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console
from rich.text import Text

from misdetect.cli.shell import Document, Json, Quiet, present, watching

_DETECTOR, _DATA, _MINUTES = "zoo:yolox", "rooms:val,count=32", 0.2
_TOP = 3


def demo(
    *,
    out: Annotated[Path, Parameter(help="Folder for the report and everything behind it.")] = Path("demo"),
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """A small checkup of the detector and the drawn images that come with misdetect: within half a minute you see what
    a report looks like, and the command that makes one of your own detector."""
    from misdetect.suites.checkup import checkup

    with watching("demo") as progress:
        found = checkup(_DETECTOR, _DATA, out=out, minutes=_MINUTES, pictures=2, progress=progress)
    present(found.document, json, _show)


def _show(console: Console, document: Document) -> None:
    """Five lines: what was found, where the report is, and how it goes on."""
    for each in document["findings"][:_TOP]:
        console.print(Text(f"• {each['sentence']}"))
    console.print(Text(f"Report, with the images behind each sentence: {document['report']}"))
    console.print(Text("Your own detector and data: misdetect checkup best.onnx data.yaml --out checkup", style="bold"))
