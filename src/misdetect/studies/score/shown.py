"""How a terminal shows a score: the twelve numbers, TIDE, the worst classes and images."""

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from misdetect.drawing.terminal import Document, plain_table
from misdetect.drawing.words import number
from misdetect.metrics.degenerate import sentence
from misdetect.metrics.tide import MAIN, SPECIAL
from misdetect.studies.told import change_cell, numbers_table, show_why_not_paired

_WORST = 10


def show(console: Console, document: Document) -> None:
    """The document for a person: the twelve numbers, TIDE, the worst classes and images."""
    counts, settings = document["counts"], document["settings"]
    console.print(
        f"{counts['images']} images, {counts['objects']} objects ({counts['crowd']} crowd regions apart), "
        f"{counts['detections']} detections, compared by {'masks' if settings['iou_type'] == 'segm' else 'boxes'}"
    )
    if document["degenerate"] is not None:
        console.print(Text(sentence(document["degenerate"], counts["images"])), style="bold")
        return
    console.print(_numbers(document))
    console.print(_tide(document))
    if classes := _worst_classes(document):
        console.print(_class_table(classes))
    if document["worst_images"]:
        console.print(_image_table(document["worst_images"]))


def _numbers(document: Document) -> Table:
    ap, cap = document["ap"], document["settings"]["detection_caps"]
    table = plain_table(f"COCO, IoU 0.50:0.95, best {cap[2]} detections per image and class", "", ">", "", ">")
    left = ("AP", "AP50", "AP75", "APs", "APm", "APl")
    right = ("AR1", "AR10", "AR100", "ARs", "ARm", "ARl")
    sizes = {"s": " (small)", "m": " (medium)", "l": " (large)"}
    recalls = {"AR1": f"AR best {cap[0]}", "AR10": f"AR best {cap[1]}", "AR100": f"AR best {cap[2]}"}
    for a, r in zip(left, right, strict=True):
        recall = recalls.get(r, r + sizes.get(r[-1], ""))
        table.add_row(a + sizes.get(a[-1], ""), number(ap[a]), recall, number(ap[r]))
    table.show_header = False
    return table


def _tide(document: Document) -> Table:
    settings, counts, tide = document["settings"], document["counts"], document["tide"]
    cap = "all detections" if settings["tide_cap"] is None else f"best {settings['tide_cap']} detections per image"
    title = (
        f"TIDE (points of AP50, base {number(document['tide_base'], 2)}; IoU {settings['tide_foreground_iou']:g} / "
        f"{settings['tide_background_iou']:g}; {cap})"
    )
    table = plain_table(title, "error", ">points", ">count", "")
    largest = max((v for v in tide.values() if v), default=1.0)
    lost = counts["Miss"] + counts["covered"]
    found = {**counts, "FalsePos": sum(counts[k] for k in MAIN[:5]), "FalseNeg": lost}
    for name in (*MAIN, *SPECIAL):
        bar = "█" * round(30 * (tide[name] or 0) / largest)
        table.add_row(name, number(tide[name], 2), str(found[name]), Text(bar, style="red"))
    return table


def _worst_classes(document: Document) -> list[tuple[str, dict[str, Any]]]:
    defined = [(name, row) for name, row in document["by_class"].items() if row["AP"] is not None]
    return sorted(defined, key=lambda item: (item[1]["AP"], -item[1]["objects"]))[:_WORST]


def _class_table(classes: list[tuple[str, dict[str, Any]]]) -> Table:
    table = plain_table("Worst classes", "class", ">AP", ">AP50", ">objects", ">found", *(f">{kind}" for kind in MAIN))
    for name, row in classes:
        errors = [str(row["counts"][kind]) for kind in MAIN]
        numbers = (number(row["AP"]), number(row["AP50"]), str(row["objects"]), str(row["counts"]["TP"]))
        table.add_row(Text(name), *numbers, *errors)
    return table


def _image_table(images: list[dict[str, Any]]) -> Table:
    title = "Worst images (cost: objects not found + scores of false detections)"
    table = plain_table(title, "image", ">cost", ">objects", ">not found", ">false detections")
    for row in images:
        numbers = (f"{row['cost']:.2f}", str(row["objects"]), str(row["not_found"]), str(row["false_detections"]))
        table.add_row(Text(str(row["image"])), *numbers)
    return table


def show_compared(console: Console, document: Document) -> None:
    """Runs side by side: their numbers, how AP differs from the first, and of which classes it certainly does."""
    names = [run["name"] for run in document["runs"]]
    first = names[0]
    console.print(numbers_table(document, names))
    show_why_not_paired(console, document)
    others = [each for each in document.get("differences", ()) if each["first"] == first]
    if not others:
        return
    names = [each["second"] for each in others]
    title = f"Points of AP, more (+) or fewer (-) than {first}; * the interval excludes 0"
    table = plain_table(title, "", *(f">{name}" for name in names), wrapped=names)
    for key in ("AP", "AP50", "AP75"):
        table.add_row(key, *(change_cell(each[key]) for each in others))
    for label in others[0]["by_class"]:
        changes = [each["by_class"].get(label, {}).get("AP") for each in others]
        if any(change is not None and change["certain"] for change in changes):
            table.add_row(Text(f"AP of {label}"), *(change_cell(change) for change in changes))
    console.print(table)
