"""AP of two readings of the same images, and the interval of their difference: a bootstrap over images, paired.

``Precision`` matches once, at COCO's ten IoU thresholds, and then gives AP for any weights of the images: a resample is
a row of weights, so that two readings are compared on the same thousand draws without matching anything again. The
twelve numbers of one data set are ``ap``'s; with all weights 1 both agree.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from misdetect.metrics.ap import IOU_THRESHOLDS
from misdetect.metrics.bootstrap import interval, resamples
from misdetect.metrics.columns import DetectionColumns, TruthColumns
from misdetect.metrics.matching import Pairs, match_pairs, overlap_of_pairs, pairs_within_images
from misdetect.nouns.boxes import Bools, Floats, Ints

RECALLS = np.linspace(0, 1, 101)
"""COCO's, to the last bit: of ten objects three are a recall of .3, and that must count as COCO counts it."""
MOST = 100
"""Detections per image and class that count, the best-scored: COCO's cap; of one ranking, per image."""
REPEATS = 400
_AT_ONCE = 1 << 22
"""Numbers held at a time while resamples are gone through."""


@dataclass(frozen=True, eq=False)
class Objects:
    """The annotations of some images, sorted by ``image`` ``[T]`` (0 … ``images`` - 1): ``label`` ``[T]``, ``boxes``
    ``[T, 4]`` pixels, ``crowd`` ``[T]``."""

    images: int
    image: Ints
    label: Ints
    boxes: Floats
    crowd: Bools

    def of(self, chosen: Sequence[int]) -> "Objects":
        """Those of the ``chosen`` images, which are numbered anew in that order."""
        rows, image = _renumbered(self.image, chosen)
        return Objects(len(chosen), image, self.label[rows], self.boxes[rows], self.crowd[rows])


