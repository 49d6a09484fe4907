"""What is behind one cell of the matrix: its detections and the objects they belong to, or missed objects; worst first.

The worst of a wrong cell is what the detector is surest of, of a right one what fits least, of the missed the largest.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from misdetect.engine.store import Run
from misdetect.nouns.boxes import Floats
from misdetect.nouns.labels import plain_name
from misdetect.said.errors import BadSpec
from misdetect.studies.confusion.rows import MISSED, SUNK

Cell = tuple[str, str]


def read_cell(text: str, labels: Sequence[str]) -> Cell:
    """``ACTUAL,PREDICTED`` as two of ``labels``; the second may also be "missed". Names are compared as classes are."""
    known = {plain_name(name): name for name in reversed(labels)}
    parts = text.split(",")
    for i in range(1, len(parts)):  # a name may have commas of its own
        first, second = (plain_name(",".join(half)) for half in (parts[:i], parts[i:]))
        if first.strip() in known and (second in known or second == MISSED):
            return known[first], known.get(second, MISSED)
    strange = [part for part in parts if plain_name(part) not in known] or [text]
    raise BadSpec(
        f"cell should be ACTUAL,PREDICTED, two of {', '.join(labels[:3])}, … {labels[-1]}, or ACTUAL,missed. "
        f"Got {text!r}, of which {strange[0].strip()!r} is not known."
    )


def largest(weights: Floats, most: int) -> list[tuple[int, int]]:
    """The cells of ``weights`` ``[N, N]`` that are above 0, row and column, those that weigh most first."""
    cells = np.argwhere(weights > 0)
    order = np.lexsort((cells[:, 1], cells[:, 0], -weights[cells[:, 0], cells[:, 1]]))[:most]
    return [(a, b) for a, b in cells[order].tolist()]


def behind(run: Run, cell: Cell, background: str, most: int) -> list[dict[str, Any]]:
    """The first ``most`` entries of ``cell``; ``background`` is what the matrix calls it."""
    actual, predicted = cell
    if predicted == MISSED:
        found = run.query(
            "SELECT image, file, id AS object, [x0, y0, x1, y1] AS box FROM rows "
            "WHERE kind = 'object' AND label = ? AND outcome = 'missed' "
            'ORDER BY (x1 - x0) * (y1 - y0) DESC, case_index, "row" LIMIT ?',
            [actual, most],
        )
    else:
        worst = "d.iou" if actual == predicted != background else f"-d.{SUNK if predicted == background else 'score'}"
        found = run.query(
            "SELECT d.image, d.file, t.id AS object, t.outcome AS object_outcome, CASE WHEN t.id IS NOT NULL "
            "THEN [t.x0, t.y0, t.x1, t.y1] END AS object_box, d.id AS detection, d.label, d.score, d.background, "
            "d.iou, [d.x0, d.y0, d.x1, d.y1] AS box FROM rows d "
            "LEFT JOIN (FROM rows WHERE kind = 'object') t ON t.case_index = d.case_index AND t.id = d.matched "
            "WHERE d.kind = 'detection' AND d.actual = ? AND d.predicted = ? "
            f"ORDER BY {worst}, d.case_index, d.row LIMIT ?",
            [actual, predicted, most],
        )
    return [{name: _rounded(value) for name, value in row.items()} for row in found.to_pylist()]


def _rounded(value: Any) -> Any:
    """A box to a tenth of a pixel, anything else as it is."""
    return [round(side, 1) for side in value] if isinstance(value, list) else value
