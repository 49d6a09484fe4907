"""The charts of a fuzz: what insertions change, by outcome, object and class."""

from charted import charts, row


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
    assert shown[0]["about"] == "x on rooms:val; score ≥ 0.3, 40 insertions into 8 images"
    many = [row("fuzz", "missed", by=f"c{i:02d}") for i in range(14) for _ in range(14 - i)]
    assert [mark["name"] for mark in charts("fuzz", document, many)[1]["marks"]] == [f"c{i:02d}" for i in range(12)]
    assert charts("fuzz", document, rows[3:]) == []
