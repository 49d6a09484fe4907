"""Several verify runs side by side: their figures' numbers, and F_vv of each less that of the first, drawing the same
images for both where they verified the same parts by the same rules."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from misdetect.boxes import Floats
from misdetect.engine.store import Run
from misdetect.metrics import parts as metrics
from misdetect.metrics.bootstrap import interval
from misdetect.studies.contract import Document
from misdetect.studies.verify.document import figures_of
from misdetect.studies.verify.table import WITH, WITHOUT, Table

RULES = ("missing", "present", "ignored", "present_iou", "missing_iou", "beta")
"""Settings that must be alike for F_vv to be compared part by part; the score may differ: it is what is chosen."""


def compare(runs: Mapping[str, Run], confidence: float, seed: int) -> Document:
    """``by_run``: what the figures of several runs need. ``differences``: F_vv of each run less that of the first."""
    tables = {name: Table(run) for name, run in runs.items()}
    for table in tables.values():
        table.how = replace(table.how, confidence=confidence, seed=seed)
    (first, base), *others = tables.items()
    why_not = {name: why for name, table in others if (why := _why_not(base, table)) is not None}
    return {
        "by_run": {name: figures_of(table) for name, table in tables.items()},
        "differences": {
            kind: {name: _difference(base, table, kind) for name, table in others if name not in why_not}
            for kind in (WITH, WITHOUT)
        },
        "paired": not why_not,
        "why_not_paired": [f"{name} and {first} {why}" for name, why in why_not.items()],
    }


def _why_not(one: Table, other: Table) -> str | None:
    differing = [rule for rule in RULES if getattr(one.how, rule) != getattr(other.how, rule)]
    if differing:
        return f"differ in {', '.join(differing)}"
    a, b = one.parts, other.parts
    same = len(a) == len(b) and one.names == other.names and np.array_equal(one.cases, other.cases)
    same = same and np.array_equal(a.label, b.label) and np.allclose(a.boxes, b.boxes, atol=0.01)
    return None if same and np.array_equal(a.missing, b.missing) else "did not verify the same parts"


def _difference(one: Table, other: Table, kind: str) -> dict[str, Any]:
    """F_vv of ``other`` less that of ``one``, each at its own score, with its interval."""

    def drawn(table: Table) -> tuple[Floats, Floats]:
        tally = table.verified[kind].tally(table.how.score, table.images, len(table.names)).sum(axis=1)
        counts = np.concatenate([tally.sum(axis=0)[None], np.tensordot(one.draws, tally, axes=1)])
        values = metrics.f_vv(*metrics.recalls(counts), table.how.beta)
        return values[0], values[1:]

    (value, samples), (base, base_samples) = drawn(other), drawn(one)
    low, high = interval(samples - base_samples, one.how.confidence)
    known = not np.isnan(low)
    return {"f_vv": float(value - base) if known else None, "interval": [float(low), float(high)] if known else None}
