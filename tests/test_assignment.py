"""The assignment problem, against SciPy's answer: the very same pairs, also where several answers weigh the same."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import linear_sum_assignment

from misdetect.nouns.assignment import heaviest

SHAPES = st.tuples(st.integers(0, 9), st.integers(0, 9))
TIED = st.sampled_from((0.0, 0.0, 0.25, 0.5, 0.75, 1.0))
ANY = st.floats(0, 1e6, allow_subnormal=False)


@given(st.one_of(arrays(np.float64, SHAPES, elements=TIED), arrays(np.float64, SHAPES, elements=ANY)))
def test_the_pairs_are_scipys(weights):
    expected = linear_sum_assignment(weights, maximize=True)
    for ours, theirs in zip(heaviest(weights), expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_crowds_are_matched_alike():
    generator = np.random.default_rng(0)
    for rows, columns in ((60, 60), (80, 25), (25, 80)):
        overlaps = generator.random((rows, columns)) * (generator.random((rows, columns)) < 0.2)
        expected = linear_sum_assignment(overlaps, maximize=True)
        for ours, theirs in zip(heaviest(overlaps), expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_where_all_weigh_the_same_each_takes_its_own_number():
    rows, columns = heaviest(np.ones((3, 5)))
    assert rows.tolist() == columns.tolist() == [0, 1, 2]
