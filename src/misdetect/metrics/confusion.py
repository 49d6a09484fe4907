"""The Detection Confusion Matrix (paper 5, section 3.1): what each detection was predicted as, and what it really is.

Every detection is given a true class by its overlap with the annotations, *background* where none is near enough, and a
predicted class, *background* where the detector itself finds that likelier. A cell has the number of such detections,
the sum of their confidences and the histogram of their IoUs. Objects without any detection are in no cell: ``missed``
has them. Functions of columns; nothing is read or drawn here.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from misdetect.metrics.columns import DetectionColumns, TruthColumns
from misdetect.metrics.matching import Pairs, match_pairs, overlap_of_pairs, pairs_within_images
from misdetect.nouns.boxes import Bools, Floats, Ints, match
from misdetect.said.errors import BadArray

BACKGROUND = "background"
Policy = Literal["paper", "greedy", "optimal"]
"""Which annotation a detection belongs to, among those of *any* class with an IoU at or above the threshold. ``paper``:
the one with the largest IoU, so that several detections may share one; ``greedy``: by falling score each takes the free
one with the largest IoU; ``optimal``: one to one with the largest sum of IoUs."""
POLICIES: tuple[Policy, ...] = get_args(Policy)
Mode = Literal["hard", "soft", "reported"]
"""Which class a detection was predicted as. ``hard``: background where that outscores every class, else its label;
``soft``: its scores are spread over all columns; ``reported``: its label (all that is known of a black box)."""
BINS = 10
FAINT = 0.01
"""In soft mode, the least share of a detection that a cell is said to hold."""
PAIRS_AT_ONCE = 100_000
"""How many (detection, annotation) pairs are looked at together: few enough for the processor's cache."""


@dataclass(frozen=True, eq=False)
class Assigned:
    """``truth_of`` ``[D]``: the annotation a detection belongs to, -1 for none (its true class is background);
    ``overlap`` ``[D]``: the IoU with it, else the largest with any object; ``ignored`` ``[D]``: it belongs to none, but
    lies in a crowd of its class, and is in no cell."""

    truth_of: Ints
    overlap: Floats
    ignored: Bools


@dataclass(frozen=True, eq=False)
class Confusion:
    """The matrix over ``labels`` (the data's classes, then background): rows are true classes, columns predicted ones.

    ``counts`` and ``confidence`` ``[C + 1, C + 1]``; ``histograms`` ``[C + 1, C + 1, BINS]``, detections by IoU in
    equal steps from 0 to 1; ``policy_dependent`` ``[C + 1, C + 1]``, cells that hold other detections under another
    policy, and ``counts_by_policy`` and ``missed_by_policy`` what it would count there.
    Of each class ``[C]``: ``objects`` = ``right`` (a detection of their own class belongs to them) + ``confused``
    (only of others) + ``sunk`` (only such as were predicted background) + ``missed`` (none at all).
    ``row`` and ``column`` ``[D]`` say where each detection is counted (-1: ``ignored``; in soft mode its likeliest
    column), ``became`` and ``voice`` ``[T]`` what each object was taken for and by which detection (-1: missed).
    """

    labels: tuple[str, ...]
    counts: Floats
    confidence: Floats
    histograms: Floats
    policy_dependent: Bools
    counts_by_policy: Mapping[Policy, Floats]
    missed_by_policy: Mapping[Policy, Ints]
    objects: Ints
    right: Ints
    confused: Ints
    sunk: Ints
    missed: Ints
    assigned: Assigned
    row: Ints
    column: Ints
    became: Ints
    voice: Ints

    @property
    def ignored(self) -> int:
        """Detections in crowds, which are in no cell."""
        return int(self.assigned.ignored.sum())


