"""The rows of a doctor run: the answers as they came and, once per image, what is annotated, which is all that the
document needs; and what they tell, read again.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from misdetect.engine.requests import Row
from misdetect.engine.store import Run
from misdetect.metrics.paired import Objects
from misdetect.nouns.boxes import boxes_of
from misdetect.nouns.labels import Joined
from misdetect.studies.columns import box, flags, numbers, texts
from misdetect.studies.doctor.answers import AS_IS, Answer, Evidence
from misdetect.studies.doctor.changes import Change

REFERENCE, TRUTH = "reference", "truth"
"""Ways of asking that are none of the detector: its reference, and the annotations, for which nobody is asked."""

SCHEMA = pa.schema(
    [
        *texts("kind", "image"),
        ("place", pa.int64()),
        *texts("query"),
        ("width", pa.int64()),
        ("height", pa.int64()),
        *texts("label"),
        ("number", pa.int64()),
        ("id", pa.int64()),
        *box(),
        *numbers("score"),
        *flags("crowd"),
    ]
)


def evidence_of(
    rows: Sequence[Row],
    images: int,
    names: Sequence[str],
    space: Sequence[str],
    changes: Mapping[str, Change],
    score: float,
) -> Evidence:
    """All that ``rows`` tell; where a reference was asked, what it sees from ``score`` on are the objects."""
    sizes = [(1, 1)] * images
    for row in rows:
        if row["kind"] == "image":
            sizes[row["place"]] = (row["width"], row["height"])
    judged = REFERENCE if any(row["query"] == REFERENCE for row in rows) else TRUTH
    real = [row for row in rows if row["query"] == judged and row["kind"] in ("box", "truth")]
    real = sorted((row for row in real if judged == TRUTH or row["score"] >= score), key=lambda row: row["place"])
    objects = Objects(
        images,
        np.array([row["place"] for row in real], np.int64),
        np.array([row["number"] for row in real], np.int64),
        boxes_of(real),
        np.array([bool(row.get("crowd")) for row in real], np.bool_),
    )
    to_space = Joined.loosely(names, space).to_data
    found = Evidence(sizes, objects, names, space, to_space, changes)
    found.add(answers_in(row for row in rows if row["query"] not in (REFERENCE, TRUTH)))
    return found


def answers_in(rows: Iterable[Row]) -> dict[str, dict[int, Answer]]:
    """The answers that ``rows`` hold, by way of asking and image."""
    boxes: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        key = row["query"], row["place"]
        if row["kind"] == "answer":
            boxes.setdefault(key, [])
        elif row["kind"] == "box":
            boxes.setdefault(key, []).append(row)
    found: dict[str, dict[int, Answer]] = {}
    for (query, place), own in boxes.items():
        scores, labels = ([row[name] for row in own] for name in ("score", "number"))
        answer = Answer(boxes_of(own), np.array(scores, np.float64), np.array(labels, np.int64))
        found.setdefault(query, {})[place] = answer
    return found


def ledger(run: Run) -> str:
    """One row per detection of the detector as it is; whether it is right was not asked."""
    return (
        "SELECT \"case\", image, NULL AS object, 'clean' AS condition, false AS control, label, x0, y0, x1, y1, "
        f"NULL AS outcome, 'unknown' AS harm, score FROM rows WHERE kind = 'box' AND query = '{AS_IS}'"
    )
