"""What charts as values are made with: rates of misses with their intervals, and what a chart is of."""

import pytest
from charted import charts, row

from misdetect.drawing import values
from misdetect.drawing.values import miss_rates
from misdetect.report.embedded import counted


def test_rates_of_misses_have_intervals_over_images():
    """One of three images holds every miss: the share of draws without it is (2/3)³ = 0.30."""
    rows = [
        row("score", "missed" if image == 0 else "found", image=f"i{image}") for image in range(3) for _ in range(5)
    ]
    rows += [row("score", "extra", image="i9", score=0.5)] * 7
    found = miss_rates(counted(rows, "score"), "size", ("small", "large"))
    count, lost, rate, (low, high) = found["small"]
    assert (count, lost, rate) == (15, 5, pytest.approx(1 / 3))
    assert (low, high) == (0, pytest.approx(2 / 3)), "with 3.7 % all draws are of it"
    assert found["large"] == (0, 0, None, None)
    assert miss_rates(counted(rows[15:], "score"), "size", ("small",)) == {"small": (0, 0, None, None)}


def test_many_images_are_drawn_in_groups_and_no_miss_is_lost(monkeypatch):
    monkeypatch.setattr(values, "_DRAWN", 4)
    rows = [row("score", "missed" if image < 3 else "found", image=f"i{image:02d}") for image in range(12)]
    count, lost, _, (low, high) = miss_rates(counted(rows, "score"), "size", ("small",))["small"]
    assert (count, lost) == (12, 3)
    assert 0 <= low < 1 / 4 < high <= 1 / 3, "each group holds one miss of three, or none"


def test_a_study_without_charts_and_a_detector_without_a_name():
    assert charts("detect", {}, []) == []
    assert values.about({"detector": None, "data": "d"}, text="t") == "a detector on d; t"
