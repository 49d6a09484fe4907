"""``misdetect export``: the failing or adversarial images of a run as a COCO data set, to train on or to look at."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console

from misdetect.api import export as write
from misdetect.cli.shell import Document, Json, Quiet, present
from misdetect.studies.fuzz.failing import Hidden, Inserted


def export(
    run: Annotated[Path, Parameter(help="Run directory of fuzz or attack.")],
    /,
    *,
    out: Annotated[Path, Parameter(help="Folder for the COCO data set; absent or empty.")],
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
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Write the failing images of a run of fuzz, or the adversarial ones of attack, as COCO, with their labels."""
    present(write(run, out, which=which, inserted=inserted, hidden=hidden), json, show)


def show(console: Console, document: Document) -> None:
    """The document for a person."""
    console.print(
        f"{document['images']} images with {document['annotations']} annotations -> {document['out']}",
        markup=False,
    )
    if document["hidden_annotations"]:
        done = {"drop": "were left out", "mark": "are marked as crowds", "keep": "are kept"}[document["hidden"]]
        console.print(
            f"{document['hidden_annotations']} annotations that inserted objects hide (more than 90 %) {done}",
            markup=False,
        )
