"""TIDE: which kind of error each detection and each missed object is, and what each kind costs in AP.

Implements Bolya et al., "TIDE: A General Toolbox for Identifying Object Detection Errors" (ECCV 2020), with the test
order of its reference implementation: Loc, Cls, Dupe, Bkg, else Both; Miss is a truth that no Cls or Loc error points
at. Every detection and every truth gets exactly one type. Where this differs from the reference, docs/score.md says so.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from hotcoco import mask as coco_mask

from misdetect.metrics.columns import DetectionColumns, TruthColumns
from misdetect.metrics.matching import Pairs, match_pairs, overlap_of_pairs, pairs_within_images
from misdetect.nouns.boxes import Bools, Floats, Ints
from misdetect.said.errors import BadArray

DETECTION_TYPES = ("TP", "Cls", "Loc", "Both", "Dupe", "Bkg", "ignored", "capped")
TP, CLS, LOC, BOTH, DUPE, BKG, IGNORED, CAPPED = range(8)
TRUTH_TYPES = ("found", "Cls", "Loc", "Miss", "ignored")
FOUND, COVERED_CLS, COVERED_LOC, MISS, CROWD = range(5)
MAIN = ("Cls", "Loc", "Both", "Dupe", "Bkg", "Miss")
SPECIAL = ("FalsePos", "FalseNeg")
BASE = "as they are"
PAIRS_AT_ONCE = 100_000
"""How many (detection, truth) pairs are looked at together: few enough for the processor's cache."""

Classes = Literal["all", "with-truth"]
Ties = Literal["errors-first", "file"]
RECALLS = np.arange(101) / 100


@dataclass(frozen=True)
class TideSettings:
    """``foreground`` and ``background`` IoU; ``cap``: only that many best detections per image (``None``: all).

    ``classes`` says over which classes AP is averaged: "all" counts a class that has detections but no truth as AP 0,
    as the reference does; "with-truth" leaves it out, as COCO's AP does. ``ties`` says which of two detections of equal
    score counts first after a fix: "errors-first" as in the reference, which understates costs where many scores are
    equal, or "file", the order used before the fix.
    """

    foreground: float = 0.5
    background: float = 0.1
    cap: int | None = None
    classes: Classes = "all"
    ties: Ties = "errors-first"

    def __post_init__(self) -> None:
        if not 0 < self.background <= self.foreground <= 1:
            raise BadArray(
                f"Expected TIDE thresholds 0 < background <= foreground <= 1. "
                f"Got background {self.background:g} and foreground {self.foreground:g}."
            )
        if self.cap is not None and self.cap < 1:
            raise BadArray(f"Expected a TIDE cap of at least 1 detection per image. Got {self.cap}.")


@dataclass(frozen=True, eq=False)
class Assignment:
    """The type of every detection and truth. Types are indices into ``DETECTION_TYPES`` and ``TRUTH_TYPES``.

    ``detection_type`` ``[D]``; ``truth_of`` ``[D]`` the truth it took, is an error about, or (ignored) the crowd it
    lies in, -1 for none; ``overlap`` ``[D]`` with that truth. ``truth_type`` ``[T]``; ``detection_of`` ``[T]`` the
    detection that found it or is the best-scored error about it, -1 for none; ``truth_overlap`` ``[T]``. ``error`` and
    ``target`` ``[D]`` are type and truth as if crowds did not exist: the reference lets ignored detections stand in for
    a missed truth.
    """

    detection_type: Ints
    truth_of: Ints
    overlap: Floats
    truth_type: Ints
    detection_of: Ints
    truth_overlap: Floats
    error: Ints
    target: Ints

    def counts(self) -> dict[str, int]:
        """How many of each type: the six main errors, "TP", "ignored", "capped", and "covered" truths."""
        of_detections = np.bincount(self.detection_type, minlength=len(DETECTION_TYPES)).tolist()
        of_truths = np.bincount(self.truth_type, minlength=len(TRUTH_TYPES)).tolist()
        counted = dict(zip(DETECTION_TYPES, of_detections, strict=True))
        return counted | {"Miss": of_truths[MISS], "covered": of_truths[COVERED_CLS] + of_truths[COVERED_LOC]}


