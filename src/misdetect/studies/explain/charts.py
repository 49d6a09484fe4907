"""The charts of explain, as values: mechanisms, misses by size, the flow from TIDE types."""

from misdetect.data.dataset import Dataset
from misdetect.drawing.values import SIZE_NAMES, SIZES, Chart, Counted, Filter, about, cell, mark, miss_rates
from misdetect.engine.store import Run
from misdetect.studies.contract import Document


def charts(run: Run, document: Document, counted: Counted, data: Dataset | None) -> list[Chart]:
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
                cell(SIZE_NAMES[size], own | {"outcome": ["found", "missed"]}),
                cell(count, own | {"outcome": ["found", "missed"]}),
                cell(lost, own | {"outcome": ["missed"]}),
                cell(rate, own | {"outcome": ["missed"]}, ends),
            ]
        )
    columns, said = ["box", "objects", "missed", "of the objects"], "Intervals of 90 %, over images."
    return {"kind": "table", "title": "Misses by size", "about": told, "note": said, "columns": columns, "rows": lines}
