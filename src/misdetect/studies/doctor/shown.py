"""``misdetect doctor``: is it wired up right? What is wrong, what that costs, and the line that fixes it."""

from rich.console import Console
from rich.text import Text

from misdetect.drawing.terminal import Document, plain_table, unfinished
from misdetect.studies.doctor.document import sentences

_TRIED = 5


def show(console: Console, document: Document) -> None:
    """The document for a person: findings first, then what was tried."""
    if (line := unfinished(document)) is not None:
        console.print(line)
    for sentence in sentences(dict(document)):
        console.print(Text(sentence), style="bold" if document["findings"] else "")
    if (against := document["reference"]) is not None:
        console.print(
            f"\nBeside the reference: {against['found']} of {against['objects']} objects are in place, "
            f"{against['same_class']} with their class; boxes scatter by {100 * against['scatter']:.1f} % of their size"
        )
    if document["tried"]:
        table = plain_table("Tried, on the images to choose by (AP, classes pooled)", ">AP", "if", wrapped=("if",))
        for each in document["tried"][:_TRIED]:
            table.add_row(f"{each['after']:.3f}", Text(each["change"]))
        console.print(table)