def confusion(
    truth: TruthColumns,
    detections: DetectionColumns,
    *,
    iou_threshold: float = 0.5,
    policy: Policy = "paper",
    mode: Mode = "hard",
    background: Floats | None = None,
    best: Floats | None = None,
    vectors: Floats | None = None,
) -> Confusion:
    """The confusion matrix of ``detections`` against ``truth``.

    ``background`` ``[D]``: each detection's score for the background (``hard`` and ``soft`` need it); ``best`` ``[D]``:
    its best score for any class, by default its own (they differ where one box is reported under several labels);
    ``vectors`` ``[D, C]``: its scores for all of the data's classes, for ``soft``. See ``in_data_columns``.
    """
    near = _Near.of(truth, detections, iou_threshold)
    classes = len(truth.names)
    size = classes + 1
    column, said = _predicted(detections, classes, mode, background, best, vectors)
    shares, scores = _spread(vectors, background) if mode == "soft" else (None, None)
    assigned = {name: near.assigned(name) for name in POLICIES}
    rows = {name: _rows(truth, each, classes) for name, each in assigned.items()}
    row, chosen = rows[policy], assigned[policy]
    bins = np.where(row >= 0, row * BINS + _bins(chosen.overlap), -1)
    histograms = _sums(bins, column, None, shares, size * BINS, size)
    became, voice = _became(truth, detections, chosen, column)
    return Confusion(
        labels=(*truth.names, BACKGROUND),
        counts=_sums(row, column, None, shares, size, size),
        confidence=_sums(row, column, said, scores, size, size),
        histograms=np.moveaxis(histograms.reshape(size, BINS, size), 1, 2),
        policy_dependent=_dependent(rows, column, shares, size),
        counts_by_policy={name: _sums(each, column, None, shares, size, size) for name, each in rows.items()},
        missed_by_policy={name: _missed(truth, each, classes) for name, each in assigned.items()},
        **_of_objects(truth, became, classes),
        assigned=chosen,
        row=row,
        column=np.where(row >= 0, column, -1),
        became=became,
        voice=voice,
    )


def assign(
    truth: TruthColumns, detections: DetectionColumns, policy: Policy = "paper", iou_threshold: float = 0.5
) -> Assigned:
    """Which annotation each detection belongs to under ``policy``."""
    return _Near.of(truth, detections, iou_threshold).assigned(policy)


def found_by_class(truth: TruthColumns, detections: DetectionColumns, iou_threshold: float = 0.5) -> Bools:
    """Which annotations ``[T]`` COCO's matching calls found: by falling score, each once, only by their own class. The
    recall that AP and AR are made of; the matrix looks at any class first, so it may have another."""
    pairs = _Near.of(truth, detections, iou_threshold).pairs
    same = detections.label[pairs.detection] == truth.label[pairs.truth]
    matched = match_pairs(pairs, detections.scores, same, truth.crowd, len(truth), iou_threshold)
    return np.asarray(matched.detection_of >= 0)


def in_data_columns(scores: Floats, to_data: Ints, classes: int) -> Floats:
    """Scores ``[D, K]`` for the detector's classes as scores ``[D, classes]`` for the data's: ``to_data`` ``[K]`` are
    the data's labels, -1 where it has no such class; of two that are one class in the data the better one counts."""
    found = np.zeros((len(scores), classes))
    for label in np.flatnonzero(to_data >= 0).tolist():
        np.maximum(found[:, to_data[label]], scores[:, label], out=found[:, to_data[label]])
    return found


