"""``misdetect detectors``: which detectors there are, what each level allows, and what to install for the rest."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from misdetect.cli.shell import Document, Json, Quiet, present
from misdetect.detectors.catalogue import catalogue
from misdetect.detectors.onnx.decoders import DECODERS


def detectors(*, quiet: Quiet = False, json: Json = False) -> None:
    """List the detector families with their level, what is installed, and the decoders of onnx: files."""
    decoders = [
        {"name": name, "reads": kind.reads, "preset": kind.preset, "nms": kind.nms} for name, kind in DECODERS.items()
    ]
    present({"detectors": catalogue(), "decoders": decoders}, json, _show)


def _show(console: Console, document: Document) -> None:
    for entry in document["detectors"]:  # a line each that can be copied as it is, however narrow the terminal
        console.print(Text(entry["example"], style="bold"))
        console.print(Text(f"    {entry['what']}; {entry['level']}; {entry['install'] or 'installed'}"))
    console.print()
    decoders = Table("decoder=", "reads", "preprocessing", box=None, pad_edge=False, header_style="bold")
    for entry in document["decoders"]:
        decoders.add_row(*(_plain(cell) for cell in (entry["name"], entry["reads"], entry["preset"] or "to be stated")))
    decoders.add_row("python:MODULE:FUNCTION", "your own", "to be stated")
    console.print(decoders)


def _plain(text: str) -> str:
    return text.replace("[", r"\[")  # Rich would read [1, N, 5+C] as markup
