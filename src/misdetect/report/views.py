"""The charts of a page, as values: every mark has its number and the filter of the rows behind it.

One function per study reads its document, and the page's rows where the document has only sums. What draws them is the
front end (``front/*.js``); charts without objects behind their marks are matplotlib's.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from misdetect.data.dataset import Dataset
from misdetect.engine.store import Run
from misdetect.metrics.slices import BINS, rate_intervals
from misdetect.report.embedded import Filter, Row, scan_scene
from misdetect.report.scan import worst_pairs
from misdetect.studies.confusion.rows import MISSED
from misdetect.studies.contract import Document
from misdetect.studies.scan.prepare import rebuild
from misdetect.studies.scan.rows import NULL, OBJECT

Chart = dict[str, Any]
POINTS = 160
"""Points of a curve; where there are more scores, as many of them, evenly spread over the detections."""
SIZES = BINS["size"][1]
_SIZE_NAMES = {"small": "small, < 32² px", "medium": "medium", "large": "large, ≥ 96² px"}
_PAIRS = 6


def charts_of(study: str, run: Run, document: Document, rows: Sequence[Row], data: Dataset | None) -> list[Chart]:
    """The charts of one study of a page whose ``rows`` are all of its studies'; without ``data`` no maps."""
    made = _CHARTS.get(study)
    own = [row for row in rows if row["study"] == study]
    return [] if made is None else [chart for chart in made(run, document, own, data) if chart is not None]


def about(document: Document, *, text: str) -> str:
    """What the numbers of a chart are of."""
    return f"{document['detector'] or 'a detector'} on {document['data']}; {text}"


def mark(name: str, value: float | None, behind: Filter, **more: Any) -> dict[str, Any]:
    """One mark: what it is called, its number, the filter of the rows behind it."""
    return {"name": name, "value": value, "filter": behind, **more}


def _score(run: Run, document: Document, rows: list[Row], data: Dataset | None) -> list[Chart]:
    objects = [row for row in rows if row["outcome"] != "extra"]
    if not objects:
        return []
    iou = document["settings"]["tide_foreground_iou"]
    told = about(document, text=f"IoU ≥ {iou:g}, {len(objects)} objects on {document['counts']['images']} images")
    return [curves(document, rows, told), _by_size(document, rows, told), _by_class(document, told)]


def curves(document: Document, rows: Sequence[Row], told: str) -> Chart:
    """Of all objects together and of each class: how many detections of a score or more are right, and wrong."""
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row["label"]].append(row)
    series = [{"name": "all classes", "AP50": document["ap"]["AP50"], "label": None, **_counts(rows)}]
    for name, each in document["by_class"].items():
        if each["objects"]:
            series.append({"name": name, "AP50": each["AP50"], "label": name, **_counts(groups[name])})
    return {"kind": "curves", "study": "score", "title": "Precision, recall and F1", "about": told, "series": series}


def _counts(rows: Sequence[Row]) -> dict[str, Any]:
    """``scores``, falling, and at each the detections of that score or more that are right and wrong."""
    objects = sum(row["outcome"] != "extra" for row in rows)
    known = [(round(row["score"], 4), row["outcome"] == "found") for row in rows if row["score"] is not None]
    scores = np.array([score for score, _ in known])
    right = np.array([found for _, found in known], dtype=np.bool_)
    order = np.argsort(-scores, kind="stable")
    scores, right = scores[order], right[order]
    last = np.flatnonzero(np.append(np.diff(scores) != 0, True)) if len(scores) else np.zeros(0, np.int64)
    if len(last) > POINTS:
        last = last[np.unique(np.linspace(0, len(last) - 1, POINTS).round().astype(int))]
    hits = np.cumsum(right)[last] if len(last) else np.zeros(0, np.int64)
    return {
        "objects": objects,
        "scores": scores[last].tolist(),
        "right": hits.tolist(),
        "wrong": (last + 1 - hits).tolist(),
    }


_ERRORS = ("Cls", "Loc", "Both", "Dupe", "Bkg")


