"""The columns of an explain run, the rows of one image, and what of them is in the ledger.

``kind`` says what a row is about: an "object" that should be found, a "detection" that was reported, a suspicious
"region" without a detection, or something "ignored" (a crowd, an absent part, a class that the detector does not
know). Every annotation and every reported detection is in exactly one row. Labels are names.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from misdetect.data.dataset import Sample
from misdetect.engine.store import Run
from misdetect.metrics import tide
from misdetect.metrics.columns import DetectionColumns, TruthColumns
from misdetect.metrics.diagnosis import Diagnosis, diagnose
from misdetect.metrics.mechanisms import MECHANISMS, missed
from misdetect.metrics.slices import attributes
from misdetect.nouns.boxes import SIDES, Bools, Floats, Ints, iou, sides
from misdetect.nouns.candidates import Candidates
from misdetect.nouns.detections import Detections, Truth
from misdetect.studies.columns import ANNOTATED, box, numbers
from misdetect.studies.explain import outside
from misdetect.studies.explain.regions import Regions, objectness_of
from misdetect.studies.explain.settings import ExplainSettings

OBJECT, DETECTION, REGION, IGNORED = KINDS = ("object", "detection", "region", "ignored")
TIDE_TYPES = ("Miss", "Cls", "Loc", "Both")
"""The TIDE type of a miss: that of the best-scored error about it; see docs/definitions/explain.md."""
SWEEP = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
"""Scores at which ``best_iou`` is taken: that of a detection of the object's class with that score or more."""
SLICES = ("crowding", "occlusion", "truncation", "aspect", "brightness")
Row = dict[str, Any]


SCHEMA = pa.schema(
    [
        *ANNOTATED,
        *box(),
        ("score", pa.float64()),
        ("found", pa.bool_()),
        ("mechanism", pa.string()),
        ("reason", pa.string()),
        ("tide", pa.string()),
        ("matched", pa.int64()),
        ("matched_iou", pa.float64()),
        ("candidate", pa.int64()),
        ("pyramid", pa.int32()),
        ("localised", pa.int32()),
        *numbers("proposal_iou", "refined_iou", "best_proposal_iou", "best_refined_iou", "moved", "own_score"),
        ("rival", pa.string()),
        *numbers("rival_score", "background", "objectness", "first_iou", "first_score"),
        ("top_labels", pa.list_(pa.string())),
        ("top_scores", pa.list_(pa.float64())),
        *box("proposal_"),
        *box("refined_"),
        ("suppressor_label", pa.string()),
        *numbers("suppressor_score", "suppressor_iou"),
        ("suppressor_object", pa.int64()),
        *box("suppressor_"),
        *numbers("area", *SLICES),
        ("best_iou", pa.list_(pa.float64())),
    ]
)


@dataclass(frozen=True, eq=False)
class Seen:
    """One image and the answer about it: ``labels`` ``[T]`` of the detector for its truth (-1: not one of its classes,
    called ``names``; ``data_names`` are the data's), ``everything`` that was detected at whatever score, which of it is
    of a class that the data has (``known`` ``[D]``), where it can be seen the ``inside``, and ``how`` it is judged."""

    sample: Sample
    labels: Ints
    names: Sequence[str]
    data_names: Sequence[str]
    everything: Detections
    known: Bools
    inside: Candidates | None
    how: ExplainSettings

    @cached_property
    def truth(self) -> Truth:
        """All annotations."""
        return self.sample.truth

    @cached_property
    def ignored_for(self) -> "np.ndarray[Any, np.dtype[np.object_]]":
        """Why each annotation is not counted, "" where it is."""
        crowd, absent = np.asarray(self.truth.crowd, dtype=np.bool_), ~np.asarray(self.truth.present)
        reasons = np.select([crowd, absent, self.labels < 0], ["crowd", "absent", "unknown-class"], "")
        return np.asarray(reasons, dtype=object)

    @cached_property
    def counted(self) -> Ints:
        """Rows of the truth that should be found."""
        return np.flatnonzero(self.ignored_for == "")

    @cached_property
    def boxes(self) -> Floats:
        """Their boxes ``[N, 4]``."""
        return self.truth.boxes[self.counted]

    @cached_property
    def reported(self) -> Ints:
        """Rows of ``everything`` that count as reported."""
        return np.flatnonzero((self.everything.scores >= self.how.thresholds.reported) & self.known)

    @cached_property
    def objectness(self) -> Floats:
        """How sure a white box is of each candidate ``[K]``."""
        assert self.inside is not None
        return objectness_of(self.inside)

    @cached_property
    def kept(self) -> Floats:
        """The boxes ``[D, 4]`` of a white box's kept pairs of candidate and label."""
        assert self.inside is not None
        return self.inside.boxes_of(self.inside.kept).astype(np.float64)


