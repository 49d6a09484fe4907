"""Figures of explain show the numbers they are given: bars, intervals, the flow, and the evidence for a miss."""

import re
from base64 import b64decode

import numpy as np
import pytest
from chart_parts import bar_lengths, intervals, points

from misdetect.drawing.figures import colour
from misdetect.studies.explain.plots import CODE, comparison_page, distributions, evidence, legend, rates, three_panels


def beside(rates, shares):
    """A comparison of runs with these miss rates, by name, and each mechanism's shares in their order."""
    return {
        "runs": [{"name": name, "miss_rate": rate} for name, rate in rates.items()],
        "mechanisms": {
            mechanism: [{"run": name, "share": share} for name, share in zip(rates, each, strict=True)]
            for mechanism, each in shares.items()
        },
    }


def test_each_run_is_a_full_bar():
    shares = {"proposal": [0.25, 0.5], "background": [0.75, 0.5]}
    (axes,) = distributions(beside({"0": 0.2, "1": 1.2}, shares)).axes
    assert [text.get_text() for text in axes.get_yticklabels()] == ["0 (20.0 % missed)", "1 (120.0 % missed)"]
    assert bar_lengths(axes) == pytest.approx([25, 50, 75, 50])
    starts = [patch.get_x() for patch in axes.patches]
    assert starts == pytest.approx([0, 0, 25, 50]), "the second follows the first"


def test_whiskers_are_as_long_as_intervals_are_wide():
    def entry(run, rate, low, high):
        return {"run": run, "rate": rate, "rate_interval": None if low is None else [low, high]}

    mechanisms = {
        "proposal": [entry("one", 0.02, 0.01, 0.05), entry("two", 0.05, 0.0, 0.1)],
        "unknown": [entry("one", None, None, None), entry("two", 0.01, None, None)],
    }
    (axes,) = rates({"mechanisms": mechanisms}).axes
    assert points(axes) == {"one": pytest.approx([2]), "two": pytest.approx([5, 1])}, "no mark for what is not known"
    assert intervals(axes) == pytest.approx(np.array([[1, 5], [0, 10]]))


def test_evidence_shows_what_there_is_and_nothing_outside_the_picture():
    row = {"label": "cup", "mechanism": "proposal", "reason": "unfitted", "x0": 2, "y0": 2, "x1": 30, "y1": 30}
    image = np.full((40, 50, 3), 255, np.uint8)
    bare = evidence(image, row)
    assert (bare == np.array([30, 150, 70])).all(axis=2).any()
    assert not (bare == np.array([230, 60, 60])).all(axis=2).any()
    far = {f"suppressor_{k}": v for k, v in zip(("x0", "y0", "x1", "y1"), (-900, -900, 900, 900), strict=True)}
    assert evidence(image, row | far).shape[1] < 2000


SEEN = {
    "missed": 20,
    "mechanisms": {"proposal": 2, "background": 12, "discarded": 6},
    "tide": {"Miss": 10, "Cls": 5, "Loc": 3, "Both": 2},
    "sankey": [
        ["Miss", "background", 10],
        ["Cls", "background", 2],
        ["Cls", "discarded", 3],
        ["Loc", "discarded", 3],
        ["Both", "proposal", 2],
    ],
}


def test_figure_3_shows_mechanisms_types_and_the_flow_between_them():
    document = SEEN | {"detector": "zoo:x", "data": "rooms:val", "settings": {"loc": 0.5, "score": 0.3, "miss": "any"}}
    figure = three_panels(document)
    mechanisms, types, flow = figure.axes
    assert bar_lengths(mechanisms) == pytest.approx([10, 60, 30])
    assert [text.get_text() for text in mechanisms.get_yticklabels()] == ["proposal", "background", "discarded"]
    assert bar_lengths(types) == pytest.approx([50, 25, 15, 10])
    assert "zoo:x on rooms:val; IoU ≥ 0.5, score ≥ 0.3, miss any" in figure.get_supxlabel()
    said = {text.get_text() for text in flow.texts}
    assert {"Miss 10", "Cls 5", "Loc 3", "Both 2", "background 12", "discarded 6", "proposal 2"} == said
    for band, (_, _, count) in zip(flow.collections, SEEN["sankey"], strict=True):
        edges = band.get_paths()[0].vertices
        ends = [np.ptp(edges[edges[:, 0] == x, 1]) for x in (0, 1)]
        assert ends == pytest.approx([count, count]), "a band is as wide as its count, at both ends"


