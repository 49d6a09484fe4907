"""Several confusion runs side by side: what became of the same objects, and which cells changed most.

Where the same objects were judged by the same rules the same images are drawn for both (*paired*), and for every object
it is known what it became in each.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from misdetect.engine.store import Run
from misdetect.metrics.bootstrap import change, resamples
from misdetect.metrics.slices import per_image
from misdetect.nouns.boxes import Floats, Ints, boxes_of
from misdetect.studies.confusion.document import settings_of
from misdetect.studies.confusion.rows import OUTCOMES
from misdetect.studies.contract import Document
from misdetect.studies.documents import read_document
from misdetect.studies.objects import REPEATS, Common, Key, mcnemar

RULES = ("iou", "score", "policy", "background")
"""Settings that decide what an object becomes."""
_CELLS = 20


@dataclass(frozen=True, eq=False)
class Judged:
    """The objects of one run that its detector can name: ``keys`` (image, id), ``boxes`` ``[N, 4]``, ``outcome``
    ``[N]``; and its ``document``."""

    keys: list[Key]
    boxes: Floats
    outcome: NDArray[np.object_]
    rules: Mapping[str, Any]
    document: Document

    @classmethod
    def of(cls, run: Run) -> "Judged":
        rows = run.query(
            "SELECT image, id, x0, y0, x1, y1, outcome FROM rows WHERE kind = 'object' AND known "
            "ORDER BY case_index, row"
        ).to_pylist()
        how = settings_of(run)
        return cls(
            [(row["image"], row["id"]) for row in rows],
            boxes_of(rows),
            np.array([row["outcome"] for row in rows], dtype=object),
            {key: getattr(how, key) for key in RULES},
            read_document(run),
        )


def compare(runs: Mapping[str, Run], confidence: float, seed: int) -> Document:
    """What ``misdetect compare`` says of confusion ``runs`` beyond their settings and numbers."""
    judged = {name: Judged.of(run) for name, run in runs.items()}
    commons = {(a, b): Common.of(judged[a], judged[b]) for a, b in combinations(judged, 2)}
    why_not = why_not_paired(judged, commons)
    return {
        "paired": not why_not,
        "why_not_paired": why_not,
        "outcomes": {name: [each.document["outcomes"][name] for each in judged.values()] for name in OUTCOMES},
        "objects": [each.document["objects"] for each in judged.values()],
        "differences": [
            {"first": a, "second": b, **difference(judged[a], judged[b], common, confidence, seed)}
            for (a, b), common in commons.items()
        ],
        "cells": changed_cells(judged),
    }


def why_not_paired(runs: Mapping[str, Judged], commons: Mapping[tuple[str, str], Common]) -> list[str]:
    """Why a difference to the first of ``runs`` is not only the detector's: other objects, other rules."""
    found, name = [], next(iter(runs))
    for (a, b), common in commons.items():
        if a != name:
            continue
        if common.why_not is not None:
            found.append(f"{a} and {b} are not over the same objects: {common.why_not}")
        if rules := [key for key in RULES if runs[a].rules[key] != runs[b].rules[key]]:
            found.append(f"{a} and {b} judge by different rules: {', '.join(rules)}")
    return found


def difference(a: Judged, b: Judged, common: Common, confidence: float = 0.9, seed: int = 0) -> Document:
    """How the shares of the outcomes differ, second - first with the interval (``certain``: it excludes 0); over the
    objects that both have, drawing the same images for both, where they are the same. Then also ``flow``, ``[outcome
    in the first, in the second, objects]``, and ``p``, McNemar's exact test of "each is right as often"."""
    paired = common.why_not is None
    rows = (common.first, common.second) if paired else (np.arange(len(a.keys)), np.arange(len(b.keys)))
    if not len(rows[0]) or not len(rows[1]):
        return {"same_images": paired, "outcomes": {}, "flow": None, "p": None}
    first, second = (
        _shares(run, chosen, seed if paired else seed + number)
        for number, (run, chosen) in enumerate(zip((a, b), rows, strict=True))
    )
    outcomes = {name: change(first[:, i], second[:, i], confidence) for i, name in enumerate(OUTCOMES)}
    if not paired:
        return {"same_images": False, "outcomes": outcomes, "flow": None, "p": None}
    flow = Counter(zip(a.outcome[rows[0]], b.outcome[rows[1]], strict=True))
    lost = sum(n for (x, y), n in flow.items() if x == "right" != y)
    gained = sum(n for (x, y), n in flow.items() if y == "right" != x)
    ordered = sorted(flow.items(), key=lambda item: (-item[1], item[0]))
    return {
        "same_images": True,
        "outcomes": outcomes,
        "flow": [[x, y, n] for (x, y), n in ordered],
        "p": mcnemar(lost, gained),
    }


def _shares(run: Judged, rows: Ints, seed: int) -> Floats:
    """Shares ``[1 + REPEATS, 4]`` of the outcomes among ``rows``: as measured, then of every resample of images."""
    place: dict[str, int] = {}
    image = np.array([place.setdefault(run.keys[i][0], len(place)) for i in rows.tolist()], dtype=np.int64)
    hits = np.stack([np.asarray(run.outcome[rows] == name, dtype=np.float64) for name in OUTCOMES], axis=1)
    sums = per_image(hits, image, len(place))
    counts = np.concatenate([sums.sum(axis=0)[None], resamples(len(place), REPEATS, seed) @ sums])
    return np.asarray(counts / counts.sum(axis=1, keepdims=True))


def changed_cells(runs: Mapping[str, Judged]) -> list[Document]:
    """The cells whose counts differ most between the runs, where all have the same labels."""
    labels = [run.document["labels"] for run in runs.values()]
    if any(other != labels[0] for other in labels):
        return []
    counts = np.array([run.document["counts"] for run in runs.values()], dtype=np.float64)
    spread = counts.max(axis=0) - counts.min(axis=0)
    cells = np.argwhere(spread > 0)
    order = np.lexsort((cells[:, 1], cells[:, 0], -spread[cells[:, 0], cells[:, 1]]))[:_CELLS]
    return [
        {"actual": labels[0][a], "predicted": labels[0][b], "counts": counts[:, a, b].tolist()}
        for a, b in cells[order].tolist()
    ]
