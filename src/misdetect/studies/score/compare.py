"""Several score runs side by side: how AP differs, of all and of each class, drawing the same images for both.

Only runs that scored the same objects by the same rules are compared so. A thousand matchings are not needed: both runs
are matched once, and a resample weighs their images (``metrics.paired``).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from misdetect.boxes import Floats
from misdetect.engine.store import Run
from misdetect.metrics.ap import IOU_THRESHOLDS
from misdetect.metrics.bootstrap import interval, resamples
from misdetect.metrics.columns import TruthColumns
from misdetect.metrics.paired import REPEATS, Boxes, Objects, Precision, mean_over_classes
from misdetect.metrics.scoring import distinct
from misdetect.studies.contract import Document
from misdetect.studies.score.rows import COLUMNS, columns_of
from misdetect.studies.score.settings import ScoreSettings

NUMBERS: Mapping[str, slice | int] = {
    "AP": slice(None),
    "AP50": IOU_THRESHOLDS.index(0.5),
    "AP75": IOU_THRESHOLDS.index(0.75),
}
"""What is compared, and the IoU thresholds that each is the mean of."""


@dataclass(frozen=True)
class Scored:
    """A run as it is compared: its ``rules``, its ``truth``, and its ``precision`` for any weights of the images."""

    rules: Mapping[str, Any]
    truth: TruthColumns
    precision: Precision

    @classmethod
    def of(cls, run: Run) -> "Scored":
        """Of the rows of ``run``."""
        how = ScoreSettings.of({**run.settings, **run.about["view"]})
        data = run.about["identity"]["data"]
        truth, found, _ = columns_of(run.query(f"SELECT {COLUMNS} FROM rows"), data["names"], data["images"])
        objects = Objects(data["images"], truth.image, truth.label, truth.boxes, truth.crowd)
        boxes = Boxes(found.image, found.label, found.boxes, found.scores)
        rules = {"masks": how.masks, "max_detections": how.max_detections}
        return cls(rules, truth, Precision(objects, boxes, most=how.max_detections))


def compare(runs: Mapping[str, Run], confidence: float, seed: int) -> Document:
    """``differences``: for every two runs over the same objects how AP differs; why not, of the others."""
    scored = {name: Scored.of(run) for name, run in runs.items()}
    why_not = {pair: _why_not(*(scored[name] for name in pair)) for pair in combinations(scored, 2)}
    drawn: dict[str, Floats] = {}
    for name, each in scored.items():
        if any(name in pair and why is None for pair, why in why_not.items()):
            images = len(each.truth.images)
            draws = np.concatenate([np.ones((1, images)), resamples(images, REPEATS, seed)])
            drawn[name] = each.precision.by_class(draws)
    return {
        "differences": [
            {"first": a, "second": b, **_difference(scored[a], drawn[a], drawn[b], confidence)}
            for (a, b), why in why_not.items()
            if why is None
        ],
        "paired": not any(why_not.values()),
        "why_not_paired": [f"{a} and {b} {why}" for (a, b), why in why_not.items() if why is not None],
    }


def _why_not(one: Scored, other: Scored) -> str | None:
    differing = [rule for rule in one.rules if one.rules[rule] != other.rules[rule]]
    if differing:
        return f"differ in {', '.join(differing)}"
    if one.rules["masks"]:
        return "compare masks, and images are drawn again for boxes only"
    a, b = one.truth, other.truth
    same = len(a.images) == len(b.images) > 0 and a.names == b.names and len(a) == len(b)
    same = same and all(np.array_equal(getattr(a, key), getattr(b, key)) for key in ("image", "label", "crowd"))
    return None if same and np.allclose(a.boxes, b.boxes, atol=0.01) else "did not score the same objects"


def _difference(one: Scored, first: Floats, second: Floats, confidence: float) -> Document:
    """Second less first; both ``[C, 1 + R, 10]``, what was measured before what was drawn."""
    names = distinct(one.truth.names)
    classes = {
        names[label]: {key: _change(first[i], second[i], places, confidence) for key, places in NUMBERS.items()}
        for i, label in enumerate(one.precision.labels)
    }
    both = mean_over_classes(first), mean_over_classes(second)
    overall = {key: _change(*both, places, confidence) for key, places in NUMBERS.items()}
    return {"same_images": True, **overall, "by_class": dict(sorted(classes.items()))}


def _change(first: Floats, second: Floats, places: slice | int, confidence: float) -> Document | None:
    a, b = (values[:, places].reshape(len(values), -1).mean(axis=1) for values in (first, second))
    if np.isnan(a[0]) or np.isnan(b[0]):
        return None
    low, high = (float(end) for end in interval((b - a)[1:], confidence))
    return {
        "first": float(a[0]),
        "second": float(b[0]),
        "difference": float(b[0] - a[0]),
        "interval": [low, high],
        "certain": not low <= 0 <= high,
    }
