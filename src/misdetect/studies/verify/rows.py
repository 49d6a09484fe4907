"""The columns of a verify run, the rows of one image, and all of them in the ledger's columns.

``kind`` says what a row is about: a "part" that is judged, one that is "ignored", a "detection" with the part of its
class, a "hallucination" with what is left of it under each edit, or an "edit" with what it does to present parts.
"""

from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from misdetect.data.dataset import Sample
from misdetect.engine.store import Run
from misdetect.nouns.boxes import Floats, Ints, iou, sides
from misdetect.nouns.detections import Detections
from misdetect.studies.columns import ANNOTATED, box, counts, flags, numbers, texts
from misdetect.studies.verify.settings import VerifySettings
from misdetect.studies.verify.survey import MISSING, PRESENT, groups

PART, IGNORED, DETECTION, HALLUCINATION, EDIT = ("part", "ignored", "detection", "hallucination", "edit")
COVERED, MOVED, FLIPPED, PATCHED, CONTROL = EDITS = ("covered", "moved", "flipped", "patched", "control")
_NUMBERS = ("score", "iou", *(f"score_{edit}" for edit in EDITS), "score_stayed", "score_flip_stayed")
SCHEMA = pa.schema(
    [
        *ANNOTATED,
        *flags("missing"),
        *box(),
        *numbers(*_NUMBERS),
        *texts("cause", "reason"),
        *counts("neighbours"),
        *texts("donor"),
        *counts("dx", "dy"),
        *texts("edit"),
        *counts("before", "kept"),
    ]
)


class Looked:
    """One image and the answer about it: its annotations with their ``labels`` ``[N]`` of the data, which of them are
    ``present`` and ``missing`` ``[N]``, and what was ``found``, its labels the data's (``names``)."""

    def __init__(
        self,
        place: int,
        sample: Sample,
        names: tuple[str, ...],
        to_detector: Ints,
        found: Detections,
        how: VerifySettings,
    ) -> None:
        self.place, self.sample, self.names, self.found, self.how = place, sample, names, found, how
        self.truth = sample.truth
        self.labels = self.truth.labels
        self.groups = np.array(groups(self.truth, to_detector[self.labels] >= 0, how), dtype=object)
        self.present, self.missing = self.groups == PRESENT, self.groups == MISSING

    def own(self) -> dict[str, Any]:
        """The columns that every row of the image has."""
        return {"image": self.sample.id, "width": self.sample.width, "height": self.sample.height}

    def rows(self) -> list[dict[str, Any]]:
        """One row per annotation, and one per detection of a class that the data has."""
        own, truth, states = self.own(), self.truth, self.truth.states or ()
        rows = []
        for i, group in enumerate(self.groups.tolist()):
            counted = group in (PRESENT, MISSING)
            row = {"kind": PART, "missing": group == MISSING} if counted else {"kind": IGNORED, "reason": group}
            about = {"id": int(np.asarray(truth.ids)[i]), "label": self.names[self.labels[i]], "state": states[i]}
            rows.append(own | row | about | sides(truth.boxes[i]))
        rank = np.argsort(-self.found.scores, kind="stable")
        part, overlap = self.partners
        for number, d in enumerate(rank.tolist()):
            row = {"kind": DETECTION, "id": number, "label": self.names[self.found.labels[d]]}
            row |= {"score": float(self.found.scores[d]), **sides(self.found.boxes[d])}
            rows.append(own | row | ({} if part[d] < 0 else {"iou": float(overlap[d])}))
        return rows

    @cached_property
    def partners(self) -> tuple[Ints, Floats]:
        """Of each detection the counted part of its class (-1: none), and its IoU with it."""
        same = (self.found.labels[:, None] == self.labels[None, :]) & (self.present | self.missing)[None, :]
        part = np.where(same.any(axis=1), same.argmax(axis=1) if same.size else 0, -1)
        overlap = iou(self.found.boxes, self.truth.boxes)
        picked = overlap[np.arange(len(part)), part] if overlap.size else np.zeros(len(part))
        return part, np.where(part >= 0, picked, 0.0)


_SCORES = ", ".join(f"{name} := score_{name}" for name in (*EDITS, "stayed", "flip_stayed"))


def ledger(run: Run) -> str:
    """Present parts are found or missed; a missing part is extra where it is hallucinated, else ignored: there is
    nothing to be found. By the IoU thresholds with localisation."""
    how = VerifySettings.of(run.settings)
    box, part = "t.x0, t.y0, t.x1, t.y1", 't."case", t.image, t.id AS object, t.label, t.state'
    edits = "\nUNION ALL BY NAME\n".join(
        f"""SELECT {part}, {box}, '{edit}' AS condition, {str(edit == "control").lower()} AS control,
        CASE WHEN t.score_{edit} >= {how.score} THEN 'extra' ELSE 'ignored' END AS outcome,
        CASE WHEN t.score_{edit} >= {how.score} THEN 'harmful' ELSE 'improvement' END AS harm,
        t.score AS score_before, t.score_{edit} AS score
        FROM rows t WHERE t.kind = 'hallucination' AND t.score_{edit} IS NOT NULL"""
        for edit in EDITS
    )
    return f"""
        SELECT {part}, {box}, 'clean' AS condition, false AS control,
        CASE WHEN t.kind = 'ignored' THEN 'ignored' WHEN t.missing AND d.score IS NULL THEN 'ignored'
        WHEN t.missing THEN 'extra' WHEN d.score IS NULL THEN 'missed' ELSE 'found' END AS outcome,
        CASE WHEN t.kind = 'ignored' THEN 'unknown' WHEN t.missing <> (d.score IS NULL) THEN 'harmful' ELSE 'harmless'
        END AS harm, d.score AS score, d.iou AS iou, h.cause AS mechanism, coalesce(h.reason, t.reason) AS reason,
        h.evidence AS evidence
        FROM rows t LEFT JOIN (
            SELECT p.case_index, p.label, max(d.score) AS score, arg_max(d.iou, d.score) AS iou
            FROM rows p JOIN rows d ON p.case_index = d.case_index AND p.label = d.label AND d.kind = 'detection'
            WHERE p.kind = 'part' AND d.score >= {how.score} AND d.iou >= CASE WHEN p.missing THEN {how.missing_iou}
            ELSE {how.present_iou} END GROUP BY ALL
        ) d ON t.kind = 'part' AND t.case_index = d.case_index AND t.label = d.label
        LEFT JOIN (
            SELECT case_index, id, cause, reason, CAST(to_json(struct_pack({_SCORES})) AS VARCHAR) AS evidence
            FROM rows WHERE kind = 'hallucination'
        ) h ON t.kind = 'part' AND t.case_index = h.case_index AND t.id = h.id
        WHERE t.kind IN ('part', 'ignored')
        UNION ALL BY NAME
        {edits}"""
