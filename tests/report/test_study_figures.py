"""The figures of attack and verify show the numbers of the document: read off what is drawn."""

import numpy as np
import pytest
from chart_parts import bar_heights, bar_lengths, intervals, points, words
from matplotlib.colors import to_rgba

from misdetect.drawing import charts
from misdetect.nouns.picture import Raw
from misdetect.studies.attack import plots as attack_figures
from misdetect.studies.verify import plots as verify_figures


def attacked():
    """An attack's document, as far as figures read it."""
    ends = {"AP50": [0.1, 0.4]}
    matrix = {"labels": ["cup", "background"], "counts": [[3, 1], [2, 0]], "became": [[3, 1, 2]],
              "confidence": [[2.5, 0.5], [1.0, 0.0]]}  # fmt: skip
    rungs = [
        {"name": "noise", "success": 0.125, "interval": [0.0, 0.25], "means": None},
        {"name": "fgsm", "success": 0.5, "interval": [0.25, 0.75], "means": "gradients masked"},
        {"name": "far", "success": None, "interval": None, "means": None},
    ]
    return {
        "detector": "zoo:one", "data": "rooms:val", "images": 7, "right": 20, "transfer": False,
        "settings": {"score": 0.3, "loc": 0.5, "eps": 8.0, "steps": 20, "alpha": 2.0, "where": "image"},
        "clean": {"AP50": 0.9, "intervals": {}},
        "attacks": {"noise": {"AP50": 0.85, "intervals": {}}, "cls": {"AP50": 0.2, "intervals": ends}},
        "clsaval": {"cls": {"vanilla": {"AP50": 0.2, "intervals": ends},
                            "r_idx": {"AP50": 0.3, "intervals": ends, "dcm": matrix}}},
        "dcm": {"clean": matrix, "cls": matrix},
        "ladder": {"loss": "cls", "images": 5, "verdict": "gradients masked", "rungs": rungs},
        "distance": [{"distance": 0, "success": 0.5, "interval": [0.25, 0.75]},
                     {"distance": 16, "success": 0.125, "interval": [0.0, 0.25]}],
    }  # fmt: skip


def test_ap50_under_attack_and_of_ablations():
    document = attacked()
    (axes,) = attack_figures.attacks(document).axes
    assert bar_heights(axes) == pytest.approx([0.9, 0.85, 0.2])
    assert [list(line.get_ydata()) for line in axes.lines] == [[0.1, 0.4]]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["clean", "noise", "cls"]
    (axes,) = attack_figures.ablations(document).axes
    assert bar_heights(axes) == pytest.approx([0.9, 0.2, 0.3])
    assert [text.get_text() for text in axes.get_xticklabels()] == ["clean", "cls"]


def test_the_ladder_is_in_percent_by_what_its_rungs_mean():
    figure = attack_figures.ladder(attacked())
    (axes,) = figure.axes
    assert points(axes) == {"the rung holds": [12.5], "gradients masked": [50]}
    assert sorted(intervals(axes).tolist()) == [[0, 25], [25, 75]]
    assert [text.get_text() for text in axes.get_yticklabels()] == ["noise", "fgsm", "far"]
    assert axes.get_title(loc="left") == "The ladder, loss cls, 5 images: gradients masked"


def test_success_against_distance_with_its_band():
    (axes,) = attack_figures.distance(attacked()).axes
    (line,) = axes.lines
    assert np.asarray(line.get_data()).tolist() == [[0, 16], [50, 12.5]]
    corners = axes.collections[0].get_paths()[0].vertices
    band = {x: sorted({y for a, y in corners.tolist() if a == x}) for x in (0, 16)}
    assert band == {0: [25, 75], 16: [0, 25]}
    assert axes.get_ylim() == pytest.approx((0, 81))


def test_every_matrix_has_its_place():
    figure = attack_figures.matrices(attacked())
    shown = [axes.get_title(loc="left") or axes.get_title() for axes in figure.axes if axes.axison]
    assert shown == ["clean", "cls", "cls, r_idx"]
    assert sum(not axes.axison for axes in figure.axes) == 1
    for axes in (axes for axes in figure.axes if axes.axison):
        cells = {(round(t.get_position()[0]), round(t.get_position()[1])): t.get_text() for t in axes.texts}
        assert cells == {(0, 0): "3", (1, 0): "1", (2, 0): "2", (0, 1): "2"}, "missed objects stand beside the matrix"


def test_what_the_numbers_are_of():
    text = attack_figures.about(attacked())
    assert "7 images, 20 objects found before (score ≥ 0.3, IoU ≥ 0.5)" in text
    assert "white box, eps 8, 20 steps of 2, image" in text
    assert text.splitlines()[0] == "zoo:one on rooms:val"
    assert attack_figures.about(attacked() | {"detector": None}).splitlines()[0] == "a detector on rooms:val"
    borrowed = attacked() | {"transfer": True}
    borrowed["settings"] = borrowed["settings"] | {"surrogate": "zoo:two"}
    assert "gradients of zoo:two (transfer), eps 8" in attack_figures.about(borrowed)


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
