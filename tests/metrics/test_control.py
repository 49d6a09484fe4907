"""What patches tell: against the integral of Bayes' rule on a grid, and against planted chances."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from misdetect.metrics.control import Control, posterior

GRID = np.sin(np.linspace(0, np.pi / 2, 200_001)) ** 2
"""Chances from 0 to 1 at equal steps of Jeffreys' prior: each weighs the same."""


def weights(asked, failing):
    middle = (GRID[1:] + GRID[:-1]) / 2
    weight = middle**failing * (1 - middle) ** (asked - failing)
    return middle, weight / weight.sum()


@given(st.integers(1, 20), st.data(), st.floats(0.05, 0.95))
def test_the_posterior_is_bayes_rule_on_a_grid(asked, data, level):
    failing = data.draw(st.integers(0, asked))
    chance, weight = weights(asked, failing)
    mean, low, high = posterior(asked, failing, 0.9)
    assert mean == pytest.approx((chance * weight).sum(), abs=1e-4)
    assert weight[chance < low].sum() == pytest.approx(0.05, abs=1e-3)
    assert weight[chance > high].sum() == pytest.approx(0.05, abs=1e-3)
    assert Control(20, level).below(asked, failing) == pytest.approx(weight[chance < level].sum(), abs=1e-3)


def played(control, chance, generator):
    """One failure of that chance, asked about until it is clear: verdict, patches asked, patches failing."""
    asked = failing = 0
    verdict = None
    while verdict is None:
        asked += 1
        failing += int(generator.random() < chance)
        verdict = control.clear(asked, failing)
        assert asked <= control.most
    return verdict, asked, failing


def test_four_harmless_patches_clear_a_failure_and_one_that_fails_first_does_not():
    control = Control()
    assert [control.clear(asked, 0) for asked in range(1, 5)] == [None, None, None, True]
    assert control.fewest == 4
    assert control.clear(1, 1) is False
    assert [control.clear(asked, 1) for asked in (2, 9, 10)] == [None, None, True], "one of ten is forgiven"
    assert control.clear(3, 2) is False, "no patch to come could make up for it"
    assert (Control(most=3).fewest, Control(most=3).clear(3, 0), Control(most=3).clear(1, 0)) == (3, False, False)


@given(st.integers(1, 12), st.floats(0.05, 0.9), st.floats(0.5, 0.99), st.data())
def test_it_stops_exactly_where_going_on_cannot_change_the_verdict_or_it_is_clear(most, level, sure, data):
    control = Control(most, level, sure)
    asked = data.draw(st.integers(1, most))
    failing = data.draw(st.integers(0, asked))
    verdict = control.clear(asked, failing)
    if verdict is True:
        assert control.below(asked, failing) >= sure
    if verdict is None:
        assert asked < most
        assert 1 - sure < control.below(asked, failing) < sure
        assert control.below(most, failing) >= sure, "the rest may still clear it"


def test_what_happens_for_the_object_only_is_cleared_and_what_any_patch_does_is_not():
    generator, control = np.random.default_rng(0), Control()
    assert {played(control, 0.0, generator)[:2] for _ in range(5)} == {(True, 4)}
    assert {played(control, 1.0, generator)[:2] for _ in range(5)} == {(False, 1)}
    cleared = {p: np.mean([played(control, p, generator)[0] for _ in range(2000)]) for p in (0.05, 0.3, 0.5, 0.8)}
    assert cleared[0.05] > 0.85
    assert cleared[0.3] < 0.35
    assert cleared[0.5] < 0.1
    assert cleared[0.8] < 0.01


def test_intervals_hold_planted_chances_as_often_as_they_say_however_asking_was_stopped():
    """Chances drawn from the prior: a posterior does not mind when one stops to ask."""
    generator, control = np.random.default_rng(1), Control()
    chances = generator.beta(0.5, 0.5, 4000)
    held = 0
    for chance in chances:
        _, asked, failing = played(control, chance, generator)
        _, low, high = posterior(asked, failing, 0.9)
        held += low <= chance <= high
    assert held / len(chances) == pytest.approx(0.9, abs=0.02)


@pytest.mark.parametrize("chance", [0.1, 0.3, 0.5, 0.8])
def test_intervals_of_many_patches_hold_one_planted_chance(chance):
    generator = np.random.default_rng(2)
    failing = generator.binomial(100, chance, 1000)
    ends = [posterior(100, int(n), 0.9)[1:] for n in failing]
    assert np.mean([low <= chance <= high for low, high in ends]) == pytest.approx(0.9, abs=0.05)