def assign(truth: TruthColumns, detections: DetectionColumns, settings: TideSettings | None = None) -> Assignment:
    """The TIDE type of every detection and every truth; overlaps are those of masks where both sides have segments."""
    settings = settings or TideSettings()
    d, t = len(detections), len(truth)
    detection_type = np.full(d, CAPPED, dtype=np.int64)
    error, target = detection_type.copy(), np.full(d, -1, dtype=np.int64)
    truth_of, overlap = target.copy(), np.zeros(d)
    detection_of = np.full(t, -1, dtype=np.int64)
    truth_overlap = np.zeros(t)
    for rows, first, last in _blocks(truth, detections, settings.cap):
        part = _Block(truth, detections, rows, first, last, settings)
        error[rows], target[rows] = part.error, np.where(part.target >= 0, part.target + first, -1)
        detection_type[rows] = np.where(part.matching.ignored, IGNORED, part.error)
        pointed = np.where(part.matching.ignored, part.matching.crowd_of, part.target)
        truth_of[rows], overlap[rows] = np.where(pointed >= 0, pointed + first, -1), part.overlap
        took = part.matching.detection_of >= 0
        detection_of[first:last][took] = rows[part.matching.detection_of[took]]
    truth_type = np.where(truth.crowd, CROWD, np.where(detection_of >= 0, FOUND, MISS))
    best = _best_errors(error, target, detections.scores, truth_type)
    for code, kind in ((CLS, COVERED_CLS), (LOC, COVERED_LOC)):
        of_kind = best[error[best] == code]
        truth_type[target[of_kind]] = kind
    detection_of[target[best]] = best
    linked = np.flatnonzero(detection_of >= 0)
    truth_overlap[linked] = _linked_overlap(truth, detections, linked, detection_of[linked])
    return Assignment(detection_type, truth_of, overlap, truth_type, detection_of, truth_overlap, error, target)


def _best_errors(error: Ints, target: Ints, scores: Floats, truth_type: Ints) -> Ints:
    """For each truth nobody took, the best-scored Cls or Loc error about it: fixing one is enough."""
    about = np.flatnonzero(((error == CLS) | (error == LOC)) & (target >= 0))
    about = about[truth_type[target[about]] == MISS]
    about = about[np.lexsort((about, -scores[about]))]
    _, first = np.unique(target[about], return_index=True)
    return np.asarray(about[first], dtype=np.int64)


def _linked_overlap(truth: TruthColumns, detections: DetectionColumns, t: Ints, d: Ints) -> Floats:
    if truth.segments is None or detections.segments is None:
        return overlap_of_pairs(detections.boxes[d], truth.boxes[t], truth.crowd[t])
    found = np.zeros(len(t))
    for i, (a, b) in enumerate(zip(d.tolist(), t.tolist(), strict=True)):
        found[i] = _mask_overlaps([detections.segments[a]], [truth.segments[b]], truth.crowd[[b]])[0, 0]
    return found


def _blocks(truth: TruthColumns, detections: DetectionColumns, cap: int | None) -> Iterator[tuple[Ints, int, int]]:
    """Runs of whole images: detections under the cap (indices), first and last truth (a range)."""
    image = detections.image
    rows = np.arange(len(detections))
    if cap is not None:
        by_score = np.lexsort((rows, -detections.scores, image))
        place = np.empty(len(rows), dtype=np.int64)
        place[by_score] = np.arange(len(rows)) - np.searchsorted(image, image[by_score], side="left")
        rows = rows[place < cap]
    per_image = np.bincount(image[rows], minlength=len(truth.images))
    truths = np.bincount(truth.image, minlength=len(truth.images))
    ends = np.cumsum(per_image)
    start = 0
    load = np.cumsum(per_image * truths)
    while start < len(truth.images):
        before = load[start - 1] if start else 0
        stop = max(int(np.searchsorted(load, before + PAIRS_AT_ONCE, side="right")), start + 1)
        first, last = np.searchsorted(truth.image, [start, stop]).tolist()
        yield rows[(ends[start - 1] if start else 0) : ends[stop - 1]], first, last
        start = stop


