"""``misdetect export``: the failing images of a run as a COCO data set, to train on or to look at."""

from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from misdetect.cli.shell import Document, Json, present
from misdetect.data.export import check_new_folder, export_coco
from misdetect.studies.fuzz.replay import failing_images, open_campaign
from misdetect.studies.fuzz.results import Campaign


def export(
    run: Annotated[Path, typer.Argument(help="Run directory of fuzz.")],
    out: Annotated[Path, typer.Option("--out", help="Folder for the COCO data set; absent or empty.")],
    which: Annotated[
        Literal["attributable", "all"], typer.Option("--which", help="Failures of the inserted object's doing, or all.")
    ] = "attributable",
    inserted: Annotated[
        Literal["unlabelled", "labelled"],
        typer.Option("--inserted", help="Whether the inserted object is annotated; the paper leaves it out."),
    ] = "unlabelled",
    json: Json = False,
) -> None:
    """Write the failing images of a run of fuzz as COCO, labelled as their backgrounds are."""
    check_new_folder(out)
    opened, study = open_campaign(run)
    campaign = Campaign.of(opened, study.fuzzing)
    images = failing_images(
        study, campaign, attributable=which == "attributable", label_inserted=inserted == "labelled"
    )
    counts = export_coco(images, out)
    present({"run": str(run), "out": str(out), "which": which, "inserted": inserted, **counts}, json, _show)


def _show(console: Console, document: Document) -> None:
    console.print(
        f"{document['images']} failing images with {document['annotations']} annotations -> {document['out']}",
        markup=False,
    )
