"""The chart of a confusion: its matrix, and the rows behind each cell."""

from charted import charts


def test_cells_of_the_matrix_are_shares_of_their_row():
    how = {"score": 0.3, "iou": 0.5, "policy": "greedy", "background": "hard"}
    document = {"labels": ["cup", "bowl", "nothing"], "settings": how, "became": [[6, 1, 0, 1], [0, 0, 0, 0]],
                "counts": [[6, 1, 0], [0, 0, 0], [3, 1, 0]],
                "confidence": [[5.0, 0.5, 0.0], [0.0, 0.0, 0.0], [1.5, 0.5, 0.0]],
                "iou_histograms": {"cells": [["cup", "cup", [0] * 8 + [2, 4]]]},
                "confusions": [{"actual": "cup", "predicted": "bowl", "count": 2, "confidence": 0.5,
                                "policy_dependent": True}]}  # fmt: skip
    matrix, pairs, sums = charts("confusion", document, [])
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
    (pair,) = pairs["marks"]
    assert (pair["name"], pair["value"], pair["text"]) == ("cup → bowl *", 1, "2 detections, Σ confidence 0.5")
    assert pair["filter"] == cells[0][1]["filter"], "the same objects"
    assert [[cell["value"] for cell in line] for line in sums["cells"]] == document["confidence"]
    assert [[cell["bins"] for cell in line] for line in sums["cells"]] == [
        [[0] * 8 + [2, 4], None, None], [None] * 3, [None] * 3
    ]  # fmt: skip
    assert sums["cells"][2][0]["share"] == 0.75
    soft = charts("confusion", document | {"settings": how | {"background": "soft"}}, [])
    assert [chart["title"] for chart in soft] == [chart["title"] for chart in (matrix, pairs, sums)]
    assert all(cell is None or cell["filter"] is None for line in soft[0]["cells"] for cell in line), "only shares"
    many = [f"c{i}" for i in range(17)]
    square = [[0] * 18 for _ in range(18)]
    wide = document | {"labels": [*many, "nothing"], "became": [[0] * 19] * 17, "counts": square, "confusions": []}
    assert [chart["title"] for chart in charts("confusion", wide, [])] == ["What objects became"], "too many to read"
