"""The grid of scores and boxes: what is on it stays, what is near falls to it, how often noise shows all the same."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from misdetect.engine.boundary import check_candidates, check_detections, on_grid
from misdetect.nouns.boxes import iou
from misdetect.nouns.candidates import Candidates, Dropped, Pairs
from misdetect.nouns.detections import Detections
from misdetect.nouns.grid import PIXEL_STEPS, SCORE_STEPS, boxes_on_grid, scores_on_grid


@given(st.integers(0, 10_000), st.floats(-0.49, 0.49))
def test_a_score_falls_to_the_nearest_of_four_decimals(k, away):
    value = np.array([np.clip((k + away) / 10_000, 0, 1)])
    assert scores_on_grid(value).tolist() == [float(f"{k / 10_000:.4f}")]
    assert scores_on_grid(scores_on_grid(value)).tolist() == scores_on_grid(value).tolist()


@given(st.integers(0, 100))
def test_a_score_that_means_a_threshold_is_not_below_it(percent):
    """Whether it came as float32, float64 or text: .7 in single precision is less than .7 in double."""
    threshold = float(f"0.{percent:02d}") if percent < 100 else 1.0
    for kind in (np.float32, np.float64):
        found = Detections([[0, 0, 1, 1]], np.array([threshold], kind), [0])
        assert len(on_grid(found).above(threshold)) == 1
        inside = scores_on_grid(np.array([threshold], kind))
        assert inside.dtype == kind
        assert (inside >= threshold).all()


@given(st.integers(-(2**20), 2**20), st.floats(-0.49, 0.49))
def test_a_coordinate_falls_to_the_nearest_64th(k, away):
    value = np.array([(k + away) / 64])
    assert boxes_on_grid(value).tolist() == [k / 64]
    assert not np.signbit(boxes_on_grid(np.array([-1e-9])))[0]


@given(st.integers(0, 2**32 - 1))
def test_single_and_double_precision_fall_to_the_same_point(seed):
    values = np.random.default_rng(seed).random(1000).astype(np.float32)
    single, double = scores_on_grid(values), scores_on_grid(values.astype(np.float64))
    assert (single == double.astype(np.float32)).all()
    assert (scores_on_grid(single.astype(np.float64)) == double).all()


def test_many_are_converted_as_few():
    values = np.random.default_rng(0).random((700, 900), dtype=np.float32)[:, ::2]
    assert (scores_on_grid(values)[333] == scores_on_grid(values[333])).all()
    assert scores_on_grid(values).shape == values.shape


@given(st.integers(0, 2**32 - 1))
def test_looking_inside_and_looking_at_the_answer_show_the_same(seed):
    """Selecting from candidates on the grid gives the detections on the grid, in both float types."""
    random = np.random.default_rng(seed)
    low = random.uniform(0, 40, (9, 2))
    boxes = np.concatenate([low, low + random.uniform(1, 20, (9, 2))], axis=1).astype(np.float32)
    scores = random.random((9, 3), dtype=np.float32)
    kept = Pairs(random.permutation(9)[:5], random.integers(0, 3, 5))
    inside = Candidates(boxes, boxes, scores, 1 - scores.max(axis=1), np.arange(9), kept, Dropped([], [], [], []))
    raw = inside.select()
    assert on_grid(check_candidates(inside, 3).select()) == check_detections(raw, 60, 60, 3)[0]
    assert (inside.select().boxes == raw.boxes).all(), "the detector's own arrays are left alone"


def test_the_first_stage_is_on_the_grid_too():
    def inside(first=None):
        boxes = np.array([[0.001, 0.002, 5.003, 6.004]])
        values = np.array([[0.123456]])
        return Candidates(
            boxes, boxes, values, 1 - values[0], np.arange(1), Pairs([0], [0]), Dropped([], [], [], []), first=first,
            class_boxes=boxes[None], objectness=values[0], class_scores=values,
        )  # fmt: skip

    for seen in (check_candidates(inside(inside()), 1), check_candidates(inside(inside()), 1).first):
        for name in ("proposals", "refined", "class_boxes"):
            assert getattr(seen, name).ravel().tolist() == [0, 0, 5, 6]
        for name in ("scores", "objectness", "class_scores"):
            assert getattr(seen, name).ravel().tolist() == [0.1235]
        assert seen.background.tolist() == [0.8765]


@given(st.integers(0, 2**32 - 1))
def test_overlaps_of_boxes_on_the_grid_are_exact(seed):
    """Areas and intersections of boxes up to 4,096 pixels need fewer bits than a double has: a shifted pair has the
    same IoU in every bit, so ties stay ties wherever in the image they are."""
    random = np.random.default_rng(seed)
    low = random.uniform(0, 2000, (6, 2))
    boxes = boxes_on_grid(np.concatenate([low, low + random.uniform(0.1, 90, (6, 2))], axis=1))
    shift = np.tile(boxes_on_grid(random.uniform(0, 2000, 2)), 2)
    assert (iou(boxes, boxes) == iou(boxes + shift, boxes + shift)).all()


@pytest.mark.parametrize(
    ("steps", "put", "noise"), [(SCORE_STEPS, scores_on_grid, 1e-7), (PIXEL_STEPS, boxes_on_grid, 4e-6)]
)
def test_noise_shows_as_seldom_as_stated(steps, put, noise):
    """docs/definitions.md: the mean noise in steps is the share of numbers that fall to the neighbour, by one step."""
    random = np.random.default_rng(0)
    values = random.uniform(0, 1, 2_000_000)
    other = values + random.exponential(noise, len(values)) * random.choice([-1, 1], len(values))
    moved = np.abs(put(values) - put(other))
    assert np.mean(moved > 0) == pytest.approx(noise * steps, rel=0.2)
    assert moved.max() == pytest.approx(1 / steps)
    assert np.mean(np.abs(values - other) > 1e-12) > 0.99, "without the grid nearly all differ"
