"""The columns of a confusion run, the rows of one image, the way back from rows to columns, and the ledger.

``kind`` says what a row is about: an "object" of a class that the data knows, a "detection", an annotation that is
"ignored" (a crowd, an absent part), or a detection "left-out" because the data has no such class. Every annotation and
every detection is in exactly one row, with its box and scores, so that the matrix can be computed again from them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from misdetect.data.dataset import Sample
from misdetect.engine.store import Run
from misdetect.metrics.columns import DetectionColumns, ImageRow, TruthColumns
from misdetect.metrics.confusion import BACKGROUND, Confusion, confusion, in_data_columns
from misdetect.metrics.scoring import distinct
from misdetect.nouns.boxes import SIDES, Bools, Floats, sides
from misdetect.nouns.candidates import Candidates
from misdetect.nouns.detections import Detections
from misdetect.nouns.labels import Joined
from misdetect.studies.columns import box
from misdetect.studies.confusion.settings import ConfusionSettings

OBJECT, DETECTION, IGNORED, LEFT_OUT = KINDS = ("object", "detection", "ignored", "left-out")
RIGHT, CONFUSED, SUNK, MISSED = OUTCOMES = ("right", "confused", "background", "missed")
"""What became of an object: a detection of its own class belongs to it; only of others; only such as were predicted
background; none."""

SCHEMA = pa.schema(
    [
        ("kind", pa.string()),
        ("image", pa.string()),
        ("file", pa.string()),
        ("width", pa.int32()),
        ("height", pa.int32()),
        ("id", pa.int64()),
        ("label", pa.string()),
        ("known", pa.bool_()),
        ("state", pa.string()),
        ("reason", pa.string()),
        *box(),
        ("score", pa.float64()),
        ("background", pa.float64()),
        ("best", pa.float64()),
        ("vector", pa.list_(pa.float64())),
        ("actual", pa.string()),
        ("predicted", pa.string()),
        ("matched", pa.int64()),
        ("iou", pa.float64()),
        ("speaks", pa.bool_()),
        ("outcome", pa.string()),
        ("became", pa.string()),
    ]
)


def labels_of(names: Sequence[str]) -> tuple[str, ...]:
    """Rows and columns of the matrix: the data's classes and background, each name once."""
    return tuple(distinct((*names, BACKGROUND)))


@dataclass(frozen=True, eq=False)
class Said:
    """Detections with what else was said of them: ``background`` and ``best`` score ``[D]``, ``vectors`` ``[D, C]``
    over the data's classes; ``None`` where it is not known or not needed."""

    columns: DetectionColumns
    background: Floats | None = None
    best: Floats | None = None
    vectors: Floats | None = None

    def chosen(self, which: Bools) -> "Said":
        """Those of ``which`` ``[D]``."""
        c = self.columns
        kept = DetectionColumns.of(c.image[which], c.label[which], c.boxes[which], c.scores[which], ids=c.ids[which])
        extra = (None if e is None else e[which] for e in (self.background, self.best, self.vectors))
        return Said(kept, *extra)

    def confusion(self, truth: TruthColumns, how: ConfusionSettings, **changed: Any) -> Confusion:
        """The matrix of these detections, as ``how`` says but for what is ``changed``."""
        given: dict[str, Any] = {"iou_threshold": how.iou, "policy": how.policy, "mode": how.mode, **changed}
        given |= {"background": self.background, "best": self.best, "vectors": self.vectors}
        return confusion(truth, self.columns, **given)


def said_of(found: Detections, inside: Candidates | None, joined: Joined, classes: int, how: ConfusionSettings) -> Said:
    """What a detector ``found`` in one image, in the data's classes; those that the data lacks have the label -1."""
    label = joined.to_data[found.labels]
    columns = DetectionColumns.of(np.zeros(len(found), np.int64), label, found.boxes, found.scores)
    if inside is None:
        return Said(columns)
    rows = inside.kept.candidate
    scores, background = inside.scores[rows].astype(np.float64), inside.background[rows].astype(np.float64)
    vectors = in_data_columns(scores, joined.to_data, classes) if how.background == "soft" else None
    return Said(columns, background, scores.max(axis=1, initial=0.0), vectors)


