"""The charts of a page, of documents and rows written by hand: every number, and the filter of what is behind it."""

from types import SimpleNamespace

import numpy as np
import pytest

from misdetect.drawing import values
from misdetect.drawing.values import miss_rates
from misdetect.report.embedded import counted
from misdetect.report.views import charts_of
from misdetect.studies.scan import charts as scan_charts
from misdetect.studies.score import charts as score_charts

WHO = {"detector": "zoo:x", "data": "rooms:val"}


def row(study, outcome, **more):
    known = {"label": "cup", "score": None, "size": "small", "image": "i0", "by": None, "harm": "harmful",
             "control": False, "flicker": False, "attributable": True, "mechanism": None}  # fmt: skip
    return known | {"study": study, "outcome": outcome} | more


def charts(study, document, rows, run=None, data=None):
    return charts_of(study, run, WHO | document, counted(rows, study), data)


def values(table):
    return [[cell["value"] for cell in line] for line in table["rows"]]


def filters(table):
    return [[cell["filter"] for cell in line] for line in table["rows"]]


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
    assert curves["about"] == "zoo:x on rooms:val; IoU ≥ 0.5, 4 objects on 2 images"
    assert curves["behind"] == {"study": ["score"]}
    assert curves["series"] == [
        {"name": "all classes", "AP50": 0.375, "label": None, "objects": 4, "scores": [0.9, 0.6, 0.4],
         "right": [1, 1, 2], "wrong": [1, 2, 3]},
        {"name": "cup", "AP50": 0.5, "label": "cup", "objects": 3, "scores": [0.9, 0.6, 0.4], "right": [1, 1, 2],
         "wrong": [1, 2, 2]},
        {"name": "bowl", "AP50": 0.0, "label": "bowl", "objects": 1, "scores": [0.4], "right": [0], "wrong": [1]},
    ]  # fmt: skip
    assert charts("score", scored()[0], [row("score", "extra", score=0.5)]) == []


@pytest.mark.parametrize("count", [score_charts.POINTS, score_charts.POINTS + 1, 1000])
def test_a_curve_has_so_many_points_spread_evenly_with_both_ends(count):
    document, _ = scored()
    rows = [row("score", "missed", label="bowl")]
    rows += [row("score", "found" if i % 3 else "extra", score=i / count) for i in range(count)]
    shown = charts("score", document, rows)[0]["series"][0]
    assert len(shown["scores"]) == score_charts.POINTS
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


def test_rates_of_misses_have_intervals_over_images():
    """One of three images holds every miss: the share of draws without it is (2/3)³ = 0.30."""
    rows = [
        row("score", "missed" if image == 0 else "found", image=f"i{image}") for image in range(3) for _ in range(5)
    ]
    rows += [row("score", "extra", image="i9", score=0.5)] * 7
    found = miss_rates(counted(rows, "score"), "size", ("small", "large"))
    count, lost, rate, (low, high) = found["small"]
    assert (count, lost, rate) == (15, 5, pytest.approx(1 / 3))
    assert (low, high) == (0, pytest.approx(2 / 3)), "with 3.7 % all draws are of it"
    assert found["large"] == (0, 0, None, None)
    assert miss_rates(counted(rows[15:], "score"), "size", ("small",)) == {"small": (0, 0, None, None)}


def test_many_images_are_drawn_in_groups_and_no_miss_is_lost(monkeypatch):
    monkeypatch.setattr(values, "_DRAWN", 4)
    rows = [row("score", "missed" if image < 3 else "found", image=f"i{image:02d}") for image in range(12)]
    count, lost, _, (low, high) = miss_rates(counted(rows, "score"), "size", ("small",))["small"]
    assert (count, lost) == (12, 3)
    assert 0 <= low < 1 / 4 < high <= 1 / 3, "each group holds one miss of three, or none"


