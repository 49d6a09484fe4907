"""Part verification against the paper's own rows, a naive loop over every part and detection, and laws."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from misdetect.metrics.bootstrap import resamples
from misdetect.metrics.parts import (
    IOUS,
    NEVER,
    SCORES,
    Found,
    Parts,
    Verified,
    best_threshold,
    costs,
    f_vv,
    halves,
    intervals,
    mean_boxes,
    recalls,
)
from misdetect.nouns.boxes import iou
from misdetect.said.errors import BadArray

TABLE_1 = [
    (0.83, 0.28, 0.7209, 0.72),
    (0.90, 0.62, 0.3822, 0.38),
    (0.83, 0.64, 0.3620, 0.36),
    (0.92, 0.32, 0.6818, 0.68),
    (0.99, 0.79, 0.2117, 0.21),
    (0.95, 0.77, 0.2317, 0.23),
    (0.91, 0.32, 0.6817, 0.68),
]


@pytest.mark.parametrize(("present", "missing", "exact", "printed"), TABLE_1)
def test_the_papers_seven_rows(present, missing, exact, printed):
    assert float(f_vv(present, missing)) == pytest.approx(exact, abs=5e-5)
    assert round(float(f_vv(present, missing)), 2) == printed


share = st.floats(0, 1)


@given(share, share, share, share, st.floats(0.01, 10))
def test_f_vv_rises_with_present_and_falls_with_missing_recall(a, b, c, d, beta):
    low, high = sorted((a, b))
    less, more = sorted((c, d))
    assert f_vv(low, less, beta) <= f_vv(high, less, beta) + 1e-12
    assert f_vv(high, more, beta) <= f_vv(high, less, beta) + 1e-12
    assert -1e-12 <= f_vv(a, c, beta) <= 1 + 1e-12


@given(share, st.floats(0.01, 10))
def test_f_vv_at_the_ends(x, beta):
    assert f_vv(1, 0, beta) == pytest.approx(1)
    assert f_vv(0, x, beta) == 0
    assert f_vv(x, 1, beta) == 0


def test_beta_weighs_the_two_mistakes():
    """With a small β nearly only hallucinations count, with a large one nearly only what is not found."""
    assert float(f_vv(0.3, 0.1, 0.01)) == pytest.approx(0.9, abs=0.01)
    assert float(f_vv(0.3, 0.1, 100)) == pytest.approx(0.3, abs=0.01)
    assert np.isnan(f_vv(np.nan, 0.2))


def world(seed, images=12, labels=5, each=30):
    """Parts and detections at random, some parts not annotated, scores on a coarse grid so that there are ties."""
    dice = np.random.default_rng(seed)
    place = np.flatnonzero(dice.random(images * labels) < 0.85)
    corner = dice.uniform(0, 60, (len(place), 2))
    boxes = np.concatenate([corner, corner + dice.uniform(5, 40, (len(place), 2))], axis=1)
    parts = Parts(place // labels, place % labels, boxes, dice.random(len(place)) < 0.4)
    count = images * each
    low = dice.uniform(0, 60, (count, 2))
    found = (
        np.sort(dice.integers(0, images, count)),
        dice.integers(0, labels + 1, count),
        np.concatenate([low, low + dice.uniform(5, 40, (count, 2))], axis=1),
        dice.integers(0, 21, count) / 20,
    )
    near = dice.random(count) < 0.5  # half of them lie near the part of their class
    for i in np.flatnonzero(near):
        own = np.flatnonzero((parts.image == found[0][i]) & (parts.label == found[1][i]))
        if own.size:
            found[2][i] = boxes[own[0]] + dice.uniform(-3, 3, 4)
            found[2][i, 2:] = np.maximum(found[2][i, 2:], found[2][i, :2])
    return parts, found


def naive_recalls(parts, found, score, present_iou, missing_iou):
    image, label, boxes, scores = found
    counts = {False: [0, 0], True: [0, 0]}
    for p in range(len(parts)):
        missing = bool(parts.missing[p])
        least = missing_iou if missing else present_iou
        hit = False
        for d in range(len(scores)):
            if image[d] == parts.image[p] and label[d] == parts.label[p] and scores[d] >= score:
                hit = hit or float(iou(boxes[d : d + 1], parts.boxes[p : p + 1])[0, 0]) >= least
        counts[missing][0] += hit
        counts[missing][1] += 1
    return counts[False], counts[True]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("ious", [(0.5, 0.1), (0.0, 0.0), (0.75, 0.3)])
def test_recalls_are_those_of_a_naive_loop(seed, ious):
    parts, found = world(seed)
    verified = Verified.at(parts, Found.of(parts, *found), *ious)
    for score in (0.0, 0.35, 0.5, 1.0):
        (hit, there), (ghosts, gone) = naive_recalls(parts, found, score, *ious)
        assert verified.counts([score])[0].tolist() == [hit, there, ghosts, gone]
        tally = verified.tally(score, 12, 6)
        assert tally.sum(axis=(0, 1)).tolist() == [hit, there, ghosts, gone]


@pytest.mark.parametrize("seed", range(3))
def test_recall_over_iou_is_that_of_a_naive_loop(seed):
    parts, found = world(seed)
    best = Found.of(parts, *found).best_iou(len(parts), 0.4)[parts.missing]
    for least in IOUS[::4]:
        ghosts, gone = naive_recalls(parts, found, 0.4, 0.5, least)[1]
        assert float((best >= least).mean()) == pytest.approx(ghosts / gone)


def test_without_localisation_any_detection_of_the_class_will_do():
    parts = Parts(
        np.array([0, 0]), np.array([0, 1]), np.array([[0.0, 0, 10, 10], [20, 20, 30, 30]]), np.array([False, True])
    )
    far = np.array([[90.0, 90, 95, 95]])
    found = Found.of(parts, np.array([0]), np.array([1]), far, np.array([0.7]))
    assert found.best_score(2, 0.0).tolist() == [NEVER, 0.7]
    assert found.best_score(2, 0.1).tolist() == [NEVER, NEVER]
    assert found.best_iou(2, 0.5).tolist() == [NEVER, 0.0]


def test_nothing_to_look_at():
    none = Parts(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, 4)), np.zeros(0, np.bool_))
    found = Found.of(none, np.array([0]), np.array([0]), np.zeros((1, 4)), np.array([0.5]))
    assert found.best_score(0, 0.5).shape == (0,)
    counts = Verified.at(none, found, 0.5, 0.1).counts(SCORES)
    assert not counts.any()
    assert all(np.isnan(part).all() for part in recalls(counts))
    parts, _ = world(0)
    empty = Found.of(parts, *(np.zeros(0, np.int64),) * 2, np.zeros((0, 4)), np.zeros(0))
    assert (empty.best_score(len(parts), 0.0) == NEVER).all()


def test_a_part_twice_is_refused():
    with pytest.raises(BadArray, match="once per image"):
        Parts(np.array([0, 0]), np.array([1, 1]), np.zeros((2, 4)), np.zeros(2, np.bool_))


def test_recalls_fall_with_the_score():
    parts, found = world(5)
    present, missing = recalls(Verified.at(parts, Found.of(parts, *found), 0.5, 0.1).counts(SCORES))
    assert (np.diff(present) <= 0).all()
    assert (np.diff(missing) <= 0).all()
    assert present[0] > present[-1]


def test_the_interval_of_a_planted_rate_holds_it():
    """200 draws of a world in which missing parts are detected at a rate of .3: nine in ten intervals hold it."""
    held = 0
    for seed in range(200):
        dice = np.random.default_rng(seed)
        image = np.repeat(np.arange(40), 8)
        parts = Parts(image, np.tile(np.arange(8), 40), np.tile([0.0, 0, 9, 9], (320, 1)), np.ones(320, np.bool_))
        verified = Verified(parts, np.where(dice.random(320) < 0.3, 0.9, NEVER))
        tally = verified.tally(0.5, 40, 8).sum(axis=1)
        low, high = intervals(tally, resamples(40, 400, seed), 0.1, 0.9)["missing_recall"]
        held += low <= 0.3 <= high
    assert 165 <= held <= 195  # 180 expected, a percentile interval is a little short


def test_costs_and_the_cheapest_threshold():
    counts = np.array([[8.0, 10, 3, 5], [6, 10, 0, 5]])
    assert costs(counts, 10, 1).tolist() == [32, 4]
    values = np.full(len(SCORES), 0.0)
    values[20:31] = 1.0
    assert best_threshold(values) == 0.25, "the middle of a plateau"
    assert np.isnan(best_threshold(np.full(len(SCORES), np.nan)))


@given(st.integers(1, 60), st.integers(0, 5))
def test_halves_are_halves(images, seed):
    one = halves(images, seed)
    assert one.sum() == (images + 1) // 2
    assert np.array_equal(one, halves(images, seed))


def test_the_prior_is_the_mean_in_shares_of_the_image():
    boxes = np.array([[0.0, 0, 10, 20], [20, 0, 30, 40], [5, 5, 6, 6]])
    sizes = np.array([[100.0, 100], [100, 200], [10, 10]])
    prior = mean_boxes(np.array([0, 0, 2]), boxes, sizes, 3)
    assert prior[0] == pytest.approx([0.1, 0, 0.2, 0.2])
    assert prior[2] == pytest.approx([0.5, 0.5, 0.6, 0.6])
    assert np.isnan(prior[1]).all()
