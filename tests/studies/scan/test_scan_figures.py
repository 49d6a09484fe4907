"""The pictures of a scan, of a run written down by hand: values of maps, and what is drawn at ranked positions."""

from types import SimpleNamespace

import cv2
import numpy as np
import pytest
from written_runs import NAMES, position, thing, write

from misdetect.drawing import figures
from misdetect.nouns.picture import Raw
from misdetect.studies.scan import figures as scan

SIDE, TOP = 400, 22
"""Pixels of the photo, which is large enough to be shown as it is, and of the line of text above it."""


def study(seed=0, step=20):
    """What figures want of a study: the pictures of its pairs. Edits are grey."""
    pictures = []

    def picture(condition, x, y, seed):
        pictures.append((condition, x, y))
        return Raw(np.full((SIDE, SIDE, 3), 60, np.uint8))

    pixels = np.zeros((SIDE, SIDE, 3), np.uint8)
    photo = SimpleNamespace(image=pixels, render=lambda: pixels)
    pair = SimpleNamespace(cutout=SimpleNamespace(label="bed", size=(31, 40)), background=photo, picture=picture)
    how = SimpleNamespace(seed=seed, step=step)
    return SimpleNamespace(open_pair=lambda number: pair, how=how, names=NAMES, pictures=pictures)


def originals(*confidences):
    """Cups that are kept with a confidence, or lost with what is left of it."""
    found = []
    for i, (outcome, score) in enumerate(confidences):
        known = {"new_score" if outcome in ("kept", "moved") else "score_left": score}
        found.append(thing("cup", (40 * i, 100, 40 * i + 30, 130), 0.5 + i / 10, outcome=outcome, **known))
    return found


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    first = [("kept", 0.9), ("lost", 0.2), ("kept", 0.5), ("renamed", None), ("kept", 0.8), ("moved", 0.7)]
    second = [("kept", 0.8), ("lost", 0.15), ("moved", 0.1), ("kept", 0.6), ("kept", 0.8), ("moved", 0.4)]
    rows = [
        position(8, 16, [thing("vase", (200, 200, 260, 260))], originals(*first), score=0.75),
        position(4, 8, [], originals(*second), score=0.25),
        position(8, 16, [], originals(*first), condition="control", score=1.0),
        position(4, 8, [], originals(*second), condition="control", score=0.5),
        position(6, 6, [], [], score=None),
        position(2, 2, [], originals(*first[:1]), pair=1, score=0.5),
        position(3, 3, [], originals(*first[:1]), pair=1, condition="control", score=0.5),
        position(0, 0, [], [], pair=2, score=None),
    ]
    return write(tmp_path_factory.mktemp("scan") / "run", rows)


def test_maps_are_of_s_and_of_the_confidences_that_vary_most(run):
    """Positions from the upper left on; a square lies at the middle of what was put there."""
    maps = scan.pair_maps(run, study(), 0)
    assert maps.places.tolist() == [[4 + 15, 8 + 20], [8 + 15, 16 + 20]]
    assert [layer.title for layer in maps.layers] == [
        "S, object", "S, control", "confidence of cup 0.80", "confidence of cup 0.70", "confidence of cup 1.00",
        "confidence of cup 0.50",
    ]  # fmt: skip
    values = [layer.values.tolist() for layer in maps.layers]
    assert values[:2] == [[0.25, 0.75], [0.5, 1.0]]
    assert values[2:] == [[0.6, 0.0], [0.1, 0.5], [0.4, 0.7], [0.8, 0.9]]
    assert [layer.box for layer in maps.layers] == [
        None, None, (120, 100, 150, 130), (80, 100, 110, 130), (200, 100, 230, 130), (0, 100, 30, 130)
    ]  # fmt: skip


def test_a_control_at_other_positions_and_a_pair_without_detections_have_no_map(run):
    assert [layer.title for layer in scan.pair_maps(run, study(), 1).layers] == ["S, object", "confidence of cup 0.50"]
    assert scan.pair_maps(run, study(), 2).layers == ()
    assert scan.draw_pairs(run, study(), [2]) == []


