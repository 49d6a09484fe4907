"""Planted hallucinations are found again: at the rate that was planted, each with the cause that was planted."""

from collections import Counter

import pytest

import misdetect as md
from misdetect.data import load_data
from misdetect.detectors.glassbox.detector import GlassBox
from misdetect.detectors.glassbox.faults import (
    Hallucinate,
    HallucinateAppearance,
    HallucinateContext,
    HallucinatePosition,
)

PLANTED = {
    "none": Hallucinate(rate=0.5),
    "context": HallucinateContext(rate=0.5),
    "position": HallucinatePosition(rate=0.5),
    "appearance": HallucinateAppearance(rate=0.5),
}


@pytest.fixture(scope="module")
def bikes():
    return load_data("bikes:val,count=8")


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("cause", "fault"), PLANTED.items(), ids=PLANTED)
def test_each_planted_cause_is_named(bikes, cause, fault):
    box = GlassBox(bikes, [fault])
    run = md.verify(box, bikes, cache=False)
    planted = {(row["sample"], row["object"]) for row in box.planted_table()}
    rows = run.query("SELECT image, id, cause, reason FROM rows WHERE kind = 'hallucination'").to_pylist()
    assert {(row["image"], row["id"]) for row in rows} == planted
    tested = [row for row in rows if row["reason"] != "untested"]  # of some parts only one of eight bikes has none
    assert len(tested) >= 0.85 * len(rows)
    told = Counter(row["cause"] for row in tested)
    assert told.total() >= 20, "too few to say anything"
    assert told[cause] >= 0.99 * told.total(), told
    if cause == "position":
        assert {row["reason"] for row in rows} == {"stays"}
    assert run.document["causes"][cause]["count"] == sum(row["cause"] == cause for row in rows)
    assert run.document["edits"]["moved"]["present_lost"] < 0.05, "the glass box follows what moves"


@pytest.mark.heavy
def test_several_causes_at_once(bikes):
    faults = [
        HallucinateContext(classes=("lock", "bell")),
        HallucinatePosition(classes=("dynamo",)),
        HallucinateAppearance(classes=("dress_guard", "kickstand")),
        Hallucinate(classes=("back_light",)),
    ]
    expected = {"lock": "context", "bell": "context", "dynamo": "position", "back_light": "none"}
    expected |= dict.fromkeys(("dress_guard", "kickstand"), "appearance")
    run = md.verify(GlassBox(bikes, faults), bikes, cache=False)
    rows = run.query("SELECT label, cause FROM rows WHERE kind = 'hallucination'").to_pylist()
    assert len(rows) >= 15
    assert [row["cause"] for row in rows] == [expected[row["label"]] for row in rows]


@pytest.mark.heavy
def test_a_planted_rate_lies_in_its_interval():
    data = load_data("bikes:val,count=40")
    for rate in (0.1, 0.4):
        run = md.verify(GlassBox(data, [Hallucinate(rate=rate)]), data, cache=False, context=False)
        row = run.document["with_localisation"]
        low, high = row["intervals"]["missing_recall"]
        assert low <= rate <= high
        assert high - low < 0.12
        assert row["present_recall"] == 1


def test_a_perfect_detector_hallucinates_nothing(bikes):
    d = md.verify(GlassBox(bikes), bikes, cache=False).document
    assert d["with_localisation"]["f_vv"] == pytest.approx(1)
    assert d["hallucinations"] == 0
    assert d["missing_recall_curve"][0] == [0, 0]


def test_results_of_a_file_are_those_of_the_detector(bikes, tmp_path):
    """The same detections, asked for and stored: the same numbers, but for what cannot be asked any more."""
    from misdetect.studies.coco_results import coco_results, write_results

    box = GlassBox(bikes, [Hallucinate(rate=0.3)])
    asked = md.verify(box, bikes, cache=False, context=False).document
    found = md.detect(box, bikes, cache=False)
    write_results(tmp_path / "results.json", coco_results(found.directory, bikes))
    stored = md.verify(f"predictions:{tmp_path / 'results.json'}", bikes, out=tmp_path / "run").document
    for key in ("with_localisation", "without_localisation", "by_part", "f_vv_curve"):
        assert stored[key] == asked[key]
    # a file rounds boxes to a thousandth of a pixel, so none has an IoU of exactly 1
    assert stored["missing_recall_curve"][:-1] == asked["missing_recall_curve"][:-1]
    assert stored["hallucinations"] == 0
    assert stored["causes"]["context"]["share"] is None
    assert any("stored predictions cannot be asked" in note for note in stored["notes"])
