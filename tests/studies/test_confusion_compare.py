"""Confusion runs side by side: what was planted between them is the difference, and the same images are drawn."""

from collections import Counter

import pytest

import misdetect as md

DATA = "rooms:val,count=30"
SPEC = "glassbox:{},data=" + DATA


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compared")
    faults = {"whole": "none", "renamed": "other-class/class=chair/to=cup", "sunk": "sink/class=chair,lamp"}
    return {name: md.confusion(SPEC.format(fault), DATA, out=folder / name) for name, fault in faults.items()}


def test_what_was_planted_is_the_difference(runs):
    document = md.compare(*runs.values()).document
    assert document["paired"]
    assert document["objects"] == [document["objects"][0]] * 3
    hit = runs["renamed"].document["outcomes"]["confused"]
    total = document["objects"][0]
    assert hit > 10
    first = document["differences"][0]
    assert (first["first"], first["second"]) == ("whole", "renamed")
    assert first["outcomes"]["confused"]["difference"] == pytest.approx(hit / total)
    assert first["outcomes"]["right"]["difference"] == pytest.approx(-hit / total)
    low, high = first["outcomes"]["confused"]["interval"]
    assert 0 < low < hit / total < high
    assert first["outcomes"]["confused"]["certain"]
    assert not first["outcomes"]["missed"]["certain"]
    assert sorted(first["flow"]) == [["right", "confused", hit], ["right", "right", total - hit]]
    assert first["p"] == pytest.approx(2 * 0.5**hit)
    cells = {(cell["actual"], cell["predicted"]): cell["counts"] for cell in document["cells"]}
    assert cells["chair", "cup"] == [0, hit, 0]
    assert (document["outcomes"]["missed"][0], document["outcomes"]["missed"][1]) == (0, 0) < (0, 1)


def test_the_flow_is_that_of_the_rows_and_turned_around_it_is_its_mirror(runs):
    there = md.compare(runs["renamed"], runs["sunk"]).document["differences"][0]
    back = md.compare(runs["sunk"], runs["renamed"]).document["differences"][0]
    told = [
        {(row["image"], row["id"]): row["outcome"] for row in runs[name].rows().to_pylist() if row["kind"] == "object"}
        for name in ("renamed", "sunk")
    ]
    expected = Counter((told[0][key], told[1][key]) for key in told[0])
    assert {(a, b): n for a, b, n in there["flow"]} == expected
    assert {(b, a): n for a, b, n in back["flow"]} == expected
    for name, each in there["outcomes"].items():
        low, high = back["outcomes"][name]["interval"]
        assert each["interval"] == pytest.approx([-high, -low])
    assert there["p"] == back["p"]


def test_other_rules_are_named_and_the_command_shows_it(runs, run, tmp_path):
    other = md.confusion(SPEC.format("none"), DATA, iou=0.6, out=tmp_path / "other")
    document = md.compare(runs["whole"], other).document
    assert not document["paired"]
    assert any("different rules: iou" in why for why in document["why_not_paired"])
    code, out, _ = run("compare", runs["whole"].path, runs["renamed"].path)
    assert code == 0
    assert "Paired" in out
    assert f"-{100 * runs['renamed'].document['outcomes']['confused'] / runs['renamed'].document['objects']:.1f}" in out
