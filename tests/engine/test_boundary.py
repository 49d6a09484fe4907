"""Nothing a stranger's detector returns goes unchecked, and nothing it returns brings the run down."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from misdetect.engine.boundary import check_batch, check_candidates, check_detections, check_gradient
from misdetect.nouns.candidates import Candidates, Dropped, Pairs
from misdetect.nouns.detections import Detections
from misdetect.nouns.masks import Masks
from misdetect.said.errors import DetectorFailed

HEIGHT, WIDTH = 20, 30
INSIDE = [1.0, 2.0, 10.0, 12.0]


class Explosive:
    """An answer that raises when it is looked at."""

    boxes = (INSIDE,)

    @property
    def scores(self):
        raise ZeroDivisionError("surprise")


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (None, "NoneType"),
        (7, "int"),
        ("boxes", "str"),
        (([INSIDE], [0.5]), "tuple"),
        (([INSIDE], [0.5], ["cat"]), "numbers"),
        (([INSIDE, [1]], [0.5, 0.5], [0, 0]), "array"),
        (([[np.nan] * 4], [0.5], [0]), "finite"),
        (([INSIDE], [7.0], [0]), "scores in"),
        (([INSIDE], [0.5], [3]), "label 3, but has only 3 names"),
        (([[10, 2, 1, 12]], [0.5], [0]), "x0 <= x1"),
        (([[40, 2, 50, 12]], [0.5], [0]), r"\[40.0, 2.0, 50.0, 12.0\], outside the 30x20 image"),
        (([[-9, 2, -1, 12]], [0.5], [0]), "outside"),
        (([INSIDE], [0.5], [0], None), "tuple"),
        (Explosive(), "Explosive.*ZeroDivisionError: surprise"),
        ({"boxes": torch.zeros(1, 4, 1), "scores": [0.5], "labels": [0]}, r"\[1, 4, 1\]"),
        ({"boxes": [INSIDE], "scores": [0.5], "labels": [0], "masks": np.ones((1, 5, 6))}, "30x20.*6x5"),
        (Detections([INSIDE], [0.5], [0], Masks([{"size": [20, 30], "counts": [3, 9999]}], 20, 30)), "mask"),
        (Detections([INSIDE], [0.5], [0], Masks([lambda: 1 / 0], 20, 30)), "ZeroDivisionError"),
    ],
)
def test_bad_answers_become_a_sentence(answer, says):
    with pytest.raises(DetectorFailed, match=says):
        check_detections(answer, HEIGHT, WIDTH, 3)


@given(st.integers(0, 2**32 - 1))
def test_boxes_are_cut_to_the_image_and_only_those_that_stick_out_far_are_counted(seed):
    rng = np.random.default_rng(seed)
    start = rng.uniform(-8, 1, (6, 2))
    boxes = np.concatenate([start, rng.uniform(8, 40, (6, 2))], axis=1)
    given_boxes = Detections(boxes, rng.random(6), rng.integers(0, 3, 6))
    found, cut = check_detections(given_boxes, HEIGHT, WIDTH, 3)
    far = 0
    for before, after in zip(boxes, found.boxes, strict=True):
        limits = (WIDTH, HEIGHT, WIDTH, HEIGHT)
        inside = [min(max(v, 0), m) for v, m in zip(before, limits, strict=True)]
        np.testing.assert_array_equal(after, [round(v * 64) / 64 for v in inside])
        far += any(v < -0.5 or v > m + 0.5 for v, m in zip(before, limits, strict=True))
    assert cut == far
    assert found.scores.tolist() == [round(score, 4) for score in given_boxes.scores.tolist()]
    assert found.labels.tolist() == given_boxes.labels.tolist()


def test_flat_boxes_on_the_edge_are_what_clipping_leaves_and_pass():
    flat = [[30.0, 2, 30, 12], [0, 0, 0, 5], [3, 20, 9, 20]]
    found, cut = check_detections((flat, [0.5] * 3, [0] * 3), HEIGHT, WIDTH, 3)
    assert (found.boxes.tolist(), cut) == (flat, 0)


def test_masks_survive_the_cut():
    bitmap = np.arange(HEIGHT * WIDTH).reshape(1, HEIGHT, WIDTH) % 3 == 0
    found, cut = check_detections(Detections([[-5, 0, 10, 10]], [0.5], [0], bitmap), HEIGHT, WIDTH, 3)
    assert cut == 1
    np.testing.assert_array_equal(found.masks.to_array(), bitmap)


def test_nothing_found_is_a_good_answer():
    assert check_detections(([], [], []), HEIGHT, WIDTH, 0) == (Detections.empty(), 0)


@pytest.mark.parametrize(
    ("answers", "says"),
    [
        (None, "NoneType instead of a list"),
        ({"boxes": []}, "dict instead of a list"),
        ((x for x in "ab"), "generator instead"),
        ("ab", "str instead"),
        ([1], "1 results for 2 images"),
        ([], "0 results for 2 images"),
    ],
)
def test_a_batch_has_one_answer_per_image(answers, says):
    with pytest.raises(DetectorFailed, match=says):
        check_batch(answers, 2)


def candidates(**changed) -> Candidates:
    fields = {
        "proposals": np.zeros((2, 4)),
        "refined": np.zeros((2, 4)),
        "scores": np.zeros((2, 3)),
        "background": np.ones(2),
        "identity": np.arange(2),
        "kept": Pairs([0], [1]),
        "dropped": Dropped([], [], [], []),
    }
    return Candidates(**{**fields, **changed})


@pytest.mark.parametrize("name", ["proposals", "refined", "scores", "background", "objectness", "class_scores"])
def test_a_trace_with_a_number_that_is_none_is_refused(name):
    shape = {"objectness": (2,), "class_scores": (2, 3)}.get(name, np.shape(getattr(candidates(), name)))
    bad = np.zeros(shape)
    bad.flat[-1] = np.nan
    with pytest.raises(DetectorFailed, match=f"{name} that are not finite"):
        check_candidates(candidates(**{name: bad}), 3)


def test_a_trace_is_over_the_detectors_classes():
    good = candidates()
    assert len(check_candidates(good, 3)) == 2
    with pytest.raises(DetectorFailed, match="3 classes, but 4 names"):
        check_candidates(good, 4)
    with pytest.raises(DetectorFailed, match="dict instead of Candidates"):
        check_candidates({}, 3)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ((1.0, np.zeros((2, 2, 3))), r"\[2, 2, 3\], the image \[4, 4, 3\]"),
        ((np.nan, np.zeros((4, 4, 3))), "not finite"),
        ((1.0, np.full((4, 4, 3), np.inf)), "not finite"),
        (("high", np.zeros((4, 4, 3))), "not a loss"),
        ((1.0,), "not a loss"),
        (None, "not a loss"),
        ((1.0, None), "not a loss"),
        ((1.0, torch.zeros(4, 4, 3, requires_grad=True)), "not a loss"),
    ],
)
def test_a_gradient_has_the_images_shape_and_is_finite(answer, says):
    with pytest.raises(DetectorFailed, match=says):
        check_gradient(answer, np.zeros((4, 4, 3), dtype=np.float32))


def test_a_good_gradient_passes():
    slope = np.arange(48, dtype=np.float32).reshape(4, 4, 3)
    loss, back = check_gradient((torch.tensor(2.5), torch.tensor(slope)), np.zeros((4, 4, 3), dtype=np.float32))
    assert loss == 2.5
    np.testing.assert_array_equal(back, slope)
