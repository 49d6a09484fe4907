"""``misdetect score``: AP, AR and TIDE of stored predictions, with the settings beside the numbers."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from misdetect.cli.shell import Document, Json, Limit, plain_table, present
from misdetect.data import load_data
from misdetect.detectors.predictions import StoredPredictions, detection_columns, load_predictions, read_results
from misdetect.metrics.columns import truth_columns
from misdetect.metrics.scoring import check_rows_file, write_rows
from misdetect.metrics.scoring import score as compute
from misdetect.metrics.tide import MAIN, SPECIAL, TideSettings
from misdetect.spec import Spec

WORST = 10


def score(
    truth: Annotated[str, typer.Option("--truth", help="Data spec of the truth, e.g. coco:instances.json.")],
    predictions: Annotated[
        str,
        typer.Option("--predictions", help="COCO results file, or predictions:FILE,truth=COCO-FILE to join by name."),
    ],
    limit: Limit = None,
    masks: Annotated[
        bool, typer.Option("--masks", help="Compare masks instead of boxes; both sides need them.")
    ] = False,
    max_detections: Annotated[
        int, typer.Option("--max-detections", min=1, help="AP and AR: best N detections per image and class.")
    ] = 100,
    tide_cap: Annotated[
        int | None, typer.Option("--tide-cap", min=1, help="TIDE: best N detections per image; tidecv has 100.")
    ] = None,
    tide_classes: Annotated[
        Literal["all", "with-truth"],
        typer.Option(
            "--tide-classes", help="TIDE: average over all classes seen (tidecv), or those with objects (COCO)."
        ),
    ] = "all",
    tide_ties: Annotated[
        Literal["errors-first", "file"],
        typer.Option(
            "--tide-ties", help="TIDE: order of equal scores after a fix, as tidecv has it or as in the file."
        ),
    ] = "errors-first",
    rows: Annotated[
        Path | None, typer.Option("--rows", help="Write a row per object and detection: FILE.parquet, .csv or .json.")
    ] = None,
    json: Json = False,
) -> None:
    """AP, AR and TIDE errors of stored predictions."""
    if rows is not None:
        check_rows_file(rows)
    data = load_data(truth)
    stored = _stored(predictions)
    columns = truth_columns(data.limit(limit), masks=masks)
    settings = TideSettings(cap=tide_cap, classes=tide_classes, ties=tide_ties)
    result = compute(
        columns,
        detection_columns(stored, columns, data, masks=masks),
        masks=masks,
        max_detections=max_detections,
        tide_settings=settings,
    )
    document = result.document(worst=WORST)
    document["settings"] |= {
        "limit": limit,
        "predictions": predictions,
        "predictions_fingerprint": stored.fingerprint,
        "truth": truth,
        "truth_fingerprint": data.fingerprint,
    }
    if rows is not None:
        write_rows(result.rows(), rows)
        document["rows"] = str(rows)
    present(document, json, show)


def _stored(text: str) -> StoredPredictions:
    if text.startswith("predictions:"):
        return load_predictions(Spec.parse(text))
    return StoredPredictions(read_results(text))


def show(console: Console, document: Document) -> None:
    """The document for a person: the twelve numbers, TIDE, the worst classes and images, what to know about them."""
    counts, settings = document["counts"], document["settings"]
    console.print(
        f"{counts['images']} images, {counts['objects']} objects ({counts['crowd']} crowd regions apart), "
        f"{counts['detections']} detections, compared by {'masks' if settings['iou_type'] == 'segm' else 'boxes'}"
    )
    console.print(_numbers(document))
    console.print(_tide(document))
    if classes := _worst_classes(document):
        console.print(_class_table(classes))
    if document["worst_images"]:
        console.print(_image_table(document["worst_images"]))
    for note in document["notes"]:
        console.print(Text(f"\nNote: {note}"))
    if "rows" in document:
        console.print(Text(f"Rows: {document['rows']}"))


def _numbers(document: Document) -> Table:
    ap, cap = document["ap"], document["settings"]["max_detections"]
    table = plain_table(f"COCO, IoU 0.50:0.95, best {cap[2]} detections per image and class", "", ">", "", ">")
    left = ("AP", "AP50", "AP75", "APs", "APm", "APl")
    right = ("AR1", "AR10", "AR100", "ARs", "ARm", "ARl")
    sizes = {"s": " (small)", "m": " (medium)", "l": " (large)"}
    recalls = {"AR1": f"AR best {cap[0]}", "AR10": f"AR best {cap[1]}", "AR100": f"AR best {cap[2]}"}
    for a, r in zip(left, right, strict=True):
        recall = recalls.get(r, r + sizes.get(r[-1], ""))
        table.add_row(a + sizes.get(a[-1], ""), _share(ap[a]), recall, _share(ap[r]))
    table.show_header = False
    return table


def _tide(document: Document) -> Table:
    settings, counts, tide = document["settings"], document["counts"], document["tide"]
    cap = "all detections" if settings["tide_cap"] is None else f"best {settings['tide_cap']} detections per image"
    title = (
        f"TIDE (points of AP50, base {_points(document['tide_base'])}; IoU {settings['tide_foreground_iou']:g} / "
        f"{settings['tide_background_iou']:g}; {cap})"
    )
    table = plain_table(title, "error", ">points", ">count", "")
    largest = max((v for v in tide.values() if v), default=1.0)
    lost = counts["Miss"] + counts["covered"]
    found = {**counts, "FalsePos": sum(counts[k] for k in MAIN[:5]), "FalseNeg": lost}
    for name in (*MAIN, *SPECIAL):
        bar = "█" * round(30 * (tide[name] or 0) / largest)
        table.add_row(name, _points(tide[name]), str(found[name]), Text(bar, style="red"))
    return table


def _worst_classes(document: Document) -> list[tuple[str, dict[str, Any]]]:
    defined = [(name, row) for name, row in document["by_class"].items() if row["AP"] is not None]
    return sorted(defined, key=lambda item: (item[1]["AP"], -item[1]["objects"]))[:WORST]


def _class_table(classes: list[tuple[str, dict[str, Any]]]) -> Table:
    table = plain_table("Worst classes", "class", ">AP", ">AP50", ">objects", ">found", *(f">{kind}" for kind in MAIN))
    for name, row in classes:
        errors = [str(row["counts"][kind]) for kind in MAIN]
        numbers = (_share(row["AP"]), _share(row["AP50"]), str(row["objects"]), str(row["counts"]["TP"]))
        table.add_row(Text(name), *numbers, *errors)
    return table


def _image_table(images: list[dict[str, Any]]) -> Table:
    title = "Worst images (cost: objects not found + scores of false detections)"
    table = plain_table(title, "image", ">cost", ">objects", ">not found", ">false detections")
    for row in images:
        numbers = (f"{row['cost']:.2f}", str(row["objects"]), str(row["not_found"]), str(row["false_detections"]))
        table.add_row(Text(str(row["image"])), *numbers)
    return table


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _points(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"
