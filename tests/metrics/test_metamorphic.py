"""The oracle against PASCAL VOC's mAP and a one-to-one check, both written here from their definitions."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from misdetect.metrics.metamorphic import EXTRA, MISSED, MOVED, RENAMED, Oracle, compare, inserted
from misdetect.nouns.detections import Detections
from misdetect.said.errors import BadSpec

NOWHERE = (-1000.0, -1000.0, -900.0, -900.0)


def naive_iou(a, b):
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    shared = max(width, 0) * max(height, 0)
    union = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared
    return shared / union if union else 0.0


def naive_map(reference, found, threshold):
    """Every-point PASCAL VOC mAP over the classes of the reference."""
    scores = []
    for label in {truth["label"] for truth in reference}:
        truths = [truth for truth in reference if truth["label"] == label]
        taken = [False] * len(truths)
        hits = []
        for detection in sorted((d for d in found if d["label"] == label), key=lambda d: -d["score"]):
            overlaps = [naive_iou(detection["box"], truth["box"]) for truth in truths]
            best = max(range(len(truths)), key=lambda i: overlaps[i])
            hits.append(overlaps[best] >= threshold and not taken[best])
            if hits[-1]:
                taken[best] = True
        recall, precision = [0.0], [1.0]
        for n in range(1, len(hits) + 1):
            recall.append(sum(hits[:n]) / len(truths))
            precision.append(sum(hits[:n]) / n)
        area = 0.0
        for i in range(1, len(recall)):
            area += (recall[i] - recall[i - 1]) * max(precision[i:])
        scores.append(area)
    return sum(scores) / len(scores)


def records(detections, score):
    return [
        {"box": box, "score": s, "label": label}
        for box, s, label in zip(
            detections.boxes.tolist(), detections.scores.tolist(), detections.labels.tolist(), strict=True
        )
        if s >= score
    ]


def made(boxes, scores, labels):
    return Detections(np.array(boxes, dtype=float).reshape(-1, 4), np.array(scores, dtype=float), np.array(labels, int))


@st.composite
def scenes(draw):
    """Detections on a background, and what is left of them after an insertion: shifted, renamed, lost, joined."""
    count = draw(st.integers(1, 5))
    grid = st.integers(0, 8)
    boxes, labels = [], []
    for _ in range(count):
        x, y = 10 * draw(grid), 10 * draw(grid)
        boxes.append([x, y, x + 10 * draw(st.integers(1, 3)), y + 10 * draw(st.integers(1, 3))])
        labels.append(draw(st.integers(0, 2)))
    level = st.sampled_from([0.2, 0.42, 0.47, 0.52, 0.57, 0.7, 0.9])
    scores = [draw(level) + 0.001 * i for i in range(count)]
    after, after_scores, after_labels = [], [], []
    for i in range(count):
        fate = draw(st.sampled_from(["kept", "kept", "shifted", "renamed", "gone", "score"]))
        if fate == "gone":
            continue
        shift = draw(st.integers(1, 9)) if fate == "shifted" else 0
        after.append([v + shift for v in boxes[i]])
        after_labels.append((labels[i] + 1) % 3 if fate == "renamed" else labels[i])
        after_scores.append(draw(level) + 0.0005 * i if fate == "score" else scores[i])
    for i in range(draw(st.integers(0, 2))):
        x, y = 10 * draw(grid), 10 * draw(grid)
        after.append([x, y, x + 20, y + 20])
        after_labels.append(draw(st.integers(0, 2)))
        after_scores.append(draw(level) + 0.0001 * (i + 1))
    return made(boxes, scores, labels), made(after, after_scores, after_labels)


@given(scenes())
def test_the_papers_oracle_is_map_of_100_percent(pair):
    before, after = pair
    if not (before.scores >= 0.5).any():
        return
    changes = compare(before, after, NOWHERE, Oracle())
    perfect = naive_map(records(before, 0.5), records(after, 0.5), 0.5) > 1 - 1e-12
    assert any(change.counts for change in changes) == (not perfect)


@given(scenes())
def test_the_strict_oracle_is_a_perfect_one_to_one_matching(pair):
    before, after = pair
    reference, found = records(before, 0.5), records(after, 0.5)
    possible = len(reference) == len(found) and any(
        all(
            one["label"] == other["label"] and naive_iou(one["box"], other["box"]) >= 0.5
            for one, other in zip(reference, order, strict=True)
        )
        for order in permutations(found)
    )
    assert any(change.counts for change in compare(before, after, NOWHERE, Oracle(strict=True))) == (not possible)


@given(scenes())
def test_a_change_is_firm_only_if_nothing_of_its_class_is_left_in_its_place(pair):
    """A lost object was itself near the threshold, or its class still is there, below the threshold or above it,
    whoever else that box may belong to; an extra one the other way round."""
    before, after = pair
    for change in compare(before, after, NOWHERE, Oracle(strict=True)):
        lost = change.type != EXTRA
        there = [
            record["score"]
            for record in records(after if lost else before, 0.0)
            if record["label"] == change.label and naive_iou(record["box"], change.box) >= 0.5
        ]
        assert max(there, default=0.0) == (change.after if lost else change.score)
        own = change.score if lost else change.after
        assert change.flickers == (own < 0.55 or max(there, default=0.0) > 0.45)


@pytest.mark.parametrize("strict", [False, True])
def test_a_twin_that_is_lost_beside_the_one_that_stays_is_not_firm_but_still_counts(strict):
    """Which of two boxes on one thing a matching calls lost is arbitrary, and the picture shows the thing detected: the
    oracle minds, but nobody can say that it was missed. The same of a second box that comes up."""
    one, twin = [0, 0, 20, 20], [2, 0, 22, 20]
    two, single = made([one, twin], [0.9, 0.8], [0, 0]), made([one], [0.85], [0])
    (lost,) = compare(two, single, NOWHERE, Oracle(strict=strict))
    assert (lost.type, lost.thing, lost.after, lost.flickers, lost.counts) == (MISSED, 1, 0.85, True, True)
    (extra,) = compare(single, two, NOWHERE, Oracle(strict=strict))
    assert (extra.type, extra.score, extra.after, extra.flickers) == (EXTRA, 0.85, 0.8, True)
    elsewhere = made([twin], [0.8], [1])
    (lost,) = [c for c in compare(single, elsewhere, NOWHERE, Oracle(strict=strict)) if c.thing == 0]
    assert (lost.type, lost.after, lost.flickers) == (RENAMED, 0.0, False), "another class is no excuse"


def test_each_type_by_an_example():
    before = made([[0, 0, 20, 20], [40, 0, 60, 20], [80, 0, 100, 20]], [0.9, 0.8, 0.7], [0, 1, 2])
    after = made([[0, 0, 20, 20], [52, 0, 72, 20], [80, 60, 100, 80]], [0.9, 0.8, 0.95], [1, 1, 2])
    found = {(c.type, c.thing, c.became) for c in compare(before, after, NOWHERE, Oracle(strict=True))}
    assert found == {(RENAMED, 0, 1), (MOVED, 1, -1), (MISSED, 2, -1), (EXTRA, -1, -1)}


def test_map_forgives_an_extra_ranked_last_and_the_strict_oracle_does_not():
    before = made([[0, 0, 20, 20]], [0.9], [0])
    last = made([[0, 0, 20, 20], [50, 50, 70, 70]], [0.9, 0.8], [0, 0])
    first = made([[0, 0, 20, 20], [50, 50, 70, 70]], [0.9, 0.95], [0, 0])
    assert [c.counts for c in compare(before, last, NOWHERE, Oracle())] == [False]
    assert [c.counts for c in compare(before, first, NOWHERE, Oracle())] == [True]
    assert [c.counts for c in compare(before, last, NOWHERE, Oracle(strict=True))] == [True]


def test_detections_of_the_inserted_object_are_left_out():
    pasted = np.array([100.0, 100.0, 140.0, 140.0])
    boxes = np.array([[95, 95, 300, 300], [110, 120, 120, 150], [80, 80, 180, 180], [89, 100, 99, 110.0]])
    assert inserted(boxes, pasted, 10.0).tolist() == [True, True, True, False]
    before = made([[0, 0, 20, 20]], [0.9], [0])
    after = made([[0, 0, 20, 20], [101, 99, 140, 140]], [0.9, 0.99], [0, 0])
    assert compare(before, after, tuple(pasted), Oracle(strict=True)) == []


@pytest.mark.parametrize("wrong", [{"score": 1.5}, {"iou": 0.0}, {"flicker": -0.1}, {"near": 0.9}])
def test_impossible_settings_are_refused(wrong):
    with pytest.raises(BadSpec):
        Oracle(**wrong)