def test_mechanisms_are_counts_with_intervals_in_objects():
    document = {
        "missed": 3, "objects": 8, "mechanisms": {"proposal": 2, "background": 1}, "sankey": [["Miss", "proposal", 2]],
        "intervals": {"rates": {"proposal": [0.125, 0.5]}},
        "settings": {"score": 0.3, "loc": 0.5, "miss": "any", "confidence": 0.9},
    }  # fmt: skip
    rows = [row("explain", "missed", size="large")] * 2 + [
        row("explain", "missed", image="i1"),
        row("explain", "found"),
    ]
    bars, sizes, flow = charts("explain", document, rows)
    own = {"study": ["explain"], "outcome": ["missed"]}
    assert bars["title"] == "Mechanisms of 3 misses among 8 objects"
    assert bars["across"].endswith("with intervals of 90 %")
    assert bars["about"] == "zoo:x on rooms:val; score ≥ 0.3, IoU ≥ 0.5, miss any"
    assert bars["marks"] == [
        {"name": "proposal", "value": 2, "filter": own | {"mechanism": ["proposal"]}, "ends": [1.0, 4.0],
         "text": "25.0 %", "tone": "proposal"},
        {"name": "background", "value": 1, "filter": own | {"mechanism": ["background"]}, "ends": None,
         "text": "12.5 %", "tone": "background"},
    ]  # fmt: skip
    assert [[cell["value"] for cell in line] for line in sizes["rows"]] == [
        ["small, < 32² px", 2, 1, 0.5], ["medium", 0, 0, None], ["large, ≥ 96² px", 2, 2, 1.0]
    ]  # fmt: skip
    small = {"study": ["explain"], "size": ["small"]}
    both, lost = small | {"outcome": ["found", "missed"]}, small | {"outcome": ["missed"]}
    assert filters(sizes)[0] == [both, both, lost, lost]
    behind = own | {"tide": ["Miss"], "mechanism": ["proposal"]}
    assert flow["links"] == [{"left": "Miss", "right": "proposal", "value": 2, "filter": behind}]
    assert charts("explain", document | {"missed": 0}, rows) == []


def test_cells_of_the_matrix_are_shares_of_their_row():
    how = {"score": 0.3, "iou": 0.5, "policy": "greedy", "background": "hard"}
    document = {"labels": ["cup", "bowl", "nothing"], "settings": how, "became": [[6, 1, 0, 1], [0, 0, 0, 0]],
                "counts": [[6, 1, 0], [0, 0, 0], [3, 1, 0]]}  # fmt: skip
    (matrix,) = charts("confusion", document, [])
    assert matrix["columns"] == ["cup", "bowl", "nothing", "missed"]
    cells = matrix["cells"]
    assert [[cell and cell["value"] for cell in line] for line in cells] == [
        [6, 1, 0, 1], [0, 0, 0, 0], [3, 1, None, None]
    ]  # fmt: skip
    assert [[cell and cell["share"] for cell in line] for line in cells] == [
        [0.75, 0.125, 0, 0.125], [0, 0, 0, 0], [0.75, 0.25, None, None]
    ]  # fmt: skip
    assert [[bool(cell and cell["right"]) for cell in line] for line in cells] == [
        [True, False, False, False], [False, True, False, False], [False] * 4
    ]  # fmt: skip
    assert [line[1]["name"] for line in cells] == ["cup → bowl", "bowl → bowl", "nothing → bowl"]
    own = {"study": ["confusion"], "label": ["cup"]}
    assert [cell["filter"] for cell in cells[0]] == [
        own | {"outcome": ["found"]},
        own | {"outcome": ["missed", "renamed"], "became": ["bowl"]},
        own | {"outcome": ["missed", "renamed"], "became": ["nothing"]},
        own | {"outcome": ["missed"], "reason": ["missed"]},
    ]
    assert cells[2][1]["filter"] == {
        "study": ["confusion"], "outcome": ["extra"], "reason": ["nothing"], "label": ["bowl"]
    }  # fmt: skip
    assert matrix["about"].endswith("score ≥ 0.3, IoU ≥ 0.5, matching greedy, background hard")
    assert "“nothing”: only detections on it that score nothing higher" in matrix["note"]
    assert charts("confusion", document | {"settings": how | {"background": "soft"}}, []) == []


