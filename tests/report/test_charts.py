"""Charts are drawn to scale, say what they show, and are the same bytes for the same values."""

import numpy as np
import pytest
from chart_parts import bar_heights, bar_lengths, intervals, points, words

from misdetect.report import charts


def test_bars_have_their_names_percentages_and_lengths():
    figure = charts.new(4, 3)
    axes = figure.subplots()
    charts.bars(axes, {"a": 0.1, "b": 0.6}, "title", {"a": "#ff0000"})
    assert bar_lengths(axes) == pytest.approx([10, 60])
    assert words(axes) == [" 10.0 %", " 60.0 %"]
    assert axes.get_ylim() == (1.5, -0.5), "the first is on top"
    assert axes.patches[0].get_facecolor() == (1, 0, 0, 1)
    assert axes.get_title(loc="left") == "title"


def test_a_flow_without_links_is_empty_and_columns_do_not_overlap():
    figure = charts.new(4, 3)
    axes = figure.subplots()
    charts.flow(axes, [], "nothing", {})
    assert not axes.collections
    ends = charts._columns([["x", "p", 3], ["y", "p", 2], ["x", "q", 1]], 0, gap=0.5)
    assert ends == {"x": (0, 4), "y": (4.5, 6.5)}


def test_groups_of_bars_have_heights_intervals_and_numbers():
    figure = charts.grouped_bars(
        {"clean": {"AP50": (0.9, None)}, "cls": {"AP50": (0.2, (0.1, 0.4)), "r_all": (None, None)}}, "t", "AP50"
    )
    (axes,) = figure.axes
    assert bar_heights(axes) == pytest.approx([0.9, 0.2])
    assert [list(line.get_ydata()) for line in axes.lines] == [[0.1, 0.4]]
    assert words(axes) == ["0.90", "0.20"]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["clean", "cls"]
    assert axes.get_ylabel() == "AP50"


def test_whiskers_leave_out_what_is_not_known():
    figure = charts.whiskers({"g": {"one": (1.0, (0.5, 2.0)), "two": (None, None)}}, "t", "x")
    (axes,) = figure.axes
    assert points(axes) == {"one": [1.0], "two": []}
    assert intervals(axes).tolist() == [[0.5, 2.0]]
    assert axes.get_xlabel() == "x"


def test_lines_are_their_values():
    figure = charts.lines({"a": ([0, 1], [2, 3]), "b": ([0, 1], [1, 0])}, "t", "x", "y")
    (axes,) = figure.axes
    drawn = {line.get_label(): np.asarray(line.get_data()).tolist() for line in axes.lines}
    assert drawn == {"a": [[0, 1], [2, 3]], "b": [[0, 1], [1, 0]]}
    assert axes.get_ylim()[0] == 0


@pytest.mark.parametrize("kind", ["png", "svg", "pdf"])
def test_the_same_values_are_the_same_bytes(tmp_path, kind):
    first, second = (
        charts.save(
            tmp_path / name / f"chart.{kind}", charts.caption(charts.lines({"a": ([0, 1], [2, 3])}, "t", "x", "y"), "c")
        )
        for name in ("one", "two")
    )
    assert first.read_bytes() == second.read_bytes()
    assert len(first.read_bytes()) > 1000
