"""The columns of a scan: one row per position and condition, with lists for the originals and for what is new.

Labels are the detector's. ``objects`` has an entry per original detection (D_∅), so DuckDB's ``unnest`` makes of it one
row per object, position and condition; ``new`` has one per detection that continues no original, T's own among them.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from misdetect.metrics.transplant import Comparison

BOX = ("x0", "y0", "x1", "y1")
_BOX = [(name, pa.float64()) for name in BOX]

OBJECT_FIELDS = pa.struct(
    [
        ("label", pa.int32()),
        ("score", pa.float64()),
        *_BOX,
        ("coverage", pa.float64()),
        ("distance", pa.float64()),
        ("outcome", pa.string()),
        ("new_label", pa.int32()),
        ("new_score", pa.float64()),
        ("iou", pa.float64()),
        ("residue", pa.float64()),
        ("flicker", pa.bool_()),
        ("fate", pa.string()),
        ("chain", pa.list_(pa.string())),
        ("mechanism", pa.string()),
    ]
)
NEW_FIELDS = pa.struct([("label", pa.int32()), ("score", pa.float64()), *_BOX, ("own", pa.bool_())])

SCHEMA = pa.schema(
    [
        ("pair", pa.int32()),
        ("condition", pa.string()),
        ("background", pa.string()),
        ("source", pa.string()),
        ("annotation", pa.int64()),
        ("width", pa.int32()),
        ("height", pa.int32()),
        ("x", pa.int32()),
        ("y", pa.int32()),
        ("weight", pa.float64()),
        ("score", pa.float64()),
        ("agnostic", pa.float64()),
        ("least", pa.float64()),
        ("least_agnostic", pa.float64()),
        ("settled", pa.float64()),
        ("settled_least", pa.float64()),
        ("coverage", pa.float64()),
        ("class_difference", pa.int32()),
        ("before", pa.int32()),
        ("after", pa.int32()),
        ("t_class", pa.int32()),
        ("t_detected", pa.bool_()),
        ("t_label", pa.int32()),
        ("t_score", pa.float64()),
        ("t_confidence", pa.float64()),
        ("objects", pa.list_(OBJECT_FIELDS)),
        ("new", pa.list_(NEW_FIELDS)),
    ]
)


def position_row(compared: Comparison, t_class: int) -> dict[str, Any]:
    """What ``compare`` found at one position, as a row."""
    own = np.flatnonzero(compared.own)
    best = int(own[compared.after.scores[own].argmax()]) if own.size else None
    return {
        "score": compared.score,
        "agnostic": compared.agnostic,
        "least": compared.least,
        "least_agnostic": compared.least_agnostic,
        "settled": compared.settled,
        "settled_least": compared.settled_least,
        "coverage": compared.coverage,
        "class_difference": len(compared.new_classes),
        "before": len(compared.before),
        "after": len(compared.after),
        "t_class": t_class if t_class >= 0 else None,
        "t_detected": best is not None,
        "t_label": None if best is None else int(compared.after.labels[best]),
        "t_score": None if best is None else float(compared.after.scores[best]),
        "t_confidence": compared.confidence,
        "objects": _objects(compared),
        "new": _new(compared),
    }


def _objects(compared: Comparison) -> list[dict[str, Any]]:
    before, after, what = compared.before, compared.after, compared.originals
    columns = zip(
        before.labels.tolist(),
        before.scores.tolist(),
        before.boxes.tolist(),
        what.coverage.tolist(),
        what.distance.tolist(),
        what.outcome,
        what.partner.tolist(),
        what.iou.tolist(),
        what.residue.tolist(),
        what.flickers.tolist(),
        strict=True,
    )
    labels, scores = after.labels.tolist(), after.scores.tolist()
    return [
        {
            "label": label,
            "score": score,
            **dict(zip(BOX, box, strict=True)),
            "coverage": coverage,
            "distance": distance,
            "outcome": outcome,
            "new_label": None if partner < 0 else labels[partner],
            "new_score": None if partner < 0 else scores[partner],
            "iou": overlap,
            "residue": residue,
            "flicker": flickers,
            "fate": None,
            "chain": None,
            "mechanism": None,
        }
        for label, score, box, coverage, distance, outcome, partner, overlap, residue, flickers in columns
    ]


def _new(compared: Comparison) -> list[dict[str, Any]]:
    after = compared.after
    return [
        {
            "label": int(after.labels[i]),
            "score": float(after.scores[i]),
            **dict(zip(BOX, after.boxes[i].tolist(), strict=True)),
            "own": bool(compared.own[i]),
        }
        for i in np.flatnonzero(compared.new)
    ]
