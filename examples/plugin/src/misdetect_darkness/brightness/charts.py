"""The chart of a run, as a value: a bar for each light with the objects that are lost there."""

from misdetect.data.dataset import Dataset
from misdetect.drawing.values import Chart, Counted, about, mark
from misdetect.engine.store import Run
from misdetect.studies.contract import Document


def charts(run: Run, document: Document, counted: Counted, data: Dataset | None) -> list[Chart]:
    """Every bar knows which rows it is made of, so that a click on it shows them."""
    how, counts = document["settings"], counted("by")
    marks = [
        mark(f"{100 * light:g} %", counts[(f"{light:g}",)], {"study": ["brightness"], "by": [f"{light:g}"]})
        for light in how["light"]
        if counts[(f"{light:g}",)]
    ]
    told = about(document, text=f"score ≥ {how['score']:g}, IoU ≥ {how['iou']:g}")
    bars = {"kind": "bars", "title": "Objects lost in the dark", "about": told, "across": "objects, by the light left"}
    return [{**bars, "marks": marks, "most": document["found"]}] if marks else []
