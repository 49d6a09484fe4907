"""How much the costs of TIDE would differ had other images been drawn: a bootstrap over images, paired.

Nothing is matched again: a resample weighs the images, before a fix and after it alike.
"""

import numpy as np
from numpy.typing import ArrayLike

from misdetect.metrics.columns import DetectionColumns, TruthColumns
from misdetect.metrics.paired import interpolated, mean_over_classes
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
) -> dict[str, Floats]:
    """What each of ``DETECTIONS`` costs, in points of AP ``[R]``, where image i counts ``draws[r, i]`` times; NaN where
    nothing is annotated in a resample."""
    weights = np.asarray(draws, dtype=np.float64)
    every = readings(assignment, truth, detections, settings)
    images = truth.image, detections.image
    positives = np.stack([weights[:, i].sum(axis=1) for i in _images_by_class(every[BASE], truth)])
    averaged = positives > 0 if settings.classes == "with-truth" else np.ones_like(positives, dtype=np.bool_)
    mean = {}
    for name in (BASE, *DETECTIONS):
        by_class = _class_ap(every[name], truth.label, images, weights, len(truth.names))
        # 100 where an oracle left nothing at all
        mean[name] = mean_over_classes(np.where(averaged, by_class, np.nan), otherwise=100.0)
    some = (positives > 0).any(axis=0)
    # below 0 only by tied scores counted in another order than before the fix
    return {name: np.where(some, np.maximum(mean[name] - mean[BASE], 0.0), np.nan) for name in DETECTIONS}


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
