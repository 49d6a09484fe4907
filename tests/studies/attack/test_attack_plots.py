"""The figures of an attack show the numbers of the document: read off what is drawn."""

import numpy as np
import pytest
from chart_parts import bar_heights, intervals, points

from misdetect.studies.attack import plots as attack_figures


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
    assert points(axes) == {"the step holds": [12.5], "gradients masked": [50]}
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
