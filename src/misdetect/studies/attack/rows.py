"""Rows that only an attack has: how an image was attacked, and the ablations of what is detected on it. Its other rows
are those of ``studies.conditions``; ``ledger`` has all of them in the ledger's columns."""

from dataclasses import replace
from typing import Any

import cv2
import numpy as np

from misdetect.engine.store import Run
from misdetect.metrics.ablation import ABLATIONS, Ablated, ablate, factored
from misdetect.nouns.candidates import Candidates, Dropped, Pairs
from misdetect.nouns.picture import Pixels
from misdetect.studies.climb import Climb
from misdetect.studies.conditions import IMAGE, Rules, Scene, variant_rows

FIRST, REPORTED = "first", ":reported"
"""Variants of detections: R_all with the boxes of a two-stage detector's first stage. With ``REPORTED`` an ablation
looks only where the clean image's detections are reported, for the confusion matrix: what becomes of those that a user
sees. Without, wherever the detector kept anything, for AP."""


def image_row(
    made: Climb | None, total: float | None, adversarial: Pixels, clean: Pixels, pixels: int, keep: bool
) -> dict[str, Any]:
    """How an image was attacked: the losses on the way, the ``total`` loss where it ended, the largest change of a
    colour, the number of ``pixels`` that were allowed to change, and the image as PNG if it is to be kept."""
    change = int(np.abs(adversarial.astype(np.int16) - clean.astype(np.int16)).max(initial=0))
    row: dict[str, Any] = {"kind": IMAGE, "total": total, "change": change, "pixels": pixels}
    if made is not None:
        row |= {"losses": made.losses, "flat": made.flat}
    return row | ({"png": png(adversarial)} if keep else {})


def ablation_rows(scene: Scene, reference: Candidates, inside: Candidates, how: Rules) -> list[dict[str, Any]]:
    """Given the ``inside`` of a detector on an attacked image, and that of a reliable run as ``reference``, the
    detections of every ablation that the detector allows (paper 5's ClsAVal)."""
    made: dict[str, Ablated] = {}
    factors = factored(inside) and factored(reference)
    shown = _reported(reference, how.score)
    for kind in ABLATIONS[1:] if factors else ABLATIONS[1:3]:
        made[kind] = ablate(reference, inside, kind)
        made[kind + REPORTED] = ablate(shown, inside, kind)
    if reference.first is not None and inside.first is not None:
        made[FIRST] = ablate(reference, inside, "r_all", stage=1)
    rows: list[dict[str, Any]] = []
    for name, each in made.items():
        rows += variant_rows(scene, name, each.detections, each.background, each.best)
    return rows


def _reported(inside: Candidates, score: float) -> Candidates:
    """``inside`` as if nothing below ``score`` had been kept."""
    kept = inside.kept
    strong = inside.scores[kept.candidate, kept.label] >= score
    nothing = np.zeros(0, np.int64)
    return replace(
        inside,
        kept=Pairs(kept.candidate[strong], kept.label[strong]),
        dropped=Dropped(nothing, nothing, nothing, nothing),
    )


def png(image: Pixels) -> bytes:
    """``image`` as PNG."""
    done, data = cv2.imencode(".png", np.ascontiguousarray(image[:, :, ::-1]), [cv2.IMWRITE_PNG_COMPRESSION, 1])
    assert done
    return bytes(data)


def pixels_of(data: bytes) -> Pixels:
    """The image of a row's PNG."""
    decoded = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
    return np.ascontiguousarray(np.asarray(decoded, dtype=np.uint8)[:, :, ::-1])


def ledger(run: Run) -> str:
    """Every object on the clean image and under every attack; noise is the control."""
    return """
        SELECT "case", image, id AS object, CASE WHEN condition = 'clean' THEN 'clean' ELSE 'attack' END AS condition,
        condition = 'noise' AS control, label, state, x0, y0, x1, y1,
        CASE WHEN kind = 'ignored' THEN 'ignored' WHEN found THEN 'found' WHEN became IS NOT NULL THEN 'renamed'
        ELSE 'missed' END AS outcome,
        CASE WHEN kind = 'ignored' THEN 'unknown' WHEN condition = 'clean' AND NOT found THEN 'harmful'
        WHEN "right" AND NOT found THEN 'harmful' WHEN NOT "right" AND found THEN 'improvement' ELSE 'harmless'
        END AS harm,
        became, score_before, score, iou, mechanism,
        CASE WHEN condition <> 'clean' THEN CAST(to_json(struct_pack(attack := condition)) AS VARCHAR) END AS evidence
        FROM rows WHERE kind IN ('object', 'ignored')"""