def image_rows(seen: Seen, pixels: Any = None) -> list[Row]:
    """All rows of one image, given its ``pixels`` where they are to be measured."""
    thresholds, ids = seen.how.thresholds, np.asarray(seen.truth.ids)
    lost = missed(seen.everything, seen.boxes, seen.labels[seen.counted], thresholds, seen.how.miss)
    types = _Types(seen)
    rows = [*_objects(seen, lost, types, pixels), *_detections(seen, types)]
    alarm = Regions.of(seen.everything, seen.inside, thresholds, seen.how.regions)
    target = alarm.targets(seen.truth, seen.counted[lost], thresholds.loc)
    for i, at in enumerate(target.tolist()):
        hit = {"tide": "crowd"} if at == -2 else {"matched": int(ids[at])} if at >= 0 else {}
        rows.append({"kind": REGION, "objectness": float(alarm.objectness[i]), **sides(alarm.boxes[i]), **hit})
    for i in np.flatnonzero(seen.ignored_for != "").tolist():
        why, name = seen.ignored_for[i], None if seen.labels[i] < 0 else seen.names[seen.labels[i]]
        if why == "unknown-class":
            name = seen.data_names[seen.truth.labels[i]]
        rows.append({"kind": IGNORED, "reason": why, "id": int(ids[i]), "label": name, **sides(seen.truth.boxes[i])})
    own = {"image": seen.sample.id, "width": seen.sample.width, "height": seen.sample.height}
    return [own | row for row in rows]


class _Types:
    """TIDE's types of one image's reported detections and objects, both in the detector's labels."""

    def __init__(self, seen: Seen) -> None:
        counted, found = len(seen.counted), seen.everything
        crowd = np.flatnonzero(np.asarray(seen.truth.crowd, dtype=np.bool_) & (seen.labels >= 0))
        rows, at = np.concatenate([seen.counted, crowd]), seen.reported
        truth = TruthColumns.of_image(seen.sample, rows, seen.labels[rows], seen.names)
        detections = DetectionColumns.of(
            np.zeros(len(at), np.int64), found.labels[at], found.boxes[at], found.scores[at]
        )
        least = seen.how.thresholds.loc
        settings = tide.TideSettings(foreground=least, background=min(0.1, least))
        self.assigned = a = tide.assign(truth, detections, settings)
        self.truth_ids = truth.ids
        kinds = np.array(["", "Cls", "Loc", "Miss", ""], dtype=object)
        self.object_type = kinds[a.truth_type][:counted]
        self.error_of, self.error_iou = a.detection_of[:counted].copy(), a.truth_overlap[:counted].copy()
        both = np.flatnonzero(a.detection_type == tide.BOTH)
        for d in both[np.argsort(detections.scores[both], kind="stable")].tolist():  # the best-scored is written last
            t = int(a.truth_of[d])
            if t < counted and self.object_type[t] in ("Miss", "Both"):
                self.object_type[t], self.error_of[t], self.error_iou[t] = "Both", d, a.overlap[d]


