"""The charts of a confusion, as values: its matrix, each cell with the rows behind it; the pairs confused most;
and the paper's own view, the sum of confidences and the IoUs in each cell."""

from typing import Any

import numpy as np

from misdetect.data.dataset import Dataset
from misdetect.drawing.merged import SHOWN
from misdetect.drawing.values import Chart, Counted, Filter, about, mark
from misdetect.engine.store import Run
from misdetect.studies.confusion.rows import MISSED
from misdetect.studies.contract import Document


def charts(run: Run, document: Document, counted: Counted, data: Dataset | None) -> list[Chart]:
    how = document["settings"]
    told = about(document, text=f"score ≥ {how['score']:g}, IoU ≥ {how['iou']:g}, matching {how['policy']}, "
                 f"background {how['background']}")  # fmt: skip
    made = [_matrix(document), _pairs(document), _confidence(document)]
    return [chart | {"about": told} for chart in made if chart is not None]


def _soft(document: Document) -> bool:
    """Whether cells hold shares of detections: then no objects are behind them."""
    return bool(document["settings"]["background"] == "soft")


def _matrix(document: Document) -> Chart:
    labels = document["labels"]
    columns = [*labels, MISSED]
    became, last = np.array(document["became"], dtype=float), document["counts"][-1]
    values = [*became.reshape(len(labels) - 1, len(labels) + 1).tolist(), [*last[:-1], None, None]]
    cells = []
    for actual, line in zip(labels, values, strict=True):
        total = sum(value or 0 for value in line)
        cells.append(
            [
                None if value is None else mark(
                    f"{actual} → {predicted}", value,
                    None if _soft(document) else _became(actual, predicted, labels[-1]),
                    share=value / total if total else 0.0, right=actual == predicted,
                )
                for predicted, value in zip(columns, line, strict=True)
            ]
        )  # fmt: skip
    note = (
        f"Rows: what is annotated; columns: what became of it. “{labels[-1]}”: only detections on it that score "
        f"{labels[-1]} higher; “{MISSED}”: no detection on it. Last row: detections on nothing annotated."
    )
    return {"kind": "matrix", "title": "What objects became", "note": note, "rows": labels, "columns": columns,
            "cells": cells}  # fmt: skip


def _pairs(document: Document) -> Chart | None:
    """The pairs of classes that are confused most: objects that became the other class, and how many detections say
    so."""
    place = {name: i for i, name in enumerate(document["labels"])}
    marks = []
    for each in document["confusions"]:
        actual, predicted = each["actual"], each["predicted"]
        objects = document["became"][place[actual]][place[predicted]]
        detections = f"{each['count']:g} detections, Σ confidence {each['confidence']:.1f}"
        behind = None if _soft(document) or not objects else _became(actual, predicted, document["labels"][-1])
        policy = " *" if each["policy_dependent"] else ""
        marks.append(mark(f"{actual} → {predicted}{policy}", objects, behind, text=detections, tone="discarded"))
    if not marks:
        return None
    note = "* under another matching policy the cell holds other detections"
    return {"kind": "bars", "title": "The pairs of classes that are confused most", "marks": marks,
            "across": "objects taken for another class (actual → predicted)", "note": note}  # fmt: skip


def _confidence(document: Document) -> Chart | None:
    """The sum of confidences in each cell, with the distribution of IoUs."""
    labels = document["labels"]
    if len(labels) - 1 > SHOWN:
        return None
    bins: dict[tuple[str, str], Any] = {(a, b): counts for a, b, counts in document["iou_histograms"]["cells"]}
    cells = []
    for actual, line in zip(labels, document["confidence"], strict=True):
        total = sum(line) or 1
        cells.append(
            [
                mark(f"{actual} → {predicted}", value, share=value / total, right=actual == predicted,
                     bins=bins.get((actual, predicted)))
                for predicted, value in zip(labels, line, strict=True)
            ]
        )  # fmt: skip
    return {"kind": "matrix", "title": "Sum of confidences and IoUs in each cell", "rows": labels, "columns": labels,
            "cells": cells, "note": "Numbers: Σ confidence of the detections; small bars: how many of them by IoU, "
            "from 0 (left) to 1 (right) in steps of .1."}  # fmt: skip


def _became(actual: str, predicted: str, background: str) -> Filter:
    own: Filter = {"study": ["confusion"]}
    if actual == background:
        return own | {"outcome": ["extra"], "reason": [background], "label": [predicted]}
    own |= {"label": [actual]}
    if predicted == actual:
        return own | {"outcome": ["found"]}
    if predicted == MISSED:
        return own | {"outcome": ["missed"], "reason": [MISSED]}
    return own | {"outcome": ["missed", "renamed"], "became": [predicted]}
