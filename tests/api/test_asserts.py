"""Assertions about detectors: planted faults fail with their number, cases and run; sound detectors pass; what cannot
be judged does neither."""

import re
from pathlib import Path

import numpy as np
import pytest

import misdetect as md
from misdetect.compose.paste import Paste
from misdetect.detectors.glassbox.detector import GlassBox
from misdetect.nouns.detections import Detections
from misdetect.said.errors import BadGate, MisdetectError

ROOMS, BIKES = "rooms:val,size=96,count=6", "bikes:val,count=4"


def glass(fault, data=ROOMS):
    return f"glassbox:{fault},data={data}"


def said(call, *given, **settings):
    with pytest.raises(AssertionError) as failure:
        call(*given, **settings)
    return str(failure.value)


@pytest.fixture(scope="module")
def shaky(tmp_path_factory):
    """A campaign against a detector that loses what is near an inserted object."""
    out = tmp_path_factory.mktemp("shaky") / "run"
    return md.fuzz(glass("vanish-near/distance=30"), ROOMS, queries=60, out=out)


def test_what_vanishes_beside_an_object_is_not_stable(shaky):
    again = {"queries": 60, "out": shaky.path}
    message = said(md.assert_stable, glass("vanish-near/distance=30"), ROOMS, **again)
    document = shaky.document
    value, (low, high) = document["harmful_per_1000"], document["intervals"]["harmful_per_1000"]
    head, sentence, *rest, last = message.splitlines()
    assert head.startswith("glassbox:vanish-near/distance=30,data=rooms:val,size=96,count=6 on rooms:val")
    assert f"harmful_per_1000 is {value:.6g} ({low:.6g} to {high:.6g}), and at most 0 is allowed." in head
    assert sentence.strip() == shaky.sentences[0]
    assert str(shaky.path) in last
    cases = [line for line in rest if line.strip().startswith("insertion/")]
    assert len(cases) == 5
    changes = 'SELECT "case", unnest(changes) AS change FROM rows'
    harmed = shaky.query(f"SELECT DISTINCT \"case\" FROM ({changes}) WHERE change.harm = 'harmful'")
    known = harmed["case"].to_pylist()
    for line in cases:
        found = re.fullmatch(r"  (insertion/\d+): missed (.+) on (.+), (\S+) -> 0.00", line)
        assert found[1] in known
        assert found[4] != "0.00"


@pytest.mark.heavy
def test_the_limit_decides_and_the_interval_or_the_number(shaky):
    value, (low, _) = shaky.document["harmful_per_1000"], shaky.document["intervals"]["harmful_per_1000"]
    assert low < value
    given, again = (glass("vanish-near/distance=30"), ROOMS), {"queries": 60, "out": shaky.path}
    said(md.assert_stable, *given, most=low - 1e-6, **again)
    md.assert_stable(*given, most=low + 1e-6, **again)
    said(md.assert_stable, *given, most=low + 1e-6, certain=False, **again)
    said(md.assert_stable, *given, most=value - 1e-6, certain=False, **again)
    md.assert_stable(*given, most=value + 1e-6, certain=False, **again)


def test_a_sound_detector_is_stable_and_leaves_nothing_behind():
    run = md.assert_stable(glass("none"), ROOMS, queries=40)
    assert run.document["insertions"] > 0
    path = run.path
    assert path.is_dir()
    del run
    assert not path.exists()


def test_by_scan():
    how = {"by": "scan", "pairs": 2, "step": 32}
    assert md.assert_stable(glass("none"), ROOMS, **how).study == "scan"
    message = said(md.assert_stable, glass("vanish-near/distance=60"), ROOMS, **how)
    assert "is not stable: harm.difference is" in message
    assert ": missed " in message
    path = Path(re.search(r"The run is in (\S+);", message)[1])
    assert md.open(path).document["harm"]["difference"] > 0, "the run of a failure stays"