@dataclass(frozen=True, eq=False)
class _Near:
    """The pairs that may belong together: overlap at or above the threshold, crowds only for their own class; and each
    detection's largest IoU with any object, ``[D]``."""

    pairs: Pairs
    largest: Floats
    scores: Floats
    image: Ints
    crowd: Bools

    @classmethod
    def of(cls, truth: TruthColumns, detections: DetectionColumns, threshold: float) -> "_Near":
        if not 0 < threshold <= 1:
            raise BadArray(f"Expected an IoU threshold above 0 and at most 1. Got {threshold:g}.")
        for name, column in (("detections", detections), ("truths", truth)):
            if len(column) and (column.label.min() < 0 or column.label.max() >= len(truth.names)):
                raise BadArray(f"Expected labels of {name} to be indices into the data's {len(truth.names)} names.")
        largest = np.zeros(len(detections))
        parts: list[tuple[Ints, Ints, Floats]] = []
        for start, stop in _slices(truth, detections):
            detection, at = pairs_within_images(detections.image[start:stop], truth.image)
            detection += start
            crowd = truth.crowd[at]
            overlap = overlap_of_pairs(detections.boxes[detection], truth.boxes[at], crowd)
            np.maximum.at(largest, detection[~crowd], overlap[~crowd])
            # a threshold of 1 must still accept a perfect box, as in matching
            able = (overlap >= min(threshold, 1 - 1e-10)) & (~crowd | (detections.label[detection] == truth.label[at]))
            parts.append((detection[able], at[able], overlap[able]))
        none = (np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))
        detection, at, overlap = (np.concatenate(columns) for columns in zip(none, *parts, strict=True))
        return cls(Pairs(detection, at, overlap), largest, detections.scores, detections.image, truth.crowd)

    def assigned(self, policy: Policy) -> Assigned:
        own = ~self.crowd[self.pairs.truth]
        pairs = self.pairs[own]
        if policy == "greedy":
            any_class = np.ones(len(own), np.bool_)
            found = match_pairs(self.pairs, self.scores, any_class, self.crowd, len(self.crowd), 0.0)
            truth_of, ignored = found.truth_of, found.ignored
        else:
            chosen = _largest(pairs) if policy == "paper" else _optimal(pairs, self.image)
            truth_of = np.full(len(self.scores), -1, dtype=np.int64)
            truth_of[pairs.detection[chosen]] = pairs.truth[chosen]
            crowded = np.zeros(len(truth_of), np.bool_)
            crowded[self.pairs.detection[~own]] = True
            ignored = crowded & (truth_of < 0)
        overlap = self.largest.copy()
        taken = truth_of[pairs.detection] == pairs.truth
        overlap[pairs.detection[taken]] = pairs.overlap[taken]
        return Assigned(truth_of, overlap, ignored)


def _slices(truth: TruthColumns, detections: DetectionColumns) -> Iterator[tuple[int, int]]:
    """Runs of detections that have at most ``PAIRS_AT_ONCE`` pairs, or one detection that has more."""
    per_image = np.bincount(truth.image, minlength=len(truth.images))
    ends = np.cumsum(per_image[detections.image])
    start = 0
    while start < len(ends):
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + PAIRS_AT_ONCE, side="right")))
        yield start, stop
        start = stop


def _largest(pairs: Pairs) -> Ints:
    """For each detection the pair with the largest overlap; of equal ones the later annotation, as in matching."""
    order = np.lexsort((-pairs.truth, -pairs.overlap, pairs.detection))
    first = np.ones(len(order), np.bool_)
    first[1:] = pairs.detection[order][1:] != pairs.detection[order][:-1]
    return np.asarray(order[first])


def _optimal(pairs: Pairs, image: Ints) -> Ints:
    """Pairs of the one-to-one assignment of each image with the largest sum of overlaps."""
    rivals = [np.bincount(side, minlength=1)[side] for side in (pairs.detection, pairs.truth)]
    contested = (rivals[0] > 1) | (rivals[1] > 1)
    chosen = [np.flatnonzero(~contested)]  # a pair without rivals needs no solver
    rows = np.flatnonzero(contested)
    of_image = image[pairs.detection[rows]]
    for group in np.split(rows, np.flatnonzero(np.diff(of_image)) + 1) if rows.size else ():
        found, d = np.unique(pairs.detection[group], return_inverse=True)
        there, t = np.unique(pairs.truth[group], return_inverse=True)
        place = np.full((len(found), len(there)), -1, dtype=np.int64)
        place[d, t] = group
        weights = np.where(place >= 0, pairs.overlap[place], 0.0)
        chosen.append(place[match(weights)])
    return np.concatenate(chosen)


def _rows(truth: TruthColumns, assigned: Assigned, classes: int) -> Ints:
    """The true class of each detection: ``classes`` for background, -1 for ignored."""
    padded = np.append(truth.label, classes)
    return np.where(assigned.ignored, -1, padded[assigned.truth_of])


def _predicted(
    detections: DetectionColumns,
    classes: int,
    mode: Mode,
    background: Floats | None,
    best: Floats | None,
    vectors: Floats | None,
) -> tuple[Ints, Floats]:
    """The predicted class of each detection, and its confidence in that."""
    if mode == "reported":
        return detections.label, detections.scores
    if background is None or (mode == "soft" and vectors is None):
        raise BadArray(f"Expected {'vectors and ' if mode == 'soft' else ''}background scores for the mode {mode!r}.")
    background = np.asarray(background, dtype=np.float64)
    if mode == "soft":
        assert vectors is not None
        best, label = vectors.max(axis=1, initial=0.0), vectors.argmax(axis=1) if classes else detections.label
    else:
        best, label = detections.scores if best is None else best, detections.label
    sunk = background > np.asarray(best, dtype=np.float64)
    return np.where(sunk, classes, label), np.where(sunk, background, detections.scores)


