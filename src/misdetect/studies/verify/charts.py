"""The charts of verify, as values: paper 2's Figs. 3 to 6, F_vv over the score, causes of hallucinations, and every
part."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from misdetect.data.dataset import Dataset
from misdetect.drawing.values import Chart, Counted, Filter, about, cell, mark
from misdetect.drawing.words import percent, within
from misdetect.engine.store import Run
from misdetect.nouns.boxes import boxes_of
from misdetect.studies.contract import Document
from misdetect.studies.verify.table import WITH

STATES = ("intact", "damaged", "absent", "occluded")
"""In the order in which they are drawn; others come after them."""
_TONES = {"intact": "good", "damaged": "middling", "absent": "bad", "occluded": "unknown"}


def charts(run: Run, document: Document, counted: Counted, data: Dataset | None) -> list[Chart]:
    own, how = {"study": ["verify"]}, document["settings"]
    text = f"score ≥ {how['score']:g}, IoU ≥ {how['present_iou']:g} (present), {how['missing_iou']:g} (missing)"
    told = about(document, text=text)
    counts = counted("mechanism", "outcome")
    marks = [
        mark(name, each["count"], own | {"outcome": ["extra"], "mechanism": [name]},
             text=percent(each["share"], 0) + within(each["interval"], 0, 100))
        for name, each in document["causes"].items()
        if counts[name, "extra"]
    ]  # fmt: skip
    groups: dict[str, Counter[str]] = defaultdict(Counter)
    for (label, outcome), n in counted("label", "outcome").items():
        groups[label][outcome] += n
    lines = []
    for name, each in groups.items():
        part: Filter = own | {"label": [name]}
        there = each["found"] + each["missed"]
        lines.append(
            [
                cell(name, part),
                cell(there, part | {"outcome": ["found", "missed"]}),
                cell(each["missed"], part | {"outcome": ["missed"]}),
                cell(each["missed"] / there if there else None, part | {"outcome": ["missed"]}),
                cell(each["extra"], part | {"outcome": ["extra"]}),
            ]
        )
    columns = ["part", "present", "not found", "of the present", "reported though missing"]
    table = {"kind": "table", "title": "By part", "about": told, "note": "", "columns": columns, "rows": lines}
    bars = {"kind": "bars", "title": "What hallucinations hang on", "across": "parts reported though missing",
            "about": told, "marks": marks}  # fmt: skip
    made = [bars if marks else None, table, _states(document), _prior(run, document), _ap(document),
            _missing(document), _f_vv(document, WITH)]  # fmt: skip
    return [chart | {"about": told} for chart in made if chart is not None]


def ranked_states(by_part: Mapping[str, Mapping[str, int]]) -> tuple[list[str], dict[str, dict[str, float]]]:
    """Fig. 3: the states there are, and the share of each of every part, those that are there most often first; the
    first line is of all parts."""
    found = dict.fromkeys(state for counts in by_part.values() for state in counts)
    names = [*(state for state in STATES if state in found), *sorted(found.keys() - set(STATES))]
    every = {state: sum(counts.get(state, 0) for counts in by_part.values()) for state in names}
    ranked = sorted(by_part, key=lambda part: -_share(by_part[part], names[0]))
    rows = {"all": every, **{part: by_part[part] for part in ranked}}
    return names, {part: {state: _share(counts, state) for state in names} for part, counts in rows.items()}


def _share(counts: Mapping[str, int], state: str) -> float:
    return counts.get(state, 0) / max(sum(counts.values()), 1)


def _states(document: Document) -> Chart | None:
    if not document["by_part"]:
        return None
    names, rows = ranked_states({name: part["states"] for name, part in document["by_part"].items()})
    return {"kind": "shares", "title": "States of parts", "names": names, "tones": [_TONES.get(n) for n in names],
            "rows": [{"name": part, "parts": [shares[name] for name in names]} for part, shares in rows.items()],
            "across": "share of each part in the data"}  # fmt: skip


def hallucinated(run: Run, document: Document) -> tuple[Any, list[str]]:
    """The surest hallucinated box of each missing part that is reported, as shares of its image, and its part."""
    rows = run.query(
        "SELECT d.label, d.width, d.height, d.x0, d.y0, d.x1, d.y1 FROM rows p JOIN rows d "
        "ON p.case_index = d.case_index AND p.label = d.label "
        "WHERE p.kind = 'part' AND p.missing AND d.kind = 'detection' AND d.score >= ? "
        "QUALIFY row_number() OVER (PARTITION BY d.case_index, d.label ORDER BY d.score DESC, d.id) = 1 "
        "ORDER BY d.case_index, d.row",
        [document["settings"]["score"]],
    ).to_pylist()
    sizes = np.array([[row["width"], row["height"]] * 2 for row in rows], np.float64).reshape(-1, 4)
    return boxes_of(rows) / sizes, [row["label"] for row in rows]


_BOXES = 400
"""Hallucinated boxes that are drawn; where there are more, evenly chosen."""


def _prior(run: Run, document: Document) -> Chart | None:
    """Fig. 4, and the hallucinated boxes in the same frame and colours."""
    means = {name: each["box"] for name, each in document["prior"]["by_part"].items()}
    if not any(means.values()):
        return None
    boxes, parts = hallucinated(run, document)
    chosen = sorted({round(i) for i in np.linspace(0, len(parts) - 1, _BOXES).tolist()}) if parts else []
    drawn = [[parts[i], *np.round(boxes[i], 4).tolist()] for i in chosen]
    likely = [[name, *np.round(box, 4).tolist()] for name, box in means.items() if box is not None]
    return {"kind": "places", "title": "Where parts are, and where they are hallucinated", "names": list(means),
            "panels": [{"title": "mean place and size of present parts", "ellipses": likely, "boxes": []},
                       {"title": f"{len(parts)} hallucinated", "ellipses": [], "boxes": drawn}]}  # fmt: skip


def _ap(document: Document) -> Chart | None:
    """Fig. 5: the best part on top."""
    known = {name: part["AP"] for name, part in document["by_part"].items() if part["AP"] is not None}
    marks = [mark(name, known[name]) for name in sorted(known, key=lambda name: -known[name])]
    return {"kind": "bars", "title": "AP of each part that is present", "marks": marks, "most": 1, "form": "score",
            "across": "AP, IoU .5:.95"} if marks else None  # fmt: skip


def _missing(document: Document) -> Chart | None:
    """Fig. 6."""
    if not document["missing"]:
        return None
    series = [{"name": "recall", "points": known(document["missing_recall_curve"])}]
    return {"kind": "lines", "title": "Missing parts that are reported, by IoU", "series": series,
            "across": "IoU with the likely box", "up": "recall of missing parts"}  # fmt: skip


def _f_vv(document: Document, localisation: str) -> Chart | None:
    """F_vv over the score threshold, the chosen one and the best one marked."""
    best, how, found = document["best_threshold"][localisation], document["settings"], document[localisation]
    if found["f_vv"] is None:
        return None
    curves = document["recall_curves"][localisation]
    series = [{"name": "F_vv", "points": known(document["f_vv_curve"])}]
    series += [{"name": name, "points": known([[row[0], row[i]] for row in curves])}
               for i, name in ((1, "recall, present"), (2, "recall, missing"))]  # fmt: skip
    series.append({"name": f"chosen: {how['score']:g}", "points": [[how["score"], found["f_vv"]]]})
    if best["score"] is not None and best["chosen_f_vv"] is not None:
        name = f"best: {best['score']:g}, {best['f_vv']:.3f} elsewhere"
        series.append({"name": name, "points": [[best["score"], best["chosen_f_vv"]]]})
    return {"kind": "lines", "title": "F_vv over the score threshold", "series": series, "across": "score threshold",
            "up": "F_vv, recall", "note": "F_vv: found where present and not reported where missing, 0 to 1, with "
            f"localisation, β {how['beta']:g}."}  # fmt: skip


def known(points: Sequence[Sequence[Any]]) -> list[list[float]]:
    """The points of a curve where it is defined."""
    return [[x, y] for x, y in points if y is not None]