def _by_class(document: Document, told: str) -> Chart:
    lines = []
    for name, each in document["by_class"].items():
        if not each["objects"] and not each["detections"]:
            continue
        own: Filter = {"study": ["score"], "label": [name]}
        cells = [
            _cell(name, {**own, "outcome": ["found", "missed"]}),
            _cell(each["objects"], {**own, "outcome": ["found", "missed"]}),
            _cell(each["AP50"]),
            _cell(each["AP"]),
            _cell(each["objects"] - each["counts"]["TP"], {**own, "outcome": ["missed"]}),
        ]
        cells += [_cell(each["counts"][kind], {**own, "outcome": ["extra"], "tide": [kind]}) for kind in _ERRORS]
        lines.append(cells)
    columns = ["class", "objects", "AP50", "AP", "never found", *_ERRORS]
    said = "Never found: at no score. Cls to Bkg: wrong detections at any score, by TIDE's types."
    return {"kind": "table", "title": "By class", "about": told, "note": said, "columns": columns, "rows": lines}


def _cell(value: Any, behind: Filter | None = None, ends: Sequence[float] | None = None) -> dict[str, Any]:
    return {"value": value, "filter": behind, "ends": None if ends is None else list(ends)}


def _by_size(document: Document, rows: Sequence[Row], told: str) -> Chart:
    objects = [row for row in rows if row["outcome"] != "extra"]
    rates = miss_rates(objects, "size", SIZES)
    lines = []
    for size, key in zip(SIZES, ("APs", "APm", "APl"), strict=True):
        own: Filter = {"study": ["score"], "size": [size]}
        count, lost, rate, ends = rates[size]
        wrong = sum(row["outcome"] == "extra" and row["size"] == size for row in rows)
        lines.append(
            [
                _cell(_SIZE_NAMES[size], {**own, "outcome": ["found", "missed"]}),
                _cell(count, {**own, "outcome": ["found", "missed"]}),
                _cell(document["ap"][key]),
                _cell(lost, {**own, "outcome": ["missed"]}),
                _cell(rate, {**own, "outcome": ["missed"]}, ends),
                _cell(wrong, {**own, "outcome": ["extra"]}),
            ]
        )
    columns = ["box", "objects", "AP", "never found", "of the objects", "wrong"]
    said = "Wrong: detections at any score. Intervals of 90 %, over images. AP by the annotated area."
    return {"kind": "table", "title": "By size", "about": told, "note": said, "columns": columns, "rows": lines}


Rate = tuple[int, int, float | None, tuple[float, float] | None]


def miss_rates(objects: Sequence[Row], column: str, names: Sequence[str]) -> dict[str, Rate]:
    """Of the objects of each name: how many there are, how many are missed, their share, and its interval."""
    if not objects:
        return dict.fromkeys(names, (0, 0, None, None))
    among = np.array([[row[column] == name for name in names] for row in objects])
    lost = np.array([row["outcome"] != "found" for row in objects])
    image = np.unique([row["image"] for row in objects], return_inverse=True)[1].reshape(-1)
    ends = rate_intervals(among & lost[:, None], among, image.astype(np.int64))
    counts, misses = among.sum(axis=0).tolist(), (among & lost[:, None]).sum(axis=0).tolist()
    return {
        name: (
            n,
            m,
            m / n if n else None,
            ends[i] if 0 < m < n else None,
        )  # of 0 or all, images drawn again say nothing
        for i, (name, n, m) in enumerate(zip(names, counts, misses, strict=True))
    }


