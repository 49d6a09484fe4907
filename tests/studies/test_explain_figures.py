"""Figures are drawn to scale: areas of colour are shares, the Sankey's ribbons keep their width from side to side."""

import json

import numpy as np
import pytest

from misdetect.report.explain_figures import (
    RUNS,
    SHADES,
    bars,
    distributions,
    evidence,
    flow,
    sankey_page,
    three_panels,
    whiskers,
)


def painted(image, name):
    return (image == np.array(SHADES[name])).all(axis=2)


def test_bars_are_as_long_as_shares_are_large():
    drawn = bars({"proposal": 0.1, "background": 0.6, "calibration": 0.3}, "title")
    long = {name: painted(drawn, name).any(axis=0).sum() for name in ("proposal", "background", "calibration")}
    assert long["calibration"] / long["background"] == pytest.approx(0.5, abs=0.02)
    assert long["proposal"] / long["background"] == pytest.approx(1 / 6, abs=0.02)


def test_each_run_is_a_full_bar():
    shares = [{"proposal": 0.25, "background": 0.75}, {"proposal": 0.5, "background": 0.5}]
    drawn = distributions([{"run": str(i), "miss_rate": 0.2, "shares": s} for i, s in enumerate(shares)])
    for i, share in enumerate(shares):
        line = drawn[38 + 34 * i + 3]
        wide = {name: (line == np.array(SHADES[name])).all(axis=1).sum() for name in share}
        assert wide["proposal"] / sum(wide.values()) == pytest.approx(share["proposal"], abs=0.01)


def test_whiskers_are_as_long_as_intervals_are_wide():
    def entry(run, rate, low, high):
        return {"run": run, "rate": rate, "rate_interval": None if low is None else [low, high]}

    drawn = whiskers(
        {
            "proposal": [entry("one", 0.02, 0.01, 0.05), entry("two", 0.05, 0.0, 0.1)],
            "unknown": [entry("one", None, None, None), entry("two", 0.01, None, None)],
        }
    )
    below = drawn[30:]  # the first line is the legend
    first, second = ((below == np.array(paint)).all(axis=2) for paint in RUNS[:2])
    long = np.ptp(np.flatnonzero(first.any(axis=0))), np.ptp(np.flatnonzero(second[:60].any(axis=0)))
    assert long[0] / long[1] == pytest.approx(0.4, abs=0.03)
    assert not first[60:].any(), "what a run cannot name has no mark"
    assert second[60:].any()


def test_long_names_leave_room_for_the_bars():
    row = {"run": "a/very/long/path/to/a/run/" * 6, "miss_rate": 0.1, "shares": {"proposal": 1.0}}
    line = distributions([row])[38 + 3]
    assert (line == np.array(SHADES["proposal"])).all(axis=1).sum() > 300


def test_ribbons_keep_their_width():
    links = [["Miss", "background", 60], ["Miss", "proposal", 20], ["Loc", "calibration", 20]]
    drawn = flow(links, "")
    inked = (drawn[30:] < 250).any(axis=2)
    left, right = inked[:, 95].sum(), inked[:, 312].sum()  # just beside the nodes
    assert left == pytest.approx(right, abs=4)
    assert flow([], "nothing").shape == drawn.shape


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
    "mechanisms": {"proposal": 2, "background": 12, "calibration": 6},
    "tide": {"Miss": 10, "Cls": 5, "Loc": 3, "Both": 2},
    "sankey": [
        ["Miss", "background", 10],
        ["Cls", "background", 2],
        ["Cls", "calibration", 3],
        ["Loc", "calibration", 3],
        ["Both", "proposal", 2],
    ],
}


def test_figure_3_shows_mechanisms_types_and_the_flow_between_them():
    drawn = three_panels(SEEN)
    panels = {"mechanisms": drawn[:, :300], "tide": drawn[:, 306:606]}
    for key, panel in panels.items():
        long = {name: painted(panel, name).any(axis=0).sum() for name in SEEN[key]}
        most = max(SEEN[key], key=SEEN[key].get)
        assert long[most] > 150
        for name, count in SEEN[key].items():
            assert long[name] / long[most] == pytest.approx(count / SEEN[key][most], abs=0.02), name
    # the third panel has a node for each name, as high as its count
    high = {
        name: painted(drawn[:, 612:], name).sum(axis=0).max() for name in ("Miss", "Both", "background", "proposal")
    }
    assert high["Miss"] / high["Both"] == pytest.approx(5, rel=0.15)
    assert high["background"] / high["proposal"] == pytest.approx(6, rel=0.15)


def test_the_interactive_flow_has_every_link(tmp_path):
    page = sankey_page(SEEN, tmp_path / "sankey.html").read_text()
    data = json.JSONDecoder().raw_decode(page[page.rindex("[{", 0, page.index('"type":"sankey"')) :])[0][0]
    names, link = data["node"]["label"], data["link"]
    assert names == ["Miss", "Cls", "Loc", "Both", "background", "calibration", "proposal"]
    links = zip(link["source"], link["target"], link["value"], strict=True)
    assert [[names[a], names[b], count] for a, b, count in links] == SEEN["sankey"]
