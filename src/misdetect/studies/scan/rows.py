"""The columns of a scan: one row per position and condition, with lists for the originals and for what is new.

Classes are named as the detector names them. ``objects`` has an entry per original detection (D_∅), so DuckDB's
``unnest`` makes of it one row per object, position and condition; ``new`` has one per detection that continues no
original of its class: T's own, what an original was ``renamed`` to, and what came up by itself.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from misdetect.metrics.harm import RIGHT, UNJUDGED, Standing
from misdetect.metrics.transplant import Comparison
from misdetect.nouns.boxes import sides
from misdetect.studies.columns import box, numbers
from misdetect.studies.scan.truth import Judge, Verdict

OBJECT, NULL = CONDITIONS = ("object", "null")

OBJECT_FIELDS = pa.struct(
    [
        ("label", pa.string()),
        ("score", pa.float64()),
        *box(),
        ("object", pa.int64()),
        ("right", pa.bool_()),
        ("coverage", pa.float64()),
        ("distance", pa.float64()),
        ("outcome", pa.string()),
        ("new_label", pa.string()),
        ("new_score", pa.float64()),
        ("iou", pa.float64()),
        ("score_left", pa.float64()),
        ("flicker", pa.bool_()),
        ("effect", pa.string()),
        ("harm", pa.string()),
        ("fate", pa.string()),
        ("chain", pa.list_(pa.string())),
        ("mechanism", pa.string()),
    ]
)
NEW_FIELDS = pa.struct(
    [
        ("label", pa.string()),
        ("score", pa.float64()),
        *box(),
        ("own", pa.bool_()),
        ("on_parts", pa.bool_()),
        ("renamed", pa.bool_()),
        ("flicker", pa.bool_()),
        ("object", pa.int64()),
        ("effect", pa.string()),
        ("harm", pa.string()),
    ]
)
MEASURES = (
    "score", "agnostic", "least", "least_agnostic", "settled", "settled_least", "scene", "scene_settled", "coverage",
)  # fmt: skip
"""Numbers of a position that are columns under the name they have in ``Comparison``."""

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
        *numbers(*MEASURES),
        ("class_difference", pa.int32()),
        ("before", pa.int32()),
        ("after", pa.int32()),
        ("t_class", pa.string()),
        ("t_detected", pa.bool_()),
        ("t_label", pa.string()),
        ("t_score", pa.float64()),
        ("t_confidence", pa.float64()),
        ("objects", pa.list_(OBJECT_FIELDS)),
        ("new", pa.list_(NEW_FIELDS)),
    ]
)


def position_row(
    compared: Comparison, t_class: str | None, names: Sequence[str], judge: Judge, clean: Standing
) -> dict[str, Any]:
    """What ``compare`` found at one position, as a row; ``clean`` is the standing of the originals."""
    own = np.flatnonzero(compared.own)
    best = int(own[compared.after.scores[own].argmax()]) if own.size else None
    verdict = judge.judge(compared, clean)
    return {
        **{name: getattr(compared, name) for name in MEASURES},
        "class_difference": len(compared.new_classes),
        "before": len(compared.before),
        "after": len(compared.after),
        "t_class": t_class,
        "t_detected": best is not None,
        "t_label": None if best is None else names[compared.after.labels[best]],
        "t_score": None if best is None else float(compared.after.scores[best]),
        "t_confidence": compared.confidence,
        "objects": _objects(compared, names, judge, clean, verdict),
        "new": _new(compared, names, judge, verdict),
    }


def _objects(
    compared: Comparison, names: Sequence[str], judge: Judge, clean: Standing, verdict: Verdict
) -> list[dict[str, Any]]:
    before, what = compared.before, compared.originals
    labels, scores = [names[label] for label in compared.after.labels.tolist()], compared.after.scores.tolist()
    columns = zip(
        before.labels.tolist(),
        before.scores.tolist(),
        before.boxes.tolist(),
        clean.object.tolist(),
        clean.right.tolist(),
        what.coverage.tolist(),
        what.distance.tolist(),
        what.outcome,
        what.partner.tolist(),
        what.iou.tolist(),
        what.score_left.tolist(),
        what.flickers.tolist(),
        verdict.effect.tolist(),
        verdict.harm.tolist(),
        strict=True,
    )
    return [
        {
            "label": names[label],
            "score": score,
            **sides(box),
            "object": judge.id_of(found),
            "right": None if right == UNJUDGED else right == RIGHT,
            "coverage": coverage,
            "distance": distance,
            "outcome": outcome,
            "new_label": None if partner < 0 else labels[partner],
            "new_score": None if partner < 0 else scores[partner],
            "iou": overlap,
            "score_left": left,
            "flicker": flickers,
            "effect": effect,
            "harm": harm,
            "fate": None,
            "chain": None,
            "mechanism": None,
        }
        for (
            label, score, box, found, right, coverage, distance, outcome, partner, overlap, left, flickers, effect, harm
        ) in columns
    ]  # fmt: skip


def _new(compared: Comparison, names: Sequence[str], judge: Judge, verdict: Verdict) -> list[dict[str, Any]]:
    after, successors = compared.after, set(compared.originals.partner.tolist())
    return [
        {
            "label": names[after.labels[i]],
            "score": float(after.scores[i]),
            **sides(after.boxes[i].tolist()),
            "own": bool(compared.own[i]),
            "on_parts": bool(compared.on_parts[i]),
            "renamed": i in successors,
            "flicker": bool(compared.blinks[i]),
            "object": judge.id_of(int(verdict.new_object[i])),
            "effect": verdict.new_effect[i],
            "harm": verdict.new_harm[i],
        }
        for i in np.flatnonzero(compared.new).tolist()
    ]
