"""``Indices`` against Python's own sets."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from misdetect.engine.indices import Indices

numbers = st.sets(st.integers(0, 40))


@given(numbers, numbers)
def test_it_is_a_set(a: set[int], b: set[int]) -> None:
    ours, theirs = Indices(a), Indices(np.array(sorted(b, reverse=True), np.int64))
    assert (ours | theirs, ours & theirs, ours - theirs) == (a | b, a & b, a - b)
    assert (list(ours), len(ours), bool(ours)) == (sorted(a), len(a), bool(a))
    assert (ours == theirs, ours == a, ours <= theirs) == (a == b, True, a <= b)
    assert [n for n in range(-2, 45) if n in ours] == sorted(a)
    assert Indices.union([ours, theirs, ours]) == a | b


@given(numbers)
def test_what_is_written_is_read_again(a: set[int]) -> None:
    written = json.loads(json.dumps(Indices(a).written()))
    assert Indices.read(written) == a
    assert Indices.read(sorted(a)) == a  # as older versions wrote it


def test_ranges_are_short() -> None:
    ten_million = Indices.below(10**7)
    assert ten_million.written() == [[0, 10**7 - 1]]
    assert (ten_million - Indices([5])).told() == "0-4, 6-9999999"
    assert Indices(range(0, 40, 2)).told(3) == "0, 2, 4, …"


@pytest.mark.parametrize(
    "bad", [[-1], [True], [1.0], ["1"], [[1]], [[2, 1]], [[1, 2, 3]], [1, 1], [[1, 5], 3], [None], [1 << 63], [[]]]
)
def test_what_cannot_be_is_refused(bad: list[object]) -> None:
    with pytest.raises((ValueError, TypeError)):
        Indices.read(bad)
