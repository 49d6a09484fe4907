"""The confusion matrix and ClsAVal once more, as loops over single boxes; they share no code with what they check."""

from itertools import permutations

import numpy as np

from misdetect.metrics.columns import DetectionColumns, ImageRow, TruthColumns
from misdetect.nouns.candidates import Candidates, Dropped, Pairs, Reason


def overlap(a, b) -> float:
    a, b = [float(v) for v in a], [float(v) for v in b]
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    if width <= 0 or height <= 0:
        return 0.0
    return width * height / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - width * height)


def inside(a, crowd) -> float:
    width, height = min(a[2], crowd[2]) - max(a[0], crowd[0]), min(a[3], crowd[3]) - max(a[1], crowd[1])
    return max(0.0, width) * max(0.0, height) / ((a[2] - a[0]) * (a[3] - a[1]))


def owners(truth, found, policy, threshold):
    """For each detection the annotation it belongs to, or None, or "ignored"."""
    owner = [None] * len(found)
    for image in range(len(truth.images)):
        ds = [d for d in range(len(found)) if found.image[d] == image]
        ts = [t for t in range(len(truth)) if truth.image[t] == image and not truth.crowd[t]]
        fits = {(d, t): overlap(found.boxes[d], truth.boxes[t]) for d in ds for t in ts}
        fits = {pair: value for pair, value in fits.items() if value >= threshold}
        if policy == "paper":
            for d in ds:
                mine = [(value, t) for (e, t), value in fits.items() if e == d]
                owner[d] = max(mine)[1] if mine else None
        elif policy == "greedy":
            taken = set()
            for d in sorted(ds, key=lambda d: -found.scores[d]):
                mine = [(value, t) for (e, t), value in fits.items() if e == d and t not in taken]
                if mine:
                    owner[d] = max(mine)[1]
                    taken.add(owner[d])
        for d in ds:
            crowds = [t for t in range(len(truth)) if truth.image[t] == image and truth.crowd[t]]
            same = [t for t in crowds if truth.label[t] == found.label[d]]
            if owner[d] is None and any(inside(found.boxes[d], truth.boxes[t]) >= threshold for t in same):
                owner[d] = "ignored"
    return owner


def largest_sum(truth, found, threshold) -> float:
    """The largest sum of IoUs of any one-to-one assignment, by trying all."""
    total = 0.0
    for image in range(len(truth.images)):
        ds = [d for d in range(len(found)) if found.image[d] == image]
        ts = [t for t in range(len(truth)) if truth.image[t] == image and not truth.crowd[t]]
        slots = [*ts, *([None] * len(ds))]
        sums = [0.0]
        for order in set(permutations(slots, len(ds))):
            values = [overlap(found.boxes[d], truth.boxes[t]) for d, t in zip(ds, order, strict=True) if t is not None]
            sums.append(sum(value for value in values if value >= threshold))
        total += max(sums)
    return total


def matrix(truth, found, owner, mode, background, vectors):
    """Counts, confidences and histograms, one detection at a time."""
    size = len(truth.names) + 1
    counts, confidence = np.zeros((size, size)), np.zeros((size, size))
    histograms = np.zeros((size, size, 10))
    for d in range(len(found)):
        if owner[d] == "ignored":
            continue
        row = size - 1 if owner[d] is None else truth.label[owner[d]]
        near = [
            overlap(found.boxes[d], truth.boxes[t])
            for t in range(len(truth))
            if truth.image[t] == found.image[d] and not truth.crowd[t] and owner[d] in (None, t)
        ]
        step = next(b for b in range(9, -1, -1) if max(near, default=0.0) >= b / 10)
        if mode == "soft":
            every = [*vectors[d], background[d]]
            for column in range(size):
                share = every[column] / sum(every)
                counts[row, column] += share
                confidence[row, column] += every[column]
                histograms[row, column, step] += share
            continue
        column, said = found.label[d], found.scores[d]
        if mode == "hard" and background[d] > max(vectors[d]):
            column, said = size - 1, background[d]
        counts[row, column] += 1
        confidence[row, column] += said
        histograms[row, column, step] += 1
    return counts, confidence, histograms


