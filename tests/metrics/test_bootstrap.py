"""Bootstrap intervals against the textbook and against their laws."""

import numpy as np
import pytest

from misdetect.metrics.bootstrap import interval, ratios, resamples
from misdetect.said.errors import BadArray


def test_interval_of_a_mean_agrees_with_the_normal_one():
    """For many independent images the percentile interval is that of the central limit theorem."""
    values = np.random.default_rng(0).normal(10, 2, size=400)
    samples = ratios(resamples(400, 4000, seed=1), values, np.ones(400))
    low, high = interval(samples, 0.9)
    half = 1.645 * values.std() / np.sqrt(400)
    assert low == pytest.approx(values.mean() - half, abs=0.02)
    assert high == pytest.approx(values.mean() + half, abs=0.02)


def test_it_covers_the_truth_as_often_as_it_says():
    generator = np.random.default_rng(3)
    covered = 0
    for trial in range(200):
        images = generator.binomial(50, generator.beta(4, 6, size=40))  # affected positions of 40 images, mean rate .4
        low, high = interval(ratios(resamples(40, 400, seed=trial), images, np.full(40, 50)), 0.9)
        covered += bool(low <= 0.4 <= high)
    assert 0.83 <= covered / 200 <= 0.96


def test_one_loop_gives_the_same():
    numerators, denominators = np.array([[1.0, 0], [3, 2], [0, 5]]), np.array([[4.0, 4], [4, 4], [10, 10]])
    draws = resamples(3, 50, seed=2)
    assert (draws.sum(axis=1) == 3).all()
    for draw, ratio in zip(draws, ratios(draws, numerators, denominators), strict=True):
        chosen = [i for i in range(3) for _ in range(int(draw[i]))]
        for c in range(2):
            expected = sum(numerators[i, c] for i in chosen) / sum(denominators[i, c] for i in chosen)
            assert ratio[c] == pytest.approx(expected)


def test_more_confidence_is_wider_and_a_seed_repeats():
    values = np.arange(20.0)
    samples = ratios(resamples(20, 500, seed=5), values, np.ones(20))
    again = ratios(resamples(20, 500, seed=5), values, np.ones(20))
    assert np.array_equal(samples, again)
    (low90, high90), (low95, high95) = interval(samples, 0.9), interval(samples, 0.95)
    assert low95 < low90 < high90 < high95


def test_nothing_to_divide_by_is_nan_not_zero():
    draws = resamples(2, 10)
    low, high = interval(ratios(draws, np.zeros((2, 1)), np.zeros((2, 1))), 0.9)
    assert np.isnan(low).all()
    assert np.isnan(high).all()


def test_bad_arguments():
    with pytest.raises(BadArray, match="confidence between"):
        interval(np.zeros(3), 90)
    with pytest.raises(BadArray, match="at least one image"):
        resamples(0)