def test_a_strip_has_the_clean_picture_then_what_is_new_with_the_originals(run):
    made = study()
    shown = scan.strip(run, made, 0)
    assert made.pictures == [("object", 8, 16)]
    assert shown.shape == (TOP + SIDE, 2 * (SIDE + 6), 3)
    clean, edited = shown[TOP:, :SIDE], shown[TOP:, SIDE + 6 : -6]
    cup, vase = figures.colour(NAMES.index("cup")), figures.colour(NAMES.index("vase"))
    assert tuple(clean[115, 0]) == tuple(clean[130, 60]) == cup, "the originals, as they were detected"
    assert tuple(edited[230, 200]) == tuple(edited[260, 230]) == vase
    painted = (edited == figures.KEPT).all(axis=2)
    assert painted[130, 0:30].all(), "kept: a thin line"
    assert painted[130, 80:110].all()
    assert not painted[129, 1:29].any()
    dashes = (edited[130, 40:71] == cup).all(axis=1)
    assert 10 < dashes.sum() < 31, "lost: dashes in the colour of its class"
    assert not painted[130, 40:71].any()


def test_the_worst_pairs_come_first():
    pairs = [
        {"pair": 0, "detections": 3, "affected": {"0.5": 1.0, "0.9": 30.0}},
        {"pair": 1, "detections": 3, "affected": {"0.5": 20.0, "0.9": 20.0}},
        {"pair": 2, "detections": 0, "affected": {"0.5": 90.0}},
        {"pair": 3, "detections": 1, "affected": {}},
        {"pair": 4, "detections": 1, "affected": {"0.5": 2.0, "0.9": 39.0}},
    ]
    assert scan.worst_pairs({"pairs": pairs}) == [4, 1, 0]


def test_files_are_named_by_their_pair_and_three_maps_stand_in_a_row(run):
    maps, strip = scan.draw_pairs(run, study(), [0, 2])
    assert (maps.name, strip.name) == ("pair-00-maps.png", "pair-00-strip.png")
    height, width = cv2.imread(str(maps)).shape[:2]
    one = TOP + SIDE + 10 + 18
    assert (height, width) == (2 * (one + 6), 3 * (SIDE + 6)), "six maps"


@pytest.mark.parametrize("by", [1, 2])
def test_the_views_of_a_wrong_detection_have_what_it_is_taken_for(by, monkeypatch):
    """Only the first of repeated pictures is shown; without a label the box has the first colour. A small picture is
    shown twice as large."""
    said, drawn = [], figures.with_boxes
    monkeypatch.setattr(figures, "with_boxes", lambda *given: said.append(given[2]) or drawn(*given))
    grey = Raw(np.full((SIDE // by, SIDE // by, 3), 60, np.uint8))
    asked = [("as it is", 0, grey), ("noise", 0, grey), ("noise", 1, grey), ("alone", 0, grey)]
    views = {"as it is": {"label": "bed", "score": 0.75}, "noise": {"label": None, "score": None},
             "alone": {"label": "vase", "score": 0.5}}  # fmt: skip
    apart = SimpleNamespace(pictures=lambda wrong: asked, scan=SimpleNamespace(names=NAMES))
    box = tuple(side / by for side in (100, 150, 180, 220))
    shown = scan.interference_strip(apart, SimpleNamespace(box=box), views)
    assert said == [["bed 0.75"], ["nothing"], ["vase 0.50"]]
    assert shown.shape == (TOP + SIDE + 6, 3 * (SIDE + 6), 3)
    for i, label in enumerate((NAMES.index("bed"), 0, NAMES.index("vase"))):
        part = shown[TOP:, i * (SIDE + 6) : i * (SIDE + 6) + SIDE]
        assert tuple(part[200, 100]) == tuple(part[220, 140]) == tuple(part[190, 180]) == figures.colour(label)


def test_boxes_on_a_small_picture_are_enlarged_with_it():
    grey = Raw(np.full((SIDE // 2, SIDE // 2, 3), 60, np.uint8))
    kept, lost = thing("cup", (100, 50, 140, 90), outcome="kept"), thing("bed", (10, 120, 60, 160), outcome="lost")
    shown = scan._detected(grey, [thing("vase", (20, 30, 60, 70))], NAMES, "t", [kept, lost])[TOP:]
    assert shown.shape == (SIDE, SIDE, 3)
    assert tuple(shown[100, 40]) == tuple(shown[140, 80]) == figures.colour(NAMES.index("vase"))
    assert tuple(shown[150, 200]) == tuple(shown[180, 240]) == tuple(figures.KEPT)
    dashes = (shown[320, 20:121] == figures.colour(NAMES.index("bed"))).all(axis=1)
    assert 40 < dashes.sum() < 101