def test_data_without_annotations_counts_all_that_is_changed():
    """What an inserted object does to the others is seen without a truth; what is inserted comes from elsewhere."""
    annotated = md.load_data(ROOMS)
    bare = [(annotated[i].image, {"boxes": np.zeros((0, 4)), "labels": []}) for i in range(4)]
    detector = glass("vanish-near/distance=30")
    message = said(md.assert_stable, detector, bare, queries=60, pool=ROOMS)
    assert "attributable_per_1000 is" in message


def test_missing_parts_that_are_reported_are_hallucinations():
    message = said(md.assert_no_hallucination, glass("hallucinate/rate=.5", BIKES), BIKES, most=0.1)
    assert "hallucinates: with_localisation.missing_recall is 0." in message
    assert ": extra " in message
    assert md.assert_no_hallucination(glass("none", BIKES), BIKES).study == "verify"
    rate = md.verify(glass("hallucinate/rate=.5", BIKES), BIKES).document["with_localisation"]
    low = rate["intervals"]["missing_recall"][0]
    assert low < rate["missing_recall"]
    md.assert_no_hallucination(glass("hallucinate/rate=.5", BIKES), BIKES, most=low + 1e-6)
    said(md.assert_no_hallucination, glass("hallucinate/rate=.5", BIKES), BIKES, most=low + 1e-6, certain=False)


class Haunted(GlassBox):
    """Sees a ghost in the corner of every picture that an object, not mere texture, was put into."""

    def detect_pictures(self, pictures, images=None):
        found = super().detect_pictures(pictures, images)
        return [
            self._and_ghost(each) if isinstance(picture, Paste) and picture.cutout.label else each
            for each, picture in zip(found, pictures, strict=True)
        ]

    def _and_ghost(self, seen):
        ghost = [[0.0, 0.0, 9.0, 9.0]]
        return Detections(np.vstack([seen.boxes, ghost]), np.append(seen.scores, 0.97), np.append(seen.labels, 0))


def test_without_states_what_inserted_objects_call_up_is_a_hallucination():
    how = {"queries": 60, "cache": False, "relocate": False, "shrink": False}
    message = said(md.assert_no_hallucination, Haunted(md.load_data(ROOMS)), ROOMS, **how)
    found = re.search(r"hallucinates: effects\[new hallucination\] is (\d+), and at most 0 is allowed", message)
    assert int(found[1]) > 1
    assert f": extra {md.load_data(ROOMS).names[0]} on rooms" in message
    md.assert_no_hallucination(Haunted(md.load_data(ROOMS)), ROOMS, most=int(found[1]), **how)
    assert md.assert_no_hallucination(glass("vanish-near"), ROOMS, **how).document["harm"]["harmful"] > 0


def test_the_score():
    run = md.assert_score(glass("none"), ROOMS, AP50=0.99, AR100=0.9)
    assert run.document["ap"]["AP50"] == pytest.approx(1)
    detector = glass("sink/class=chair")
    value = md.score(md.detect(detector, ROOMS), ROOMS).document["ap"]["AP50"]
    md.assert_score(detector, ROOMS, AP50=value - 1e-6)
    message = said(md.assert_score, detector, ROOMS, AP50=value + 1e-6, AP=0.01)
    assert f"scores too little: ap.AP50 is {value:.4g}, at least {value + 1e-6!r} is wanted." in message
    assert "ap.AP is" not in message
    assert "not found, 0 false detections" in message


def test_what_cannot_be_judged_neither_passes_nor_fails(tmp_path):
    with pytest.raises(BadGate, match=r"there is no ap.AP51; near it is"):
        md.assert_score(glass("none"), ROOMS, AP51=0.5)
    with pytest.raises(BadGate, match="was not measured"):
        md.assert_score(glass("none"), ROOMS, APl=0.5)
    with pytest.raises(MisdetectError):
        md.assert_stable("nonsense:x", ROOMS)
    with pytest.raises(MisdetectError):
        md.assert_stable(glass("none"), ROOMS, queries=1, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
