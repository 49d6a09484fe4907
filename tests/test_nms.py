"""``boxes.nms`` against a naive greedy loop, with and without labels, at any chunk size."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from misdetect.nouns.boxes import nms


def overlap(a, b):
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    shared = max(width, 0) * max(height, 0)
    union = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared
    return shared / union if union > 0 else 0.0


def naive(boxes, scores, threshold, labels):
    """One box at a time, best first; the first kept box that overlaps too much is the suppressor."""
    kept, by = [], [-1] * len(boxes)
    for i in sorted(range(len(boxes)), key=lambda i: (-scores[i], i)):
        rivals = (k for k in kept if labels is None or labels[k] == labels[i])
        by[i] = next((k for k in rivals if overlap(boxes[k], boxes[i]) > threshold), -1)
        if by[i] < 0:
            kept.append(i)
    return kept, by


box = st.tuples(*[st.integers(0, 12)] * 2, *[st.integers(0, 9)] * 2).map(
    lambda b: (b[0], b[1], b[0] + b[2], b[1] + b[3])
)
boxes_and_more = st.lists(st.tuples(box, st.integers(0, 4), st.integers(-1, 2)), max_size=40)


@settings(deadline=None)
@given(boxes_and_more, st.sampled_from([0.0, 0.3, 0.5, 1.0]), st.booleans(), st.sampled_from([1, 3, 128]))
def test_agrees_with_one_box_at_a_time(items, threshold, with_labels, chunk):
    boxes, scores = [i[0] for i in items], [i[1] / 4 for i in items]
    labels = [i[2] for i in items] if with_labels else None
    kept, by = nms(boxes, scores, threshold, labels, chunk=chunk)
    expected_kept, expected_by = naive(boxes, scores, threshold, labels)
    assert kept.tolist() == expected_kept
    assert by.tolist() == expected_by


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_labels_separate_as_one_run_per_label_does(dtype):
    rng = np.random.default_rng(3)
    corner = rng.uniform(0, 80, (900, 2))
    boxes = np.concatenate([corner, corner + rng.uniform(5, 60, (900, 2))], axis=1).astype(dtype)
    scores, labels = rng.random(900).astype(dtype), rng.integers(0, 7, 900)
    kept, _ = nms(boxes, scores, 0.5, labels)
    apart = [np.flatnonzero(labels == c)[nms(boxes[labels == c], scores[labels == c], 0.5)[0]] for c in range(7)]
    assert set(kept.tolist()) == set(np.concatenate(apart).tolist())
    assert (np.diff(scores[kept]) <= 0).all()


def test_suppressors_are_kept_better_and_of_the_same_label():
    rng = np.random.default_rng(5)
    corner = rng.uniform(0, 50, (500, 2))
    boxes = np.concatenate([corner, corner + rng.uniform(5, 40, (500, 2))], axis=1)
    scores, labels = rng.random(500), rng.integers(0, 3, 500)
    kept, by = nms(boxes, scores, 0.4, labels)
    lost = np.flatnonzero(by >= 0)
    assert sorted([*kept, *lost]) == list(range(500))
    assert set(by[lost].tolist()) <= set(kept.tolist())
    assert (scores[by[lost]] >= scores[lost]).all()
    assert (labels[by[lost]] == labels[lost]).all()
