"""What the context study found: causes with their shares, what each edit ends, and what it does to present parts."""

from collections import Counter
from typing import Any

import numpy as np

from misdetect.engine.store import Run
from misdetect.metrics.causes import CAUSES
from misdetect.metrics.slices import rate_intervals
from misdetect.studies.contract import Document
from misdetect.studies.verify.rows import EDITS, HALLUCINATION
from misdetect.studies.verify.settings import VerifySettings

Rows = list[dict[str, Any]]


def document(run: Run, how: VerifySettings) -> Document:
    """``causes`` by name, ``edits`` by name, both with intervals over images; ``causes_by_part``."""
    rows: Rows = run.query("SELECT * FROM rows WHERE kind = ? ORDER BY case_index, row", [HALLUCINATION]).to_pylist()
    kept = run.query(
        "SELECT edit, sum(before) AS before, sum(kept) AS kept FROM rows WHERE kind = 'edit' GROUP BY edit"
    )
    found = np.array([row["cause"] for row in rows], dtype=object)
    images = np.unique([row["image"] for row in rows], return_inverse=True)[1].astype(np.int64).reshape(-1)
    ends = _shares({cause: found == cause for cause in CAUSES}, images, how)
    return {
        "hallucinations": len(rows),
        "causes": {
            cause: {
                "count": int((found == cause).sum()),
                **ends[cause],
                "reasons": dict(sorted(Counter(row["reason"] for row in rows if row["cause"] == cause).items())),
            }
            for cause in CAUSES
        },
        "causes_by_part": _by_part(rows),
        "edits": _edits(rows, images, {row["edit"]: row for row in kept.to_pylist()}, how),
    }


def _shares(hits: dict[str, Any], images: Any, how: VerifySettings) -> dict[str, dict[str, Any]]:
    if not len(images):
        return {name: {"share": None, "interval": None} for name in hits}
    columns = np.stack(list(hits.values()), axis=1).astype(np.float64)
    ends = rate_intervals(columns, np.ones_like(columns), images, confidence=how.confidence, seed=how.seed)
    return {
        name: {"share": float(column.mean()), "interval": list(pair)}
        for name, column, pair in zip(hits, columns.T, ends, strict=True)
    }


def _by_part(rows: Rows) -> dict[str, dict[str, int]]:
    counts = Counter((row["label"], row["cause"]) for row in rows)
    parts = sorted({row["label"] for row in rows})
    return {part: {cause: counts[part, cause] for cause in CAUSES} for part in parts}


def _edits(rows: Rows, images: Any, kept: dict[str, dict[str, int]], how: VerifySettings) -> dict[str, Any]:
    """Of each edit: how many hallucinations it was made for, the share that it ends, the score that is left on average,
    and the share of the present parts that it leaves alone and that are no longer found."""
    found = {}
    for edit in EDITS:
        scores = np.array(
            [np.nan if row[f"score_{edit}"] is None else row[f"score_{edit}"] for row in rows], np.float64
        )
        made = ~np.isnan(scores)
        among = _shares({edit: scores[made] < how.score}, np.unique(images[made], return_inverse=True)[1], how)
        beside = kept.get(edit, {"before": 0, "kept": 0})
        found[edit] = {
            "asked": int(made.sum()),
            "ends": among[edit]["share"],
            "interval": among[edit]["interval"],
            "mean_score": float(scores[made].mean()) if made.any() else None,
            "present_parts": int(beside["before"]),
            "present_lost": 1 - int(beside["kept"]) / int(beside["before"]) if beside["before"] else None,
        }
    return found
