"""The chart of an attack: objects lost, of those found before."""

from charted import charts, row


def test_objects_lost_under_each_attack_are_of_those_found_before():
    how = {"score": 0.3, "loc": 0.5, "eps": 8.0}
    document = {"settings": how, "images": 6, "right": 9, "attacks": {"noise": {}, "cls": {}, "loc": {}}}
    rows = [
        row("attack", "missed", by="noise"), *[row("attack", "missed", by="cls")] * 4,
        *[row("attack", "missed", by="loc", harm="harmless")] * 2,
    ]  # fmt: skip
    (bars,) = charts("attack", document, rows)
    assert [(mark["name"], mark["value"], mark["tone"], mark["text"]) for mark in bars["marks"]] == [
        ("noise", 1, "unknown", "of 9 found before"), ("cls", 4, "discarded", "of 9 found before")
    ]  # fmt: skip
    assert bars["marks"][1]["filter"] == {"study": ["attack"], "by": ["cls"], "harm": ["harmful"]}
    assert (bars["most"], bars["about"]) == (
        9, "zoo:x on rooms:val; score ≥ 0.3, IoU ≥ 0.5, 6 images, eps 8 of 255"
    )  # fmt: skip
    assert charts("attack", document, rows[5:]) == []