def _spread(vectors: Floats | None, background: Floats | None) -> tuple[Floats, Floats]:
    """Scores ``[D, C + 1]`` as shares of one detection each, and as they are. One that scores nothing is background."""
    assert vectors is not None
    assert background is not None
    scores = np.concatenate([vectors, background[:, None]], axis=1).astype(np.float64)
    sums = scores.sum(axis=1, keepdims=True)
    shares = np.divide(scores, sums, out=np.zeros_like(scores), where=sums > 0)
    shares[sums[:, 0] <= 0, -1] = 1
    return shares, scores


def _bins(overlap: Floats) -> Ints:
    """The step of each IoU: step b holds b / BINS <= IoU < (b + 1) / BINS, the last one also 1."""
    return np.searchsorted(np.arange(1, BINS) / BINS, overlap, side="right").astype(np.int64)


def _sums(row: Ints, column: Ints, said: Floats | None, spread: Floats | None, rows: int, columns: int) -> Floats:
    """Sums ``[rows, columns]`` over detections whose ``row`` is not -1: of ``said`` ``[D]`` (1 each where it is
    ``None``) in their ``column``, or of ``spread`` ``[D, columns]`` over all columns."""
    counted = row >= 0
    if spread is None:
        weights = None if said is None else said[counted]
        found = np.bincount(row[counted] * columns + column[counted], weights, minlength=rows * columns)
        return found.astype(np.float64).reshape(rows, columns)
    total = np.zeros((rows, columns))
    np.add.at(total, row[counted], spread[counted])
    return total


def _missed(truth: TruthColumns, assigned: Assigned, classes: int) -> Ints:
    """Objects ``[C]`` that no detection belongs to."""
    lost = ~truth.crowd
    lost[assigned.truth_of[assigned.truth_of >= 0]] = False
    return np.bincount(truth.label[lost], minlength=classes).astype(np.int64)


def _dependent(rows: dict[Policy, Ints], column: Ints, shares: Floats | None, size: int) -> Bools:
    """Cells that some detection is in under one policy and not under another."""
    marked = np.zeros((size, size), np.bool_)
    every = np.stack([rows[name] for name in POLICIES])
    moved = np.flatnonzero((every != every[0]).any(axis=0))
    for row in every[:, moved]:
        inside = row >= 0
        if shares is None:
            marked[row[inside], column[moved][inside]] = True
        else:
            np.logical_or.at(marked, row[inside], shares[moved][inside] >= FAINT)
    return marked


def _became(truth: TruthColumns, detections: DetectionColumns, assigned: Assigned, column: Ints) -> tuple[Ints, Ints]:
    """For each annotation what it was taken for and the detection that says so: one of its own class before others, a
    class before background, then the best score; -1 where none belongs to it."""
    became, voice = np.full((2, len(truth)), -1, dtype=np.int64)
    speaks = np.flatnonzero(assigned.truth_of >= 0)
    at = assigned.truth_of[speaks]
    wrong, sunk = column[speaks] != truth.label[at], column[speaks] == len(truth.names)
    order = np.lexsort((speaks, -detections.scores[speaks], sunk, wrong))[::-1]  # the first choice is written last
    became[at[order]], voice[at[order]] = column[speaks[order]], speaks[order]
    return became, voice


def _of_objects(truth: TruthColumns, became: Ints, classes: int) -> dict[str, Ints]:
    """Objects of each class by what became of them; crowds are no objects."""
    kinds = {
        "objects": np.ones(len(truth), np.bool_),
        "right": became == truth.label,
        "confused": (became >= 0) & (became != truth.label) & (became < classes),
        "sunk": became == classes,
        "missed": became < 0,
    }
    return {
        name: np.bincount(truth.label[chosen & ~truth.crowd], minlength=classes).astype(np.int64)
        for name, chosen in kinds.items()
    }
