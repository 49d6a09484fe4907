"""The columns of a verify run, and the rows of one image.

``kind`` says what a row is about: a "part" that is judged, one that is "ignored", a "detection" with the part of its
class, a "hallucination" with what is left of it under each edit, or an "edit" with what it does to present parts.
"""

from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from misdetect.data.dataset import Sample
from misdetect.nouns.boxes import Floats, Ints, iou, sides
from misdetect.nouns.detections import Detections
from misdetect.studies.columns import ANNOTATED, box, numbers
from misdetect.studies.verify.settings import VerifySettings
from misdetect.studies.verify.survey import MISSING, PRESENT, groups

PART, IGNORED, DETECTION, HALLUCINATION, EDIT = ("part", "ignored", "detection", "hallucination", "edit")
COVERED, MOVED, FLIPPED, PATCHED, CONTROL = EDITS = ("covered", "moved", "flipped", "patched", "control")
_NUMBERS = ("score", "iou", *(f"score_{edit}" for edit in EDITS), "score_stayed", "score_flip_stayed")
SCHEMA = pa.schema(
    [
        *ANNOTATED,
        ("missing", pa.bool_()),
        *box(),
        *numbers(*_NUMBERS),
        ("cause", pa.string()),
        ("reason", pa.string()),
        ("neighbours", pa.int32()),
        ("donor", pa.string()),
        ("dx", pa.int32()),
        ("dy", pa.int32()),
        ("edit", pa.string()),
        ("before", pa.int32()),
        ("kept", pa.int32()),
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
