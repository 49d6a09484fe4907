"""The chart of an attack, as values: objects lost under each attack."""

from misdetect.data.dataset import Dataset
from misdetect.drawing.values import Chart, Counted, about, mark
from misdetect.engine.store import Run
from misdetect.studies.contract import Document


def charts(run: Run, document: Document, counted: Counted, data: Dataset | None) -> list[Chart]:
    how = document["settings"]
    text = f"score ≥ {how['score']:g}, IoU ≥ {how['loc']:g}, {document['images']} images, eps {how['eps']:g} of 255"
    told = about(document, text=text)
    counts = counted("by", "harm")
    marks = [
        mark(name, n, {"study": ["attack"], "by": [name], "harm": ["harmful"]},
             text=f"of {document['right']} found before", tone="unknown" if name == "noise" else "discarded")
        for name in document["attacks"]
        if (n := counts[name, "harmful"])
    ]  # fmt: skip
    if not marks:
        return []
    return [
        {"kind": "bars", "title": "Objects lost under each attack", "across": "objects found before that are lost",
         "about": told, "marks": marks, "most": document["right"]}
    ]  # fmt: skip
