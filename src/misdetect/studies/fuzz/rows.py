"""The rows of a campaign: one per background, insertion, relocation and shrunk case, in one schema.

A row holds everything that planning goes by, so that a resumed campaign plans the same, and everything that is needed
to draw and replay the case.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from misdetect.detections import Detections
from misdetect.metrics.metamorphic import Change

CLEAN, INSERTION, RELOCATION, SHRINKING = PHASES = ("clean", "insertion", "relocation", "shrinking")
BOX = ("x0", "y0", "x1", "y1")
_box = [(name, pa.float64()) for name in BOX]
WATCH = 0.1
"""Detections on the background are remembered from this score on (or the campaign's own threshold less the margin)."""

_detections = pa.list_(pa.struct([*_box, ("score", pa.float64()), ("label", pa.int32())]))
SCHEMA = pa.schema(
    [
        ("phase", pa.string()),
        ("image", pa.int32()),
        ("background", pa.string()),
        ("queries", pa.int32()),
        # of a background
        ("detections", _detections),
        (
            "offers",
            pa.list_(pa.struct([(name, pa.int32()) for name in ("cutout", "width", "height", "level", "label")])),
        ),
        ("differs", pa.bool_()),
        ("noise", pa.bool_()),
        # of an edit
        ("cutout", pa.int32()),
        ("label", pa.string()),
        ("source", pa.string()),
        *((name, pa.int32()) for name in ("x", "y", "width", "height")),
        ("opacity", pa.float64()),
        ("target", pa.int32()),
        ("level", pa.int32()),
        ("origin", pa.int64()),
        ("progress", pa.float64()),
        ("strength", pa.float64()),
        ("naturalness", pa.float64()),
        # what came of it
        ("failed", pa.bool_()),
        ("flicker", pa.bool_()),
        ("null_failed", pa.bool_()),
        ("attributable", pa.bool_()),
        ("standing", pa.list_(pa.float64())),
        ("found", _detections),  # on the synthetic image, where it fails
        (
            "changes",
            pa.list_(
                pa.struct(
                    [
                        ("type", pa.string()),
                        ("thing", pa.int32()),
                        ("label", pa.int32()),
                        ("became", pa.int32()),
                        *_box,
                        ("score", pa.float64()),
                        ("after", pa.float64()),
                        ("flickers", pa.bool_()),
                        ("counts", pa.bool_()),
                        ("null", pa.bool_()),
                        ("attributable", pa.bool_()),
                    ]
                )
            ),
        ),
    ]
)


@dataclass(frozen=True)
class Insertion:
    """An object of the pool on a background: ``image`` and ``cutout`` are indices, ``at`` left and top and ``size``
    width and height in pixels; ``target`` is the detection it was put beside (-1: none), ``level`` of reach."""

    image: int
    cutout: int
    at: tuple[int, int]
    size: tuple[int, int]
    target: int = -1
    level: int = 0
    opacity: float = 1.0

    @property
    def box(self) -> tuple[int, int, int, int]:
        """x0, y0, x1, y1 in pixels."""
        return *self.at, self.at[0] + self.size[0], self.at[1] + self.size[1]

    def columns(self) -> dict[str, Any]:
        """As columns of a row."""
        (x, y), (width, height) = self.at, self.size
        own = {"image": self.image, "cutout": self.cutout, "x": x, "y": y, "width": width, "height": height}
        return own | {"target": self.target, "level": self.level, "opacity": self.opacity}

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> "Insertion":
        """From the columns of a row."""
        at, size = (row["x"], row["y"]), (row["width"], row["height"])
        return cls(row["image"], row["cutout"], at, size, row["target"], row["level"], row["opacity"])


def detections_of(found: Sequence[Mapping[str, Any]]) -> Detections:
    """The detections that a row keeps as ``found``."""
    return Detections(
        np.array([[d[name] for name in BOX] for d in found], dtype=np.float64).reshape(-1, 4),
        np.array([d["score"] for d in found], dtype=np.float64),
        np.array([d["label"] for d in found], dtype=np.int64),
    )


def detection_records(found: Detections) -> list[dict[str, Any]]:
    """``found`` as the list that a row keeps."""
    return [
        {**dict(zip(BOX, box, strict=True)), "score": score, "label": label}
        for box, score, label in zip(found.boxes.tolist(), found.scores.tolist(), found.labels.tolist(), strict=True)
    ]


def change_records(
    changes: Sequence[Change], null: Sequence[Change] | None, again: Sequence[Change] | None = None
) -> list[dict[str, Any]]:
    """``changes`` as a row keeps them. ``null``: what the null control changed (``None``: it was not asked); ``again``:
    what the same question changed when it was asked a second time."""
    records = []
    for change in changes:
        record = asdict(change)
        record |= zip(BOX, record.pop("box"), strict=True)
        shared = None if null is None else any(change.same_as(other) for other in null)
        repeats = again is None or any(change.same_as(other) for other in again)
        real = change.counts and not change.flickers and shared is False and repeats
        records.append({**record, "null": shared, "attributable": real})
    return records


def change_of(record: Mapping[str, Any]) -> Change:
    """The change that a row's record stands for."""
    x0, y0, x1, y1 = (record[name] for name in BOX)
    rest = {name: record[name] for name in ("type", "thing", "label", "became", "score", "after", "flickers", "counts")}
    return Change(box=(x0, y0, x1, y1), **rest)
