"""Checkups side by side, of documents written by hand: which findings are fixed, new and common, which changes a person
is told, and the page with its numbers."""

import re
from html import unescape
from pathlib import Path

import pytest

from misdetect.report import checkup_comparison, comparison
from misdetect.report.compared_page import draw_comparison
from misdetect.studies.told import told_changes


def change(first, second, ends=None, *, certain=False):
    return {"first": first, "second": second, "difference": second - first, "interval": ends, "certain": certain}


def score():
    """The comparison of three runs of score."""
    certain = {f"k{i}": change(0.0, 1.0, certain=True) for i in range(10)}
    ap = {"AP": change(0.5, 0.75), "AP50": change(0.75, 0.5, [-0.5, -0.125], certain=True)}
    by_class = {**certain, "no": change(0, 1)}
    differences = [
        {"first": "a", "second": "b", "images": 4, "left_out": [0, 1], **ap, "by_class": by_class},
        {"first": "a", "second": "c", "AP": change(0.5, 0.5)},
        {"first": "b", "second": "c", "AP": change(0.0, 0.0, certain=True)},
    ]
    return {"study": "score", "runs": [{"name": name} for name in "abc"], "differences": differences}


def test_headlines_are_told_first_then_what_is_certain():
    told = [(key, other, each["difference"]) for key, other, each in told_changes(score())]
    assert told == [
        ("AP", "b", 0.25), ("AP", "c", 0.0), ("AP50", "b", -0.25), *((f"by_class.k{i}", "b", 1.0) for i in range(8))
    ]  # fmt: skip
    assert told_changes({"study": "detect", "runs": [{"name": "a"}]}) == []


def test_of_a_mechanism_the_rate_is_told():
    both = {"rate": change(0.25, 0.5, certain=True), "share": change(0.5, 0.625, certain=True)}
    none = {"rate": None, "share": None}
    parts = {"mechanisms": {"proposal": both, "unknown": none}}
    document = {"study": "explain", "runs": [{"name": "a"}, {"name": "b"}],
                "differences": [{"first": "a", "second": "b", **parts}]}  # fmt: skip
    assert told_changes(document) == [("mechanisms.proposal", "b", both["rate"])]


def finding(study, kind, sentence):
    return {"study": study, "kind": kind, "sentence": sentence, "advice": f"mend {kind}"}


def checkup(spec, findings, studies=("score", "explain"), skipped=(), out="/nowhere", images=24):
    """What a checkup says of itself."""
    return {
        "detector": {"spec": spec, "level": "traced", "settings": {"nms": 0.5}}, "settings": {"minutes": 1},
        "data": {"spec": "rooms:val", "images": images}, "studies": dict.fromkeys(studies), "findings": findings,
        "skipped": list(skipped), "out": out,
    }  # fmt: skip


def compared(monkeypatch, *checkups, names="xy"):
    """The comparison of ``checkups``, none of whose runs is there."""
    paths = [Path(f"/nowhere/{name}") for name in names]
    known = dict(zip(paths, checkups, strict=True))
    monkeypatch.setattr(checkup_comparison, "is_checkup", known.__contains__)
    monkeypatch.setattr(checkup_comparison, "read_checkup", known.__getitem__)
    return checkup_comparison.compare(paths, comparison.CompareSettings())


