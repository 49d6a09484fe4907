"""Relocation and shrinking obey their definitions, whatever fails."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from misdetect.studies.fuzz.rows import Insertion
from misdetect.studies.fuzz.search import LEAST, MOST_MOVES, SHRINK_STEPS, relocate, shrink


def drive(search, fails):
    """Run a search against ``fails``; what it asked, and what it found."""
    asked = []
    try:
        edit = next(search)
        while True:
            asked.append(edit)
            edit = search.send(fails(edit))
    except StopIteration as stop:
        return asked, stop.value


place = st.integers(0, 400)
START = Insertion(0, 0, (0, 0), (30, 40))
SHORT = 50 / 6  # a sixth of the diagonal


@given(place, place, place, place, st.integers(0, 2**32 - 1), st.floats(0.1, 0.9))
def test_relocation_stays_on_the_way_and_ends_where_it_fails(x, y, gx, gy, seed, share):
    start = Insertion(0, 0, (x, y), (30, 40))
    generator = np.random.default_rng(seed)
    verdicts = {}

    def fails(edit):
        return verdicts.setdefault(edit.at, bool(generator.random() < share))

    goal = np.array([gx + 15.0, gy + 20.0])
    asked, found = drive(relocate(start, goal, lambda edit: edit.at[0] % 7 != 0), fails)
    assert len(asked) <= MOST_MOVES
    assert all(edit.at[0] % 7 for edit in asked)
    assert found.insertion == start or verdicts[found.insertion.at]
    way, whole = np.array([gx - x, gy - y], dtype=float), np.hypot(gx - x, gy - y)
    for edit in asked:
        moved = np.array(edit.at, dtype=float) - [x, y]
        assert abs(moved[0] * way[1] - moved[1] * way[0]) <= 1.5 * max(whole, 1)  # off the line by rounding only
    if whole:
        moved = np.hypot(*(np.array(found.insertion.at) - [x, y]))
        assert abs(found.progress - moved / whole) <= 1.5 / whole
    assert 0 <= found.progress <= 1


def test_an_object_that_always_fails_goes_all_the_way_at_once():
    asked, found = drive(relocate(START, np.array([315.0, 220.0]), lambda _: True), lambda _: True)
    assert [edit.at for edit in asked] == [(300, 200)]
    assert found.progress == 1.0


def test_an_object_that_fails_nowhere_else_stays_and_steps_get_halved_to_a_sixth_of_its_diagonal():
    asked, found = drive(relocate(START, np.array([415.0, 20.0]), lambda _: True), lambda _: False)
    assert found.insertion == START
    assert found.progress == 0
    assert [edit.at[0] for edit in asked] == [400, 200, 100, 50, 25, 12]
    assert SHORT > 12.5 / 2


def test_a_barrier_is_approached_to_within_a_sixth_of_the_diagonal():
    asked, found = drive(relocate(START, np.array([415.0, 20.0]), lambda _: True), lambda edit: edit.at[0] <= 170)
    assert 170 - 4 * SHORT <= found.insertion.at[0] <= 170
    assert len(asked) <= MOST_MOVES


@given(st.integers(30, 90), st.integers(30, 90), st.floats(0.05, 1.0), st.floats(0.05, 1.0))
def test_shrinking_finds_the_least_edit_up_to_its_steps(width, height, least_size, least_opacity):
    start = Insertion(0, 0, (50, 60), (width, height))

    def fails(edit):
        return edit.size[0] >= least_size * width and edit.opacity >= least_opacity

    asked, found = drive(shrink(start), fails)
    assert len(asked) <= 2 * SHRINK_STEPS
    end = found.insertion
    assert end == start or fails(end)
    assert end.box[0] >= 50
    assert end.box[1] >= 60
    assert end.box[2] <= start.box[2]
    assert end.box[3] <= start.box[3]
    step = (1 / LEAST) ** (1 / 2**SHRINK_STEPS)
    assert end.size[0] <= max(least_size, LEAST) * width * step + 2
    assert end.opacity <= max(least_opacity, LEAST) + 1 / 2**SHRINK_STEPS + 0.1
    assert 0 < found.strength <= 1
