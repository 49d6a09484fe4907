"""What is behind one cell of the matrix: its detections and the objects they belong to, or missed objects; worst first.

The worst of a wrong cell is what the detector is surest of, of a right one what fits least, of the missed the largest.
"""

from collections.abc import Sequence
from typing import Any

from misdetect.engine.store import Run
from misdetect.nouns.boxes import SIDES
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


def behind(run: Run, cell: Cell, background: str, most: int) -> list[dict[str, Any]]:
    """The first ``most`` entries of ``cell``; ``background`` is what the matrix calls it."""
    actual, predicted = cell
    if predicted == MISSED:
        rows = run.query(
            "SELECT * FROM rows WHERE kind = 'object' AND label = ? AND outcome = 'missed' "
            'ORDER BY (x1 - x0) * (y1 - y0) DESC, case_index, "row" LIMIT ?',
            [actual, most],
        ).to_pylist()
        return [{**_place(row), "object": row["id"], "box": _box(row)} for row in rows]
    worst = "d.iou" if actual == predicted != background else f"-d.{SUNK if predicted == background else 'score'}"
    objects = ", ".join(f"t.{side} AS object_{side}" for side in SIDES)
    rows = run.query(
        f"SELECT d.*, t.id AS object, t.outcome AS object_outcome, {objects} FROM rows d "
        "LEFT JOIN (FROM rows WHERE kind = 'object') t ON t.case_index = d.case_index AND t.id = d.matched "
        "WHERE d.kind = 'detection' AND d.actual = ? AND d.predicted = ? "
        f"ORDER BY {worst}, d.case_index, d.row LIMIT ?",
        [actual, predicted, most],
    ).to_pylist()
    return [
        {
            **_place(row),
            "object": row["object"],
            "object_outcome": row["object_outcome"],
            "object_box": None if row["object"] is None else _box(row, "object_"),
            "detection": row["id"],
            "label": row["label"],
            "score": row["score"],
            "background": row["background"],
            "iou": row["iou"],
            "box": _box(row),
        }
        for row in rows
    ]


def _place(row: dict[str, Any]) -> dict[str, Any]:
    return {"image": row["image"], "file": row["file"]}


def _box(row: dict[str, Any], prefix: str = "") -> list[float]:
    return [round(row[prefix + side], 1) for side in SIDES]
