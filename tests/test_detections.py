"""``Detections`` and ``Truth``: frozen, checked, indexable, and converted to and from the real libraries."""

import dataclasses
from typing import get_args

import numpy as np
import pytest
import supervision as sv
import torch
from hypothesis import given
from hypothesis import strategies as st
from maite.protocols import object_detection
from pycocotools import mask as coco_mask

from misdetect.nouns.detections import Detections, Truth
from misdetect.nouns.masks import Masks
from misdetect.said.errors import BadArray

HEIGHT, WIDTH = 6, 8
MaiteTarget = get_args(object_detection.ObjectDetectionTarget)[0]  # it is annotated with checks of its own
EITHER = st.booleans()


@st.composite
def detections(draw, masks=EITHER):
    """Detections of a 8x6 image, maybe none, maybe with masks."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = draw(st.integers(0, 5))
    corners = np.sort(rng.uniform(0, 6, (n, 2, 2)), axis=1)
    bitmaps = rng.random((n, HEIGHT, WIDTH)) < 0.4 if draw(masks) else None
    return Detections(corners.reshape(n, 4), rng.random(n), rng.integers(0, 9, n), bitmaps)


def close(a: Detections, b: Detections) -> bool:
    """Equal up to the rounding of x + width - x."""
    same = a.labels.tolist() == b.labels.tolist() and a.scores.tolist() == b.scores.tolist()
    masks = (a.masks is None) == (b.masks is None)
    if a.masks is not None and b.masks is not None:
        masks = np.array_equal(a.masks.to_array(), b.masks.to_array())
    return same and masks and np.allclose(a.boxes, b.boxes, atol=1e-12)


# Round trips.


@given(detections())
def test_coco_results_round_trip_and_pycocotools_reads_their_masks(found):
    records = found.to_coco(7, [10 * label for label in range(9)])
    assert all(record["image_id"] == 7 for record in records)
    back = Detections.from_coco(records, {10 * label: label for label in range(9)})
    if len(found):
        assert close(back, found)
    for i, record in enumerate(records):
        if found.masks is not None:
            np.testing.assert_array_equal(coco_mask.decode(record["segmentation"]).astype(bool), found.masks[i])


@given(detections(), st.integers(0, 1))
def test_torch_tensors_round_trip(found, offset):
    output = {name: torch.tensor(array) for name, array in found.to_torchvision(label_offset=offset).items()}
    assert Detections.from_torchvision(output, label_offset=offset) == found
    output["boxes"].requires_grad_()
    output["scores"].requires_grad_()
    assert Detections.from_torchvision(output, label_offset=offset) == found
    if offset == 0:
        assert Detections.from_hf(output) == Detections.of(output) == found


@given(detections())
def test_supervision_round_trips(found):
    theirs = sv.Detections(**found.to_supervision())
    assert Detections.from_supervision(theirs) == Detections.of(theirs) == found


@given(detections(masks=st.just(False)))
def test_detections_are_a_maite_target(found):
    assert isinstance(found, MaiteTarget)

    @dataclasses.dataclass
    class Target:
        boxes: object
        labels: object
        scores: object

    for make in (np.array, torch.tensor):
        target = Target(make(found.boxes), make(found.labels), make(found.scores))
        assert isinstance(target, MaiteTarget)
        assert Detections.from_maite(target) == Detections.of(target) == found
    spread = np.zeros((len(found), 9))
    spread[np.arange(len(found)), found.labels] = found.scores
    target = Target(found.boxes, found.labels, spread)
    certain = found.scores > 0
    assert Detections.from_maite(target)[certain] == found[certain]


def test_half_precision_and_soft_masks():
    """bfloat16 has no NumPy type; soft masks ``[N, 1, H, W]`` are cut at one half."""
    soft = torch.tensor([[[[0.0, 0.4], [0.5, 1.0]]]])
    for kind in (torch.bfloat16, torch.float16, torch.float32):
        output = {
            "boxes": torch.tensor([[0, 0.5, 1.5, 2]], dtype=kind, requires_grad=True),
            "scores": torch.tensor([0.25], dtype=kind),
            "labels": torch.tensor([3], dtype=torch.int32),
            "masks": soft.to(kind),
        }
        found = Detections.of(output)
        assert found == Detections([[0, 0.5, 1.5, 2]], [0.25], [3], np.array([[[False, False], [True, True]]]))


def test_a_tuple_and_empty_answers_are_understood():
    assert Detections.of(([[0, 0, 1, 1]], [0.5], [0])) == Detections([[0, 0, 1, 1]], [0.5], [0])
    nothing = Detections.empty()
    for value in (
        ([], [], []),
        sv.Detections.empty(),
        {"boxes": torch.zeros((0, 4)), "scores": torch.zeros(0), "labels": torch.zeros(0, dtype=torch.int64)},
        {"boxes": [], "scores": [], "labels": [], "masks": []},
        {"boxes": np.zeros((0, 4)), "scores": np.zeros((0, 1)), "labels": []},
    ):
        assert Detections.of(value) == nothing
    assert Detections.from_coco([], {}) == nothing
    assert nothing.to_coco(1, []) == []
    empty = Detections.of(dict.fromkeys(("boxes", "scores", "labels"), ()) | {"masks": torch.zeros(0, 1, 4, 5)})
    assert empty.masks is not None
    assert empty.masks.to_array().shape == (0, 4, 5)


# Indexing.


@given(detections(), st.data())
def test_indexing_is_that_of_arrays(found, data):
    n = len(found)
    keep = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)), dtype=np.bool_)
    kept = found[keep]
    np.testing.assert_array_equal(kept.boxes, found.boxes[keep])
    assert kept == found[np.flatnonzero(keep)] == found[np.flatnonzero(keep).tolist()] == found[torch.tensor(keep)]
    assert found[::-1][::-1] == found[:] == found[np.arange(n)] == found
    for i in range(len(kept)):
        assert kept[i] == found[int(np.flatnonzero(keep)[i])]
    for i in range(n):
        assert len(found[i]) == 1
        assert found[i] == found[i - n] == found[i : i + 1] == found[np.int64(i)]
    assert len(found[[]]) == len(found[np.array([])]) == 0
    assert [one.scores[0] for one in found] == found.scores.tolist()
    with pytest.raises(IndexError):
        found[n]


@given(detections(), st.floats(0, 1))
def test_above_keeps_the_border(found, score):
    assert found.above(score).scores.tolist() == [s for s in found.scores.tolist() if s >= score]


def test_truth_is_indexed_with_all_it_knows():
    masks = np.arange(3)[:, None, None] == np.zeros((2, 2))
    truth = Truth(np.eye(3, 4) * [[0, 0, 1, 1]], [2, 0, 1], [30, 10, 20], [0, 1, 0], [5, 6, 7], ["a", "b", "c"], masks)
    chosen = truth[[2, 0]]
    assert (chosen.labels.tolist(), chosen.ids.tolist(), chosen.areas.tolist()) == ([1, 2], [20, 30], [7, 5])
    assert (chosen.states, chosen.crowd.tolist()) == (("c", "a"), [False, False])
    np.testing.assert_array_equal(chosen.masks.to_array(), masks[[2, 0]])
    assert truth[[1]].crowd.tolist() == [True]
    assert Truth([[1, 2, 4, 6]], [0]).areas.tolist() == [12]


# Frozen.


def test_nothing_can_be_changed_and_the_callers_arrays_stay_theirs():
    boxes, scores, labels = np.array([[0.0, 0, 2, 2]]), np.array([0.5]), np.array([1])
    ids, crowd, areas = np.array([4]), np.array([False]), np.array([3.0])
    masks = np.zeros((1, 2, 2), np.bool_)
    found, truth = Detections(boxes, scores, labels, masks), Truth(boxes, labels, ids, crowd, areas, ("x",), masks)
    before = found[:], truth[:]
    for array in (boxes, scores, labels, ids, crowd, areas, masks):
        assert array.flags.writeable
        array[:] = 1
    assert (found, truth) == before
    for noun in (found, truth):
        for field in dataclasses.fields(noun):
            with pytest.raises(dataclasses.FrozenInstanceError):
                setattr(noun, field.name, None)
            array = getattr(noun, field.name)
            if isinstance(array, np.ndarray):
                with pytest.raises(ValueError, match="read-only"):
                    array[:] = 0
        with pytest.raises(ValueError, match="read-only"):
            noun.masks[0][:] = True
        with pytest.raises(TypeError, match="unhashable"):
            hash(noun)


# Refused.

ONE = [[0, 0, 1, 1]]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (([[0, 0, 1]], [0.5], [0]), r"\[N, 4\].*\[1, 3\]"),
        (([[0, 0, 1, 1], [1]], [0.5], [0]), "array"),
        (([[3, 0, 1, 1]], [0.5], [0]), r"x0 <= x1.*Box 0 is \[3"),
        (([[0, 0, np.nan, 1]], [0.5], [0]), "finite boxes. Box 0"),
        ((ONE, [0.5, 0.5], [0]), r"scores to have shape \[1\].*\[2\]"),
        ((ONE, [[0.5]], [0]), r"scores.*\[1, 1\]"),
        ((ONE, [1.5], [0]), r"\[0, 1\]. Got 1.5"),
        ((ONE, [-0.1], [0]), r"\[0, 1\]. Got -0.1"),
        ((ONE, [np.nan], [0]), "finite scores"),
        ((ONE, ["0.5"], [0]), "numbers"),
        ((ONE, [0.5], ["cat"]), "labels to be numbers.*cat"),
        ((ONE, [0.5], [0.5]), "whole numbers.*0.5"),
        ((ONE, [0.5], [np.nan]), "whole numbers.*nan"),
        ((ONE, [0.5], [-1]), "labels.*>= 0.*-1"),
        ((ONE, [0.5], []), r"labels to have shape \[1\].*\[0\]"),
        ((ONE, [0.5], [0], np.zeros((2, 3, 3))), "1 masks.*Got 2"),
        ((ONE, [0.5], [0], np.zeros((3, 3))), r"\[N, H, W\].*\[3, 3\]"),
        (([], [], [0]), r"\[0\].*\[1\]"),
    ],
)
def test_bad_detections_are_refused_with_what_was_found(arguments, says):
    with pytest.raises(BadArray, match=says):
        Detections(*arguments)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"labels": [-1]}, ">= 0"),
        ({"labels": [0], "states": ("a", "b")}, "1 states.*2"),
        ({"labels": [0], "ids": [1, 2]}, r"ids.*\[2\]"),
        ({"labels": [0], "areas": [np.inf]}, "finite areas"),
        ({"labels": [0], "crowd": [True, False]}, r"crowd.*\[2\]"),
        ({"labels": [0], "masks": Masks([], 2, 2)}, "1 masks.*0"),
    ],
)
def test_bad_truth_is_refused(arguments, says):
    with pytest.raises(BadArray, match=says):
        Truth(ONE, **arguments)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (None, "Got NoneType"),
        ({"boxes": ONE, "scores": [0.5]}, "labels.*Got"),
        ({"boxes": ONE, "scores": [0.5], "labels": ["a cat"]}, "labels to be numbers"),
        ((ONE, [0.5]), "Got tuple"),
        (sv.Detections(xyxy=np.array(ONE, float)), "confidence and class_id"),
    ],
)
def test_answers_that_are_no_detections_are_refused(value, says):
    with pytest.raises(BadArray, match=says):
        Detections.of(value)


@pytest.mark.parametrize(
    ("record", "says"),
    [
        ({"bbox": [0, 0, 1, 1], "score": 0.5}, "without category_id"),
        ({"bbox": [0, 0, 1, 1], "score": 0.5, "category_id": 5}, "known category ids. Got 5"),
        ({"bbox": [0, 0, 1], "score": 0.5, "category_id": 1}, r"\[1, 3\]"),
        ({"bbox": [0, 0, -1, 1], "score": 0.5, "category_id": 1}, "x0 <= x1"),
        ({"bbox": [0, 0, 1, 1], "score": "high", "category_id": 1}, "scores to be numbers"),
        ({"bbox": [0, 0, 1, 1], "score": 0.5, "category_id": 1, "segmentation": [[0, 0, 1, 1, 2, 2]]}, "run lengths"),
    ],
)
def test_bad_coco_results_are_refused(record, says):
    with pytest.raises(BadArray, match=says):
        Detections.from_coco([record], {1: 0})


def test_a_label_without_a_category_is_refused():
    with pytest.raises(BadArray, match=r"label 2\. Got 2"):
        Detections(ONE, [0.5], [2]).to_coco(1, [5, 6])