def image_rows(
    sample: Sample, names: Sequence[str], detector_names: Sequence[str], found: Detections, said: Said, joined: Joined,
    how: ConfusionSettings,
) -> list[dict[str, Any]]:  # fmt: skip
    """All rows of one image; ``names`` are the data's classes."""
    truth, labels = sample.truth, labels_of(names)
    ids, crowd = np.asarray(truth.ids), np.asarray(truth.crowd, dtype=np.bool_)
    counted = np.flatnonzero(crowd | truth.present)
    columns = TruthColumns.of_image(sample, counted, truth.labels[counted], names)
    left_out = said.columns.label < 0
    inside = ~left_out & (said.columns.scores >= how.score)
    chosen = said.chosen(inside)
    result = chosen.confusion(columns, how)
    own = {"image": sample.id, "file": sample.file_name or sample.id, "width": sample.width, "height": sample.height}
    rows: list[dict[str, Any]] = []
    for i, at in enumerate(counted.tolist()):
        if not crowd[at]:
            state = None if truth.states is None else truth.states[at]
            rows.append(own | _object(columns, labels, result, i, chosen.columns, joined) | {"state": state})
    for at in np.flatnonzero(crowd | ~truth.present).tolist():
        why = "crowd" if crowd[at] else "absent"
        row = {"kind": IGNORED, "reason": why, "id": int(ids[at]), "label": labels[truth.labels[at]]}
        rows.append(own | row | sides(truth.boxes[at]))
    place = np.cumsum(inside) - 1  # in what was chosen
    for d in np.flatnonzero(~left_out).tolist():
        where = _counted(columns, labels, result, int(place[d])) if inside[d] else {"reason": "score"}
        rows.append(own | _detection(said, labels, d) | where)
    for d in np.flatnonzero(left_out & (said.columns.scores >= how.score)).tolist():
        row = {"kind": LEFT_OUT, "id": d, "label": detector_names[found.labels[d]], "reason": "unknown-class"}
        rows.append(own | row | {"score": float(found.scores[d]), **sides(found.boxes[d])})
    return rows


def outcome(label: int, became: int, classes: int) -> str:
    """What became of an object of class ``label`` that was taken for ``became``."""
    return MISSED if became < 0 else RIGHT if became == label else SUNK if became == classes else CONFUSED


def _object(
    truth: TruthColumns, labels: Sequence[str], result: Confusion, at: int, found: DetectionColumns, joined: Joined
) -> dict[str, Any]:
    label, became, voice = int(truth.label[at]), int(result.became[at]), int(result.voice[at])
    row = {
        "kind": OBJECT,
        "id": int(truth.ids[at]),
        "label": labels[label],
        "known": bool(joined.to_detector[label] >= 0),
        "outcome": outcome(label, became, len(truth.names)),
        **sides(truth.boxes[at]),
    }
    if voice >= 0:
        row |= {
            "became": labels[became],
            "matched": int(found.ids[voice]),
            "score": float(found.scores[voice]),
            "iou": float(result.assigned.overlap[voice]),
        }
    return row


def _detection(said: Said, labels: Sequence[str], d: int) -> dict[str, Any]:
    c = said.columns
    row = {"kind": DETECTION, "id": d, "label": labels[c.label[d]], "score": float(c.scores[d]), **sides(c.boxes[d])}
    for name in ("background", "best"):
        values = getattr(said, name)
        row |= {} if values is None else {name: float(values[d])}
    return row if said.vectors is None else row | {"vector": said.vectors[d].tolist()}


