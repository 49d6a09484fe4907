"""The ring of paper 4, and the rule about where an object may lie."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from misdetect.compose.placement import anywhere, boxes_at, first_free, free, ring

side = st.integers(1, 60)


@given(side, side, side, side, st.integers(0, 2**32 - 1))
def test_the_ring_is_between_touching_and_half_an_object_away(tw, th, w, h, seed):
    target = np.array([100.0, 80.0, 100.0 + tw, 80.0 + th])
    corners = ring(target, (w, h), np.random.default_rng(seed), count=40)
    assert len(corners) == 40
    centre = corners + np.array([w, h]) / 2
    dx, dy = np.abs(centre - (target[:2] + target[2:]) / 2).T
    slack = 0.5 + 1e-9  # whole pixels
    assert ((dx <= tw / 2 + w + slack) & (dy <= th / 2 + h + slack)).all()
    assert ((dx >= (tw + w) / 2 - slack) | (dy >= (th + h) / 2 - slack)).all()


def test_the_ring_is_uniform_over_its_area_and_all_quadrants():
    target, size = np.array([0.0, 0.0, 40.0, 20.0]), (30, 50)
    corners = ring(target, size, np.random.default_rng(1), count=40_000)
    offset = corners + np.array(size) / 2 - np.array([20.0, 10.0])
    quadrants = np.unique((offset > 0) @ [1, 2], return_counts=True)[1] / len(offset)
    assert np.abs(quadrants - 0.25).max() < 0.02
    inner, outer = np.array([35.0, 35.0]), np.array([50.0, 60.0])
    beside = (np.abs(offset[:, 0]) > inner[0]) & (np.abs(offset[:, 1]) <= inner[1])
    share = 4 * (outer[0] - inner[0]) * inner[1] / (4 * (outer.prod() - inner.prod()))
    assert abs(beside.mean() - share) < 0.02


@given(st.integers(0, 2**32 - 1), side, side)
def test_free_means_inside_and_over_nothing(seed, w, h):
    generator = np.random.default_rng(seed)
    others = boxes_at(generator.integers(0, 80, (3, 2)), (15, 10))
    corners = generator.integers(-20, 100, (30, 2))
    boxes = boxes_at(corners, (w, h))
    grid = np.zeros((100, 100), bool)
    for x0, y0, x1, y1 in others.astype(int):
        grid[y0:y1, x0:x1] = True
    naive = [
        x0 >= 0 and y0 >= 0 and x1 <= 100 and y1 <= 100 and not grid[y0:y1, x0:x1].any()
        for x0, y0, x1, y1 in boxes.astype(int).tolist()
    ]
    assert free(boxes, others, 100, 100).tolist() == naive
    chosen = first_free(corners, (w, h), others, 100, 100)
    assert chosen == (tuple(corners[naive.index(True)].tolist()) if any(naive) else None)


def test_anywhere_reaches_both_edges_and_nothing_where_the_object_is_too_large():
    generator = np.random.default_rng(0)
    places = anywhere((10, 4), 14, 6, generator, count=500)
    assert places.min(axis=0).tolist() == [0, 0]
    assert places.max(axis=0).tolist() == [4, 2]
    assert len(anywhere((15, 4), 14, 6, generator)) == 0
