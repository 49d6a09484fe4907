"""The charts of a verification: causes, and its parts."""

from charted import charts, filters, row, values


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
