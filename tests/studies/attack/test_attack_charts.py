"""The charts of an attack: objects lost, of those found before, and the document's numbers in their places."""

from attack_toys import attacked
from charted import charts, row

from misdetect.studies.attack.behind import behind

NOTHING = {"clean": {"AP50": None, "intervals": {}}, "clsaval": {}, "ladder": None, "distance": [], "dcm": {}}


def titled(made):
    return {chart["title"]: chart for chart in made}


def test_objects_lost_under_each_attack_are_of_those_found_before():
    how = {"score": 0.3, "loc": 0.5, "eps": 8.0}
    document = NOTHING | {"settings": how, "images": 6, "right": 9}
    document["attacks"] = {name: {"AP50": 0.5, "intervals": {}} for name in ("noise", "cls", "loc")}
    rows = [
        row("attack", "missed", by="noise"), *[row("attack", "missed", by="cls")] * 4,
        *[row("attack", "missed", by="loc", harm="harmless")] * 2,
    ]  # fmt: skip
    bars = titled(charts("attack", document, rows))["Objects lost under each attack"]
    assert [(mark["name"], mark["value"], mark["tone"], mark["text"]) for mark in bars["marks"]] == [
        ("noise", 1, "unknown", "of 9 found before"), ("cls", 4, "discarded", "of 9 found before")
    ]  # fmt: skip
    assert bars["marks"][1]["filter"] == {"study": ["attack"], "by": ["cls"], "harm": ["harmful"]}
    assert (bars["most"], bars["about"]) == (
        9, "x on rooms:val; score ≥ 0.3, IoU ≥ 0.5, 6 images, eps 8 of 255"
    )  # fmt: skip
    assert list(titled(charts("attack", document, rows[5:]))) == ["AP50 under every attack"]
    assert charts("attack", document | {"attacks": {}}, []) == []


def test_numbers_without_objects_behind_them_are_those_of_the_document():
    document = attacked()
    made = titled(charts("attack", document, []))
    ap = made["AP50 under every attack"]
    assert [(m["name"], m["value"], m["ends"], m["filter"]) for m in ap["marks"]] == [
        ("clean", 0.9, None, None), ("noise", 0.85, None, None), ("cls", 0.2, [0.1, 0.4], None)
    ]  # fmt: skip
    parts = made["AP50 with parts taken from the clean image"]["marks"]
    assert [(m["group"], m["name"], m["value"]) for m in parts] == [("cls", "vanilla", 0.2), ("cls", "r_idx", 0.3)]
    ladder = made["Is the attack strong enough? gradients masked"]
    assert [(m["name"], m["value"], m["ends"], m["text"], m["tone"]) for m in ladder["marks"]] == [
        ("noise", 0.125, [0.0, 0.25], "the step holds", "plain"),
        ("fgsm", 0.5, [0.25, 0.75], "gradients masked", "discarded"),
    ]
    (series,) = made["Attacked from a distance"]["series"]
    assert series["points"] == [[0, 0.5], [16, 0.125]]
    assert series["band"] == [[0, 0.25, 0.75], [16, 0.0, 0.25]]
    matrices = made["What detections become under attack"]["views"]
    assert [view["name"] for view in matrices] == ["clean", "cls", "cls, r_idx"]
    assert [[cell and cell["value"] for cell in line] for line in matrices[0]["cells"]] == [[3, 1, 2], [2, 0, None]]
    assert [[cell and round(cell["share"], 3) for cell in line] for line in matrices[0]["cells"]] == [
        [0.5, 0.167, 0.333], [1, 0, None]
    ]  # fmt: skip
    assert matrices[0]["columns"] == ["cup", "background", "missed"]


def test_behind_the_finding_are_the_objects_lost_under_the_worst_attack():
    document = attacked()
    document["attacks"]["loc"] = {"AP50": 0.1, "intervals": {}, "lost": 12}
    document["attacks"]["fgsm"] = {"AP50": 0.0, "intervals": {}, "lost": 20}
    told = behind({"kind": "attack"}, document)
    assert told.rows == {"study": ["attack"], "by": ["loc"], "harm": ["harmful"]}
    assert [mark["name"] for mark in told.chart["marks"] if mark["chosen"]] == ["loc"]
    assert "12 of 20 objects" in told.sure
