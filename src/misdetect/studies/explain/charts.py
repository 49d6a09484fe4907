"""The charts of explain, as values: mechanisms, misses by size, the flow from TIDE types."""

from misdetect.data.dataset import Dataset
from misdetect.drawing.values import Chart, Counted, Filter, about, mark, sizes
from misdetect.drawing.words import percent
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
        share = percent(count / document["objects"])
        marks.append(mark(name, count, own | {"mechanism": [name]}, ends=scaled, text=share, tone=name))
    links = [
        {"left": tide, "right": why, "value": count, "filter": own | {"tide": [tide], "mechanism": [why]}}
        for tide, why, count in document["sankey"]
    ]
    title = f"Mechanisms of {document['missed']} misses among {document['objects']} objects"
    across = f"missed objects and % of all objects, with intervals of {100 * how['confidence']:.0f} %"
    return [
        {"kind": "bars", "title": title, "across": across, "about": told, "marks": marks},
        {"kind": "table", "title": "Misses by size", "about": told, "note": "Intervals of 90 %, over images.",
         "columns": ["box", "objects", "missed", "of the objects"], "rows": list(sizes("explain", counted).values())},
        {"kind": "flow", "title": "From TIDE type to mechanism", "about": told, "links": links},
    ]  # fmt: skip