def _explain(run: Run, document: Document, rows: list[Row], data: Dataset | None) -> list[Chart]:
    if not document["missed"]:
        return []
    own: Filter = {"study": ["explain"], "outcome": ["missed"]}
    how, rates = document["settings"], document["intervals"]["rates"]
    rules = f"score ≥ {how['score']:g}, IoU ≥ {how['loc']:g}, miss {how['miss']}"
    told = about(document, text=rules)
    marks = []
    for name, count in document["mechanisms"].items():
        ends = rates.get(name)
        scaled = None if ends is None else [end * document["objects"] for end in ends]
        share = f"{100 * count / document['objects']:.1f} %"
        marks.append(mark(name, count, own | {"mechanism": [name]}, ends=scaled, text=share, tone=name))
    links = [
        {"left": tide, "right": why, "value": count, "filter": own | {"tide": [tide], "mechanism": [why]}}
        for tide, why, count in document["sankey"]
    ]
    title = f"Mechanisms of {document['missed']} misses among {document['objects']} objects"
    across = f"missed objects and % of all objects, with intervals of {100 * how['confidence']:.0f} %"
    return [
        {"kind": "bars", "title": title, "across": across, "about": told, "marks": marks},
        _missed_by_size(rows, told),
        {"kind": "flow", "title": "From TIDE type to mechanism", "about": told, "links": links},
    ]


def _missed_by_size(rows: Sequence[Row], told: str) -> Chart:
    objects = [row for row in rows if row["outcome"] != "extra"]
    lines = []
    for size, (count, lost, rate, ends) in miss_rates(objects, "size", SIZES).items():
        own: Filter = {"study": ["explain"], "size": [size]}
        lines.append(
            [
                _cell(_SIZE_NAMES[size], own | {"outcome": ["found", "missed"]}),
                _cell(count, own | {"outcome": ["found", "missed"]}),
                _cell(lost, own | {"outcome": ["missed"]}),
                _cell(rate, own | {"outcome": ["missed"]}, ends),
            ]
        )
    columns, said = ["box", "objects", "missed", "of the objects"], "Intervals of 90 %, over images."
    return {"kind": "table", "title": "Misses by size", "about": told, "note": said, "columns": columns, "rows": lines}


def _confusion(run: Run, document: Document, rows: list[Row], data: Dataset | None) -> list[Chart]:
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


def _scan(run: Run, document: Document, rows: list[Row], data: Dataset | None) -> list[Chart]:
    own: Filter = {"study": ["scan"], "harm": ["harmful"], "flicker": [False]}
    how = document["settings"]
    told = about(document, text=f"score ≥ {how['score']:g}, {document['positions']} positions, step {how['step']} px")
    marks = []
    for control, name in ((False, ""), (True, ", control")):
        counts = Counter(row["outcome"] for row in rows if row["control"] is control and _all_of(row, own))
        tone = "unknown" if control else "calibration"
        marks += [
            mark(f"{each}{name}", counts[each], own | {"outcome": [each], "control": [control]}, tone=tone)
            for each in ("missed", "renamed", "moved", "extra")
            if counts[each]
        ]
    bars = {"kind": "bars", "title": "What is harmed when an object is put in", "about": told,
            "across": "detections at all positions, without flicker", "marks": marks}  # fmt: skip
    return [*([bars] if marks else []), *_heat(run, document, data, told)]


def _all_of(row: Row, wanted: Filter) -> bool:
    return all(row[name] in values for name, values in wanted.items())


def _heat(run: Run, document: Document, data: Dataset | None, told: str) -> list[Chart]:
    """The map of S over the positions of the most affected pairs, of the object and of its null control."""
    pairs = worst_pairs(document)[:_PAIRS]
    if not pairs or data is None:
        return []
    study, maps = rebuild(run, data), []
    for number in pairs:
        pair = study.open_pair(number)
        layers = []
        for condition in (OBJECT, NULL):
            found = run.query(
                "SELECT x, y, score FROM rows WHERE pair = ? AND condition = ? AND before > 0 ORDER BY y, x",
                [number, condition],
            ).to_pylist()
            cells = [
                [row["x"], row["y"], round(row["score"], 3), scan_scene(number, row["x"], row["y"],
                                                                       control=condition == NULL)]
                for row in found
            ]  # fmt: skip
            if cells:
                layers.append({"name": "object" if condition == OBJECT else "null control", "cells": cells})
        title = f"{pair.cutout.label} on {pair.background.id}"
        maps.append({"title": title, "image": pair.background.id, "cut": list(pair.cutout.size), "layers": layers})
    return [
        {"kind": "heat", "title": "Where the object does it", "about": told, "step": document["settings"]["step"],
         "note": "A square lies at the centre of the object; its colour is S, the share of the scene that stays "
         "as it was: 1 all, 0 nothing.", "maps": maps}
    ]  # fmt: skip


