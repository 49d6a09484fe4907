"""``misdetect detectors``: which detectors there are, what each level allows, and what to install for the rest; of an
ONNX file, the spec to use it by."""

from typing import Annotated

from cyclopts import Parameter
from rich.console import Console
from rich.table import Table
from rich.text import Text

from misdetect.cli.shell import Document, Json, Quiet, present
from misdetect.detectors.catalogue import catalogue, look_into
from misdetect.detectors.onnx.decoders import DECODERS
from misdetect.nouns.protocols import in_words
from misdetect.nouns.spec import Spec
from misdetect.said.errors import BadSpec


def detectors(
    file: Annotated[
        str | None, Parameter(help="An ONNX file, or a spec that says some of its options: what is to be said of it.")
    ] = None,
    /,
    *,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """List the detector families with their level, what is installed, and the decoders of onnx: files; or look into an
    ONNX file and print the spec to use, with what is sure of it and what is guessed."""
    if file is not None:
        present(_look(file), json, _show_file)
        return
    decoders = [
        {"name": name, "reads": kind.reads, "preset": kind.preset, "nms": kind.nms} for name, kind in DECODERS.items()
    ]
    present({"detectors": catalogue(), "decoders": decoders}, json, _show)


def _look(file: str) -> Document:
    spec = Spec.parse(file)
    document: Document | None = look_into(spec)
    if document is None:
        raise BadSpec(
            f"Expected an ONNX file to look into. Got {file!r}; of a network in another file, loading it says what its "
            "spec lacks."
        )
    return document


def _show_file(console: Console, document: Document) -> None:
    console.print(Text(document["spec"], style="bold"))
    for title in ("inputs", "outputs"):
        for entry in document[title]:
            console.print(Text(f"    {title[:-1]}: {entry}"))
    for finding in document["findings"]:
        how = "sure" if finding["sure"] else "guessed"
        console.print(Text(f"    {how}: {finding['option'].replace('_', '-')}={finding['value']} ({finding['why']})"))
    if not document["sure"]:
        console.print(Text("Check what is guessed: misdetect doctor tries the usual mistakes on annotated images."))


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
