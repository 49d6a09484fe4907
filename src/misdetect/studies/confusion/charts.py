"""The chart of a confusion, as values: its matrix, each cell with the rows behind it."""

import numpy as np

from misdetect.data.dataset import Dataset
from misdetect.drawing.values import Chart, Counted, Filter, about, mark
from misdetect.engine.store import Run
from misdetect.studies.confusion.rows import MISSED
from misdetect.studies.contract import Document


def charts(run: Run, document: Document, counted: Counted, data: Dataset | None) -> list[Chart]:
    labels, how = document["labels"], document["settings"]
    if how["background"] == "soft":  # then cells hold shares of detections, and no objects are behind them
        return []
    columns = [*labels, MISSED]
    became, last = np.array(document["became"], dtype=float), document["counts"][-1]
    values = [*became.reshape(len(labels) - 1, len(labels) + 1).tolist(), [*last[:-1], None, None]]
    cells = []
    for actual, line in zip(labels, values, strict=True):
        total = sum(value or 0 for value in line)
        cells.append(
            [
                None if value is None else mark(
                    f"{actual} → {predicted}", value, _became(actual, predicted, labels[-1]),
                    share=value / total if total else 0.0, right=actual == predicted,
                )
                for predicted, value in zip(columns, line, strict=True)
            ]
        )  # fmt: skip
    told = about(document, text=f"score ≥ {how['score']:g}, IoU ≥ {how['iou']:g}, matching {how['policy']}, "
                 f"background {how['background']}")  # fmt: skip
    note = (
        f"Rows: what is annotated; columns: what became of it. “{labels[-1]}”: only detections on it that score "
        f"{labels[-1]} higher; “{MISSED}”: no detection on it. Last row: detections on nothing annotated."
    )
    return [
        {"kind": "matrix", "title": "What objects became", "about": told, "note": note, "rows": labels,
         "columns": columns, "cells": cells}
    ]  # fmt: skip


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
