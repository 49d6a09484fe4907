"""Several verify runs side by side: their figures' numbers, and how R_P, R_M and F_vv differ, drawing the same images
for both where they verified the same parts by the same rules."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from misdetect.engine.store import Run
from misdetect.metrics.bootstrap import change, resamples, with_measured
from misdetect.nouns.boxes import Floats
from misdetect.studies.contract import Document
from misdetect.studies.differences import differences, other_rules, shared
from misdetect.studies.verify.document import figures_of
from misdetect.studies.verify.table import NUMBERS, WITH, WITHOUT, Table, rates

RULES = ("missing", "present", "ignored", "present_iou", "missing_iou", "beta")
"""Settings that must be alike for F_vv to be compared part by part; the score may differ: it is what is chosen."""


def compare(runs: Mapping[str, Run], confidence: float, seed: int) -> Document:
    """``by_run``: what the figures of several runs need. ``differences`` of every two of them, each at its own
    score."""
    tables = {name: Table(run) for name, run in runs.items()}
    for table in tables.values():
        table.how = replace(table.how, confidence=confidence, seed=seed)
    return {"by_run": {name: figures_of(table) for name, table in tables.items()}, **differences(tables, _between)}


def _between(one: Table, other: Table) -> Document | str:
    if (why := other_rules(one.how, other.how, RULES)) is not None:
        return why
    images, left_out = shared(one.named, other.named)
    if not images or not _same_parts(one, other, set(images)):
        return "did not verify the same parts"
    draws = with_measured(resamples(len(images), seed=one.how.seed))
    found: Document = {"images": len(images), "left_out": left_out}
    for kind in (WITH, WITHOUT):
        first, second = (_numbers(table, kind, images, draws) for table in (one, other))
        found[kind] = {name: change(first[name], second[name], one.how.confidence) for name in NUMBERS}
    return found


def _same_parts(one: Table, other: Table, images: set[str]) -> bool:
    """Whether both verified the same parts of ``images``: image, class, missing or not, and box to .01 px."""
    first, second = ({key: part for key, part in t.by_name().items() if key[0] in images} for t in (one, other))
    return first.keys() == second.keys() and all(
        missing == second[key][0] and np.allclose(box, second[key][1], atol=0.01)
        for key, (missing, box) in first.items()
    )


def _numbers(table: Table, kind: str, images: list[str], draws: Floats) -> dict[str, Floats]:
    """R_P, R_M and F_vv ``[R]`` of the ``draws`` ``[R, K]`` of ``images``."""
    place = {image: i for i, image in enumerate(table.named)}
    tally = table.tally(table.verified[kind], table.how.score).sum(axis=1)
    return rates(draws @ tally[[place[image] for image in images]], table.how.beta)
