"""Failing cases as pictures: the background and the synthetic image side by side, each with what was detected on it.

What was inserted has a white frame, what changed a thick yellow one, both edged in black and outside the boxes of the
detections, which have the colours of their classes. The lines of text above say so. The paper's tables are a page.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from misdetect.data.dataset import Dataset
from misdetect.drawing import figures
from misdetect.drawing.larger import shown
from misdetect.engine.store import Run
from misdetect.kept.files import write_atomically
from misdetect.nouns.boxes import Floats, boxes_of
from misdetect.nouns.detections import Detections
from misdetect.nouns.picture import Picture, Pixels
from misdetect.studies.contract import Figures
from misdetect.studies.documents import read_document
from misdetect.studies.fuzz.campaign import rebuild
from misdetect.studies.fuzz.failures import counted
from misdetect.studies.fuzz.results import Campaign
from misdetect.studies.fuzz.rows import Insertion
from misdetect.studies.fuzz.tables import page
from misdetect.studies.fuzz.workbench import Workbench

TABLES = "tables.md"
_YELLOW, _WHITE, _BLACK = (255, 225, 0), (255, 255, 255), (0, 0, 0)
_NAMED = 3
"""Changes named in the title; the rest is counted."""


def draw(run: Run, data: Dataset, most: int) -> list[Path]:
    """A picture of each of the ``most`` worst failures of ``run``, named by the case that shows it best, and a page
    with the paper's tables."""
    if not most:
        return []
    campaign = Campaign.of(run)
    clean = {row["image"]: row for row in campaign.clean}
    shown = list({failure.row["case"]: failure.row for failure in campaign.distinct}.values())[:most]
    written = []
    if shown:
        bench = rebuild(run, data).bench
        for row in shown:
            before = bench.classes.detections(clean[row["image"]]["detections"])
            after = bench.classes.detections(row["found"])
            image = _side_by_side(bench, row, before, after, counted(row, campaign.how.count_flicker))
            written.append(figures.save_png(run.path / "images" / f"{row['case'].replace('/', '-')}.png", image))
    write_atomically(run.path / TABLES, page(read_document(run)).encode())
    return [*written, run.path / TABLES]


def _side_by_side(
    bench: Workbench,
    row: Mapping[str, Any],
    before: Detections,
    after: Detections,
    changes: Sequence[Mapping[str, Any]],
) -> Pixels:
    """Background and synthetic image with their detections, the inserted object and ``changes`` (a row's records)."""
    insertion = Insertion.of_row(row)
    parts = []
    pictures: tuple[Picture, ...] = (bench.sample(insertion.image), bench.picture(insertion))
    said = ("background", f"with the inserted {row['label']} (white)")
    for number, (picture, found) in enumerate(zip(pictures, (before, after), strict=True)):
        large, factor = shown(picture)
        if number:
            _mark(large, np.array(insertion.box) * factor, _WHITE, 2)
        for box in boxes_of(changes) * factor:
            _mark(large, box, _YELLOW, 3)
        parts.append(figures.titled(_with_detections(bench, large, factor, found), said[number]))
    return figures.titled(figures.stacked(parts, sideways=True), f"{row['case']}: {_told(changes)}")


def _with_detections(bench: Workbench, image: Pixels, factor: float, found: Detections) -> Pixels:
    shown = found.above(bench.how.score)
    labels, scores = shown.labels.tolist(), shown.scores.tolist()
    captions = [f"{bench.classes.name(label)} {score:.2f}" for label, score in zip(labels, scores, strict=True)]
    return figures.with_boxes(image, shown.boxes * factor, captions, labels)


def _mark(image: Pixels, box: Floats, paint: tuple[int, int, int], wide: int) -> None:
    """A frame of ``paint`` with a black edge just outside ``box``, pulled inside the image where it would leave it."""
    height, width = image.shape[:2]
    low, high = np.maximum(box[:2] - 2 - wide, 3), np.minimum(box[2:] + 2 + wide, [width - 4, height - 4])
    for colour, thickness in ((_BLACK, wide + 3), (paint, wide)):
        figures.frame(image, np.concatenate([low, high]), colour, thickness)


def _told(changes: Sequence[Mapping[str, Any]]) -> str:
    """The ``changes`` in a line."""
    said = []
    for change in changes[:_NAMED]:
        became = f" as {change['became']}" if change["became"] else ""
        meant = f" ({change['effect']})" if change["effect"] else ""
        said.append(f"{change['type']} {change['label']}{became} {change['score']:.2f} -> {change['after']:.2f}{meant}")
    if len(changes) > _NAMED:
        said.append(f"{len(changes) - _NAMED} more")
    return f"{', '.join(said)} (yellow)" if said else "nothing changes"


FIGURES = Figures(draw, live=("*",))
