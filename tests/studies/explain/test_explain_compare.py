"""Runs side by side: counts against plain loops, differences by their laws, and what is told about pairing."""

from collections import Counter

import numpy as np
import pytest
from explain_runs import fates, write
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from misdetect.engine.store import Run
from misdetect.metrics.mechanisms import MECHANISMS
from misdetect.said.errors import BadData
from misdetect.studies.explain import compare
from misdetect.studies.explain.compare import compared, difference, missed_by, shared_misses
from misdetect.studies.objects import mcnemar


@pytest.fixture
def judged(tmp_path):
    """``judged(objects, ...)``: a run that says so, read again."""
    numbers = iter(range(100))

    def make(objects, **more):
        return compare.judged(Run.open(write(tmp_path / str(next(numbers)), objects, **more)))

    return make


def test_shared_misses_are_those_a_plain_loop_counts(judged):
    first, second = fates(40, 1), fates(40, 2)
    found = shared_misses(judged(first), judged(second))
    counts = Counter()
    for of_a, of_b in zip(first, second, strict=True):
        for a, b in zip(of_a, of_b, strict=True):
            counts[a, b] += 1
    assert found["objects"] == sum(counts.values())
    assert found["both_found"] == counts[None, None]
    assert found["only_first_missed"] == sum(counts[m, None] for m in MECHANISMS)
    assert found["only_second_missed"] == sum(counts[None, m] for m in MECHANISMS)
    assert {(a, b): n for a, b, n in found["both_missed"]} == {k: n for k, n in counts.items() if None not in k}
    assert found["missed_by_both"] == sum(n for *_, n in found["both_missed"])


@given(st.integers(0, 40), st.integers(0, 40))
def test_p_is_that_of_the_exact_test(only_first, only_second):
    count = only_first + only_second
    expected = binomtest(only_first, count, 0.5).pvalue if count else 1.0
    assert mcnemar(only_first, only_second) == pytest.approx(expected)


def test_differences_are_those_of_the_rates_and_turn_around(judged):
    first, second = fates(40, 1), fates(40, 2, rate=0.3)
    a, b = judged(first), judged(second)
    there, back = difference(a, b), difference(b, a)
    rates = [np.mean([why is not None for image in run for why in image]) for run in (first, second)]
    assert there["miss_rate"]["difference"] == pytest.approx(rates[1] - rates[0])
    flat = [[why for image in run for why in image] for run in (first, second)]
    for name in MECHANISMS:
        of = [run.count(name) for run in flat]
        rate, share = there["mechanisms"][name]["rate"], there["mechanisms"][name]["share"]
        assert rate["difference"] == pytest.approx((of[1] - of[0]) / len(flat[0]))
        lost = [len(run) - run.count(None) for run in flat]
        assert share["difference"] == pytest.approx(of[1] / lost[1] - of[0] / lost[0])
        other = back["mechanisms"][name]["rate"]
        assert other["difference"] == pytest.approx(-rate["difference"])
        assert other["interval"] == pytest.approx([-rate["interval"][1], -rate["interval"][0]])
    low, high = there["miss_rate"]["interval"]
    assert low < rates[1] - rates[0] < high
    assert there["miss_rate"]["certain"] == (not low <= 0 <= high)


def test_a_run_differs_from_itself_by_nothing(judged):
    objects = fates(30, 3)
    found = difference(judged(objects), judged(objects))
    entries = [found["miss_rate"], *(e[k] for e in found["mechanisms"].values() for k in ("rate", "share"))]
    for entry in entries:
        assert (entry["difference"], entry["interval"], entry["certain"]) == (0, [0, 0], False)


def test_drawing_the_same_images_for_both_is_worth_it(judged):
    """Images differ in difficulty: a detector that misses one object more in every fifth of them is surely worse only
    if both are asked about the same images."""
    objects = fates(60, 4)
    worse = [list(image) for image in objects]
    for image in worse[::5]:
        image[0] = "background"
    paired, unpaired = (difference(judged(objects), judged(worse, shift=shift)) for shift in (0.0, 3.0))
    assert (paired["same_images"], unpaired["same_images"]) == (True, False)
    assert paired["miss_rate"]["difference"] == pytest.approx(unpaired["miss_rate"]["difference"])
    assert (paired["miss_rate"]["certain"], unpaired["miss_rate"]["certain"]) == (True, False)
    widths = [np.ptp(each["miss_rate"]["interval"]) for each in (paired, unpaired)]
    assert widths[0] < 0.5 * widths[1]


def test_missed_by_how_many(judged):
    runs = [fates(30, seed) for seed in (5, 6, 7)]
    counts = Counter(
        sum(why is not None for why in whys) for images in zip(*runs, strict=True) for whys in zip(*images, strict=True)
    )
    assert missed_by([judged(run) for run in runs]) == [counts[n] for n in range(4)]


def test_it_is_said_why_runs_are_not_paired(judged):
    objects = fates(10, 8)
    base = judged(objects)

    def verdict(other):
        return compared({"a": base, "b": other})

    same = verdict(judged(fates(10, 9)))
    assert (same["paired"], same["why_not_paired"], same["notes"]) == (True, [], [])
    elsewhere = verdict(judged(objects, shift=1.0))
    assert not elsewhere["paired"]
    assert "different annotations" in elsewhere["why_not_paired"][0]
    assert elsewhere["shared_misses"] == []
    assert elsewhere["missed_by"] is None
    assert not elsewhere["differences"][0]["same_images"]
    rounded = verdict(judged(objects, shift=0.004))
    assert rounded["paired"]
    strict = verdict(judged(objects, cls=0.5))
    assert not strict["paired"]
    assert "different rules: cls" in strict["why_not_paired"][0]
    assert strict["differences"][0]["same_images"], "the images are the same all the same"
    assert len(strict["shared_misses"]) == 1
    fewer = verdict(judged(objects[:6]))
    assert fewer["paired"]
    assert fewer["shared_misses"][0]["objects"] == sum(map(len, objects[:6]))
    assert "objects that both have" in fewer["notes"][0]


def test_nothing_in_common_cannot_be_paired(judged):
    with pytest.raises(BadData, match="no object in common"):
        shared_misses(judged([["background"]]), judged([[], ["background"]]))


def test_runs_without_misses_or_objects_are_compared_too(judged):
    perfect, empty = judged([[None, None]]), judged([[], []])
    found = compared({"a": judged([["background", None]]), "b": perfect})
    assert found["differences"][0]["miss_rate"]["difference"] == -0.5
    assert found["differences"][0]["mechanisms"]["background"]["share"] is None, "of no misses there is no share"
    found = compared({"a": perfect, "b": empty})
    assert found["differences"][0]["miss_rate"] is None
    assert not found["paired"]
