"""How much AP would differ had other images been drawn: AP of bootstrap resamples, all at once.

Detections are matched once; a resample only changes how often each image's objects and detections count. The number
itself is ``ap.average_precision``'s; drawing every image once gives the same here, which a test holds.
"""

import numpy as np

from misdetect.boxes import Bools, Floats, Ints
from misdetect.metrics.ap import IOU_THRESHOLDS
from misdetect.metrics.bootstrap import resamples
from misdetect.metrics.columns import DetectionColumns, TruthColumns
from misdetect.metrics.matching import Pairs, match_pairs, overlap_of_pairs, pairs_within_images

REPEATS = 400
_CAP = 100
"""Detections per image and class, as COCO's."""
_AT_ONCE = 1 << 21
"""Weights held at once: resamples times detections of one class."""


def resampled_ap(
    truth: TruthColumns, detections: DetectionColumns, repeats: int = REPEATS, seed: int = 0
) -> tuple[Floats, Floats]:
    """AP and AP50 ``[repeats]`` of resamples of the images; NaN where nothing is annotated in one."""
    return ap_of_draws(truth, detections, resamples(max(len(truth.images), 1), repeats, seed))


def ap_of_draws(truth: TruthColumns, detections: DetectionColumns, draws: Floats) -> tuple[Floats, Floats]:
    """AP and AP50 ``[R]`` where image i counts ``draws[r, i]`` times."""
    kept = _capped(detections)
    matched = _matches(truth, detections, kept)
    table = np.full((len(truth.names), len(IOU_THRESHOLDS), len(draws)), np.nan)
    for label in np.unique(truth.label[~truth.crowd]).tolist():
        objects = truth.image[(truth.label == label) & ~truth.crowd]
        rows = kept[detections.label[kept] == label]
        rows = rows[np.argsort(-detections.scores[rows], kind="stable")]
        images = detections.image[rows]
        step = max(1, _AT_ONCE // max(len(rows), 1))
        for start in range(0, len(draws), step):
            some = draws[start : start + step]
            count = some[:, objects].sum(axis=1)
            weights = some[:, images]
            for t in range(len(IOU_THRESHOLDS)):
                hit, ignored = matched[0][t, rows], matched[1][t, rows]
                table[label, t, start : start + step] = _interpolated(weights, hit, ignored, count)
    with np.errstate(invalid="ignore"):
        known = ~np.isnan(table)
        number = known.sum(axis=(0, 1))
        whole = np.where(known, table, 0).sum(axis=(0, 1))
        ap = np.divide(whole, number, out=np.full(len(draws), np.nan), where=number > 0)
        number = known[:, 0].sum(axis=0)
        whole = np.where(known[:, 0], table[:, 0], 0).sum(axis=0)
    return ap, np.divide(whole, number, out=np.full(len(draws), np.nan), where=number > 0)


def _capped(d: DetectionColumns) -> Ints:
    """The best ``_CAP`` detections of each image and class."""
    order = np.lexsort((-d.scores, d.label, d.image))
    group = np.stack([d.image[order], d.label[order]])
    new = np.ones(len(order), np.bool_)
    new[1:] = (group[:, 1:] != group[:, :-1]).any(axis=0)
    begin = np.flatnonzero(new)
    place = np.arange(len(order)) - np.repeat(begin, np.diff(np.append(begin, len(order))))
    return np.sort(order[place < _CAP])


def _matches(truth: TruthColumns, d: DetectionColumns, kept: Ints) -> tuple[Bools, Bools]:
    """Which detections hit, and which are ignored, at each IoU threshold: two ``[10, D]``."""
    detection, at = pairs_within_images(d.image[kept], truth.image)
    same = d.label[kept][detection] == truth.label[at]
    detection, at = detection[same], at[same]
    overlap = overlap_of_pairs(d.boxes[kept][detection], truth.boxes[at], truth.crowd[at])
    hit, ignored = np.zeros((2, len(IOU_THRESHOLDS), len(d)), np.bool_)
    pairs, every = Pairs(detection, at, overlap), np.ones(len(at), np.bool_)
    for t, threshold in enumerate(IOU_THRESHOLDS):
        found = match_pairs(pairs, d.scores[kept], every, truth.crowd, len(truth), threshold)
        hit[t, kept], ignored[t, kept] = found.truth_of >= 0, found.ignored
    return hit, ignored


def _interpolated(weights: Floats, hit: Bools, ignored: Bools, count: Floats) -> Floats:
    """COCO's AP over 101 recalls ``[R]`` of one class: ``weights`` ``[R, D]`` of its detections by falling score,
    ``count`` ``[R]`` objects."""
    undefined = np.where(count > 0, 0.0, np.nan)
    if not hit.any():
        return undefined
    last = int(np.flatnonzero(hit)[-1]) + 1  # what comes after the last hit changes nothing
    weights, hit, ignored = weights[:, :last], hit[:last], ignored[:last]
    true = np.cumsum(weights * hit, axis=1)
    total = np.cumsum(weights * ~ignored, axis=1)
    precision = np.divide(true, total, out=np.zeros_like(true), where=total > 0)
    precision = np.maximum.accumulate(precision[:, ::-1], axis=1)[:, ::-1]
    recall = true / np.maximum(count, 1e-9)[:, None]
    passed = np.floor(100 * recall + 1e-9)  # recall thresholds 0.01 … 1 that are reached by each detection
    steps = np.diff(passed, axis=1, prepend=0.0)
    found = ((precision * steps).sum(axis=1) + precision[:, 0]) / 101
    return np.where(count > 0, found, np.nan)