@pytest.mark.parametrize(
    ("more", "left", "top", "right"),
    [
        ({}, 65, 65, 235),
        ({"proposal": (90, 120, 240, 190)}, 55, 65, 275),
        ({"proposal": (-500, 120, 190, 190), "refined": (110, 110, 390, 150)}, 0, 65, 335),
        ({"suppressor": (110, 110, None, 150)}, 65, 65, 235),
    ],
)
def test_the_window_holds_the_others_within_the_size_of_the_object(more, left, top, right):
    """Around it all a third of the object's side; the picture ends the window. The truth is drawn on top, in green."""
    row = {"label": "cup", "mechanism": "proposal", "reason": "unfitted", "x0": 100, "y0": 100, "x1": 200, "y1": 200}
    for name, box in more.items():
        row |= {f"{name}_{side}": value for side, value in zip(("x0", "y0", "x1", "y1"), box, strict=True)}
    shown = evidence(np.full((400, 400, 3), 255, np.uint8), row)
    factor = max(1, round(260 / min(right - left, 235 - top)))
    wide = max(factor * (right - left), 250)
    aside = (wide - factor * (right - left)) // 2
    green = np.argwhere((shown == np.array([30, 150, 70])).all(axis=2))
    low, high = green.min(axis=0) + 1, green.max(axis=0) - 1  # lines are two pixels wide, or three
    assert shown.shape[1] == wide
    assert low == pytest.approx([22 + factor * (100 - top), aside + factor * (100 - left)], abs=1)
    assert high == pytest.approx([22 + factor * (200 - top), aside + factor * (200 - left)], abs=1)


def test_the_legend_has_each_colour_in_its_place():
    shown = legend()
    middles = []
    for number in CODE.values():
        rows, columns = np.nonzero((shown == np.array(colour(number))).all(axis=2))
        assert (np.ptp(rows), np.ptp(columns)) == (12, 12)
        middles.append(columns.mean())
    assert np.diff(middles) == pytest.approx([98] * (len(CODE) - 1))
    assert middles[0] > 10
    assert middles[-1] < shown.shape[1] - 80, "there is room for its name"


def test_a_run_that_missed_nothing_and_a_detector_without_a_name():
    (axes,) = distributions(beside({"a": None}, {"proposal": [None]})).axes
    assert [text.get_text() for text in axes.get_yticklabels()] == ["a (0.0 % missed)"]
    how = {"loc": 0.5, "score": 0.3, "miss": "any"}
    empty = {
        "missed": 0,
        "mechanisms": {"proposal": 0},
        "tide": {"Miss": 0},
        "sankey": [],
        "detector": None,
        "data": "d",
    }
    figure = three_panels(empty | {"settings": how})
    assert figure.get_supxlabel().startswith("a detector on d; ")
    assert bar_lengths(figure.axes[0]) == [0]


def test_the_page_of_a_comparison_draws_shares_rates_and_classes(tmp_path):
    def entry(run, share, rate, ends):
        return {"run": run, "share": share, "rate": rate, "rate_interval": ends}

    document = {
        "runs": [{"name": "one", "miss_rate": 0.5}, {"name": "<two>", "miss_rate": 0.25}],
        "mechanisms": {
            "proposal": [entry("one", 0.25, 0.125, [0.0625, 0.25]), entry("<two>", None, None, None)],
            "background": [entry("one", 0.75, 0.5, None), entry("<two>", 1.0, 0.25, [0.125, 0.5])],
        },
        "by_class": {"cup": {"miss_rate": [0.25, None]}, "bowl": {"miss_rate": [0.5, 0.755]}},
    }
    page = comparison_page(document, tmp_path / "compared.html").read_text()
    drawn = [b64decode(each).decode() for each in re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', page)]
    said = [set(re.findall(r"<!-- (.*?) -->", each)) for each in drawn]
    assert {"one (50.0 % missed)"} <= said[0]
    assert {"proposal", "background", "12.5", "50", "25", "one", "&lt;two&gt;"} <= {text.strip() for text in said[1]}
    assert {"cup", "bowl", "25", "50", "75.5"} <= {text.strip() for text in said[2]}
    assert "<two>" not in page
