"""Figures are drawn to scale: areas of colour are shares, the Sankey's ribbons keep their width from side to side."""

import numpy as np
import pytest

from misdetect.report.explain_figures import RUNS, SHADES, bars, distributions, evidence, flow, whiskers


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
    links = [["missed", "background", 60], ["missed", "proposal", 20], ["loc", "calibration", 20]]
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
