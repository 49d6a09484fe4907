"""The pictures of a confusion run, drawn into its ``images`` folder: the matrix, the top confusions, the IoUs in each
cell, and photos of what is behind the worst cells."""

import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from misdetect.data.dataset import Dataset
from misdetect.drawing import charts
from misdetect.drawing.figures import cropped, save_png, stacked, titled, widened
from misdetect.drawing.matrix import SHOWN
from misdetect.drawing.scenes import places
from misdetect.engine.store import Run
from misdetect.nouns.picture import Pixels
from misdetect.said.errors import BadImage
from misdetect.studies.confusion.cells import Cell, behind
from misdetect.studies.confusion.plots import iou_figure, matrix_figure, top_figure
from misdetect.studies.confusion.rows import MISSED
from misdetect.studies.contract import Document, Figures
from misdetect.studies.documents import read_document

_EACH = 6
"""Photos of each cell."""
_OBJECT, _DETECTION = 2, 0
"""Which of ``figures.colour``: objects green, detections red."""


def draw(run: Run, data: Dataset, most: int = 4) -> list[Path]:
    """Draw the matrix, and for the ``most`` largest wrong cells the worst of what is behind them. Returns the files."""
    document = read_document(run)
    folder = run.path / "images"
    drawn = {"confusion.png": matrix_figure}
    if document["confusions"]:
        drawn["confusions.png"] = top_figure
    if len(document["labels"]) - 1 <= SHOWN:
        drawn["confusion-iou.png"] = iou_figure
    made = charts.draw(folder, {name: partial(chart, document) for name, chart in drawn.items()})
    place = places(data)
    for number, (cell, count) in enumerate(worst(document)[:most], start=1):
        entries = behind(run, cell, document["labels"][-1], _EACH)
        crops = [crop for entry in entries if (crop := _photo(data, place, entry)) is not None]
        if crops:
            sheet = titled(stacked(crops, sideways=True), f"{cell[0]} -> {cell[1]}: {count:g}, the worst first")
            made.append(save_png(folder / f"cell-{number}-{_slug(cell[0])}-{_slug(cell[1])}.png", sheet))
    return made


def worst(document: Document) -> list[tuple[Cell, float]]:
    """The wrong cells and the missed objects of each class, with how many there are, the most first."""
    labels, counts = document["labels"], np.array(document["counts"], dtype=float)
    np.fill_diagonal(counts, 0)
    cells = [((labels[a], labels[b]), float(counts[a, b])) for a, b in np.argwhere(counts > 0).tolist()]
    cells += [((name, MISSED), float(n)) for name, n in document["missed"].items() if n]
    return sorted(cells, key=lambda cell: (-cell[1], cell[0]))


def _slug(name: str) -> str:
    """A class name as part of a file name: it comes from a stranger's file."""
    return re.sub(r"[^A-Za-z0-9]+", "-", name)[:40].strip("-") or "class"


def _photo(data: Dataset, place: dict[str, int], entry: dict[str, Any]) -> Pixels | None:
    """The neighbourhood of one entry: the object green, the detection red; ``None`` where that cannot be seen."""
    try:
        image = data[place[entry["image"]]].image
    except BadImage:
        return None
    of_object = entry["object_box"] if "detection" in entry else entry["box"]
    boxes = [(of_object, _OBJECT)] + ([(entry["box"], _DETECTION)] if "detection" in entry else [])
    shown = np.array([box for box, _ in boxes if box is not None])
    low, high = shown[:, :2].min(axis=0), shown[:, 2:].max(axis=0)
    around = np.maximum(0.4 * (high - low), 12)
    x0, y0 = np.maximum(np.floor(low - around), 0).astype(int).tolist()
    x1, y1 = np.maximum(np.ceil(high + around), 0).astype(int).tolist()
    if not image[y0:y1, x0:x1].size:
        return None
    drawn = cropped(image, (x0, y0, x1, y1), 200, shown, [paint for box, paint in boxes if box is not None])
    told = f"{entry['label']} {entry['score']:.2f}, IoU {entry['iou']:.2f}" if "detection" in entry else "missed"
    return titled(titled(widened(drawn, max(200, 8 * len(told) + 8)), told), entry["file"][-30:])


FIGURES = Figures(
    draw,
    captions={
        "confusions": "The pairs of classes that are confused most",
        "confusion-iou": "Sum of confidences and IoUs in each cell",
    },
    live=("confusion", "cell-*"),
)