def _objects(seen: Seen, lost: Bools, types: _Types, pixels: Any) -> list[Row]:
    measured = attributes(seen.truth, seen.sample.width, seen.sample.height, pixels)
    labels = seen.labels[seen.counted]
    best = best_ious(seen.everything, seen.boxes, labels)
    ids, states = np.asarray(seen.truth.ids), seen.truth.states
    rows: list[Row] = []
    for i, at in enumerate(seen.counted.tolist()):
        row: Row = {
            "kind": OBJECT,
            "id": int(ids[at]),
            "label": seen.names[labels[i]],
            "state": None if states is None else states[at],
            **sides(seen.truth.boxes[at]),
            "found": not lost[i],
            "area": float(measured["size"][at]),
            **{name: _known(measured[name][at]) for name in SLICES},
            "best_iou": best[i].tolist(),
        }
        if lost[i]:
            row["tide"] = types.object_type[i]
            if types.error_of[i] >= 0:
                row |= {"matched": int(types.error_of[i]), "matched_iou": float(types.error_iou[i])}
        rows.append(row)
    for place, why in zip(np.flatnonzero(lost).tolist(), _causes(seen, lost), strict=True):
        rows[place] |= why
    return rows


def best_ious(found: Detections, boxes: Floats, labels: Ints) -> Floats:
    """``[M, len(SWEEP)]``: the best IoU of a detection of the object's class at each score of ``SWEEP`` or above."""
    overlap = iou(boxes, found.boxes) * (np.asarray(labels)[:, None] == found.labels[None, :])
    return np.stack([overlap[:, found.scores >= score].max(axis=1, initial=0) for score in SWEEP], axis=1)


def _causes(seen: Seen, lost: Bools) -> list[Row]:
    """For each of the objects that are ``lost`` the columns that say why."""
    places, t = np.flatnonzero(lost), seen.how.thresholds
    boxes, labels = seen.boxes[places], seen.labels[seen.counted[places]]
    if seen.inside is None:
        return outside.judge(seen.everything, boxes, labels, t, seen.names)
    found = diagnose(seen.inside, boxes, labels, t, seen.how.reading)
    return [_evidence(seen, seen.inside, found, i, place) for i, place in enumerate(places.tolist())]


def _evidence(seen: Seen, c: Candidates, d: Diagnosis, i: int, place: int) -> Row:
    """The columns that say what happened inside to miss ``i``, which is counted object ``place``."""
    names, boxes = seen.names, seen.boxes
    row: Row = {
        "mechanism": MECHANISMS[d.mechanism[i]],
        "reason": str(d.reason[i]),
        "localised": int(d.localised[i]),
        "best_proposal_iou": float(d.proposal_iou[i]),
        "best_refined_iou": float(d.refined_iou[i]),
        "own_score": float(d.own[i]),
        "first_iou": _known(d.first_iou[i]),
        "first_score": _known(d.first_score[i]),
    }
    at = int(d.candidate[i])
    if at >= 0:
        row |= _candidate(seen, c, at)
        row |= sides(c.proposals[at], "proposal_") | sides(c.refined[at], "refined_")
        fit = iou(np.stack([c.proposals[at], c.refined[at]]).astype(np.float64), boxes[[place]])[:, 0]
        row["proposal_iou"], row["refined_iou"] = fit.tolist()
        row["top_labels"] = [names[k] for k in d.top[i].tolist()]
        row["top_scores"] = d.top_scores[i].tolist()
        if d.rival[i] >= 0:
            row |= {"rival": names[d.rival[i]], "rival_score": float(d.rival_score[i])}
    by = int(d.suppressor[i])
    if by >= 0:
        candidate, label, box = c.kept.candidate[by], c.kept.label[by], seen.kept[by]
        row |= {
            "suppressor_label": names[label],
            "suppressor_score": float(c.scores[candidate, label]),
            "suppressor_iou": float(d.suppressor_iou[i]),
            **sides(box, "suppressor_"),
        }
        near = iou(box[None], boxes)[0]
        if near.max() >= 0.5:  # it stands for a neighbour: a crowd, not a badly ranked box
            row["suppressor_object"] = int(np.asarray(seen.truth.ids)[seen.counted[near.argmax()]])
    return row


