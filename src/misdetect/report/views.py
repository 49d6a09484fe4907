"""The charts of a page, as values: every mark has its number and the filter of the rows behind it.

One function per study reads its document, and counts of the page's rows where the document has only sums. What draws
them is the front end (``front/*.js``); charts without objects behind their marks are matplotlib's.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from misdetect.data.dataset import Dataset
from misdetect.engine.store import Run
from misdetect.metrics.slices import BINS, rate_intervals
from misdetect.report.embedded import Counted, Filter, scan_scene
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
_DRAWN = 4096
"""Images that are drawn again for an interval; where there are more, several are drawn together."""


def charts_of(study: str, run: Run, document: Document, counted: Counted, data: Dataset | None) -> list[Chart]:
    """The charts of one study, whose rows are ``counted``; without ``data`` no maps."""
    made = _CHARTS.get(study)
    return [] if made is None else made(run, document, counted, data)


def about(document: Document, *, text: str) -> str:
    """What the numbers of a chart are of."""
    return f"{document['detector'] or 'a detector'} on {document['data']}; {text}"


def mark(name: str, value: float | None, behind: Filter, **more: Any) -> dict[str, Any]:
    """One mark: what it is called, its number, the filter of the rows behind it."""
    return {"name": name, "value": value, "filter": behind, **more}


def _score(run: Run, document: Document, counted: Counted, data: Dataset | None) -> list[Chart]:
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


def _by_size(document: Document, counted: Counted, told: str) -> Chart:
    rates, outcomes = miss_rates(counted, "size", SIZES), counted("outcome", "size")
    lines = []
    for size, key in zip(SIZES, ("APs", "APm", "APl"), strict=True):
        own: Filter = {"study": ["score"], "size": [size]}
        count, lost, rate, ends = rates[size]
        wrong = outcomes["extra", size]
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


def miss_rates(counted: Counted, column: str, names: Sequence[str]) -> dict[str, Rate]:
    """Of the objects of each name: how many there are, how many are missed, their share, and its interval."""
    rows = [(*key, n) for key, n in counted(column, "image", "outcome").items() if key[-1] != "extra"]
    if not rows:
        return dict.fromkeys(names, (0, 0, None, None))
    among = np.array([[n * (value == name) for name in names] for value, _, _, n in rows], dtype=np.float64)
    lost = among * np.array([[outcome != "found"] for _, _, outcome, _ in rows])
    image = np.unique([image for _, image, _, _ in rows], return_inverse=True)[1].reshape(-1)
    ends = rate_intervals(lost, among, image.astype(np.int64) % _DRAWN)
    counts, misses = (part.sum(axis=0).astype(int).tolist() for part in (among, lost))
    return {
        name: (
            n,
            m,
            m / n if n else None,
            ends[i] if 0 < m < n else None,
        )  # of 0 or all, images drawn again say nothing
        for i, (name, n, m) in enumerate(zip(names, counts, misses, strict=True))
    }


def _explain(run: Run, document: Document, counted: Counted, data: Dataset | None) -> list[Chart]:
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
        _missed_by_size(counted, told),
        {"kind": "flow", "title": "From TIDE type to mechanism", "about": told, "links": links},
    ]


def _missed_by_size(counted: Counted, told: str) -> Chart:
    lines = []
    for size, (count, lost, rate, ends) in miss_rates(counted, "size", SIZES).items():
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


def _confusion(run: Run, document: Document, counted: Counted, data: Dataset | None) -> list[Chart]:
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


def _scan(run: Run, document: Document, counted: Counted, data: Dataset | None) -> list[Chart]:
    own: Filter = {"study": ["scan"], "harm": ["harmful"], "flicker": [False]}
    how = document["settings"]
    told = about(document, text=f"score ≥ {how['score']:g}, {document['positions']} positions, step {how['step']} px")
    marks = []
    for control, name in ((False, ""), (True, ", control")):
        counts = Counter[str]()
        for (outcome, *key), n in counted("outcome", "control", "harm", "flicker").items():
            counts[outcome] += n * (key == [control, "harmful", False])
        tone = "unknown" if control else "calibration"
        marks += [
            mark(f"{each}{name}", counts[each], own | {"outcome": [each], "control": [control]}, tone=tone)
            for each in ("missed", "renamed", "moved", "extra")
            if counts[each]
        ]
    bars = {"kind": "bars", "title": "What is harmed when an object is put in", "about": told,
            "across": "detections at all positions, without flicker", "marks": marks}  # fmt: skip
    return [*([bars] if marks else []), *_heat(run, document, data, told)]


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
        {"kind": "heat", "behind": {}, "title": "Where the object does it", "about": told,
         "step": document["settings"]["step"], "note": "A square lies at the centre of the object; its colour is S, "
         "the share of the scene that stays as it was: 1 all, 0 nothing.", "maps": maps}
    ]  # fmt: skip


def _fuzz(run: Run, document: Document, counted: Counted, data: Dataset | None) -> list[Chart]:
    own: Filter = {"study": ["fuzz"], "attributable": [True]}
    told = about(document, text=f"score ≥ {document['settings']['score']:g}, {document['insertions']} insertions into "
                 f"{document['backgrounds']} images")  # fmt: skip
    made = []
    for title, column, across in (
        ("What breaks when an object is inserted", "outcome", "detections that the inserted object changes"),
        ("By what was inserted", "by", "detections that it changes"),
        ("Whose detections change", "label", "detections that change"),
    ):
        counts = {name: n for (name, doing), n in counted(column, "attributable").items() if doing}
        marks = [mark(name, n, own | {column: [name]}) for name, n in sorted(counts.items(), key=lambda i: -i[1])[:12]]
        made.append({"kind": "bars", "title": title, "across": across, "about": told, "marks": marks})
    return [chart for chart in made if chart["marks"]]


def _attack(run: Run, document: Document, counted: Counted, data: Dataset | None) -> list[Chart]:
    how = document["settings"]
    text = f"score ≥ {how['score']:g}, IoU ≥ {how['loc']:g}, {document['images']} images, eps {how['eps']:g} of 255"
    told = about(document, text=text)
    counts = counted("by", "harm")
    marks = [
        mark(name, n, {"study": ["attack"], "by": [name], "harm": ["harmful"]},
             text=f"of {document['right']} found before", tone="unknown" if name == "noise" else "calibration")
        for name in document["attacks"]
        if (n := counts[name, "harmful"])
    ]  # fmt: skip
    if not marks:
        return []
    return [
        {"kind": "bars", "title": "Objects lost under each attack", "across": "objects found before that are lost",
         "about": told, "marks": marks, "most": document["right"]}
    ]  # fmt: skip


def _verify(run: Run, document: Document, counted: Counted, data: Dataset | None) -> list[Chart]:
    own, how = {"study": ["verify"]}, document["settings"]
    text = f"score ≥ {how['score']:g}, IoU ≥ {how['present_iou']:g} (present), {how['missing_iou']:g} (missing)"
    told = about(document, text=text)
    counts = counted("mechanism", "outcome")
    marks = [
        mark(name, each["count"], own | {"outcome": ["extra"], "mechanism": [name]})
        for name, each in document["causes"].items()
        if counts[name, "extra"]
    ]
    groups: dict[str, Counter[str]] = defaultdict(Counter)
    for (label, outcome), n in counted("label", "outcome").items():
        groups[label][outcome] += n
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


_CHARTS: dict[str, Callable[[Run, Document, Counted, Dataset | None], list[Chart]]] = {
    "score": _score,
    "explain": _explain,
    "confusion": _confusion,
    "scan": _scan,
    "fuzz": _fuzz,
    "attack": _attack,
    "verify": _verify,
}
