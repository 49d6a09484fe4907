"""The page of a hardening holds the numbers of its document, each in its row and column; its figures are to scale."""

import re
from html import unescape

import numpy as np
import pytest
from matplotlib.colors import to_rgba

from misdetect.drawing import charts
from misdetect.suites.harden import page as harden

FATES = ("fixed", "still", "broken")


def told(failed, counts, repaired, broke, ends):
    """What became of the failures of one kind of test."""
    each = {fate: {"count": count} for fate, count in zip(FATES, counts, strict=True)}
    return {"failed": failed, **each, "repaired": repaired, "broke": broke, "intervals": ends}


def point(configuration, step, ap50, robust, number=0, seed=0):
    return {"configuration": configuration, "seed": seed, "step": step, "round": number, "AP50": ap50, "AP": ap50 / 2,
            "robust_AP50": robust}  # fmt: skip


def document():
    """A hardening with two configurations, the second with two seeds, and two rounds."""
    curve = [
        {"step": 5, "loss": 4.0, "scores": None},
        {"step": 10, "loss": 3.0, "scores": {"AP": 0.25, "robust_AP50": 0.125}},
        {"step": 20, "loss": 2.0, "scores": {"AP": 0.375, "robust_AP50": 0.5}},
    ]
    ends = {"AP": [0.25, 0.5]}
    rounds = [
        {"round": 0, "failing_images": None, "failure_rate": 0.5, "attributable_per_1000": 40.0,
         "harmful_per_1000": 20.25,
         "intervals": {"failure_rate": [0.375, 0.625], "attributable_per_1000": None, "harmful_per_1000": [10, 30]}},
        {"round": 1, "failing_images": 12},
    ]  # fmt: skip
    trial = {"curve": curve}
    return {
        "detector": "zoo:<x>", "sentences": ["It <became> better."], "weights": "old.pt", "hardened": "new&.pt",
        "settings": {"with": "attack", "watched": 30, "floor": 0.5},
        "splits": {"held_out": ["rooms:val", 40]},
        "before": {"AP": 0.375, "AP50": 0.75, "robust_AP50": 0.25, "fuzz_failure_rate": None, "intervals": ends},
        "after": {"AP": 0.5, "AP50": 0.625, "robust_AP50": 0.5, "fuzz_failure_rate": 0.125, "intervals": {}},
        "change": {"AP": {"value": 0.125, "interval": [0.0625, 0.1875]}, "AP50": {"value": -0.125, "interval": None}},
        "repair": {
            "photos": told(9, (4, 5, 3), 0.444, 0.031, {"repaired": [0.25, 0.5]}),
            "attack": told(7, (6, 1, 2), 0.857, None, {}),
        },
        "fixed": {"by_type": {"missed": 8, "extra": 1}, "by_mechanism": {"background": 6}},
        "still": {"by_type": {"missed": 5}, "by_mechanism": {"proposal": 2}},
        "broken": {"by_type": {"renamed": 4}, "by_mechanism": {}},
        "configurations": {
            "lr 1": {"seeds": [trial], "test": {"AP": {"mean": 0.5, "interval": None},
                                                "robust_AP50": {"mean": 0.25, "interval": [0.125, 0.375]}}},
            "lr 2": {"seeds": [trial, trial], "test": {"AP": {"mean": 0.625, "interval": [0.5, 0.8]},
                                                       "robust_AP50": {"mean": 0.75, "interval": None}}},
        },
        "frontier": [point("before", 0, 0.75, 0.25), point("lr 1", 10, 0.5, 0.125), point("lr 1", 20, 0.625, 0.5),
                     point("lr 2", 20, 0.625, 0.5), point("lr 1", 20, 0.25, 0.75, number=1),
                     point("lr 1", 20, 0.125, 0.875, seed=1)],
        "guard": {"configuration": "lr 1", "seed": 0, "best_step": 20, "round": 0},
        "rounds": rounds, "skipped": [{"study": "fuzz", "why": "it has <no> data"}],
    }  # fmt: skip


def tables(page):
    """Every table of the page as rows of text."""
    found = re.findall(r"<table[^>]*>(.*?)</table>", page, re.DOTALL)
    rows = [re.findall(r"<tr[^>]*>(.*?)</tr>", table, re.DOTALL) for table in found]
    return [[[unescape(cell) for cell in re.findall(r"<t[dh]>(.*?)</t[dh]>", row)] for row in table] for table in rows]