def _candidate(seen: Seen, c: Candidates, at: int) -> Row:
    return {
        "candidate": int(c.identity[at]),
        "pyramid": None if c.pyramid is None else int(c.pyramid[at]),
        "background": float(c.background[at]),
        "objectness": float(seen.objectness[at]),
    }


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _detections(seen: Seen, types: _Types) -> list[Row]:
    """One row per reported detection: its TIDE type and object, and the candidate that it came from."""
    found, a = seen.everything, types.assigned
    rows: list[Row] = []
    for i, at in enumerate(seen.reported.tolist()):
        row: Row = {
            "kind": DETECTION,
            "id": i,
            "label": seen.names[found.labels[at]],
            "score": float(found.scores[at]),
            "tide": tide.DETECTION_TYPES[a.detection_type[i]],
            **sides(found.boxes[at]),
            "matched_iou": float(a.overlap[i]),
        }
        target = int(a.truth_of[i])
        if target >= 0:
            row["matched"] = int(types.truth_ids[target])
        if seen.inside is not None:
            row |= _origin(seen, seen.inside, at)
            if 0 <= target < len(seen.counted):
                proposal = seen.inside.proposals[seen.inside.kept.candidate[[at]]].astype(np.float64)
                row["proposal_iou"] = float(iou(proposal, seen.boxes[[target]])[0, 0])
        rows.append(row)
    return rows


def _origin(seen: Seen, c: Candidates, at: int) -> Row:
    """Where kept pair ``at`` came from: its candidate, its first box and how far regression moved it, and who else was
    in question."""
    candidate, label = int(c.kept.candidate[at]), int(c.kept.label[at])
    scores = c.scores[candidate].astype(np.float64)
    order = np.argsort(-scores, kind="stable")
    row: Row = {
        **_candidate(seen, c, candidate),
        **sides(c.proposals[candidate], "proposal_"),
        "moved": 1 - float(iou(c.proposals[[candidate]].astype(np.float64), seen.kept[[at]])[0, 0]),
        "own_score": float(scores[label]),
        "top_labels": [seen.names[k] for k in order[:3]],
        "top_scores": scores[order[:3]].tolist(),
    }
    others = order[order != label]
    if len(others):
        row |= {"rival": seen.names[others[0]], "rival_score": float(scores[others[0]])}
    return row


_EVIDENCE = (
    "candidate, best_proposal_iou, best_refined_iou, own_score, rival, rival_score, background, objectness, "
    "suppressor_label, suppressor_score, suppressor_iou, suppressor_object, top_labels, top_scores"
)
_BOXES = ("proposal", "refined", "suppressor")


def ledger(run: Run) -> str:
    """Objects (found, missed, ignored) and the reported detections that are wrong."""
    common = """"case", image, 'clean' AS condition, false AS control, label, state, x0, y0, x1, y1, tide"""
    evidence = ", ".join(f"{name} := {name}" for name in _EVIDENCE.split(", "))
    for name in _BOXES:
        corners = ", ".join(f"round({name}_{side}, 1)" for side in SIDES)
        evidence += f", {name} := CASE WHEN {name}_x0 IS NOT NULL THEN [{corners}] END"
    return f"""
        SELECT {common}, id AS object, CASE WHEN kind = 'ignored' THEN 'ignored' WHEN found THEN 'found' ELSE 'missed'
        END AS outcome, CASE WHEN kind = 'ignored' THEN 'unknown' WHEN found THEN 'harmless' ELSE 'harmful' END AS harm,
        NULL AS became, NULL AS score, NULL AS iou, mechanism, reason,
        CASE WHEN mechanism IS NOT NULL THEN CAST(to_json(struct_pack({evidence})) AS VARCHAR) END AS evidence
        FROM rows WHERE kind IN ('object', 'ignored')
        UNION ALL BY NAME
        SELECT {common}, NULL AS object, 'extra' AS outcome, 'harmful' AS harm, score, matched_iou AS iou
        FROM rows WHERE kind = 'detection' AND tide NOT IN ('TP', 'ignored')"""