class _Block:
    """Matching and error types of a run of images; truth indices count from the first truth of the run."""

    def __init__(
        self,
        truth: TruthColumns,
        detections: DetectionColumns,
        rows: Ints,
        first: int,
        last: int,
        settings: TideSettings,
    ) -> None:
        crowd = truth.crowd[first:last]
        pairs = _pairs(truth, detections, rows, first, last)
        real = ~crowd[pairs.truth]
        same = detections.label[rows][pairs.detection] == truth.label[first:last][pairs.truth]
        self.matching = match_pairs(pairs, detections.scores[rows], same, crowd, last - first, settings.foreground)
        used = self.matching.detection_of[pairs.truth] >= 0
        n = len(rows)
        same_iou, same_truth = _largest(pairs, real & same, n)
        other_iou, other_truth = _largest(pairs, real & ~same, n)
        used_iou, used_truth = _largest(pairs, real & same & used, n)
        any_iou, any_truth = _largest(pairs, real, n)
        took = self.matching.truth_of >= 0
        tests = [
            took,
            (same_truth >= 0) & (same_iou >= settings.background) & (same_iou <= settings.foreground),
            (other_truth >= 0) & (other_iou >= settings.foreground),
            (used_truth >= 0) & (used_iou >= settings.foreground),
            any_iou <= settings.background,
        ]
        nothing = np.full(n, -1, dtype=np.int64)
        self.error = np.select(tests, [TP, LOC, CLS, DUPE, BKG], BOTH).astype(np.int64)
        self.target = np.select(
            tests, [self.matching.truth_of, same_truth, other_truth, used_truth, nothing], any_truth
        ).astype(np.int64)
        shown = np.where(self.matching.ignored, self.matching.crowd_of, self.target)
        self.overlap = np.where(shown >= 0, _overlap_with(pairs, shown, n), any_iou)


def _overlap_with(pairs: Pairs, chosen: Ints, n: int) -> Floats:
    """The overlap ``[n]`` of each detection with its ``chosen`` truth, 0 where there is none."""
    hit = np.flatnonzero(pairs.truth == chosen[pairs.detection])
    found = np.zeros(n)
    found[pairs.detection[hit]] = pairs.overlap[hit]
    return found


def _pairs(truth: TruthColumns, detections: DetectionColumns, rows: Ints, first: int, last: int) -> Pairs:
    d, t = pairs_within_images(detections.image[rows], truth.image[first:last])
    if truth.segments is None or detections.segments is None:
        crowd = truth.crowd[first:last][t]
        return Pairs(d, t, overlap_of_pairs(detections.boxes[rows][d], truth.boxes[first:last][t], crowd))
    overlap = np.zeros(len(d))
    image_of_pair = detections.image[rows][d]
    for image in np.unique(image_of_pair):
        low, high = np.searchsorted(image_of_pair, [image, image + 1]).tolist()
        these, those = rows[d[low] : d[high - 1] + 1], np.arange(t[low], t[high - 1] + 1) + first
        matrix = _mask_overlaps(
            [detections.segments[i] for i in these], [truth.segments[i] for i in those], truth.crowd[those]
        )
        overlap[low:high] = matrix.reshape(-1)
    return Pairs(d, t, overlap)


def _mask_overlaps(detections: list[Any], truths: list[Any], crowd: Bools) -> Floats:
    """Overlaps ``[N, M]`` of run lengths."""
    return np.asarray(coco_mask.iou(detections, truths, crowd.tolist()), dtype=np.float64)


def _largest(pairs: Pairs, eligible: Bools, n: int) -> tuple[Floats, Ints]:
    """For each of ``n`` detections the largest overlap among its eligible pairs and the first truth that has it.

    Overlap 0 and truth -1 where there is no eligible pair.
    """
    chosen = np.flatnonzero(eligible)
    best, truth = np.zeros(n), np.full(n, -1, dtype=np.int64)
    if chosen.size == 0:
        return best, truth
    detection, overlap = pairs.detection[chosen], pairs.overlap[chosen]
    starts = np.flatnonzero(np.diff(detection, prepend=-1))
    best[detection[starts]] = np.maximum.reduceat(overlap, starts)
    top = np.flatnonzero(overlap == best[detection])[::-1]  # reversed: of equal ones the first is written last
    truth[detection[top]] = pairs.truth[chosen[top]]
    return best, truth


@dataclass(frozen=True, eq=False)
class TideResult:
    """``base`` AP and ``delta`` by error type, in points 0..100, ``None`` without any truth; ``delta`` per class
    ``[C]``, NaN for a class that has neither truths nor detections before or after the fix."""

    base: float | None
    delta: dict[str, float | None]
    delta_by_class: dict[str, Floats]