def _counted(truth: TruthColumns, labels: Sequence[str], result: Confusion, place: int) -> dict[str, Any]:
    """Where the detection is in the matrix."""
    if result.row[place] < 0:
        return {"reason": "crowd"}
    at = int(result.assigned.truth_of[place])
    row = {
        "actual": labels[result.row[place]],
        "predicted": labels[result.column[place]],
        "iou": float(result.assigned.overlap[place]),
        "speaks": at >= 0 and int(result.voice[at]) == place,
    }
    return row if at < 0 else row | {"matched": int(truth.ids[at])}


COLUMNS = "case_index, kind, id, label, known, reason, x0, y0, x1, y1, score, background, best, vector"
"""What ``columns_of`` reads."""


def columns_of(rows: pa.Table, labels: Sequence[str], images: int) -> tuple[TruthColumns, Bools, Said]:
    """Annotations, which of them are of a class that the detector has, and all detections, out of rows in the order of
    cases that have ``COLUMNS``."""
    kind = np.array(rows["kind"].to_pylist(), dtype=object)
    of_crowd = np.array([why == "crowd" for why in rows["reason"].to_pylist()], dtype=np.bool_)
    place = {name: i for i, name in enumerate(labels)}
    label = np.array([place.get(name, -1) for name in rows["label"].to_pylist()], dtype=np.int64)
    boxes = np.stack([rows[name].to_numpy() for name in SIDES], axis=1).reshape(-1, 4)
    case, ids = rows["case_index"].to_numpy(), rows["id"].to_numpy()
    there, found = (kind == OBJECT) | ((kind == IGNORED) & of_crowd), kind == DETECTION
    truth = TruthColumns(
        images=(ImageRow("", "", 0, 0),) * images,
        names=tuple(labels[:-1]),
        image=case[there],
        label=label[there],
        boxes=boxes[there],
        areas=np.zeros(int(there.sum())),
        crowd=kind[there] == IGNORED,
        ids=ids[there],
    )
    columns = DetectionColumns.of(
        case[found], label[found], boxes[found], rows["score"].to_numpy()[found], ids=ids[found]
    )
    known = np.array([value is not False for value in rows["known"].to_pylist()], dtype=np.bool_)[there]
    if not len(columns):  # what is said of none is known, whatever was asked
        return truth, known, Said(columns, np.zeros(0), np.zeros(0), np.zeros((0, len(truth.names))))
    return truth, known, Said(columns, *(_scores(rows[name], found) for name in ("background", "best", "vector")))


def _scores(column: pa.ChunkedArray, chosen: Bools) -> Floats | None:
    """Numbers, or lists of equally many, of the ``chosen`` rows; ``None`` where they hold none."""
    values = column.filter(pa.array(chosen)).to_pylist()
    return None if values[0] is None else np.array(values, dtype=np.float64)


def ledger(run: Run) -> str:
    """Objects with what they became, and the detections that are wrong and speak for no object."""
    common = """"case", image, 'clean' AS condition, false AS control, label, state, x0, y0, x1, y1, score, iou"""
    nothing = labels_of(run.about["identity"]["data"]["names"])[-1].replace("'", "''")
    return f"""
        SELECT {common}, id AS object, CASE WHEN kind = 'ignored' OR NOT known THEN 'ignored' WHEN outcome = 'right'
        THEN 'found' WHEN outcome = 'confused' THEN 'renamed' ELSE 'missed' END AS outcome,
        CASE WHEN kind = 'ignored' OR NOT known THEN 'unknown' WHEN outcome = 'right' THEN 'harmless' ELSE 'harmful' END
        AS harm, CASE WHEN outcome <> 'right' THEN became END AS became, coalesce(reason, outcome) AS reason
        FROM rows WHERE kind IN ('object', 'ignored')
        UNION ALL BY NAME
        SELECT {common}, NULL AS object, 'extra' AS outcome, 'harmful' AS harm, actual AS reason
        FROM rows WHERE kind = 'detection' AND predicted <> actual AND predicted <> '{nothing}' AND NOT speaks"""
