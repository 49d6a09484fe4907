"""How much the costs of TIDE would differ had other images been drawn: a bootstrap over images, paired.

Nothing is matched again: a resample weighs the images, before a fix and after it alike.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from misdetect.metrics.columns import DetectionColumns, TruthColumns
from misdetect.metrics.paired import interpolated
from misdetect.metrics.tide import BASE, RECALLS, Assignment, Reading, TideSettings, readings
from misdetect.nouns.boxes import Floats, Ints

DETECTIONS = ("Cls", "Loc", "Both", "Dupe", "Bkg")
"""Errors of detections: those that cost something by being there."""
_AT_ONCE = 1 << 22
"""Numbers held at a time while resamples are gone through."""


def costs_of_draws(
    assignment: Assignment,
    truth: TruthColumns,
    detections: DetectionColumns,
    draws: ArrayLike,
    settings: TideSettings,
    types: Sequence[str] = DETECTIONS,
) -> dict[str, Floats]:
    """What each of ``types`` costs, in points of AP ``[R]``, where image i counts ``draws[r, i]`` times; NaN where
    nothing is annotated in a resample."""
    weights = np.asarray(draws, dtype=np.float64)
    every = readings(assignment, truth, detections, settings)
    images = truth.image, detections.image
    by_class = {name: _class_ap(every[name], truth.label, images, weights, len(truth.names)) for name in (BASE, *types)}
    positives = np.stack([weights[:, i].sum(axis=1) for i in _images_by_class(every[BASE], truth)])
    averaged = positives > 0 if settings.classes == "with-truth" else np.ones_like(positives, dtype=np.bool_)
    mean = {name: _mean(np.where(averaged, values, np.nan)) for name, values in by_class.items()}
    some = (positives > 0).any(axis=0)
    # below 0 only by tied scores counted in another order than before the fix
    return {name: np.where(some, np.maximum(mean[name] - mean[BASE], 0.0), np.nan) for name in types}


def _images_by_class(reading: Reading, truth: TruthColumns) -> list[Ints]:
    """For each class the image of each object that counts."""
    return [truth.image[reading.counted & (truth.label == c)] for c in range(len(truth.names))]


def _class_ap(reading: Reading, truth_label: Ints, images: tuple[Ints, Ints], weights: Floats, classes: int) -> Floats:
    """AP ``[C, R]`` in points; NaN where a resample has neither objects nor detections of a class."""
    of_truth, of_detection = images
    chosen = reading.order[reading.scored[reading.order]]
    ap = np.zeros((classes, len(weights)))
    for c in range(classes):
        objects = of_truth[reading.counted & (truth_label == c)]
        rows = chosen[reading.label[chosen] == c]
        right, never = reading.correct[rows][None], np.zeros((1, len(rows)), np.bool_)
        step = max(1, _AT_ONCE // max(len(rows), len(objects), 1))
        for low in range(0, len(weights), step):
            part = weights[low : low + step]
            drawn, positives = part[:, of_detection[rows]], part[:, objects].sum(axis=1, keepdims=True)
            value = 100 * interpolated(drawn, positives, right, never, RECALLS)[:, 0]
            empty = (positives[:, 0] == 0) & (drawn.sum(axis=1) == 0)
            ap[c, low : low + step] = np.where(empty, np.nan, value)
    return ap


def _mean(ap: Floats) -> Floats:
    """The mean of ``ap`` ``[C, R]`` over the classes that have anything; 100 where an oracle left nothing at all."""
    known = ~np.isnan(ap)
    total, count = np.where(known, ap, 0).sum(axis=0), known.sum(axis=0)
    found: Floats = np.divide(total, count, out=np.full(total.shape, 100.0), where=count > 0)
    return found