def columns(there, found, images, names):
    """Columns of objects ``(image, box, label, crowd)`` and detections ``(image, box, label, score)``."""
    there, found = sorted(there, key=lambda t: t[0]), sorted(found, key=lambda d: d[0])
    truth = TruthColumns(
        images=tuple(ImageRow(f"{i}.jpg", i, 100, 100, str(i)) for i in range(images)),
        names=tuple(names),
        image=np.array([t[0] for t in there], dtype=np.int64),
        label=np.array([t[2] for t in there], dtype=np.int64),
        boxes=np.array([t[1] for t in there], dtype=np.float64).reshape(-1, 4),
        areas=np.zeros(len(there)),
        crowd=np.array([t[3] for t in there], dtype=np.bool_),
        ids=np.arange(len(there)),
    )
    detections = DetectionColumns.of(
        [d[0] for d in found], [d[2] for d in found], [d[1] for d in found], [d[3] for d in found]
    )
    return truth, detections


def candidates(
    identity, boxes, scores, kept, *, objectness=None, classes=None, first=None, class_boxes=None, **settings
):
    """A run with these candidates, keeping these (candidate, label) pairs."""
    scores = np.asarray(scores, dtype=np.float64)
    none = np.zeros(0, dtype=np.int64)
    return Candidates(
        proposals=np.asarray(boxes, dtype=np.float64).reshape(-1, 4) + 1,
        refined=np.asarray(boxes, dtype=np.float64).reshape(-1, 4),
        scores=scores,
        background=1 - scores.max(axis=1, initial=0),
        identity=np.asarray(identity, dtype=np.int64),
        kept=Pairs(np.array([k[0] for k in kept], np.int64), np.array([k[1] for k in kept], np.int64)),
        dropped=Dropped(none, none, none, none),
        objectness=objectness,
        class_scores=classes,
        class_boxes=class_boxes,
        first=first,
        settings=settings,
    )


def first_stage(boxes, scores, kept, suppressed=()):
    """All anchors of a first stage; ``suppressed`` are pairs (anchor, row in ``kept`` of its suppressor)."""
    n = len(boxes)
    return Candidates(
        proposals=np.asarray(boxes, dtype=np.float64),
        refined=np.asarray(boxes, dtype=np.float64),
        scores=np.asarray(scores, dtype=np.float64).reshape(-1, 1),
        background=1 - np.asarray(scores, dtype=np.float64),
        identity=np.arange(n),
        kept=Pairs(np.array(kept, np.int64), np.zeros(len(kept), np.int64)),
        dropped=Dropped(
            np.array([s[0] for s in suppressed], np.int64),
            np.zeros(len(suppressed), np.int64),
            np.full(len(suppressed), int(Reason.SUPPRESSED)),
            np.array([s[1] for s in suppressed], np.int64),
        ),
    )


def naive_ablation(reliable, tested, how, by):
    """(box, score, label) of each detection of an ablation, candidate by candidate."""
    place = {int(identity): k for k, identity in enumerate(tested.identity)}
    result, seen = [], set()
    for candidate, label in zip(reliable.kept.candidate.tolist(), reliable.kept.label.tolist(), strict=True):
        identity = int(reliable.identity[candidate])
        own_class = by == "candidate" and how != "r_all"
        if identity not in place or (own_class and candidate in seen):
            continue
        seen.add(candidate)
        there = place[identity]
        if how == "r_all":
            scores = reliable.scores[candidate]
        elif how == "r_idx":
            scores = tested.scores[there]
        elif how == "r_obj":
            scores = [reliable.objectness[candidate] * s for s in tested.class_scores[there]]
        else:
            scores = [tested.objectness[there] * s for s in reliable.class_scores[candidate]]
        if own_class:
            label = max(range(len(scores)), key=lambda c: (scores[c], -c))
        box = tested.refined[there] if tested.class_boxes is None else tested.class_boxes[there][label]
        result.append((tuple(box.tolist()), float(scores[label]), label))
    return result
