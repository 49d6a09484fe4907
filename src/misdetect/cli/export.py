"""``misdetect export``: what a run found, in the forms that other tools take."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number
from rich.console import Console
from rich.text import Text

from misdetect.api.export import Form
from misdetect.api.export import export as write
from misdetect.cli.shell import Document, Json, Quiet, of_file, present, whole_number
from misdetect.said.errors import BadSpec
from misdetect.studies.contract import Hidden, Inserted


def export(
    *runs: Annotated[Path, Parameter(help="Run directory; for latex several of one study.", negative=())],
    out: Annotated[Path, Parameter(help="Folder to write, absent or empty; for latex FILE.tex, for page FILE.html.")],
    to: Annotated[
        Form,
        Parameter(
            help="images: those of fuzz that fail, or adversarial ones, as COCO, to train on. coco: failures of any "
            "study as annotations, as FiftyOne imports them. folders: one per failure, for a bug report. latex: the "
            "papers' tables. page: one self-contained HTML page."
        ),
    ] = "images",
    which: Annotated[
        str | None,
        Parameter(help="Of fuzz: attributable (the inserted object's doing), all or any; of attack: cls, loc, mtd …"),
    ] = None,
    inserted: Annotated[
        Inserted, Parameter(help="Whether the inserted object is annotated; the paper leaves it out.")
    ] = "unlabelled",
    hidden: Annotated[
        Hidden, Parameter(help="What becomes of annotations that it hides by more than 90 %; mark: as crowds.")
    ] = "drop",
    most: Annotated[
        int | None,
        Parameter(help="coco, folders: at most N failures, the worst first.", validator=Number(gte=1)),
        Parameter(converter=whole_number),
    ] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """What a run found for other tools: images to train on, failures as COCO (FiftyOne), folders, LaTeX, a page."""
    if not runs:
        raise BadSpec("export needs a run directory; none was given.")
    first, *more = runs
    document = write(first, out, *more, to=to, which=which, inserted=inserted, hidden=hidden, most=most)
    present(document, json, of_file(show))


def show(console: Console, document: Document) -> None:
    """The document for a person."""
    said = {
        "images": "{images} images with {annotations} annotations -> {out}",
        "coco": "{labels} failures on {images} images -> {out}",
        "folders": "{count} of {failures} failures -> {out}",
        "latex": "tables of {study} -> {out}",
        "page": "page of {study} -> {out}",
    }[document["to"]]
    console.print(Text(said.format(**document, count=len(document.get("folders", ())))))
    if document.get("hidden_annotations"):
        done = {"drop": "were left out", "mark": "are marked as crowds", "keep": "are kept"}[document["hidden"]]
        console.print(
            f"{document['hidden_annotations']} annotations that inserted objects hide (more than 90 %) {done}",
            markup=False,
        )
