"""Failing cases as pictures: the background and the synthetic image side by side, each with what was detected on it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from misdetect.detections import Detections
from misdetect.picture import Pixels
from misdetect.report import figures
from misdetect.studies.fuzz.results import Campaign, Distinct
from misdetect.studies.fuzz.rows import BOX, Insertion, detections_of
from misdetect.studies.fuzz.study import FuzzStudy

_RED, _WHITE = (214, 39, 40), (255, 255, 255)


def draw_failures(folder: Path, study: FuzzStudy, campaign: Campaign, failures: Sequence[Distinct]) -> list[Path]:
    """A picture of each of ``failures`` in ``folder``, named by its case."""
    clean = {row["image"]: row for row in campaign.clean}
    rows = {row["case_index"]: row for row in campaign.asked}
    written = []
    for failure in failures:
        before = detections_of(clean[failure.key[0]]["detections"])
        after = detections_of(rows[failure.index]["found"])
        image = side_by_side(study, failure.insertion, before, after, failure.change)
        title = f"{failure.case}: {failure.key[1]} {study.names[failure.change['label']]}"
        name = f"{failure.case.replace('/', '-')}-{failure.key[1]}.png"
        written.append(figures.save_png(folder / name, figures.titled(image, title)))
    return written


def side_by_side(
    study: FuzzStudy, insertion: Insertion, before: Detections, after: Detections, change: Any = None
) -> Pixels:
    """Background and synthetic image with their detections; the inserted object framed white, the ``change`` red."""
    parts = []
    score = study.fuzzing.oracle.score
    pixels = (study.data[insertion.image].image, study.picture(insertion).render())
    for picture, found, text in zip(pixels, (before, after), ("background", "with the object"), strict=True):
        large, factor = figures.enlarged(picture)
        shown = found.above(score)
        captions = [
            f"{study.names[label]} {s:.2f}"
            for label, s in zip(shown.labels.tolist(), shown.scores.tolist(), strict=True)
        ]
        drawn = figures.with_boxes(large, shown.boxes * factor, captions, shown.labels.tolist())
        if text != "background":
            figures.frame(drawn, np.array(insertion.box) * factor, _WHITE, 1)
        if change is not None:
            figures.frame(drawn, np.array([change[name] for name in BOX]) * factor, _RED, 3)
        parts.append(figures.titled(drawn, text))
    return figures.stacked(parts, sideways=True)
