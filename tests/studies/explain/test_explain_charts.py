"""The charts of explain: mechanisms with their intervals, misses by size, the flow from TIDE types."""

from charted import charts, filters, row


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
    assert bars["about"] == "x on rooms:val; score ≥ 0.3, IoU ≥ 0.5, miss any"
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
