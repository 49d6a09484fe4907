"""The charts of a campaign, as values: what breaks, by what, and whose detections."""

from misdetect.data.dataset import Dataset
from misdetect.drawing.values import Chart, Counted, Filter, about, mark
from misdetect.engine.store import Run
from misdetect.studies.contract import Document


def charts(run: Run, document: Document, counted: Counted, data: Dataset | None) -> list[Chart]:
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
