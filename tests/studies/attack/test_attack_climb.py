"""The attacks themselves, without an engine: never outside the ball, the same as a plain loop, only where allowed."""

import numpy as np
import pytest
from attack_toys import SIDE, Tiles, data, drive
from hypothesis import given
from hypothesis import strategies as st

from misdetect.nouns.detections import Truth
from misdetect.said.errors import BadSpec
from misdetect.studies.attack.where import Where, distances
from misdetect.studies.climb import Ball, Pace, class_aware, climb, uphill

TRUTH = data(1)[0].truth
IMAGE = data(1)[0].image


@given(
    eps=st.one_of(st.sampled_from([0.0, 0.4, 0.5, 1.0, 2.0 - 1e-14, 2.5, 8.0, 8.5, 64.0, 255.0]), st.floats(0, 255)),
    seed=st.integers(0, 2**16),
    masked=st.booleans(),
)
def test_whatever_is_reached_is_within_eps_and_valid_after_rounding(eps, seed, masked):
    rng = np.random.default_rng(seed)
    clean = rng.integers(0, 256, (7, 9, 3), dtype=np.uint8)
    mask = rng.random((7, 9)) < 0.5 if masked else None
    ball = Ball(clean, eps, mask)
    wild = rng.normal(128, 300, clean.shape).astype(np.float32)
    for point in (ball.project(wild), ball.somewhere(rng), ball.noise(rng)):
        saved = ball.rounded(point)
        assert saved.dtype == np.uint8
        change = np.abs(saved.astype(int) - clean.astype(int))
        assert change.max() <= eps
        if masked:
            assert not change[~mask].any()
        assert np.abs(point - clean).max() <= eps + 1e-4
        assert point.min() >= 0
        assert point.max() <= 255


def test_noise_is_as_large_as_the_attack_may_be():
    clean = np.full((20, 20, 3), 100, np.uint8)
    noise = Ball(clean, 8).rounded(Ball(clean, 8).noise(np.random.default_rng(0))).astype(int) - 100
    assert set(np.unique(noise)) == {-8, 8}
    assert 0.4 < (noise > 0).mean() < 0.6


@pytest.mark.parametrize("loss", ["cls", "loc", "all"])
@pytest.mark.parametrize("momentum", [0.0, 0.7])
def test_pgd_is_the_loop_that_one_would_write(loss, momentum):
    detector, eps, alpha = Tiles(), 8, 2
    start = Ball(IMAGE, eps).somewhere(np.random.default_rng(1))
    found = drive(climb(Ball(IMAGE, eps), start, uphill(TRUTH, loss), Pace(7, alpha, momentum)), detector)
    x, velocity, losses = start.astype(np.float64), 0.0, []
    for _ in range(7):
        value, slope = detector.slope(x, TRUTH, loss)
        losses.append(value)
        velocity = momentum * velocity + slope / (np.abs(slope).mean() or 1)
        x = np.clip(x + alpha * np.sign(velocity), np.maximum(IMAGE - 8.0, 0), np.minimum(IMAGE + 8.0, 255))
    assert np.abs(found.x - x).max() < 1e-3
    assert found.losses == pytest.approx(losses, rel=1e-5)
    assert found.losses[-1] > found.losses[0]
    assert found.flat == 0


def test_fgsm_is_one_step_of_eps():
    found = drive(climb(Ball(IMAGE, 8), IMAGE.astype(np.float32), uphill(TRUTH, "cls"), Pace(1, 8)), Tiles())
    slope = Tiles().slope(IMAGE, TRUTH, "cls")[1]
    assert np.array_equal(found.x, np.clip(IMAGE + 8 * np.sign(slope), 0, 255))


def test_the_class_aware_mean_is_that_of_cwat():
    """Mean over the classes present of the mean over a class's objects, one object at a time."""
    boxes = [[0, 0, 16, 16], [16, 0, 32, 16], [32, 0, 48, 16], [0, 16, 16, 32]]
    truth = Truth(boxes, [0, 0, 0, 1])
    detector, x = Tiles(), np.random.default_rng(0).uniform(100, 150, (SIDE, SIDE, 3)).astype(np.float32)
    value, slope = drive(class_aware(truth)(x), detector)
    each = [detector.one_object(x, box, label, "all") for box, label in zip(truth.boxes, truth.labels, strict=True)]
    wanted = sum(v for v, _ in each[:3]) / 3 / 2 + each[3][0] / 2
    direction = sum(s for _, s in each[:3]) / 3 / 2 + each[3][1] / 2
    assert value == pytest.approx(wanted, rel=1e-5)
    assert np.abs(slope - direction).max() < 1e-7
    one = Truth(boxes[:3], [0, 0, 0])  # of one class it is the loss itself
    assert drive(class_aware(one)(x), detector)[0] == pytest.approx(detector.slope(x, one, "all")[0], rel=1e-6)


def test_a_decaying_step_gets_closer_than_one_that_is_too_long():
    """A peak that steps of 6 leap over."""

    def slope(x):
        yield []
        return -float(((x - 103.3) ** 2).mean()), (2 * (103.3 - x)).astype(np.float32)

    clean = np.full((4, 4, 3), 100, np.uint8)
    ends = {}
    for decay in (False, True):
        made = drive(climb(Ball(clean, 8), clean.astype(np.float32), slope, Pace(40, 6.0, decay=decay)), Tiles())
        ends[decay] = float(np.abs(made.x - 103.3).max())
    assert ends[True] < 0.5 < ends[False]


def test_where_is_what_a_loop_over_pixels_says():
    rng = np.random.default_rng(3)
    for _ in range(5):
        corner = rng.uniform(0, 20, (3, 2))
        boxes = np.concatenate([corner, corner + rng.uniform(1, 9, (3, 2))], axis=1)
        away = distances(24, 30, boxes)
        touched = [
            (x, y)
            for y in range(24)
            for x in range(30)
            if any(x + 1 > b[0] and x < b[2] and y + 1 > b[1] and y < b[3] for b in boxes)
        ]
        for y in range(0, 24, 3):
            for x in range(0, 30, 3):
                nearest = min(np.hypot(x - u, y - v) for u, v in touched)
                assert away[y, x] == pytest.approx(nearest)
        inside = Where.parse("inside").mask(24, 30, boxes)
        assert {(x, y) for y, x in np.argwhere(inside).tolist()} == set(touched)
        assert np.array_equal(Where.parse("outside").mask(24, 30, boxes), ~inside)
        assert np.array_equal(Where.parse("outside:5").mask(24, 30, boxes), away >= 5)


def test_a_patch_lies_where_the_loss_is_steepest():
    slope = np.zeros((20, 30, 3), np.float32)
    slope[8:12, 20:25] = -1
    mask = Where.parse("patch:5x4").mask(20, 30, np.zeros((0, 4)), slope)
    assert mask.sum() == 20
    assert mask[8:12, 20:25].all()
    assert Where.parse("patch:500x4").mask(20, 30, np.zeros((0, 4)), slope).sum() == 30 * 4


@pytest.mark.parametrize(
    "text", ["", "outside:", "outside:-3", "patch", "patch:0x4", "patch:3", "everywhere", "inside:4"]
)
def test_nonsense_is_no_place(text):
    with pytest.raises(BadSpec, match="where should be"):
        Where.parse(text)
