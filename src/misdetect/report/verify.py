"""The pictures of a verify run: paper 2's Figs. 3 to 6, F_vv over the score, causes, hallucinations under every edit;
and Figs. 5 and 6 of several runs side by side."""

from pathlib import Path
from typing import Any

import numpy as np

from misdetect.boxes import boxes_of
from misdetect.compose.move import Flipped, Moved
from misdetect.data.dataset import Dataset
from misdetect.detections import Detections
from misdetect.engine.store import Run
from misdetect.errors import BadImage
from misdetect.metrics.causes import CAUSES
from misdetect.picture import Pixels
from misdetect.report import verify_figures as drawn
from misdetect.report.figures import curve, save_png, stacked, titled
from misdetect.studies.contract import Document, read_document
from misdetect.studies.verify.context import Context, hallucinations
from misdetect.studies.verify.document import figures_of
from misdetect.studies.verify.rows import CONTROL, COVERED, FLIPPED, MOVED, PATCHED, Looked
from misdetect.studies.verify.study import VerifyStudy, rebuild
from misdetect.studies.verify.table import WITH, Table

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
    made = [
        save_png(folder / "states.png", titled(drawn.states(parts), "states of parts (Fig. 3)")),
        save_png(folder / "prior.png", prior(run, document)),
        save_png(folder / "ap.png", ap_bars({"AP": figures})),
        save_png(folder / "missing-recall.png", missing_recall({"missing parts": figures})),
        save_png(folder / "f_vv.png", f_vv(document)),
    ]
    if document["hallucinations"]:
        made.append(save_png(folder / "causes.png", drawn.causes(document["causes"])))
        study = rebuild(run, data)
        for cause in CAUSES:
            strips = _strips(run, study, cause, most)
            if strips:
                made.append(save_png(folder / f"{cause}.png", stacked(strips, gap=10)))
    return made


def draw_comparison(document: Document, folder: Path) -> list[Path]:
    """Figs. 5 and 6 of several runs."""
    runs = {run["name"]: run for run in document["runs"]}
    return [
        save_png(folder / "ap.png", ap_bars(runs)),
        save_png(folder / "missing-recall.png", missing_recall(runs)),
        save_png(folder / "f_vv.png", f_vv_of(runs)),
    ]


def ap_bars(documents: dict[str, Document]) -> Pixels:
    """Fig. 5: AP of each part, a bar per run."""
    parts = dict.fromkeys(part for document in documents.values() for part in document["AP"])
    values = {part: [document["AP"].get(part) for document in documents.values()] for part in parts}
    return drawn.bars(values, list(documents), "AP over present parts, IoU .5:.95 (Fig. 5)")


def missing_recall(documents: dict[str, Document]) -> Pixels:
    """Fig. 6: recall of missing parts over IoU."""
    lines = [_line(name, each["missing_recall_curve"]) for name, each in documents.items() if each["missing"]]
    scores = sorted({document["score"] for document in documents.values()})
    at = ", ".join(f"{score:g}" for score in scores)
    return curve(lines, title=f"recall of missing parts at score {at} (Fig. 6)", across="IoU", beside=True)


def f_vv(document: Document) -> Pixels:
    """F_vv over the score threshold, the chosen one and the best one marked."""
    best, how = document["best_threshold"][WITH], document["settings"]
    lines = [_line("F_vv", document["f_vv_curve"]), _line("recall, present", _column(document, 1))]
    lines.append(_line("recall, missing", _column(document, 2)))
    if document[WITH]["f_vv"] is not None:
        lines.append((f"chosen: {how['score']:g}", [how["score"]], [document[WITH]["f_vv"]]))
    if best["score"] is not None and best["chosen_f_vv"] is not None:
        lines.append((f"best: {best['score']:g}, {best['f_vv']:.3f} elsewhere", [best["score"]], [best["chosen_f_vv"]]))
    return curve(lines, title=f"F_vv with localisation, beta {how['beta']:g}", across="score threshold", beside=True)


def f_vv_of(documents: dict[str, Document]) -> Pixels:
    """F_vv over the score threshold of several runs."""
    lines = [_line(name, document["f_vv_curve"]) for name, document in documents.items()]
    return curve(lines, title="F_vv with localisation", across="score threshold", beside=True)


def _column(document: Document, index: int) -> list[list[float | None]]:
    return [[row[0], row[index]] for row in document["recall_curves"][WITH]]


def _line(name: str, points: list[list[Any]]) -> tuple[str, list[float], list[float]]:
    known = [(x, y) for x, y in points if y is not None]
    return name, [x for x, _ in known], [y for _, y in known]


def prior(run: Run, document: Document) -> Pixels:
    """Fig. 4, and the hallucinated boxes in the same frame and colours."""
    boxes = {name: each["box"] for name, each in document["prior"]["by_part"].items()}
    place = {name: i for i, name in enumerate(boxes)}
    rows = run.query(
        "SELECT d.label, d.width, d.height, d.x0, d.y0, d.x1, d.y1 FROM rows p JOIN rows d "
        "ON p.case_index = d.case_index AND p.label = d.label "
        "WHERE p.kind = 'part' AND p.missing AND d.kind = 'detection' AND d.score >= ? "
        "QUALIFY row_number() OVER (PARTITION BY d.case_index, d.label ORDER BY d.score DESC, d.id) = 1 "
        "ORDER BY d.case_index, d.row",
        [document["settings"]["score"]],
    ).to_pylist()
    sizes = np.array([[row["width"], row["height"]] * 2 for row in rows], np.float64).reshape(-1, 4)
    shares = boxes_of(rows) / sizes
    known = [(name, np.array(box if box is not None else [0.0] * 4)) for name, box in boxes.items()]
    return stacked(
        [
            drawn.ellipses(known, "mean position and size of present parts (Fig. 4)"),
            drawn.outlines(shares, [place[row["label"]] for row in rows], f"{len(rows)} hallucinated boxes"),
        ],
        sideways=True,
    )


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
    views = [("as it is", sample.image, likely, box, row["score"])]
    edits = {**context.edits(each), MOVED: context.moved, FLIPPED: context.flipped}
    for name in (COVERED, PATCHED, MOVED, FLIPPED, CONTROL):
        if name in edits:
            picture, places = edits[name], np.stack([likely, box])
            if isinstance(picture, (Moved, Flipped)):
                places = picture.boxes(places, sample.width, sample.height)
            views.append((_TITLES[name], picture.render(), *places, row[f"score_{name}"]))
    return drawn.strip(views, f"{row['label']} ({row['state']}), {sample.id}: {row['cause']}, {row['reason']}")