def costs(
    assignment: Assignment, truth: TruthColumns, detections: DetectionColumns, settings: TideSettings | None = None
) -> TideResult:
    """What each type of error costs: AP at the foreground IoU after an oracle fixes all of that type, minus AP
    before.
    """
    settings, count = settings or TideSettings(), len(truth.names)
    positives = np.bincount(truth.label[~truth.crowd], minlength=count)
    found = {
        name: _class_ap(
            each.order, each.scored, each.label, each.correct, np.bincount(truth.label[each.counted], minlength=count)
        )
        for name, each in readings(assignment, truth, detections, settings).items()
    }
    return _result(found.pop(BASE), found, positives, settings)


@dataclass(frozen=True, eq=False)
class Reading:
    """What AP is computed from: detections ``[D]`` count in ``order`` where they are ``scored``, as of class ``label``,
    as right where ``correct``; ``counted`` ``[T]`` are the truths that are to be found."""

    order: Ints
    scored: Bools
    label: Ints
    correct: Bools
    counted: Bools


def readings(
    assignment: Assignment, truth: TruthColumns, detections: DetectionColumns, settings: TideSettings
) -> dict[str, Reading]:
    """The detections as they are (``BASE``), and after an oracle has fixed all errors of each type."""
    a, label = assignment, detections.label
    scored = (a.detection_type != IGNORED) & (a.detection_type != CAPPED)
    correct, real = a.detection_type == TP, ~truth.crowd
    by_score = np.argsort(-detections.scores, kind="stable")
    again = np.lexsort((correct, -detections.scores)) if settings.ties == "errors-first" else by_score
    found = {BASE: Reading(by_score, scored, label, correct, real)}
    best = np.zeros(len(detections), dtype=np.bool_)
    covered = np.flatnonzero((a.truth_type == COVERED_CLS) | (a.truth_type == COVERED_LOC))
    best[a.detection_of[covered]] = True
    for name, code in (("Cls", CLS), ("Loc", LOC), ("Both", BOTH), ("Dupe", DUPE), ("Bkg", BKG)):
        wrong = a.error == code
        mended = wrong & best  # all others of this type are dropped: one detection per truth is enough
        right_label = np.where(mended, truth.label[a.target], label) if len(truth) else label
        found[name] = Reading(again, (scored & ~wrong) | mended, right_label, correct | mended, real)
    found["Miss"] = Reading(again, scored, label, correct, real & (a.truth_type != MISS))
    found["FalsePos"] = Reading(np.argsort(~correct, kind="stable"), scored, label, correct, real)
    found["FalseNeg"] = Reading(again, scored, label, correct, a.truth_type == FOUND)
    return found


def _result(base: Floats, fixed: dict[str, Floats], positives: Ints, settings: TideSettings) -> TideResult:
    by_class: dict[str, Floats] = {name: after - base for name, after in fixed.items()}
    if not positives.any():
        return TideResult(None, dict.fromkeys((*MAIN, *SPECIAL)), by_class)
    averaged = positives > 0 if settings.classes == "with-truth" else np.ones(len(base), dtype=np.bool_)
    before = _mean(base[averaged])
    delta: dict[str, float | None] = {}
    for name, after in fixed.items():
        # below 0 only by tied scores counted in another order than before the fix
        delta[name] = max(_mean(after[averaged]) - before, 0.0)
    return TideResult(before, delta, by_class)


def _mean(ap: Floats) -> float:
    """Mean over the classes that have anything; 100 when an oracle left nothing to find and nothing reported."""
    known = ap[~np.isnan(ap)]
    return float(known.mean()) if known.size else 100.0


def _class_ap(order: Ints, scored: Bools, label: Ints, correct: Bools, positives: Ints) -> Floats:
    """AP ``[C]`` in points by 101-point interpolation; detections count in ``order``; NaN where a class is empty."""
    count = len(positives)
    chosen = order[scored[order]]
    by_label = chosen[np.argsort(label[chosen].astype(np.int32), kind="stable")]
    bounds = np.searchsorted(label[by_label], np.arange(count + 1))
    hits = np.cumsum(correct[by_label])
    ap = np.full(count, np.nan)
    for c in range(count):
        low, high = bounds[c], bounds[c + 1]
        if positives[c] == 0 or low == high:
            ap[c] = np.nan if positives[c] == 0 and low == high else 0.0
            continue
        true = hits[low:high] - (hits[low - 1] if low else 0)
        precision = np.maximum.accumulate((true / np.arange(1, high - low + 1))[::-1])[::-1]
        reached = np.searchsorted(true / positives[c], RECALLS, side="left")
        ap[c] = precision[reached[reached < high - low]].sum() / len(RECALLS) * 100
    return ap
