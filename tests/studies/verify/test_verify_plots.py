"""The figures of a verification show the numbers of the document: read off what is drawn."""

import numpy as np
import pytest
from chart_parts import bar_lengths, intervals, points, words
from matplotlib.colors import to_rgba

from misdetect.drawing import charts
from misdetect.nouns.picture import Raw
from misdetect.studies.verify import plots as verify_figures


def test_states_are_shares_of_parts_those_there_most_often_first():
    figure = verify_figures.states({"bell": {"intact": 1, "absent": 3}, "lock": {"intact": 3, "lost": 1}})
    (axes,) = figure.axes
    assert [text.get_text() for text in axes.get_yticklabels()] == ["all", "lock", "bell"]
    assert bar_lengths(axes) == pytest.approx([50, 75, 25, 37.5, 0, 75, 12.5, 25, 0])
    assert [patch.get_x() for patch in axes.patches] == pytest.approx([0, 0, 0, 50, 75, 25, 87.5, 75, 100])
    assert words(axes) == ["50", "75", "25", "38", "75", "12", "25"]
    places = [text.get_position() for text in axes.texts]
    assert places[:3] == [(25, 0), (37.5, 1), (12.5, 2)]
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == ["intact", "absent", "lost"]
    assert bar_lengths(verify_figures.states({"bell": {"intact": 1}}).axes[0]) == [100, 100]


def test_the_prior_is_drawn_where_it_is():
    boxes = np.array([[0.5, 0.25, 0.75, 1.0]])
    figure = verify_figures.prior({"bell": [0.25, 0.5, 0.75, 0.75], "lock": None}, boxes, ["lock"])
    left, right = figure.axes
    (ellipse,) = left.patches
    assert (*ellipse.center, ellipse.width, ellipse.height) == pytest.approx((0.5, 0.625, 0.5, 0.25))
    assert [(text.get_text(), text.get_position()) for text in left.texts] == [("bell", (0.5, 0.625))]
    (frame,) = right.patches
    assert (frame.get_x(), frame.get_y(), frame.get_width(), frame.get_height()) == (0.5, 0.25, 0.25, 0.75)
    assert (ellipse.get_edgecolor(), frame.get_edgecolor()) == tuple(map(to_rgba, charts.SERIES[:2]))
    assert right.get_title(loc="left") == "1 hallucinated"
    assert left.get_ylim() == (1, 0), "images have their first row on top"


def test_ap_of_each_part_the_best_on_top():
    runs = {"one": {"AP": {"bell": 0.25, "lock": 0.5}}, "two": {"AP": {"lock": 0.125, "saddle": None}}}
    (axes,) = verify_figures.ap_bars(runs).axes
    assert [text.get_text() for text in axes.get_yticklabels()] == ["lock", "bell", "saddle"]
    assert points(axes) == {"one": [0.5, 0.25], "two": [0.125]}


def test_curves_are_those_of_the_document():
    document = {
        "best_threshold": {"with": {"score": 0.5, "f_vv": 0.625, "chosen_f_vv": 0.75}},
        "settings": {"score": 0.25, "beta": 0.1}, "with": {"f_vv": 0.375},
        "recall_curves": {"with": [[0.0, 1.0, 0.5], [1.0, 0.25, 0.0]]}, "f_vv_curve": [[0.0, 0.5], [1.0, None]],
        "missing": 3, "score": 0.25, "missing_recall_curve": [[0.0, 0.5], [1.0, 0.125]],
    }  # fmt: skip

    def drawn(figure):
        return {line.get_label(): np.asarray(line.get_data()).tolist() for line in figure.axes[0].lines}

    assert drawn(verify_figures.f_vv(document, "with")) == {
        "F_vv": [[0], [0.5]], "recall, present": [[0, 1], [1, 0.25]], "recall, missing": [[0, 1], [0.5, 0]],
        "chosen: 0.25": [[0.25], [0.375]], "best: 0.5, 0.625 elsewhere": [[0.5], [0.75]],
    }  # fmt: skip
    unknown = document | {"with": {"f_vv": None}, "best_threshold": {"with": {"score": None, "chosen_f_vv": None}}}
    assert set(drawn(verify_figures.f_vv(unknown, "with"))) == {"F_vv", "recall, present", "recall, missing"}
    figure = verify_figures.missing_recall({"a": document, "b": document | {"missing": 0, "score": 0.5}})
    assert list(drawn(figure).values()) == [[[0, 1], [0.5, 0.125]]]
    assert "score 0.25, 0.5" in figure.axes[0].get_title(loc="left")
    assert drawn(verify_figures.f_vv_of({"a": document, "b": document})) == {"a": [[0], [0.5]], "b": [[0], [0.5]]}


def test_causes_are_in_percent():
    shares = {"context": {"count": 3, "share": 0.75, "interval": [0.5, 1.0]},
              "none": {"count": 0, "share": None, "interval": None}}  # fmt: skip
    (axes,) = verify_figures.causes(shares).axes
    assert [text.get_text() for text in axes.get_yticklabels()] == ["context (3)", "none (0)"]
    assert list(points(axes).values()) == [[75]]
    assert intervals(axes).tolist() == [[50, 100]]


def test_a_strip_frames_the_likely_and_the_hallucinated_box():
    image = Raw(np.zeros((160, 160, 3), np.uint8))
    likely, box = np.array([10.0, 10, 40, 40]), np.array([50.0, 60, 90, 100])
    shown = verify_figures.strip([("clean", image, likely, box, 0.5), ("moved", image, None, None, None)], "title")
    top = 44  # two titles
    assert shown.shape[0] == top + 320
    at = lambda x, y: tuple(shown[top + y, x].tolist())  # noqa: E731
    assert at(20, 50) == at(80, 50) == verify_figures.LIKELY
    assert at(100, 160) == at(180, 160) == verify_figures.HALLUCINATED
    assert at(50, 50) == (0, 0, 0)
    assert not shown[top : top + 320, 326 : 326 + 320].any(), "nothing is framed where nothing is known"
