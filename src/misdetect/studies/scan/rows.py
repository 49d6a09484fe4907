"""The rows of a scan: one per position and condition, with lists for the originals and for what is new; as a SELECT,
one row per original, position and condition for the ledger.

Classes are named as the detector names them. ``objects`` has an entry per original detection (D_∅), so DuckDB's
``unnest`` makes of it one row per object, position and condition; ``new`` has one per detection that continues no
original of its class: T's own, what an original was ``renamed`` to, and what came up by itself.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from misdetect.engine.store import Run
from misdetect.metrics.harm import RIGHT, UNJUDGED, Standing
from misdetect.metrics.transplant import Comparison
from misdetect.nouns.boxes import SIDES, sides
from misdetect.studies.columns import box, counts, flags, numbers, texts
from misdetect.studies.scan.truth import Judge, Verdict

OBJECT, CONTROL = CONDITIONS = ("object", "control")

OBJECT_FIELDS = pa.struct(
    [
        *texts("label"),
        *numbers("score"),
        *box(),
        ("object", pa.int64()),
        *flags("right"),
        *numbers("coverage", "distance"),
        *texts("outcome", "new_label"),
        *numbers("new_score", "iou", "score_left"),
        *flags("flicker"),
        *texts("effect", "harm", "fate"),
        ("chain", pa.list_(pa.string())),
        *texts("mechanism"),
    ]
)
NEW_FIELDS = pa.struct(
    [
        *texts("label"),
        *numbers("score"),
        *box(),
        *flags("own", "on_parts", "renamed", "flicker"),
        ("object", pa.int64()),
        *texts("effect", "harm"),
    ]
)
MEASURES = (
    "score", "agnostic", "least", "least_agnostic", "settled", "settled_least", "scene", "scene_settled", "coverage",
)  # fmt: skip
"""Numbers of a position that are columns under the name they have in ``Comparison``."""

SCHEMA = pa.schema(
    [
        *counts("pair"),
        *texts("condition", "background", "source"),
        ("annotation", pa.int64()),
        *counts("width", "height", "x", "y"),
        *numbers("weight", *MEASURES),
        *counts("class_difference", "before", "after"),
        *texts("t_class"),
        *flags("t_detected"),
        *texts("t_label"),
        *numbers("t_score", "t_confidence"),
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
    before, what, partners = compared.before, compared.originals, compared.originals.partner.tolist()
    labels, scores = [names[label] for label in compared.after.labels.tolist()], compared.after.scores.tolist()
    columns: dict[str, Iterable[Any]] = {
        "label": (names[label] for label in before.labels.tolist()),
        "score": before.scores.tolist(),
        **dict(zip(SIDES, before.boxes.T.tolist(), strict=True)),
        "object": map(judge.id_of, clean.object.tolist()),
        "right": (None if right == UNJUDGED else right == RIGHT for right in clean.right.tolist()),
        "coverage": what.coverage.tolist(),
        "distance": what.distance.tolist(),
        "outcome": what.outcome,
        "new_label": (None if partner < 0 else labels[partner] for partner in partners),
        "new_score": (None if partner < 0 else scores[partner] for partner in partners),
        "iou": what.iou.tolist(),
        "score_left": what.score_left.tolist(),
        "flicker": what.flickers.tolist(),
        "effect": verdict.effect.tolist(),
        "harm": verdict.harm.tolist(),
    }
    unexplained = dict.fromkeys(("fate", "chain", "mechanism"))  # until somebody looks inside
    return [dict(zip(columns, row, strict=True)) | unexplained for row in zip(*columns.values(), strict=True)]


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


_POSITION = """r.case_index, r.row, r."case", r.background AS image, 'transplant' AS condition,
    r.condition = 'control' AS control, r.weight, r.x, r.y"""
_CONTROLLED = """rows AS r LEFT JOIN (SELECT pair, x, y, objects, new FROM rows WHERE condition = 'control') AS c
    ON r.pair = c.pair AND r.x = c.x AND r.y = c.y"""


def ledger(run: Run) -> str:
    """Every original at every position, and what came up by itself there. A change is attributable to the object if it
    does not flicker and the control, at the same place, leaves the same original as it is (or brings up nothing
    of the same class); null where no control was scanned."""
    common = '"case", image, condition, control, weight, case_index, row, place'
    return f"""
        SELECT {common}, o.object AS object, o.label AS label, o.x0 AS x0, o.y0 AS y0, o.x1 AS x1, o.y1 AS y1,
        CASE o.outcome WHEN 'kept' THEN 'found' WHEN 'lost' THEN 'missed' ELSE o.outcome END AS outcome,
        CASE WHEN o.outcome = 'kept' THEN 'harmless' ELSE o.harm END AS harm,
        CASE WHEN o.outcome = 'renamed' THEN o.new_label END AS became, o.score AS score_before,
        coalesce(o.new_score, o.score_left) AS score, o.iou AS iou, o.flicker AS flicker,
        CASE WHEN control THEN NULL WHEN o.outcome = 'kept' OR o.flicker THEN false ELSE u.outcome = 'kept' END
        AS attributable, o.mechanism AS mechanism, o.fate AS reason,
        CAST(to_json(struct_pack(x := x, y := y, coverage := o.coverage, distance := o.distance, chain := o.chain))
        AS VARCHAR) AS evidence
        FROM (SELECT {_POSITION}, unnest(r.objects) AS o, unnest(c.objects) AS u,
        generate_subscripts(r.objects, 1) AS place FROM {_CONTROLLED})
        UNION ALL BY NAME
        SELECT {common}, n.object AS object, n.label AS label, n.x0 AS x0, n.y0 AS y0, n.x1 AS x1, n.y1 AS y1,
        'extra' AS outcome, n.harm AS harm, n.score AS score, n.flicker AS flicker,
        CASE WHEN control THEN NULL WHEN n.flicker THEN false ELSE NOT list_contains(others, n.label) END
        AS attributable, CAST(to_json(struct_pack(x := x, y := y, on_parts := n.on_parts)) AS VARCHAR) AS evidence
        FROM (SELECT {_POSITION}, unnest(r.new) AS n, [m.label FOR m IN c.new IF NOT m.own] AS others,
        generate_subscripts(r.new, 1) AS place FROM {_CONTROLLED}) WHERE NOT n.own AND NOT n.renamed
        ORDER BY case_index, row, outcome = 'extra', place"""
