"""The charts of a score: curves that count, and what classes and sizes have behind their numbers."""

import numpy as np
import pytest
from charted import charts, filters, row, values

from misdetect.studies.score.charts import POINTS


def scored():
    """Three cups, of which two are found, and a bowl that is not; three wrong detections."""
    rows = [
        row("score", "found", score=0.9), row("score", "found", score=0.4, image="i1"), row("score", "missed"),
        row("score", "missed", label="bowl", size="large"), row("score", "extra", score=0.9),
        row("score", "extra", score=0.6, size="medium"), row("score", "extra", score=0.4, label="bowl"),
        row("explain", "missed"),
    ]  # fmt: skip
    kinds = dict.fromkeys(("TP", "Cls", "Loc", "Both", "Dupe", "Bkg"), 0)
    by_class = {
        "cup": {
            "objects": 3,
            "detections": 4,
            "AP50": 0.5,
            "AP": 0.25,
            "counts": kinds | {"TP": 2, "Loc": 1, "Bkg": 1},
        },
        "bowl": {"objects": 1, "detections": 1, "AP50": 0.0, "AP": 0.125, "counts": kinds | {"Dupe": 1}},
        "ghost": {"objects": 0, "detections": 1, "AP50": None, "AP": None, "counts": kinds | {"Cls": 1}},
        "absent": {"objects": 0, "detections": 0, "AP50": None, "AP": None, "counts": kinds},
    }
    ap = {"AP50": 0.375, "APs": 0.25, "APm": None, "APl": 0.75}
    document = {"settings": {"tide_foreground_iou": 0.5}, "counts": {"images": 2}, "ap": ap, "by_class": by_class}
    return document, rows


def test_curves_count_right_and_wrong_detections_of_each_score_or_more():
    curves, _, _ = charts("score", *scored())
    assert curves["about"] == "x on rooms:val; IoU ≥ 0.5, 4 objects on 2 images"
    assert curves["behind"] == {"study": ["score"]}
    assert curves["series"] == [
        {"name": "all classes", "AP50": 0.375, "label": None, "objects": 4, "scores": [0.9, 0.6, 0.4],
         "right": [1, 1, 2], "wrong": [1, 2, 3]},
        {"name": "cup", "AP50": 0.5, "label": "cup", "objects": 3, "scores": [0.9, 0.6, 0.4], "right": [1, 1, 2],
         "wrong": [1, 2, 2]},
        {"name": "bowl", "AP50": 0.0, "label": "bowl", "objects": 1, "scores": [0.4], "right": [0], "wrong": [1]},
    ]  # fmt: skip
    assert charts("score", scored()[0], [row("score", "extra", score=0.5)]) == []


@pytest.mark.parametrize("count", [POINTS, POINTS + 1, 1000])
def test_a_curve_has_so_many_points_spread_evenly_with_both_ends(count):
    document, _ = scored()
    rows = [row("score", "missed", label="bowl")]
    rows += [row("score", "found" if i % 3 else "extra", score=i / count) for i in range(count)]
    shown = charts("score", document, rows)[0]["series"][0]
    assert len(shown["scores"]) == POINTS
    assert (shown["scores"][0], shown["scores"][-1]) == (pytest.approx(1 - 1 / count, abs=1e-4), 0)
    gaps = -np.diff(shown["scores"]) * count
    assert gaps.min() > 0
    assert gaps.max() - gaps.min() < 1.2
    for score, right, wrong in zip(shown["scores"], shown["right"], shown["wrong"], strict=True):
        above = [each["outcome"] for each in rows if each["score"] is not None and round(each["score"], 4) >= score]
        assert (right, wrong) == (above.count("found"), above.count("extra"))


def test_classes_and_sizes_have_their_numbers_and_what_is_behind_them():
    _, sizes, classes = charts("score", *scored())
    assert classes["columns"] == ["class", "objects", "AP50", "AP", "never found", "Cls", "Loc", "Both", "Dupe", "Bkg"]
    assert values(classes) == [
        ["cup", 3, 0.5, 0.25, 1, 0, 1, 0, 0, 1],
        ["bowl", 1, 0.0, 0.125, 1, 0, 0, 0, 1, 0],
        ["ghost", 0, None, None, 0, 1, 0, 0, 0, 0],
    ]
    cup = {"study": ["score"], "label": ["cup"]}
    both = cup | {"outcome": ["found", "missed"]}
    wrong = [cup | {"outcome": ["extra"], "tide": [kind]} for kind in classes["columns"][5:]]
    assert filters(classes)[0] == [both, both, None, None, cup | {"outcome": ["missed"]}, *wrong]
    assert values(sizes) == [
        ["small, < 32² px", 3, 0.25, 1, pytest.approx(1 / 3), 2],
        ["medium", 0, None, 0, None, 1],
        ["large, ≥ 96² px", 1, 0.75, 1, 1.0, 0],
    ]
    own = {"study": ["score"], "size": ["small"]}
    both, lost = own | {"outcome": ["found", "missed"]}, own | {"outcome": ["missed"]}
    assert filters(sizes)[0] == [both, both, None, lost, lost, own | {"outcome": ["extra"]}]
    ends = [[cell["ends"] for cell in line] for line in sizes["rows"]]
    assert [line[4] for line in ends[1:]] == [None, None], "nothing, and all: drawing again says nothing"
    low, high = ends[0][4]
    assert (low, high) == (0, pytest.approx(0.5)), "of the second image nothing is lost, of the first one of two"
    assert not any(end for line in ends for end in (*line[:4], *line[5:]))
