"""The rows of a run: what became of each annotated object, and what was detected in each picture."""

import pyarrow as pa

from misdetect.engine.store import Run
from misdetect.studies.columns import box

OBJECT, DETECTION = "object", "detection"
SCHEMA = pa.schema(
    [
        ("kind", pa.string()),
        ("image", pa.string()),
        ("id", pa.int64()),
        ("label", pa.string()),
        *box(),
        ("light", pa.float64()),  # of the picture that a detection is in
        ("lost_at", pa.float64()),  # the light at which an object is not found any more; 1: it never was
        ("before", pa.float64()),  # an object's score with all light
        ("score", pa.float64()),  # of a detection; of an object in the last picture in which it was looked for
    ]
)


def ledger(run: Run) -> str:
    """Every object with all light, and every one that was found so once more, with what darkness did to it."""
    place = '"case", image, id AS object, label, x0, y0, x1, y1'
    return f"""
        SELECT {place}, 'clean' AS condition, before AS score,
        CASE WHEN lost_at = 1 THEN 'missed' ELSE 'found' END AS outcome,
        CASE WHEN lost_at = 1 THEN 'harmful' ELSE 'harmless' END AS harm
        FROM rows WHERE kind = 'object'
        UNION ALL BY NAME
        SELECT {place}, 'darkened' AS condition, before AS score_before, score,
        CASE WHEN lost_at IS NULL THEN 'found' ELSE 'missed' END AS outcome,
        CASE WHEN lost_at IS NULL THEN 'harmless' ELSE 'harmful' END AS harm,
        CAST(to_json(struct_pack(light := lost_at)) AS VARCHAR) AS evidence
        FROM rows WHERE kind = 'object' AND lost_at IS DISTINCT FROM 1"""
