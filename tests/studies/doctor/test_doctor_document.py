"""The numbers of a diagnosis, by hand: a detector that finds two of three objects, and says y before x."""

import re
from types import SimpleNamespace

import numpy as np
import pytest

import misdetect as md
from misdetect.data.memory import from_pairs
from misdetect.nouns.detections import Truth
from misdetect.studies.doctor.answers import Reading
from misdetect.studies.doctor.document import told
from misdetect.studies.doctor.readings import BOX_READINGS, SCORE_READINGS
from misdetect.studies.doctor.search import Wiring

NAMES = ("cup", "bowl", "bed")
BOXES = np.array([[4.0, 20, 24, 30], [40, 6, 60, 14], [10, 36, 50, 44], [30, 20, 60, 26]])
IMAGES = 12
POOLED = 67 / 101
"""AP of all classes together where two thirds are found and nothing is wrong: the recalls 0, 0.01 … 0.66."""


class Swapped:
    """Says of pictures that it knows where cup and bowl are, y before x and several ``times`` over; of others nothing.
    The images that are ``broken`` it cannot look at."""

    names = NAMES

    def __init__(self, data, broken=(), times=1, sides=(1, 0, 3, 2)):
        self.known = {sample.image.tobytes(): sample.id for sample in data}
        self.broken, self.times, self.sides = broken, times, list(sides)

    def detect(self, images):
        found = []
        for image in images:
            name = self.known.get(image.tobytes())
            if name in self.broken:
                raise RuntimeError(f"cannot look at {name}")
            boxes = np.repeat(BOXES[:2, self.sides] if name else np.zeros((0, 4)), self.times, axis=0)
            found.append((boxes, np.full(len(boxes), 0.9), np.arange(len(boxes)) // self.times))
        return found


def pictures():
    """Pictures of noise with a cup, a bowl and a bed; the first also with a crowd."""
    pairs = []
    for i in range(IMAGES):
        crowd = i == 0
        image = np.random.default_rng(i).integers(0, 256, (64, 64, 3)).astype(np.uint8)
        truth = Truth(BOXES[: 3 + crowd], [0, 1, 2, 2][: 3 + crowd], crowd=np.arange(3 + crowd) == 3)
        pairs.append((image, truth))
    return from_pairs(pairs, NAMES)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    data = pictures()
    return md.doctor(Swapped(data), data, images=IMAGES, cache=False, out=tmp_path_factory.mktemp("doctor") / "run")


def test_the_finding_has_what_it_costs(run):
    """Of three classes two are found: their mean AP is two thirds, and every draw of images says the same."""
    document = run.document
    (found,) = document["findings"]
    assert found["kind"] == "boxes"
    assert found["fix"].startswith("boxes = boxes[:, [1, 0, 3, 2]]")
    assert (found["before"], found["ap_before"]) == (0, 0)
    assert (found["after"], found["ap_after"]) == (pytest.approx(POOLED), pytest.approx(2 / 3))
    assert found["interval"] == pytest.approx([POOLED, POOLED])
    assert (document["images"], document["objects"], document["before"]) == (IMAGES, 3 * IMAGES, 0)
    choosing = document["settings"]["choosing_images"]
    assert 0 < choosing < IMAGES
    assert document["reference"] is None


def test_every_way_of_asking_is_told_with_its_fit_the_best_first(run):
    document = run.document
    first, *others = document["tried"]
    assert (first["change"], first["kind"]) == (document["findings"][0]["change"], "reading")
    assert (first["before"], first["after"]) == (0, pytest.approx(POOLED))
    assert len(others) >= len(document["settings"]["changes"]) > 5, "each alone"
    assert {each["after"] for each in others if each["kind"] != "reading"} == {0}, "of other pictures it says nothing"
    assert all(each["change"] != "as it is" for each in others)


def test_the_ledger_has_what_was_said_of_the_pictures_as_they_are(run):
    rows = run.ledger().to_pylist()
    assert len(rows) == 2 * IMAGES
    assert {(row["label"], row["x0"], row["y0"], row["outcome"], row["harm"]) for row in rows} == {
        ("cup", 20, 4, None, "unknown"), ("bowl", 6, 40, None, "unknown")
    }  # fmt: skip


def test_a_gain_within_the_margin_is_no_finding():
    data = pictures()
    found = md.doctor(Swapped(data), data, images=IMAGES, cache=False, margin=POOLED + 0.001).document["findings"]
    assert "boxes" not in {each["kind"] for each in found}


@pytest.mark.heavy
def test_an_image_that_fails_is_left_out_and_one_that_always_fails_is_said():
    data = pictures()
    names = [sample.id for sample in data]
    found = md.doctor(Swapped(data, names[:1]), data, images=IMAGES, cache=False).document
    assert [each["kind"] for each in found["findings"]] == ["boxes"]
    none = md.doctor(Swapped(data, names), data, images=IMAGES, cache=False)
    (only,) = none.document["findings"]
    first = none.rows().to_pylist()[0]["image"]
    assert re.match(rf"the detector fails on every image: .*cannot look at {first}\b", only["change"])


def test_each_kind_of_reading_is_told_by_its_own_words():
    own = SimpleNamespace(change="labels count from one", code="labels -= 1")
    evidence = SimpleNamespace(label_readings={"one": own})
    boxes, scores = next(iter(BOX_READINGS)), next(iter(SCORE_READINGS))
    wiring = Wiring(reading=Reading(boxes=boxes, labels="one", scores=scores, nms=True))
    assert told(evidence, wiring, "labels", None) == ("labels", own.change, own.code)
    for name, reading in (("boxes", BOX_READINGS[boxes]), ("scores", SCORE_READINGS[scores])):
        assert told(evidence, wiring, name, None) == (name, reading.change, reading.code)
    assert told(evidence, wiring, "nms", None)[0] == "suppression"
    change = SimpleNamespace(kind="channels", change="BGR", code="", fix="colour=rgb")
    assert told(evidence, wiring, "labels", change) == ("channels", "BGR", "colour=rgb")


def test_where_no_change_helps_its_ap_is_told_and_what_else_is_odd():
    data = pictures()
    document = md.doctor(Swapped(data, sides=range(4)), data, images=IMAGES, cache=False).document
    (odd,) = document["findings"]
    assert (odd["kind"], odd["after"]) == ("constant", None), "all pictures have the same boxes here"
    assert odd["before"] == document["before"] == pytest.approx(POOLED)
    first = document["tried"][0]
    assert (first["change"], first["kind"]) == ("as it is", "none")
    assert first["before"] == first["after"] == pytest.approx(POOLED)


@pytest.mark.heavy
@pytest.mark.parametrize(("margin", "kinds"), [(0.05, ["boxes", "suppression"]), (0.2, ["boxes"])])
def test_the_largest_gain_comes_first_and_suppression_must_gain_three_times_the_margin(margin, kinds):
    """Each object three times, all as sure: of the first n detections a third is right, so that nearly two thirds of
    the AP are lost."""
    data = pictures()
    found = md.doctor(Swapped(data, times=3), data, images=IMAGES, cache=False, margin=margin).document["findings"]
    assert [each["kind"] for each in found] == kinds
    gains = [each["after"] - each["before"] for each in found]
    assert gains[0] == pytest.approx(POOLED)
    assert all(0.2 < gain < 0.6 for gain in gains[1:])
