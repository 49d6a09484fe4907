"""The inside of a detector is consistent: pairs exist, suppressors were kept, the output is a selection."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from misdetect.nouns.boxes import nms
from misdetect.nouns.candidates import Candidates, Dropped, Pairs, Reason
from misdetect.said.errors import BadArray

NOTHING = Dropped([], [], [], [])


def inside(seed: int, k: int = 6, c: int = 3, per_class: bool = False) -> Candidates:
    """Random candidates, selected by per-class suppression as SSD would."""
    rng = np.random.default_rng(seed)
    start = rng.uniform(0, 30, (k, 2))
    refined = np.concatenate([start, start + rng.uniform(5, 30, (k, 2))], axis=1)
    class_boxes = np.stack([refined + i for i in range(c)], axis=1) if per_class else None
    scores = rng.random((k, c))
    candidate, label = (part.ravel() for part in np.meshgrid(np.arange(k), np.arange(c), indexing="ij"))
    boxes = refined[candidate] if class_boxes is None else class_boxes[candidate, label]
    kept, by = nms(boxes, scores.ravel(), 0.3, label)
    lost = np.flatnonzero(by >= 0)
    row_of = np.full(k * c, -1)
    row_of[kept] = np.arange(len(kept))
    return Candidates(
        refined - 1,
        refined,
        scores,
        rng.random(k),
        np.arange(k),
        Pairs(candidate[kept], label[kept]),
        Dropped(candidate[lost], label[lost], np.full(len(lost), Reason.SUPPRESSED), row_of[by[lost]]),
        class_boxes=class_boxes,
    )


@given(st.integers(0, 2**32 - 1), st.integers(0, 8), st.booleans())
def test_the_output_is_the_kept_pairs_in_order(seed, k, per_class):
    trace = inside(seed, k, per_class=per_class)
    found = trace.select()
    assert len(found) == len(trace.kept)
    assert len(trace.kept) + len(trace.dropped) == k * 3
    for i, (candidate, label) in enumerate(zip(trace.kept.candidate, trace.kept.label, strict=True)):
        box = trace.refined[candidate] + (label if per_class else 0)
        np.testing.assert_array_equal(found.boxes[i], box)
        assert found.scores[i] == trace.scores[candidate, label]
        assert found.labels[i] == label
    for row in range(len(trace.dropped)):
        by = trace.dropped.by[row]
        assert trace.kept.label[by] == trace.dropped.label[row]
        assert found.scores[by] >= trace.scores[trace.dropped.candidate[row], trace.dropped.label[row]]


def fields(**changed):
    base = {
        "proposals": np.zeros((2, 4)),
        "refined": np.zeros((2, 4)),
        "scores": np.zeros((2, 3)),
        "background": np.ones(2),
        "identity": np.arange(2),
        "kept": Pairs([0], [1]),
        "dropped": NOTHING,
    }
    return {**base, **changed}


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"scores": np.zeros(2)}, r"\[K, C\].*\[2\]"),
        ({"proposals": np.zeros((3, 4))}, r"proposals.*\[2, 4\].*\[3, 4\]"),
        ({"refined": np.zeros((2, 3, 4))}, r"refined.*\[2, 3, 4\]"),
        ({"background": np.zeros((2, 1))}, r"background.*\[2, 1\]"),
        ({"identity": np.arange(3)}, r"identity.*\[3\]"),
        ({"class_boxes": np.zeros((2, 4))}, r"class_boxes.*\[2, 3, 4\]"),
        ({"objectness": np.zeros(3)}, "objectness"),
        ({"class_scores": np.zeros((2, 4))}, "class_scores"),
        ({"pyramid": np.zeros(1)}, "pyramid"),
        ({"kept": Pairs([2], [0])}, "kept pairs within 2 candidates and 3 classes"),
        ({"kept": Pairs([0], [3])}, "kept pairs within"),
        ({"kept": Pairs([-1], [0])}, "kept pairs within"),
        ({"dropped": Dropped([0], [-1], [1], [-1])}, "dropped pairs within"),
        ({"dropped": Dropped([0], [0], [2], [1])}, "index the 1 kept"),
        ({"dropped": Dropped([0], [0], [2], [-2])}, "index the 1 kept"),
    ],
)
def test_what_contradicts_itself_is_refused(changed, says):
    with pytest.raises(BadArray, match=says):
        Candidates(**fields(**changed))


def test_columns_have_one_length():
    with pytest.raises(BadArray, match=r"as many candidates as labels\. Got 2 and 1"):
        Pairs([0, 1], [0])
    with pytest.raises(BadArray, match=r"by to have shape \[1\]. Got \[2\]"):
        Dropped([0], [0], [1], [0, 0])


def test_empty_is_legal():
    trace = inside(0, k=0)
    assert (len(trace), len(trace.kept), len(trace.dropped), len(trace.select())) == (0, 0, 0, 0)