def test_the_tables_hold_the_numbers_of_the_document(tmp_path):
    page = harden.harden_page(document(), tmp_path / "report.html").read_text()
    sides, repaired, kinds, configurations, rounds, settings = tables(page)
    assert sides == [
        ["", "before", "after", "difference"],
        ["AP", "0.375 (0.250 to 0.500)", "0.500", "0.125 (0.062 to 0.188)"],
        ["AP50", "0.750", "0.625", "-0.125"],
        ["AP50 under attack", "0.250", "0.500", ""],
        ["insertions that fail", "–", "0.125", ""],
    ]
    assert repaired == [
        ["", "failed", "fixed", "still failing", "newly broken", "repaired, of the failed", "broken, of the others"],
        ["clean photos", "9", "4", "5", "3", "0.444 (0.250 to 0.500)", "0.031"],
        ["under attack (cls, loc)", "7", "6", "1", "2", "0.857", "–"],
    ]
    assert kinds == [
        ["all test photos", "fixed", "still failing", "newly broken"],
        ["by type: missed", "8", "5", "0"],
        ["by type: extra", "1", "0", "0"],
        ["by type: renamed", "0", "0", "4"],
        ["by mechanism: background", "6", "0", "0"],
        ["by mechanism: proposal", "0", "2", "0"],
    ]
    assert configurations == [
        ["last weights on test photos, mean over seeds", "seeds", "AP", "AP50 under attack"],
        ["lr 1", "1", "0.500", "0.250 ± 0.125"],
        ["lr 2", "2", "0.625 ± 0.150", "0.750"],
    ]
    assert rounds == [
        ["round", "failing images", "insertions that fail", "caused per 1,000 queries", "harmful per 1,000"],
        ["0", "–", "0.500 (0.375 to 0.625)", "40.000", "20.250 (10.000 to 30.000)"],
        ["1", "12", "–", "–", "–"],
    ]
    assert settings == [["floor", "0.5"], ["watched", "30"], ["with", '"attack"']]
    assert page.count("data:image/") == 2, "both figures, each once"
    for said in ("It &lt;became&gt; better.", "Not tested with fuzz: it has &lt;no&gt; data",
                 "<code>new&amp;.pt</code>", "harden: zoo:&lt;x&gt; with attack"):  # fmt: skip
        assert said in page


def test_every_checkpoint_is_on_the_frontier_and_the_kept_one_has_a_ring():
    figure = harden.frontier(document())
    (axes,) = figure.axes
    *series, ring = axes.collections
    places = {each.get_label(): np.asarray(each.get_offsets()).tolist() for each in series}
    assert places == {
        "before": [[0.75, 0.25]],
        "lr 1": [[0.5, 0.125], [0.625, 0.5], [0.25, 0.75], [0.125, 0.875]],
        "lr 2": [[0.625, 0.5]],
    }
    paints = [tuple(each.get_facecolor()[0]) for each in series]
    assert paints == [to_rgba(charts.BAD), to_rgba(charts.SERIES[0]), to_rgba(charts.SERIES[1])]
    sizes = [each.get_sizes()[0] for each in (*series, ring)]
    assert sizes[3] > sizes[0] > sizes[1] == sizes[2], "the ring is around its point, the first stands out"
    assert np.asarray(ring.get_offsets()).tolist() == [[0.625, 0.5]]
    assert not len(ring.get_facecolor())
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("AP50 on clean photos", "AP50 under attack")
    assert figure.get_supxlabel() == "zoo:<x>; 30 photos of rooms:val, not trained on"


def test_losses_and_scores_are_drawn_over_the_steps_from_what_there_was_before():
    figure = harden.training(document())
    loss, clean, robust = figure.axes
    drawn = [[np.asarray(line.get_data()).tolist() for line in axes.lines] for axes in (loss, clean, robust)]
    assert drawn == [
        [[[5, 10, 20], [4, 3, 2]]] * 3,
        [[[0, 10, 20], [0.375, 0.25, 0.375]]] * 3,
        [[[0, 10, 20], [0.25, 0.125, 0.5]]] * 3,
    ]
    assert [line.get_color() for line in loss.lines] == [charts.SERIES[i] for i in (0, 1, 1)]
    assert [axes.get_title(loc="left") for axes in figure.axes] == [
        "Training loss", "AP, held-out photos", "AP50 under attack"
    ]  # fmt: skip
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["lr 1", "lr 2"], "each named once"


@pytest.mark.parametrize(("value", "ends", "text"), [(None, [0, 1], "–"), (0.5, None, "0.500")])
def test_what_is_not_known_is_a_dash(value, ends, text):
    assert harden.number(value, ends) == text