def test_findings_are_fixed_new_or_common_where_both_could_have_them(monkeypatch):
    was = [finding("score", "low", "AP is low"), finding("explain", "sink", "it sinks"), finding("scan", "far", "far")]
    now = [finding("explain", "sink", "it still sinks"), finding("score", "dupe", "twice"), finding("fuzz", "f", "odd")]
    first = checkup("one", was, ("score", "explain", "scan"), [{"study": "fuzz", "why": "no pool."}])
    second = checkup("two", now, ("score", "explain", "fuzz"), images=16)
    document = compared(monkeypatch, first, second)
    entry = {"run": "two", "first": None, "second": None}
    assert document["fixed_findings"] == [entry | {"study": "score", "kind": "low", "first": was[0]}]
    assert document["new_findings"] == [entry | {"study": "score", "kind": "dupe", "second": now[1]}]
    assert document["common_findings"] == [
        entry | {"study": "explain", "kind": "sink", "first": was[1], "second": now[0]}
    ]
    assert document["notes"] == [
        "whether this is fixed or new is not known, two has no scan: far",
        "whether this is fixed or new is not known, one has no fuzz: odd",
    ]
    why = {(each["study"], each["why"]) for each in document["skipped"]}
    assert {("fuzz", "one has no fuzz: no pool."), ("scan", "two has no scan: it was not run.")} < why
    assert sum("its run is missing" in said for _, said in why) == 6
    assert (document["studies"], document["paired"], document["why_not_paired"]) == ({}, True, [])
    assert document["runs"] == [
        {"name": "one", "path": "/nowhere/x", "detector": "one", "data": "rooms:val", "images": 24, "findings": 3,
         "studies": ["score", "explain", "scan"]},
        {"name": "two", "path": "/nowhere/y", "detector": "two", "data": "rooms:val", "images": 16, "findings": 3,
         "studies": ["score", "explain", "fuzz"]},
    ]  # fmt: skip
    assert document["settings"] == {
        "settings.minutes": 1, "data.spec": "rooms:val", "detector.level": "traced", "detector_settings.nms": 0.5
    }  # fmt: skip
    assert document["differing_settings"] == [
        {"setting": "data.images", "values": [24, 16]}, {"setting": "detector.spec", "values": ["one", "two"]}
    ]  # fmt: skip
    same = compared(monkeypatch, first, checkup("one", []))
    assert [run["name"] for run in same["runs"]] == ["one (x)", "one (y)"]


def test_studies_are_compared_where_two_checkups_have_a_run(monkeypatch, tmp_path):
    """Notes and reasons are those of the studies; of runs of different numbers of images at least that is said."""
    for name in ("one/score", "one/explain", "one/detect", "two/score", "two/explain", "two/detect"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "run.json").touch()

    def compare(paths, how, names):
        study = paths[0].name
        if study == "detect":
            raise comparison.BadData("it is not finished.")
        found = {"notes": ["seen"] if study == "score" else [], "why_not_paired": [f"no {study}"],
                 "runs": [{"name": name, "images": 4 + i} for i, name in enumerate(names)]}  # fmt: skip
        return found | ({"differences": []} if study == "score" else {})

    monkeypatch.setattr(comparison, "compare", compare)
    studies = ("score", "explain", "detect")
    found = compared(monkeypatch, *(checkup(name, [], studies, out=str(tmp_path / name)) for name in ("one", "two")))
    assert list(found["studies"]) == ["score", "explain"]
    assert found["skipped"] == [{"study": "detect", "why": "it is not finished."}]
    assert found["notes"] == ["score: seen", "explain: not the same images: one saw 4, two saw 5."]
    assert (found["paired"], found["why_not_paired"]) == (False, ["score: no score"]), "explain is only set beside"


def test_a_checkup_and_a_run_are_not_compared(monkeypatch):
    monkeypatch.setattr(checkup_comparison, "is_checkup", lambda path: path.name == "up")
    with pytest.raises(comparison.BadData, match=r"^/a/up is .* and /a/run is not; .*/a/up/explain"):
        checkup_comparison.compare([Path("/a/run"), Path("/a/up")], comparison.CompareSettings())


def cells(page):
    """Every table of the page as rows of text."""
    found = re.findall(r"<table[^>]*>(.*?)</table>", page, re.DOTALL)
    rows = [re.findall(r"<tr>(.*?)</tr>", table) for table in found]
    return [[[unescape(cell) for cell in re.findall(r"<td>(.*?)</td>", row)] for row in table] for table in rows]