def _fuzz(run: Run, document: Document, rows: list[Row], data: Dataset | None) -> list[Chart]:
    own: Filter = {"study": ["fuzz"], "attributable": [True]}
    told = about(document, text=f"score ≥ {document['settings']['score']:g}, {document['insertions']} insertions into "
                 f"{document['backgrounds']} images")  # fmt: skip
    made = []
    for title, column, across in (
        ("What breaks when an object is inserted", "outcome", "detections that the inserted object changes"),
        ("By what was inserted", "by", "detections that it changes"),
        ("Whose detections change", "label", "detections that change"),
    ):
        counts = Counter(row[column] for row in rows if row["attributable"])
        marks = [mark(name, n, own | {column: [name]}) for name, n in sorted(counts.items(), key=lambda i: -i[1])[:12]]
        made.append({"kind": "bars", "title": title, "across": across, "about": told, "marks": marks})
    return [chart for chart in made if chart["marks"]]


def _attack(run: Run, document: Document, rows: list[Row], data: Dataset | None) -> list[Chart]:
    how = document["settings"]
    text = f"score ≥ {how['score']:g}, IoU ≥ {how['loc']:g}, {document['images']} images, eps {how['eps']:g} of 255"
    told = about(document, text=text)
    counts = Counter(row["by"] for row in rows if row["harm"] == "harmful")
    marks = [
        mark(name, n, {"study": ["attack"], "by": [name], "harm": ["harmful"]},
             text=f"of {document['right']} found before", tone="unknown" if name == "noise" else "calibration")
        for name in document["attacks"]
        if (n := counts[name])
    ]  # fmt: skip
    if not marks:
        return []
    return [
        {"kind": "bars", "title": "Objects lost under each attack", "across": "objects found before that are lost",
         "about": told, "marks": marks, "most": document["right"]}
    ]  # fmt: skip


def _verify(run: Run, document: Document, rows: list[Row], data: Dataset | None) -> list[Chart]:
    own, how = {"study": ["verify"]}, document["settings"]
    text = f"score ≥ {how['score']:g}, IoU ≥ {how['present_iou']:g} (present), {how['missing_iou']:g} (missing)"
    told = about(document, text=text)
    counts = Counter(row["mechanism"] for row in rows if row["outcome"] == "extra" and row["mechanism"])
    marks = [
        mark(name, each["count"], own | {"outcome": ["extra"], "mechanism": [name]})
        for name, each in document["causes"].items()
        if counts[name]
    ]
    groups: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        groups[row["label"]][row["outcome"]] += 1
    lines = []
    for name, each in groups.items():
        part: Filter = own | {"label": [name]}
        there = each["found"] + each["missed"]
        lines.append(
            [
                _cell(name, part),
                _cell(there, part | {"outcome": ["found", "missed"]}),
                _cell(each["missed"], part | {"outcome": ["missed"]}),
                _cell(each["missed"] / there if there else None, part | {"outcome": ["missed"]}),
                _cell(each["extra"], part | {"outcome": ["extra"]}),
            ]
        )
    columns = ["part", "present", "not found", "of the present", "reported though missing"]
    table = {"kind": "table", "title": "By part", "about": told, "note": "", "columns": columns, "rows": lines}
    bars = {"kind": "bars", "title": "What hallucinations hang on", "across": "parts reported though missing",
            "about": told, "marks": marks}  # fmt: skip
    return [*([bars] if marks else []), table]


_CHARTS: dict[str, Callable[[Run, Document, list[Row], Dataset | None], list[Chart]]] = {
    "score": _score,
    "explain": _explain,
    "confusion": _confusion,
    "scan": _scan,
    "fuzz": _fuzz,
    "attack": _attack,
    "verify": _verify,
}