def test_what_a_scan_harms_is_counted_apart_from_its_control():
    document = {"settings": {"score": 0.3, "step": 16}, "positions": 40, "pairs": []}
    rows = [
        *[row("scan", "missed")] * 3, row("scan", "missed", control=True), row("scan", "missed", flicker=True),
        row("scan", "missed", harm="improvement"), row("scan", "extra", control=True), row("scan", "moved"),
    ]  # fmt: skip
    (bars,) = charts("scan", document, rows)
    own = {"study": ["scan"], "harm": ["harmful"], "flicker": [False]}
    assert [(mark["name"], mark["value"], mark["filter"], mark["tone"]) for mark in bars["marks"]] == [
        ("missed", 3, own | {"outcome": ["missed"], "control": [False]}, "calibration"),
        ("moved", 1, own | {"outcome": ["moved"], "control": [False]}, "calibration"),
        ("missed, control", 1, own | {"outcome": ["missed"], "control": [True]}, "unknown"),
        ("extra, control", 1, own | {"outcome": ["extra"], "control": [True]}, "unknown"),
    ]
    assert bars["about"] == "zoo:x on rooms:val; score ≥ 0.3, 40 positions, step 16 px"
    assert charts("scan", document, rows[4:6]) == []


def test_a_map_has_the_positions_of_the_worst_pairs_with_what_was_put_there(monkeypatch):
    """A pair counts by its share of affected positions; one without detections, or where nothing happens, has none."""
    rows = {(7, "object"): [{"x": 1, "y": 2, "score": 0.12345}], (7, "null"): [],
            (3, "object"): [{"x": 5, "y": 6, "score": 1.0}], (3, "null"): [{"x": 5, "y": 6, "score": 0.5}]}  # fmt: skip
    run = SimpleNamespace(query=lambda _, asked: SimpleNamespace(to_pylist=lambda: rows[tuple(asked)]))
    pair = SimpleNamespace(cutout=SimpleNamespace(label="cup", size=(20, 30)), background=SimpleNamespace(id="i4"))
    monkeypatch.setattr(scan_charts, "rebuild", lambda run, data: SimpleNamespace(open_pair=lambda number: pair))
    pairs = [{"pair": 3, "detections": 2, "affected": {"0.5": 10.0, "0.9": 5.0}},
             {"pair": 5, "detections": 0, "affected": {"0.5": 99.0}}, {"pair": 6, "detections": 1, "affected": None},
             {"pair": 7, "detections": 1, "affected": {"0.5": 9.0, "0.9": 7.0}}]  # fmt: skip
    document = {"settings": {"score": 0.3, "step": 16}, "positions": 40, "pairs": pairs}
    (heat,) = charts("scan", document, [], run, "data")
    assert (heat["kind"], heat["step"]) == ("heat", 16)
    assert [[(layer["name"], layer["cells"]) for layer in each["layers"]] for each in heat["maps"]] == [
        [("object", [[1, 2, 0.123, "scan/7/1,2"]])],
        [("object", [[5, 6, 1.0, "scan/3/5,6"]]), ("null control", [[5, 6, 0.5, "scan/3/5,6/null"]])],
    ]
    assert {(each["title"], each["image"], *each["cut"]) for each in heat["maps"]} == {("cup on i4", "i4", 20, 30)}
    assert charts("scan", document, [], run, None) == []


