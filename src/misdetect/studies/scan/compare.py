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
from misdetect.studies.scan.rows import NULL, OBJECT
from misdetect.studies.scan.settings import ScanSettings, settings_of
from misdetect.studies.scan.table import ROWS, SCENE, Images, Rate, read_positions, table_rates

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

    def rates(self, pairs: list[Key]) -> dict[str, Rate]:
        """Of the positions of ``pairs``: Table I with the scene (``table``) and what is harmed (``harm``), each also
        less the null control where there is one."""
        found, count = read_positions(self.run, self.how, [self.pairs[key] for key in pairs])
        images = Images.of(count, self.how)
        table = {name: table_rates(images, found[name], self.how) for name in (OBJECT, NULL)}
        harm = {name: images.rate(part, part.harmful, np.ones(len(part), np.bool_)) for name, part in found.items()}
        rates = {"table": table[OBJECT], "harm": harm[OBJECT]}
        if len(found[NULL]):
            rates |= {"table beyond null": table[OBJECT] - table[NULL], "harm beyond null": harm[OBJECT] - harm[NULL]}
        return rates


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
    found |= _changes(first, second, "", one.how, judged)
    if {"table beyond null"} <= first.keys() & second.keys():
        found["beyond_null"] = _changes(first, second, " beyond null", one.how, judged)
    return found


def _changes(
    first: Mapping[str, Rate], second: Mapping[str, Rate], kind: str, how: ScanSettings, judged: bool
) -> Document:
    a, b = (_whole(rates["table" + kind]) for rates in (first, second))
    found: Document = {
        row: {f"{tau:g}": change(a[:, r, t], b[:, r, t], how.confidence) for t, tau in enumerate(how.tau)}
        for r, row in enumerate((*ROWS, SCENE))
    }
    if judged:
        found["harm"] = change(_whole(first["harm" + kind]), _whole(second["harm" + kind]), how.confidence)
    return found


def _whole(rate: Rate) -> Floats:
    """``[1 + R, …]``: what was measured before what was drawn."""
    return np.concatenate([np.asarray(rate.value)[None], rate.samples])
