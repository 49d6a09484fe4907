"""Fig. 3: detectors that read a label off the inside of a box, its outside, both or neither are told apart."""

from itertools import product

import numpy as np
import pytest
from scan_toys import TileDetector, annotated_rooms, scan_of, scanned

from misdetect.data import load_data
from misdetect.engine.backend import Asking
from misdetect.engine.store import Run
from misdetect.nouns.detections import Detections
from misdetect.studies.documents import document_of, keep_document
from misdetect.studies.scan import SCAN
from misdetect.studies.scan.interference import (
    VIEWS,
    InterferenceStudy,
    Wrong,
    decided_by,
    take_apart,
    verdicts,
    visible_mask,
    wrong_detections,
)
from misdetect.studies.scan.pairs import candidates, choose_pairs
from misdetect.studies.scan.settings import ScanSettings

BOX = (16.0, 16.0, 48.0, 48.0)


@pytest.fixture(scope="module")
def study():
    rooms = annotated_rooms()
    return scan_of(rooms, choose_pairs(rooms, 2, candidates(rooms, 0)), step=9)


class Reads:
    """One detection at ``BOX``: a cat as long as what it looks at is there (the ``inside`` but for the object, the
    ``outside``, where noise is as good as the scene), else a chair."""

    names = TileDetector.names
    fingerprint = None

    def __init__(self, mask, inside, outside):
        self.mask, self.inside, self.outside = mask, inside, outside

    def detect(self, images):
        return [self._one(image.astype(float)) for image in images]

    def _one(self, image):
        x0, y0, x1, y1 = map(int, BOX)
        beyond = image.copy()
        beyond[y0:y1, x0:x1] = 0
        around = np.where(self.mask[:, :, None], 0, image)[y0:y1, x0:x1]
        there = not (self.inside and not around.any()) and not (self.outside and not beyond.any())
        return Detections([BOX], [0.9 if there else 0.8], [0 if there else 1])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("outside", [False, True])
def test_what_a_detector_reads_is_what_decides(study, tmp_path, inside, outside):
    wrong = Wrong(0, 9, 9, BOX, "cat", 0.9, -1, "chair")
    mask = np.zeros((64, 64), bool)
    width, height = study.open_pair(0).cutout.size
    mask[9 : 9 + height, 9 : 9 + width] = study.open_pair(0).cutout.mask
    apart = InterferenceStudy(study, "made", [wrong])
    (found,) = verdicts(scanned(apart, Reads(mask, inside, outside), tmp_path / "run").run)
    assert (
        found["decided_by"] == {(0, 0): "neither", (1, 0): "inside", (0, 1): "outside", (1, 1): "both"}[inside, outside]
    )
    assert (found["detected_as"], found["really"], found["box"]) == ("cat", "chair", list(BOX))
    for name, beyond, within in VIEWS:
        view = found["views"][name]
        still = not (inside and within == "zero") and not (outside and beyond == "zero")
        assert view["label"] == ("cat" if still else "chair")
        assert view["score"] == (0.9 if still else 0.8)
        assert (view["still_wrong"], view["right"]) == ((100, 0) if still else (0, 100))
        assert view["times"] == (10 if beyond == "noise" else 1)


@pytest.mark.parametrize("labels", list(product("ab", repeat=4)))
def test_the_verdict_by_hand(labels):
    """The inside decides if zeroing it changes the label, with the outside there or not; and the reverse."""
    plain, no_outside, no_inside, neither = labels
    views = {
        "as it is": [plain],
        "outside zeroed": [no_outside],
        "inside zeroed": [no_inside],
        "both zeroed": [neither],
    }
    views |= {"noise outside": [no_outside] * 10, "noise outside, inside zeroed": [neither] * 10}
    inside = plain != no_inside or no_outside != neither
    outside = plain != no_outside or no_inside != neither
    expected = "both" if inside and outside else "inside" if inside else "outside" if outside else "neither"
    assert decided_by(views) == expected


