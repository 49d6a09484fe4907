"""The charts of a score, as values: curves over the score, sizes, classes."""

from collections import Counter, defaultdict
from typing import Any

import numpy as np

from misdetect.data.dataset import Dataset
from misdetect.drawing.values import Chart, Counted, Filter, about, cell, sizes
from misdetect.engine.store import Run
from misdetect.studies.contract import Document

POINTS = 160
"""Points of a curve; where there are more scores, as many of them, evenly spread over the detections."""


def charts(run: Run, document: Document, counted: Counted, data: Dataset | None) -> list[Chart]:
    objects = sum(n for (outcome,), n in counted("outcome").items() if outcome != "extra")
    if not objects:
        return []
    iou = document["settings"]["tide_foreground_iou"]
    told = about(document, text=f"IoU ≥ {iou:g}, {objects} objects on {document['counts']['images']} images")
    return [curves(document, counted, told), _by_size(document, counted, told), _by_class(document, told)]


def curves(document: Document, counted: Counted, told: str) -> Chart:
    """Of all objects together and of each class: how many detections of a score or more are right, and wrong."""
    every: Counter[tuple[Any, ...]] = Counter()
    groups: dict[str, Counter[tuple[Any, ...]]] = defaultdict(Counter)
    for (label, score, outcome), n in counted("label", "score", "outcome").items():
        every[score, outcome] += n
        groups[label][score, outcome] += n
    series = [{"name": "all classes", "AP50": document["ap"]["AP50"], "label": None, **_counts(every)}]
    for name, each in document["by_class"].items():
        if each["objects"]:
            series.append({"name": name, "AP50": each["AP50"], "label": name, **_counts(groups[name])})
    return {"kind": "curves", "behind": {"study": ["score"]}, "title": "Precision, recall and F1", "about": told,
            "series": series}  # fmt: skip


def _counts(rows: Counter[tuple[Any, ...]]) -> dict[str, Any]:
    """``scores``, falling, and at each the detections of that score or more that are right and wrong, of rows counted
    by score and outcome."""
    objects = sum(n for (_, outcome), n in rows.items() if outcome != "extra")
    right, wrong = Counter[float](), Counter[float]()
    for (score, outcome), n in rows.items():
        if score is not None:
            (right if outcome == "found" else wrong)[score] += n
    scores = sorted(right.keys() | wrong.keys(), reverse=True)
    chosen = np.arange(len(scores))
    if len(scores) > POINTS:
        chosen = np.unique(np.linspace(0, len(scores) - 1, POINTS).round().astype(int))
    hits, misses = (np.cumsum([each[score] for score in scores], dtype=np.int64) for each in (right, wrong))
    return {
        "objects": objects,
        "scores": [scores[i] for i in chosen],
        "right": hits[chosen].tolist(),
        "wrong": misses[chosen].tolist(),
    }


_ERRORS = ("Cls", "Loc", "Both", "Dupe", "Bkg")


def _by_class(document: Document, told: str) -> Chart:
    lines = []
    for name, each in document["by_class"].items():
        if not each["objects"] and not each["detections"]:
            continue
        own: Filter = {"study": ["score"], "label": [name]}
        every, lost = own | {"outcome": ["found", "missed"]}, each["objects"] - each["counts"]["TP"]
        cells = [cell(name, every), cell(each["objects"], every), cell(each["AP50"]), cell(each["AP"])]
        cells.append(cell(lost, own | {"outcome": ["missed"]}))
        cells += [cell(each["counts"][kind], own | {"outcome": ["extra"], "tide": [kind]}) for kind in _ERRORS]
        lines.append(cells)
    columns = ["class", "objects", "AP50", "AP", "never found", *_ERRORS]
    said = "Never found: at no score. Cls to Bkg: wrong detections at any score, by TIDE's types."
    return {"kind": "table", "title": "By class", "about": told, "note": said, "columns": columns, "rows": lines}


def _by_size(document: Document, counted: Counted, told: str) -> Chart:
    outcomes, lines = counted("outcome", "size"), []
    for (size, (name, objects, *missed)), key in zip(
        sizes("score", counted).items(), ("APs", "APm", "APl"), strict=True
    ):
        behind: Filter = {"study": ["score"], "size": [size], "outcome": ["extra"]}
        wrong = cell(outcomes["extra", size], behind)
        lines.append([name, objects, cell(document["ap"][key]), *missed, wrong])
    columns = ["box", "objects", "AP", "never found", "of the objects", "wrong"]
    said = "Wrong: detections at any score. Intervals of 90 %, over images. AP by the annotated area."
    return {"kind": "table", "title": "By size", "about": told, "note": said, "columns": columns, "rows": lines}
