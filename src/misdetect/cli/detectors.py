"""``misdetect detectors``: which detectors there are, what each level allows, and what to install for the rest."""

from rich.console import Console
from rich.table import Column, Table

from misdetect.cli.shell import Document, Json, present
from misdetect.detectors.catalogue import catalogue
from misdetect.detectors.onnx.decoders import DECODERS


def detectors(*, json: Json = False) -> None:
    """List the detector families with their level, what is installed, and the decoders of onnx: files."""
    decoders = [
        {"name": name, "reads": kind.reads, "preset": kind.preset, "nms": kind.nms} for name, kind in DECODERS.items()
    ]
    present({"detectors": catalogue(), "decoders": decoders}, json, _show)


def _show(console: Console, document: Document) -> None:
    families = Table(
        Column("spec", overflow="fold"), "what", "level", "needs", box=None, pad_edge=False, header_style="bold"
    )
    for entry in document["detectors"]:
        needs = entry["install"] or "installed"
        families.add_row(*(_plain(cell) for cell in (entry["example"], entry["what"], entry["level"], needs)))
    console.print(families)
    console.print()
    decoders = Table("decoder=", "reads", "preprocessing", box=None, pad_edge=False, header_style="bold")
    for entry in document["decoders"]:
        decoders.add_row(*(_plain(cell) for cell in (entry["name"], entry["reads"], entry["preset"] or "to be stated")))
    decoders.add_row("python:MODULE:FUNCTION", "your own", "to be stated")
    console.print(decoders)


def _plain(text: str) -> str:
    return text.replace("[", r"\[")  # Rich would read [1, N, 5+C] as markup