@pytest.mark.parametrize(("other", "said"), [(5, "neither"), (6, "outside")])
@pytest.mark.parametrize("view", ["noise outside", "noise outside, inside zeroed"])
def test_noise_counts_if_it_mostly_gives_another_label(other, said, view):
    views = {name: ["a"] * (10 if outside == "noise" else 1) for name, outside, _ in VIEWS}
    assert decided_by(views | {view: [None] * other + ["a"] * (10 - other)}) == said


def test_the_most_confident_wrong_detections_are_chosen(study, tmp_path):
    run = scanned(study, TileDetector(), tmp_path / "run").run
    found = wrong_detections(run, study, 100)
    assert len(found) > 3
    assert [wrong.score for wrong in found] == sorted((wrong.score for wrong in found), reverse=True)
    assert len({(wrong.pair, wrong.thing, wrong.label) for wrong in found}) == len(found)
    assert found[:2] == wrong_detections(run, study, 2)
    assert any(wrong.thing == -1 for wrong in found)
    assert {wrong.thing >= -1 for wrong in found} == {any(wrong.thing >= 0 for wrong in found)} == {True}
    for wrong in found:
        assert wrong.label != wrong.really
        truth = study.open_pair(wrong.pair).background.truth
        name = study.transplants[wrong.pair].label if wrong.thing < 0 else study.data.names[truth.labels[wrong.thing]]
        assert wrong.really == name.lower()
        (row,) = run.query(
            "SELECT new FROM rows WHERE pair = ? AND x = ? AND y = ? AND condition = 'object'",
            [wrong.pair, wrong.x, wrong.y],
        ).to_pylist()
        (same,) = [n for n in row["new"] if [n[side] for side in ("x0", "y0", "x1", "y1")] == list(wrong.box)]
        assert (same["label"], same["score"], same["own"]) == (wrong.label, wrong.score, wrong.thing < 0)


def test_only_what_can_be_seen_of_an_object_is_kept_when_the_inside_goes(study):
    pair = study.open_pair(0)
    width, height = pair.cutout.size
    t = np.zeros((64, 64), bool)
    t[9 : 9 + height, 18 : 18 + width] = pair.cutout.mask
    assert np.array_equal(visible_mask(pair, Wrong(0, 18, 9, BOX, "cat", 0.9, -1, "chair")), t)
    masks = [np.asarray(pair.background.truth.masks[row]) for row in range(len(pair.background.truth))]
    row = next(row for row, mask in enumerate(masks) if (mask & t).any() and (mask & ~t).any())
    expected = [[bool(masks[row][y, x] and not t[y, x]) for x in range(64)] for y in range(64)]
    assert visible_mask(pair, Wrong(0, 18, 9, BOX, "cat", 0.9, row, "chair")).tolist() == expected


@pytest.mark.heavy
def test_what_was_taken_apart_is_found_beside_the_rows(study, tmp_path):
    detector, asking = TileDetector(), Asking(cached=False)
    run = scanned(study, detector, tmp_path / "run").run
    assert document_of(run)["interference"] is None
    take_apart(study, detector, run, ScanSettings(interference=2), asking)
    (first, second) = keep_document(run)["interference"]
    assert first["score"] >= second["score"]
    assert first["views"]["as it is"]["label"] == first["detected_as"]
    take_apart(study, detector, run, ScanSettings(interference=3), asking)
    assert document_of(Run.open(run.path))["interference"][:2] == [first, second], "more of them, the same first"
    assert len(document_of(run)["interference"]) == 3
    take_apart(study, detector, run, ScanSettings(), asking)
    assert len(document_of(run)["interference"]) == 3, "asking for none asks nothing"


def test_none_to_take_apart_is_said(tmp_path):
    rooms = load_data("rooms:val,size=64,count=8")

    class Strange(TileDetector):
        names = ("one", "two", "three")

    detector = Strange()
    study = scan_of(rooms, choose_pairs(rooms, 1, candidates(rooms, 0)), Strange.names, step=12, control=False)
    run = scanned(study, detector, tmp_path / "run").run
    take_apart(study, detector, run, ScanSettings(interference=2), Asking(cached=False))
    document = document_of(run)
    assert document["interference"] == []
    assert any("No wrong detection" in sentence for sentence in SCAN.sentences(document))