@dataclass(frozen=True, eq=False)
class Boxes:
    """Detections on the same images, sorted by ``image`` ``[D]``: ``label`` ``[D]``, ``boxes`` ``[D, 4]`` pixels,
    ``scores`` ``[D]``, of which only the order counts."""

    image: Ints
    label: Ints
    boxes: Floats
    scores: Floats

    def __len__(self) -> int:
        return len(self.scores)

    def __getitem__(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> "Boxes":
        return Boxes(self.image[rows], self.label[rows], self.boxes[rows], self.scores[rows])

    def of(self, chosen: Sequence[int]) -> "Boxes":
        """Those of the ``chosen`` images, which are numbered anew in that order."""
        rows, image = _renumbered(self.image, chosen)
        return Boxes(image, self.label[rows], self.boxes[rows], self.scores[rows])

    def best(self, most: int = MOST, *, of_class: bool = True) -> "Boxes":
        """The ``most`` best-scored of each image (and class), sorted by image."""
        group = self.image * (self.label.max(initial=0) + 1) + self.label if of_class else self.image
        order = np.lexsort((-self.scores, group))
        first = np.searchsorted(group[order], group[order], side="left")
        return self[order[np.arange(len(order)) - first < most]]


def _renumbered(image: Ints, chosen: Sequence[int]) -> tuple[Ints, Ints]:
    """The rows whose ``image`` is one of ``chosen``, in that order, and where in ``chosen`` each of them is."""
    rows = [np.flatnonzero(image == i) for i in chosen]
    where = np.repeat(np.arange(len(rows)), [len(row) for row in rows]).astype(np.int64)
    return np.concatenate([np.zeros(0, np.int64), *rows]), where


class Precision:
    """AP of ``found`` against ``objects`` at ``thresholds`` of IoU. ``pooled``: one ranking over all classes instead of
    the mean over classes, which on a few dozen images is a mean of very few objects each; with ``any_class`` labels do
    not count at all. The ``most`` best-scored detections of each image and class count."""

    def __init__(
        self,
        objects: Objects,
        found: Boxes,
        *,
        pooled: bool = False,
        any_class: bool = False,
        thresholds: Sequence[float] = IOU_THRESHOLDS,
        most: int = MOST,
    ) -> None:
        found = found.best(most, of_class=not (pooled or any_class))
        self._thresholds = thresholds
        self._images = objects.images
        detection, truth = pairs_within_images(found.image, objects.image)
        overlap = overlap_of_pairs(found.boxes[detection], objects.boxes[truth], objects.crowd[truth])
        same = np.ones(len(truth), np.bool_) if any_class else found.label[detection] == objects.label[truth]
        self._pairs, self._same = Pairs(detection, truth, overlap), same
        self._objects, self._found, self._pooled = objects, found, pooled or any_class

    @cached_property
    def _classes(self) -> list[tuple[Ints, Ints, Bools, Bools]]:
        """For each class with objects: the image of each of them, and of each detection by falling score the image,
        whether it is right and whether it is ignored ``[10, D]``."""
        objects, found = self._objects, self._found
        matched = [
            match_pairs(self._pairs, found.scores, self._same, objects.crowd, len(objects.label), threshold)
            for threshold in self._thresholds
        ]
        right = np.array([each.truth_of >= 0 for each in matched]).reshape(len(matched), len(found))
        ignored = np.array([each.ignored for each in matched]).reshape(len(matched), len(found))
        order = np.argsort(-found.scores, kind="stable")
        real = ~objects.crowd
        tables = []
        for label in [None] if self._pooled else self.labels:
            own = real if label is None else real & (objects.label == label)
            rows = order if label is None else order[found.label[order] == label]
            if own.any():
                tables.append((objects.image[own], found.image[rows], right[:, rows], ignored[:, rows]))
        return tables

    @property
    def labels(self) -> list[int]:
        """The classes that have objects, in the order of ``by_class``."""
        found: list[int] = np.unique(self._objects.label[~self._objects.crowd]).tolist()
        return found

    def by_class(self, weights: ArrayLike) -> Floats:
        """AP ``[C, R, 10]`` of each of ``labels`` (of the one ranking, where there is one) at each threshold, where
        image i counts ``weights[:, i]`` times (``[R, images]``); NaN where none of its objects is drawn."""
        draws = np.asarray(weights, dtype=np.float64).reshape(-1, self._images)
        found = np.full((len(self._classes), len(draws), len(self._thresholds)), np.nan)
        for own, (image_of_object, image, right, ignored) in zip(found, self._classes, strict=True):
            positives = draws[:, image_of_object].sum(axis=1)
            step = max(1, _AT_ONCE // max(1, len(image)))
            for start in range(0, len(draws), step):
                rows = slice(start, start + step)
                known = positives[rows, None] > 0
                value = interpolated(draws[rows][:, image], positives[rows, None], right, ignored)
                own[rows] = np.where(known, value, np.nan)
        return found

    def by_threshold(self, weights: ArrayLike) -> Floats:
        """AP ``[R, 10]`` at each threshold, the mean over classes; NaN where nothing is annotated."""
        return mean_over_classes(self.by_class(weights))

    def values(self, weights: ArrayLike) -> Floats:
        """AP ``[R]``, the mean over the thresholds."""
        found: Floats = self.by_threshold(weights).mean(axis=1)
        return found

    @cached_property
    def ap(self) -> float:
        """With every image once; 0 where nothing is annotated."""
        return float(np.nan_to_num(self.values(np.ones((1, self._images)))[0]))


def mean_over_classes(values: Floats, otherwise: float = np.nan) -> Floats:
    """The mean of ``values`` ``[C, ...]`` over the classes that have one; ``otherwise`` where none has."""
    known = ~np.isnan(values)
    total, count = np.where(known, values, 0).sum(axis=0), known.sum(axis=0)
    found: Floats = np.divide(total, count, out=np.full(total.shape, otherwise), where=count > 0)
    return found


def interpolated(weights: Floats, positives: Floats, right: Bools, ignored: Bools, recalls: Floats = RECALLS) -> Floats:
    """The 101-point precision ``[R, 10]`` of one class: ``weights`` ``[R, D]`` of the detections by falling score,
    ``positives`` ``[R, 1]``, ``right`` and ``ignored`` ``[10, D]``. It is decided where a detection is right: recall
    grows only there, and precision falls in between."""
    value = np.zeros((len(weights), len(right)))
    everyone = np.cumsum(weights, axis=1)
    for i, hit in enumerate(map(np.flatnonzero, right)):
        hits = np.cumsum(weights[:, hit], axis=1)
        seen = (np.cumsum(weights * ~ignored[i], axis=1) if ignored[i].any() else everyone)[:, hit]
        precision = np.divide(hits, seen, out=np.zeros_like(hits), where=seen > 0)
        envelope = np.maximum.accumulate(precision[:, ::-1], axis=1)[:, ::-1]
        reached = np.searchsorted(recalls, hits / np.maximum(positives, 1e-12), side="right")
        value[:, i] = (envelope * np.diff(reached, axis=1, prepend=0)).sum(axis=1) / len(recalls)
    return value


def difference(
    after: Precision, before: Precision, draws: ArrayLike, confidence: float
) -> tuple[float, tuple[float, float]]:
    """AP of ``after`` minus AP of ``before``, and its interval over the same ``draws`` ``[R, images]`` of both."""
    low, high = interval(after.values(draws) - before.values(draws), confidence)
    return after.ap - before.ap, (float(low), float(high))


def resampled_ap(
    truth: TruthColumns, detections: DetectionColumns, repeats: int = REPEATS, seed: int = 0
) -> tuple[Floats, Floats]:
    """AP and AP50 ``[repeats]`` of resamples of the images; NaN where nothing is annotated in one."""
    return ap_of_draws(truth, detections, resamples(max(len(truth.images), 1), repeats, seed))


def ap_of_draws(truth: TruthColumns, detections: DetectionColumns, draws: Floats) -> tuple[Floats, Floats]:
    """AP and AP50 ``[R]`` where image i counts ``draws[r, i]`` times."""
    objects = Objects(draws.shape[1], truth.image, truth.label, truth.boxes, truth.crowd)
    found = Boxes(detections.image, detections.label, detections.boxes, detections.scores)
    value = Precision(objects, found).by_threshold(draws)
    return value.mean(axis=1), value[:, IOU_THRESHOLDS.index(0.5)]
