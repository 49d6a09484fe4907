"""The charts of verify, as values: causes of hallucinations, and every part."""

from collections import Counter, defaultdict

from misdetect.data.dataset import Dataset
from misdetect.drawing.values import Chart, Counted, Filter, about, cell, mark
from misdetect.engine.store import Run
from misdetect.studies.contract import Document


def charts(run: Run, document: Document, counted: Counted, data: Dataset | None) -> list[Chart]:
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
    return [*([bars] if marks else []), table]
