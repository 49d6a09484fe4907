"""Several confusion runs side by side: what became of the same objects, and which cells changed most.

Where runs are paired, it is known of every object what it became in each.
"""

from collections import Counter
from collections.abc import Mapping

import numpy as np

from misdetect.engine.store import Run
from misdetect.metrics.bootstrap import change
from misdetect.studies.confusion.cells import largest
from misdetect.studies.confusion.document import settings_of
from misdetect.studies.confusion.rows import OUTCOMES
from misdetect.studies.contract import Document
from misdetect.studies.documents import read_document
from misdetect.studies.objects import Common, Judged, drawn_again, in_common, mcnemar, why_not_paired

RULES = ("iou", "score", "policy", "background")
"""Settings that decide what an object becomes."""
_CELLS = 20


def judged(run: Run) -> Judged:
    """The objects of ``run`` that its detector can name, with their outcomes."""
    rows = run.query(
        "SELECT image, id, x0, y0, x1, y1, outcome FROM rows WHERE kind = 'object' AND known ORDER BY case_index, row"
    ).to_pylist()
    how = settings_of(run)
    rules = {key: getattr(how, key) for key in RULES}
    return Judged.of(rows, [row["outcome"] for row in rows], rules, read_document(run))


def compare(runs: Mapping[str, Run], confidence: float, seed: int) -> Document:
    """What ``misdetect compare`` says of confusion ``runs`` beyond their settings and numbers."""
    known = {name: judged(run) for name, run in runs.items()}
    documents, commons = [each.document for each in known.values()], in_common(known)
    why_not = why_not_paired(known, commons)
    return {
        "paired": not why_not,
        "why_not_paired": why_not,
        "outcomes": {name: [each["outcomes"][name] for each in documents] for name in OUTCOMES},
        "objects": [each["objects"] for each in documents],
        "differences": [
            {"first": a, "second": b, **difference(known[a], known[b], common, confidence, seed)}
            for (a, b), common in commons.items()
        ],
        "cells": changed_cells(documents),
    }


def difference(a: Judged, b: Judged, common: Common, confidence: float = 0.9, seed: int = 0) -> Document:
    """How the shares of the outcomes differ, second - first with the interval (``certain``: it excludes 0). Of the same
    objects also ``flow``, ``[outcome in the first, in the second, objects]``, and ``p``, McNemar's exact test of "each
    is right as often"."""
    found: Document = {"same_images": common.same, "outcomes": {}, "flow": None, "p": None}
    counts = drawn_again(a, b, common, lambda run: run.shared_by(OUTCOMES), seed)
    if counts is None:
        return found
    first, second = (each / each.sum(axis=1, keepdims=True) for each in counts)
    found["outcomes"] = {name: change(first[:, i], second[:, i], confidence) for i, name in enumerate(OUTCOMES)}
    if common.same:
        flow = Counter(zip(a.fate[common.first], b.fate[common.second], strict=True))
        found["flow"] = [[x, y, n] for (x, y), n in sorted(flow.items(), key=lambda item: (-item[1], item[0]))]
        lost = sum(n for (x, y), n in flow.items() if x == "right" != y)
        gained = sum(n for (x, y), n in flow.items() if y == "right" != x)
        found["p"] = mcnemar(lost, gained)
    return found


def changed_cells(documents: list[Document]) -> list[Document]:
    """The cells whose counts differ most between the runs, where all have the same labels."""
    labels = documents[0]["labels"]
    if any(each["labels"] != labels for each in documents):
        return []
    counts = np.array([each["counts"] for each in documents], dtype=np.float64)
    return [
        {"actual": labels[a], "predicted": labels[b], "counts": counts[:, a, b].tolist()}
        for a, b in largest(np.ptp(counts, axis=0), _CELLS)
    ]
