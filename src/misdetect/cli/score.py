"""``misdetect score``: AP, AR and TIDE of stored predictions, with the settings beside the numbers."""

import inspect
from typing import Annotated, Any

from cyclopts import Parameter
from rich.console import Console
from rich.table import Table
from rich.text import Text

from misdetect.api import score as run
from misdetect.cli.gates import Gates, gate_options
from misdetect.cli.options import options, signed, values
from misdetect.cli.shell import Document, plain_table
from misdetect.kept.remote import as_url
from misdetect.metrics.degenerate import sentence
from misdetect.metrics.tide import MAIN, SPECIAL
from misdetect.nouns.labels import told
from misdetect.studies.score.settings import ScoreSettings

_WORST = 10
_TRUTH = Annotated[str, Parameter(name="--truth", help="Data spec of the truth, e.g. coco:instances.json.")]
_PREDICTIONS = Annotated[
    str,
    Parameter(
        name="--predictions",
        help="COCO results file, predictions:FILE,truth=COCO-FILE to join classes by name, or a run of detect.",
    ),
]


def _score(truth: str, predictions: str, *, json: bool = False, **given: Any) -> int:
    gates = Gates.of(given)
    found = run(predictions, truth, **values(ScoreSettings, given))
    kept = {name: as_url(given[name]) or str(given[name]) for name in ("out", "rows") if given[name] is not None}
    document = {**found.document, "out": None, **kept}
    return gates.conclude(document, json, _show_all)


def _show_all(console: Console, document: Document) -> None:
    show(console, document)
    show_notes(console, document)
    if "rows" in document:
        console.print(Text(f"Rows: {document['rows']}"))


def show_notes(console: Console, document: Document) -> None:
    """What to know about the numbers."""
    for note in (*told(document["joining"]), *document["notes"]):
        console.print(Text(f"\nNote: {note}"))


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
    return sorted(defined, key=lambda item: (item[1]["AP"], -item[1]["objects"]))[:_WORST]


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


_KEYWORD = inspect.Parameter.KEYWORD_ONLY
score = signed(
    _score,
    "score",
    inspect.getdoc(ScoreSettings) or "",
    [
        inspect.Parameter("truth", _KEYWORD, annotation=_TRUTH),
        inspect.Parameter("predictions", _KEYWORD, annotation=_PREDICTIONS),
        *options(ScoreSettings),
        *gate_options(),
    ],
)
