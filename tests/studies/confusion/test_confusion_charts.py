"""The chart of a confusion: its matrix, and the rows behind each cell."""

from charted import charts


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
