"""Charts are drawn to scale, say what they show, and are the same bytes for the same values."""

import numpy as np
import pytest
from chart_parts import bar_heights, bar_lengths, intervals, points, words

from misdetect.drawing import charts


def test_bars_have_their_names_percentages_and_lengths():
    figure = charts.new(4, 3)
    axes = figure.subplots()
    charts.bars(axes, {"a": 0.1, "b": 0.6}, "title", {"a": "#ff0000"})
    assert bar_lengths(axes) == pytest.approx([10, 60])
    assert words(axes) == [" 10.0 %", " 60.0 %"]
    assert axes.get_ylim() == (1.5, -0.5), "the first is on top"
    assert 60 < axes.get_xlim()[1] < 100
    assert axes.patches[0].get_facecolor() == (1, 0, 0, 1)
    assert axes.get_title(loc="left") == "title"


def test_a_flow_without_links_is_empty_and_columns_do_not_overlap():
    figure = charts.new(4, 3)
    axes = figure.subplots()
    charts.flow(axes, [], "nothing", {})
    assert not axes.collections
    ends = charts._columns([["x", "p", 3], ["y", "p", 2], ["x", "q", 1]], 0, gap=0.5)
    assert ends == {"x": (0, 4), "y": (4.5, 6.5)}


def test_bands_go_from_their_place_on_the_left_to_their_place_on_the_right():
    links = [["x", "p", 3], ["y", "p", 2], ["x", "q", 5]]
    axes = charts.new(4, 3).subplots()
    charts.flow(axes, links, "t", {"q": "#00ff00"})
    gap = 0.04 * 10
    left, right = [0, 8 + gap, 3], [0, 3, 5 + gap]
    for band, start, end, (_, _, count) in zip(axes.collections, left, right, links, strict=True):
        edges = band.get_paths()[0].vertices
        assert edges[:, 0].min() == 0
        assert edges[:, 0].max() == 1
        for x, top in ((0, start), (1, end)):
            at = edges[edges[:, 0] == x, 1]
            assert (at.min(), at.max()) == pytest.approx((top, top + count))
        assert edges[:, 1].min() >= min(start, end) - 1e-9, "no band leaves the space between its ends"
        assert edges[:, 1].max() <= max(start, end) + count + 1e-9
    nodes = [(line.get_xdata()[0], *line.get_ydata()) for line in axes.lines]
    assert nodes == [(0, 0, 8), (0, 8 + gap, 10 + gap), (1, 0, 5), (1, 5 + gap, 10 + gap)]
    assert [(text.get_text(), text.get_position()[1]) for text in axes.texts] == [
        ("x 8", 4), ("y 2", 9 + gap), ("p 5", 2.5), ("q 5", 7.5 + gap)
    ]  # fmt: skip
    assert axes.yaxis_inverted()


def test_a_full_bar_is_divided_in_order_and_large_parts_have_their_number():
    figure = charts.shares({"one": {"a": 0.05, "b": 0.95}, "two": {"b": 0.06}}, "t", {})
    (axes,) = figure.axes
    assert bar_lengths(axes) == pytest.approx([5, 0, 95, 6])
    assert [patch.get_x() for patch in axes.patches] == pytest.approx([0, 0, 5, 0])
    assert words(axes) == ["95", "6"]
    assert [text.get_position() for text in axes.texts] == [(52.5, 0), (3, 1)]
    assert (axes.get_xlim(), axes.get_ylim()) == ((0, 100), (1.5, -0.5))
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a", "b"]


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
    assert axes.get_ylim() == (0, 1.1)
    assert axes.get_yticks().tolist() == [0, 0.25, 0.5, 0.75, 1]
    heights = [text.get_position()[1] for text in axes.texts]
    assert all(0 < above - top < 0.05 for above, top in zip(heights, (0.9, 0.4), strict=True)), "above bar and interval"
    middles = [patch.get_x() + patch.get_width() / 2 for patch in axes.patches]
    first, second = axes.get_xticks()
    assert middles == pytest.approx([first, second - 0.5])
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["AP50", "r_all"]
    assert not charts.grouped_bars({"clean": {"AP50": (0.9, None)}}, "t", "AP50").legends


def test_whiskers_leave_out_what_is_not_known():
    figure = charts.whiskers({"g": {"one": (1.0, (0.5, 2.0)), "two": (None, None)}}, "t", "x")
    (axes,) = figure.axes
    assert points(axes) == {"one": [1.0], "two": []}
    assert intervals(axes).tolist() == [[0.5, 2.0]]
    assert axes.get_xlabel() == "x"
    assert (axes.get_xlim()[0], axes.get_ylim()) == (0, (0.5, -0.5))
    assert [(text.get_text(), text.get_position()[0]) for text in axes.texts] == [("  1", 2.0)], "behind its interval"
    assert len(figure.legends) == 1
    assert not charts.whiskers({"g": {"one": (1.0, None)}}, "t", "x").legends


def test_points_of_a_group_lie_around_its_line():
    entries = {"one": (1.0, None), "two": (2.0, (1.0, 3.0))}
    (axes,) = charts.whiskers({"g": entries, "h": entries}, "t", "x").axes
    places = {line.get_label(): list(line.get_ydata()) for line in axes.lines if line.get_marker() == "o"}
    assert places == {"one": pytest.approx([-0.2, 0.8]), "two": pytest.approx([0.2, 1.2])}
    assert [list(line.get_ydata()) for line in axes.lines if line.get_marker() == "None"] == [
        pytest.approx([0.2, 0.2]), pytest.approx([1.2, 1.2])
    ]  # fmt: skip


def test_lines_are_their_values():
    figure = charts.lines({"a": ([0, 1], [2, 3]), "b": ([0, 1], [1, 0])}, "t", "x", "y")
    (axes,) = figure.axes
    drawn = {line.get_label(): np.asarray(line.get_data()).tolist() for line in axes.lines}
    assert drawn == {"a": [[0, 1], [2, 3]], "b": [[0, 1], [1, 0]]}
    assert axes.get_ylim()[0] == 0
    assert axes.get_legend() is not None
    assert charts.lines({"a": ([0, 1], [2, 3])}, "t", "x", "y").axes[0].get_legend() is None


@pytest.mark.sampled(1)
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