def test_what_insertions_change_is_counted_by_outcome_object_and_class():
    document = {"settings": {"score": 0.3}, "insertions": 40, "backgrounds": 8}
    rows = [
        *[row("fuzz", "missed", by="bowl", label="bed")] * 2, row("fuzz", "extra", by="cup", label="bed"),
        *[row("fuzz", "moved", by="vase", attributable=False)] * 5,
    ]  # fmt: skip
    shown = charts("fuzz", document, rows)
    own = {"study": ["fuzz"], "attributable": [True]}
    assert [[(mark["name"], mark["value"], mark["filter"]) for mark in chart["marks"]] for chart in shown] == [
        [("missed", 2, own | {"outcome": ["missed"]}), ("extra", 1, own | {"outcome": ["extra"]})],
        [("bowl", 2, own | {"by": ["bowl"]}), ("cup", 1, own | {"by": ["cup"]})],
        [("bed", 3, own | {"label": ["bed"]})],
    ]
    assert shown[0]["about"] == "zoo:x on rooms:val; score ≥ 0.3, 40 insertions into 8 images"
    many = [row("fuzz", "missed", by=f"c{i:02d}") for i in range(14) for _ in range(14 - i)]
    assert [mark["name"] for mark in charts("fuzz", document, many)[1]["marks"]] == [f"c{i:02d}" for i in range(12)]
    assert charts("fuzz", document, rows[3:]) == []


def test_objects_lost_under_each_attack_are_of_those_found_before():
    how = {"score": 0.3, "loc": 0.5, "eps": 8.0}
    document = {"settings": how, "images": 6, "right": 9, "attacks": {"noise": {}, "cls": {}, "loc": {}}}
    rows = [
        row("attack", "missed", by="noise"), *[row("attack", "missed", by="cls")] * 4,
        *[row("attack", "missed", by="loc", harm="harmless")] * 2,
    ]  # fmt: skip
    (bars,) = charts("attack", document, rows)
    assert [(mark["name"], mark["value"], mark["tone"], mark["text"]) for mark in bars["marks"]] == [
        ("noise", 1, "unknown", "of 9 found before"), ("cls", 4, "calibration", "of 9 found before")
    ]  # fmt: skip
    assert bars["marks"][1]["filter"] == {"study": ["attack"], "by": ["cls"], "harm": ["harmful"]}
    assert (bars["most"], bars["about"]) == (
        9, "zoo:x on rooms:val; score ≥ 0.3, IoU ≥ 0.5, 6 images, eps 8 of 255"
    )  # fmt: skip
    assert charts("attack", document, rows[5:]) == []


def test_parts_are_counted_as_present_lost_and_hallucinated():
    how = {"score": 0.3, "present_iou": 0.5, "missing_iou": 0.25}
    document = {"settings": how, "causes": {"context": {"count": 2}, "prior": {"count": 0}}}
    rows = [
        *[row("verify", "found", label="bell")] * 3, row("verify", "missed", label="bell"),
        *[row("verify", "extra", label="lock", mechanism="context")] * 2,
    ]  # fmt: skip
    bars, table = charts("verify", document, rows)
    assert [(mark["name"], mark["value"], mark["filter"]) for mark in bars["marks"]] == [
        ("context", 2, {"study": ["verify"], "outcome": ["extra"], "mechanism": ["context"]})
    ]
    assert values(table) == [["bell", 4, 1, 0.25, 0], ["lock", 0, 0, None, 2]]
    bell = {"study": ["verify"], "label": ["bell"]}
    both, lost = bell | {"outcome": ["found", "missed"]}, bell | {"outcome": ["missed"]}
    assert filters(table)[0] == [bell, both, lost, lost, bell | {"outcome": ["extra"]}]
    assert table["about"].endswith("score ≥ 0.3, IoU ≥ 0.5 (present), 0.25 (missing)")
    assert len(charts("verify", document, rows[:4])) == 1


def test_a_study_without_charts_and_a_detector_without_a_name():
    assert charts("detect", {}, []) == []
    assert values.about({"detector": None, "data": "d"}, text="t") == "a detector on d; t"
