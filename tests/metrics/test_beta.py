"""The incomplete beta function and what is read off it, against SciPy's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from misdetect.metrics.beta import beta_quantile, binomial_below, incomplete_beta, student_quantile

COUNTS = st.integers(0, 400).map(lambda count: count + 0.5)
SIZES = st.one_of(COUNTS, st.floats(0.1, 1e4))
SHARES = st.sampled_from((0.005, 0.025, 0.05, 0.5, 0.9, 0.95, 0.975, 0.995))


@given(SIZES, SIZES, st.floats(0, 1))
def test_the_incomplete_beta_function_is_scipys(a, b, x):
    assert incomplete_beta(a, b, x) == pytest.approx(special.betainc(a, b, x), rel=0, abs=1e-9)


@given(COUNTS, COUNTS, SHARES)
def test_quantiles_of_beta_are_scipys(a, b, share):
    assert beta_quantile(a, b, share) == pytest.approx(special.betaincinv(a, b, share), rel=0, abs=1e-9)


@given(st.integers(1, 60), st.sampled_from((0.75, 0.9, 0.95, 0.975, 0.995, 0.9995)))
def test_quantiles_of_students_t_are_scipys(degrees, share):
    assert student_quantile(share, degrees) == pytest.approx(stats.t.ppf(share, degrees), rel=1e-9)


@given(st.integers(1, 100_000), st.floats(0, 1))
def test_tosses_of_a_fair_coin_are_scipys(tosses, share):
    most = round(share * tosses)
    assert binomial_below(most, tosses) == pytest.approx(stats.binom.cdf(most, tosses, 0.5), rel=0, abs=1e-9)


def test_the_ends_and_what_is_known_without_a_table():
    assert (incomplete_beta(2, 3, 0), incomplete_beta(2, 3, 1), incomplete_beta(2, 3, -1)) == (0, 1, 0)
    assert incomplete_beta(1, 1, 0.3) == pytest.approx(0.3, abs=1e-15)
    assert binomial_below(1, 3) == pytest.approx(0.5, abs=1e-15)
    assert binomial_below(3, 3) == 1
