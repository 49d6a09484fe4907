"""The pictures of a verify run: paper 2's Figs. 3 to 6, F_vv over the score, causes, hallucinations under every edit;
and Figs. 5 and 6 of several runs side by side."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from misdetect.compose.move import Flipped, Moved
from misdetect.data.dataset import Dataset
from misdetect.drawing import charts
from misdetect.drawing.figures import save_png, stacked
from misdetect.drawing.tables import called
from misdetect.engine.store import Run
from misdetect.metrics.causes import CAUSES
from misdetect.nouns.boxes import boxes_of
from misdetect.nouns.detections import Detections
from misdetect.nouns.picture import Pixels
from misdetect.said.errors import BadImage
from misdetect.studies.contract import Document, Figures
from misdetect.studies.documents import read_document
from misdetect.studies.verify import plots as drawn
from misdetect.studies.verify.context import Context, hallucinations
from misdetect.studies.verify.document import figures_of
from misdetect.studies.verify.rows import CONTROL, COVERED, FLIPPED, MOVED, PATCHED, Looked
from misdetect.studies.verify.study import VerifyStudy, rebuild
from misdetect.studies.verify.table import WITH, Table

if TYPE_CHECKING:  # figures in files are an extra
    from matplotlib.figure import Figure

_TITLES = {
    COVERED: "neighbours covered",
    MOVED: "moved",
    FLIPPED: "flipped",
    PATCHED: "other's pixels",
    CONTROL: "control",
}


def draw(run: Run, data: Dataset, most: int) -> list[Path]:
    """Draw the figures, and ``most`` hallucinations of each cause, the surest first, of different parts where there are
    enough. Returns the files."""
    document, folder = read_document(run), run.path / "images"
    parts = {name: part["states"] for name, part in document["by_part"].items()}
    if not parts:
        return []
    figures = figures_of(Table(run))
    told = f"{called(document)}, score ≥ {document['settings']['score']:g}"
    shown: dict[str, Callable[[], Figure]] = {
        "states.png": lambda: drawn.states(parts),
        "prior.png": lambda: _prior(run, document),
        "ap.png": lambda: drawn.ap_bars({"AP": figures}),
        "missing-recall.png": lambda: drawn.missing_recall({"missing parts": figures}),
        "f_vv.png": lambda: drawn.f_vv(document, WITH),
    }
    if document["hallucinations"]:
        shown["causes.png"] = lambda: drawn.causes(document["causes"])
    made = charts.draw(folder, {name: partial(_captioned, chart, told) for name, chart in shown.items()})
    if document["hallucinations"]:
        study = rebuild(run, data)
        for cause in CAUSES:
            strips = _strips(run, study, cause, most)
            if strips:
                made.append(save_png(folder / f"{cause}.png", stacked(strips, gap=10)))
    return made


def draw_comparison(document: Document, folder: Path) -> list[Path]:
    """Figs. 5 and 6 of several runs."""
    runs = {run["name"]: run for run in document["runs"]}
    shown = {"ap.png": drawn.ap_bars, "missing-recall.png": drawn.missing_recall, "f_vv.png": drawn.f_vv_of}
    return charts.draw(folder, {name: partial(chart, runs) for name, chart in shown.items()})


def _captioned(chart: Callable[[], Figure], told: str) -> Figure:
    return charts.caption(chart(), told)


def _prior(run: Run, document: Document) -> Figure:
    """Fig. 4, and the hallucinated boxes in the same frame and colours."""
    rows = run.query(
        "SELECT d.label, d.width, d.height, d.x0, d.y0, d.x1, d.y1 FROM rows p JOIN rows d "
        "ON p.case_index = d.case_index AND p.label = d.label "
        "WHERE p.kind = 'part' AND p.missing AND d.kind = 'detection' AND d.score >= ? "
        "QUALIFY row_number() OVER (PARTITION BY d.case_index, d.label ORDER BY d.score DESC, d.id) = 1 "
        "ORDER BY d.case_index, d.row",
        [document["settings"]["score"]],
    ).to_pylist()
    sizes = np.array([[row["width"], row["height"]] * 2 for row in rows], np.float64).reshape(-1, 4)
    means = {name: each["box"] for name, each in document["prior"]["by_part"].items()}
    return drawn.prior(means, boxes_of(rows) / sizes, [row["label"] for row in rows])


def _strips(run: Run, study: VerifyStudy, cause: str, most: int) -> list[Pixels]:
    rows = run.query(
        "SELECT *, row_number() OVER (PARTITION BY label ORDER BY score DESC, image) AS turn FROM rows "
        "WHERE kind = 'hallucination' AND cause = ? ORDER BY turn, score DESC, image LIMIT ?",
        [cause, most],
    ).to_pylist()
    found = []
    for row in rows:
        try:
            found.append(hallucination(study, row))
        except BadImage:
            continue
    return found


def hallucination(study: VerifyStudy, row: dict[str, Any]) -> Pixels:
    """The strip of one hallucination: the image and its edits, made again from its row."""
    sample, names = study.data[int(row["case_index"])], study.data.names
    seen = Detections(boxes_of([row]), np.array([row["score"]]), np.array([names.index(row["label"])]))
    looked = Looked(int(row["case_index"]), sample, names, study.joined.to_detector, seen, study.how)
    context = Context(looked, study.donors, study.joined.to_data)
    (each,) = hallucinations(looked)
    likely, box = looked.truth.boxes[each.part], seen.boxes[0]
    views: list[Any] = [("as it is", sample, likely, box, row["score"])]
    edits = {**context.edits(each), MOVED: context.moved, FLIPPED: context.flipped}
    for name in (COVERED, PATCHED, MOVED, FLIPPED, CONTROL):
        if name in edits:
            picture, places = edits[name], np.stack([likely, box])
            if isinstance(picture, (Moved, Flipped)):
                places = picture.boxes(places, sample.width, sample.height)
            views.append((_TITLES[name], picture, *places, row[f"score_{name}"]))
    return drawn.strip(views, f"{row['label']} ({row['state']}), {sample.id}: {row['cause']}, {row['reason']}")


FIGURES = Figures(
    draw,
    draw_comparison,
    captions={
        "states": "States of parts",
        "prior": "Where parts are, and where they are hallucinated",
        "ap": "AP of each part",
        "missing-recall": "Missing parts that are reported, by IoU",
        "f_vv": "F_vv over the score threshold",
        "causes": "What hallucinations hang on",
    },
)
