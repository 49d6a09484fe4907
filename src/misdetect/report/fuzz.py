"""Failing cases as pictures: the background and the synthetic image side by side, each with what was detected on it.

What was inserted has a white frame, what changed a thick yellow one, both edged in black and outside the boxes of the
detections, which have the colours of their classes. The lines of text above say so.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from misdetect.boxes import Floats
from misdetect.detections import Detections
from misdetect.picture import Pixels
from misdetect.report import figures
from misdetect.studies.fuzz.failures import counted
from misdetect.studies.fuzz.results import Campaign, Distinct
from misdetect.studies.fuzz.rows import BOX, Insertion, detections_of
from misdetect.studies.fuzz.study import FuzzStudy

_YELLOW, _WHITE, _BLACK = (255, 225, 0), (255, 255, 255), (0, 0, 0)
_LEAST = 384
"""Pixels of the shorter side; captions on a smaller picture would cover it."""
_NAMED = 3
"""Changes named in the title; the rest is counted."""


def draw_failures(
    folder: Path, study: FuzzStudy, campaign: Campaign, failures: Iterable[Distinct], most: int
) -> list[Path]:
    """A picture of each of the first ``most`` cases that show ``failures`` best, in ``folder``, named by the case."""
    clean = {row["image"]: row for row in campaign.clean}
    rows = {row["case_index"]: row for row in campaign.asked}
    chosen = list(dict.fromkeys(failure.index for failure in failures))[:most]
    written = []
    for row in (rows[index] for index in chosen):
        before, after = detections_of(clean[row["image"]]["detections"]), detections_of(row["found"])
        changes = counted(row, campaign.fuzzing.count_flicker)
        image = side_by_side(study, Insertion.of_row(row), before, after, changes, f"{row['case']}: ")
        written.append(figures.save_png(folder / f"{row['case'].replace('/', '-')}.png", image))
    return written


def side_by_side(
    study: FuzzStudy,
    insertion: Insertion,
    before: Detections,
    after: Detections,
    changes: Sequence[Mapping[str, Any]],
    title: str = "",
) -> Pixels:
    """Background and synthetic image with their detections, the inserted object and ``changes`` (a row's records)."""
    parts = []
    pixels = (study.sample(insertion.image).image, study.picture(insertion).render())
    said = ("background", f"with the inserted {study.pool[insertion.cutout].label} (white)")
    for number, (picture, found) in enumerate(zip(pixels, (before, after), strict=True)):
        large, factor = figures.enlarged(picture, _LEAST)
        if number:
            _mark(large, np.array(insertion.box) * factor, _WHITE, 2)
        for change in changes:
            _mark(large, np.array([change[name] for name in BOX]) * factor, _YELLOW, 3)
        parts.append(figures.titled(_with_detections(study, large, factor, found), said[number]))
    return figures.titled(figures.stacked(parts, sideways=True), title + _told(study, changes))


def _with_detections(study: FuzzStudy, image: Pixels, factor: float, found: Detections) -> Pixels:
    shown = found.above(study.fuzzing.oracle.score)
    captions = [
        f"{study.names[label]} {score:.2f}"
        for label, score in zip(shown.labels.tolist(), shown.scores.tolist(), strict=True)
    ]
    return figures.with_boxes(image, shown.boxes * factor, captions, shown.labels.tolist())


def _mark(image: Pixels, box: Floats, paint: tuple[int, int, int], wide: int) -> None:
    """A frame of ``paint`` with a black edge just outside ``box``, pulled inside the image where it would leave it."""
    height, width = image.shape[:2]
    low, high = np.maximum(box[:2] - 2 - wide, 3), np.minimum(box[2:] + 2 + wide, [width - 4, height - 4])
    for colour, thickness in ((_BLACK, wide + 3), (paint, wide)):
        figures.frame(image, np.concatenate([low, high]), colour, thickness)


def _told(study: FuzzStudy, changes: Sequence[Mapping[str, Any]]) -> str:
    """The ``changes`` in a line."""
    said = []
    for change in changes[:_NAMED]:
        became = f" as {study.names[change['became']]}" if change["became"] >= 0 else ""
        name = study.names[change["label"]]
        said.append(f"{change['type']} {name}{became} {change['score']:.2f} -> {change['after']:.2f}")
    if len(changes) > _NAMED:
        said.append(f"{len(changes) - _NAMED} more")
    return f"{', '.join(said)} (yellow)" if said else "nothing changes"
