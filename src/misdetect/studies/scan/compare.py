"""Several scans side by side: how Table I and what is harmed differ, over the pairs of image and object that both
scanned, drawing the same background images for both.

Grids of different steps have different positions; each rate is that of its own grid, and the images are the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from misdetect.engine.store import Run
from misdetect.metrics.bootstrap import change
from misdetect.nouns.boxes import Floats
from misdetect.studies.contract import Document
from misdetect.studies.differences import differences, other_rules, shared
from misdetect.studies.scan.document import common_classes
from misdetect.studies.scan.rows import CONTROL, OBJECT
from misdetect.studies.scan.settings import ScanSettings, settings_of
from misdetect.studies.scan.table import DIFFERENCE, ROWS, SCENE, Images, Rate, rates_of, read_positions

RULES = ("score", "own", "margin", "kept_iou", "same_iou", "on_t_iou", "policy", "average", "tau")
"""Settings that decide which positions are affected."""
Key = tuple[str, str, int]


@dataclass(frozen=True, eq=False)
class Scanned:
    """A run as it is compared: ``how`` it was made, and the number of each pair (background, source, annotation) on
    whose clean image something was detected."""

    run: Run
    how: ScanSettings
    pairs: Mapping[Key, int]

    @classmethod
    def of(cls, run: Run, confidence: float, seed: int) -> "Scanned":
        rows = run.query(
            "SELECT pair, background, source, annotation FROM rows WHERE before > 0 GROUP BY ALL ORDER BY pair"
        ).to_pylist()
        pairs = {(row["background"], row["source"], row["annotation"]): row["pair"] for row in rows}
        return cls(run, replace(settings_of(run), confidence=confidence, seed=seed), pairs)

    def rates(self, pairs: list[Key]) -> dict[str, tuple[Rate, Rate]]:
        """Of the positions of ``pairs``: Table I with the scene, and what is harmed; with the object, and where there
        is a control, beyond it."""
        found, count = read_positions(self.run, self.how, [self.pairs[key] for key in pairs])
        table, harm = rates_of(Images.of(count, self.how), found, self.how)
        known = (OBJECT, DIFFERENCE) if len(found[CONTROL]) else (OBJECT,)
        return {name: (table[name], harm[name]) for name in known}


def compare(runs: Mapping[str, Run], confidence: float, seed: int) -> Document:
    """``differences`` of every two ``runs``, in points of the percentages of positions."""
    return differences({name: Scanned.of(run, confidence, seed) for name, run in runs.items()}, between, "pairs")


def between(one: Scanned, other: Scanned) -> Document | str:
    """How ``other`` differs from ``one``, or why that cannot be said."""
    if (why := other_rules(one.how, other.how, RULES)) is not None:
        return why
    pairs, left_out = shared(list(one.pairs), list(other.pairs))
    if not pairs:
        return "have no pair of image and object in common with detections on the image"
    first, second = one.rates(pairs), other.rates(pairs)
    judged = common_classes(one.run) and common_classes(other.run)
    found: Document = {"images": len({key[0] for key in pairs}), "pairs": len(pairs), "left_out": left_out}
    found |= _changes(first[OBJECT], second[OBJECT], one.how, judged)
    if DIFFERENCE in first and DIFFERENCE in second:
        found["beyond_control"] = _changes(first[DIFFERENCE], second[DIFFERENCE], one.how, judged)
    return found


def _changes(first: tuple[Rate, Rate], second: tuple[Rate, Rate], how: ScanSettings, judged: bool) -> Document:
    (a, harm), (b, other_harm) = ([_whole(rate) for rate in rates] for rates in (first, second))
    found: Document = {
        row: {f"{tau:g}": change(a[:, r, t], b[:, r, t], how.confidence) for t, tau in enumerate(how.tau)}
        for r, row in enumerate((*ROWS, SCENE))
    }
    if judged:
        found["harm"] = change(harm, other_harm, how.confidence)
    return found


def _whole(rate: Rate) -> Floats:
    """``[1 + R, …]``: what was measured before what was drawn."""
    return np.concatenate([np.asarray(rate.value)[None], rate.samples])