def test_the_page_holds_the_numbers_of_the_document(tmp_path):
    one = {"image": "i0", "condition": "clean", "label": "<cup>", "outcome": "missed", "case": "c"}
    failures = {"first": "a", "second": "b", "fixed": 30, "new": 2, "common": 0, "unknown": 1,
                "listed": {"fixed": [one] * 25, "new": [one | {"image": "i1"}], "common": []}}  # fmt: skip
    numbers = {"AP": [{"value": 0.5, "interval": [0.25, 0.75]}, {"value": None, "interval": None}, None],
               "AP50": [{"value": 0.0625, "interval": None}] * 3}  # fmt: skip
    study = score() | {"why_not_paired": ["other images"], "failures": [failures], "numbers": numbers}
    beside = {"study": "doctor", "runs": study["runs"], "why_not_paired": ["x"], "failures": [], "numbers": {}}
    was, now = finding("score", "low", "AP is <low>"), finding("score", "low", "AP is lower")
    document = {
        "runs": [{"name": n, "detector": f"d{n}", "data": "rooms", "images": i, "findings": 5 * i} for i, n in
                 enumerate("abc", start=1)],
        "new_findings": [], "fixed_findings": [{"run": "b", "first": was, "second": None}],
        "common_findings": [{"run": "c", "first": was, "second": now}], "notes": ["<note>"],
        "skipped": [{"study": "verify", "why": "no parts"}], "studies": {"score": study, "doctor": beside},
        "differing_settings": [{"setting": "data.images", "values": [1, "two", None]}],
    }  # fmt: skip
    (path,) = draw_comparison(document, tmp_path / "new" / "folder")
    page = path.read_text()
    overview, skipped, told, new, fixed, every, none, settings = cells(page)
    assert overview == [["", "a", "b", "c"], ["detector", "da", "db", "dc"], ["data", *["rooms"] * 3],
                        ["images", "1", "2", "3"], ["findings", "5", "10", "15"]]  # fmt: skip
    assert skipped == [["verify", "not compared: no parts"]]
    assert told[:4] == [
        ["", "run", "first", "second", "difference", "interval", ""],
        ["AP", "b", "0.500", "0.750", "+0.250", "–", ""],
        ["AP", "c", "0.500", "0.500", "+0.000", "–", ""],
        ["AP50", "b", "0.750", "0.500", "-0.250", "-0.500 to -0.125", "certain"],
    ]
    assert len(told) == 12
    assert fixed[0] == new[0] == ["image", "condition", "class", "outcome", "case"]
    assert fixed[1:] == [["i0", "clean", "<cup>", "missed", "c"]] * 20
    assert new[1:] == [["i1", "clean", "<cup>", "missed", "c"]]
    assert every == [["", "a", "b", "c"], ["AP", "0.500 (0.250 to 0.750)", "–", "–"], ["AP50", *["0.062"] * 3]]
    assert none == [["", "a", "b", "c"]]
    assert settings == [["", "a", "b", "c"], ["data.images", "1", '"two"', "null"]]
    for said in (
        "<h1>b, c against a</h1>", "No longer found: the first 20 of 30", "New: the first 1 of 2",
        "<p>&lt;note&gt;</p>",
        "Failures of b against a: 30 fixed, 2 new, 0 in both; of 1 it is not known.", "Not paired: other images.",
        '<p class="what">Not in b: AP is &lt;low&gt;</p></div>',
        '<p class="what">In c: AP is lower</p><p class="do">Before: AP is &lt;low&gt;</p>',
    ):  # fmt: skip
        assert said in page
    assert (page.count("What to do:"), page.count("Before:"), page.count("Not paired:")) == (1, 1, 1)
    assert "No checkup has a finding" not in page
    assert [title for title in ("New", "No longer found", "In both") if f"<h3>{title}</h3>" in page] == [
        "No longer found", "In both"
    ]  # fmt: skip
    sure = document | {"common_findings": [], "fixed_findings": [], "skipped": []}
    sure["studies"] = {
        "score": study | {"failures": [failures | {"unknown": 0}], "differences": study["differences"][1:]}
    }
    (path,) = draw_comparison(sure, tmp_path / "new" / "folder")
    assert "No checkup has a finding that could be compared." in path.read_text()
    assert "0 in both." in path.read_text()
    assert ["AP", "c", "0.500", "0.500", "+0.000", "–", ""] in cells(path.read_text())[1], "one change is a table too"
