"""``misdetect detectors``: which detectors there are, what each level allows, and what to install for the rest; of an
ONNX file, the spec to use it by."""

from typing import Annotated

from cyclopts import Parameter
from rich.console import Console
from rich.table import Table
from rich.text import Text

from misdetect.cli.shell import Document, Json, Quiet, present
from misdetect.detectors.catalogue import catalogue, look_into, parse_spec
from misdetect.detectors.onnx.decoders import DECODERS
from misdetect.nouns.protocols import in_words


def detectors(
    file: Annotated[
        str | None,
        Parameter(help="A model, or a spec with some of its options: what is known of it, and what is guessed."),
    ] = None,
    /,
    *,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """List the detector families with their level, what is installed, and the decoders of networks in files; or look
    into the file or folder of a model and print its whole spec, with what is sure of it and what is guessed."""
    if file is not None:
        present(_look(file), json, _show_file)
        return
    decoders = [
        {"name": name, "reads": kind.reads, "preset": kind.preset, "nms": kind.nms} for name, kind in DECODERS.items()
    ]
    present({"detectors": catalogue(), "decoders": decoders}, json, _show)


def _look(file: str) -> Document:
    return look_into(parse_spec(file))


def _show_file(console: Console, document: Document) -> None:
    console.print(Text(document["spec"], style="bold"))
    for title in ("inputs", "outputs"):
        for entry in document[title]:
            console.print(Text(f"    {title[:-1]}: {entry}"))
    for finding in document["findings"]:
        how = "sure" if finding["sure"] else "guessed"
        console.print(Text(f"    {how}: {finding['option'].replace('_', '-')}={finding['value']} ({finding['why']})"))
    if not document["sure"]:
        console.print(Text("What is guessed is assumed, and tried on annotated images before anything is computed."))


def _show(console: Console, document: Document) -> None:
    for entry in document["detectors"]:  # a line each that can be copied as it is, however narrow the terminal
        if "error" in entry:
            console.print(Text(f"{entry['scheme']}:", style="bold"))
            console.print(Text(f"    {entry['error']}"))
            continue
        console.print(Text(entry["example"], style="bold"))
        console.print(Text(f"    {entry['what']}; {in_words(entry['level'])}; {entry['install'] or 'installed'}"))
    console.print()
    decoders = Table("decoder=", "reads", "preprocessing", box=None, pad_edge=False, header_style="bold")
    for entry in document["decoders"]:
        decoders.add_row(*(_plain(cell) for cell in (entry["name"], entry["reads"], entry["preset"] or "to be stated")))
    decoders.add_row("python:MODULE:FUNCTION", "your own", "to be stated")
    console.print(decoders)


def _plain(text: str) -> str:
    return text.replace("[", r"\[")  # Rich would read [1, N, 5+C] as markup
