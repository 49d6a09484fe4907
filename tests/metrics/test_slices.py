"""Slices: attributes by hand, bins at their edges, and a planted slice against a bootstrap written as a loop."""

import numpy as np
import pytest

from misdetect.metrics.slices import attributes, bins, over_represented, rate_intervals
from misdetect.nouns.detections import Truth


def test_attributes_by_hand():
    truth = Truth([[10, 10, 30, 50], [20, 10, 40, 50], [60, 0, 80, 10], [90, 90, 99, 99]], [0] * 4)
    pixels = np.zeros((100, 100, 3), np.uint8)
    pixels[:, 20:] = 200
    found = attributes(truth, 100, 100, pixels)
    assert found["crowding"].tolist() == [1, 1, 0, 0]
    assert found["occlusion"].tolist() == [0.5, 0.5, 0, 0]
    assert found["truncation"].tolist() == [0, 0, 1, 1]
    assert found["aspect"].tolist() == [0.5, 0.5, 2, 1]
    np.testing.assert_allclose(found["brightness"], [100, 200, 200, 200])
    assert found["size"].tolist() == [800, 800, 200, 81]
    assert np.isnan(attributes(truth, 100, 100)["brightness"]).all()
    assert all(len(column) == 0 for column in attributes(Truth.empty(), 5, 5).values())


def test_a_value_on_an_edge_belongs_to_the_upper_bin():
    assert bins("size", np.array([1023.9, 1024, 9215, 9216])).tolist() == ["small", "medium", "medium", "large"]
    assert bins("brightness", np.array([np.nan, 64.0])).tolist() == [None, "middle"]
    assert bins("truncation", np.array([0.0, 1])).tolist() == ["whole", "cut by the border"]


def test_a_planted_slice_is_first_and_its_numbers_are_those_of_counting():
    rng = np.random.default_rng(0)
    image = np.repeat(np.arange(60), 5)
    kind = rng.choice(["cup", "bowl", "lamp"], 300)
    hit = rng.random(300) < np.where(kind == "bowl", 0.6, 0.05)
    other = rng.random(300) < 0.2
    found = over_represented({"class": kind, "shape": ["any"] * 300}, {"sink": hit, "noise": other}, image)
    first = found[0]
    assert (first.value, first.mechanism, first.certain) == ("bowl", "sink", True)
    inside, outside = hit[kind == "bowl"].mean(), hit[kind != "bowl"].mean()
    assert (first.rate, first.rate_outside) == pytest.approx((inside, outside))
    assert first.lift == pytest.approx(inside / outside)
    draws = []
    for _ in range(1500):
        rows = np.concatenate([np.flatnonzero(image == i) for i in rng.integers(0, 60, 60)])
        k, h = kind[rows], hit[rows]
        draws.append(h[k == "bowl"].mean() - h[k != "bowl"].mean())
    assert (first.low, first.high) == pytest.approx(tuple(np.quantile(draws, [0.05, 0.95])), abs=0.02)
    assert not any(s.value == "any" for s in found), "a slice that holds everything has no outside"
    assert not any(s.mechanism == "noise" and s.low > 0.1 for s in found)


def test_the_interval_of_a_rate_holds_it():
    rng = np.random.default_rng(1)
    hit, among = rng.random(400) < 0.3, rng.random(400) < 0.5
    columns = np.stack([hit, hit & among, hit], axis=1), np.stack([hit | True, among, hit & False], axis=1)
    (low, high), (least, most), nothing = rate_intervals(*columns, np.repeat(np.arange(100), 4))
    assert low < hit.mean() < high
    assert high - low < 0.12
    assert least < hit[among].mean() < most
    assert most - least > high - low, "fewer objects tell less"
    assert np.isnan(nothing).all()
