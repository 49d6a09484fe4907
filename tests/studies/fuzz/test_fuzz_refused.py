"""What is refused leaves nothing behind, and takes nothing away that is another's."""

import threading

import pytest
from fuzz_toys import BlotDetector

import misdetect as md
from misdetect import engine
from misdetect.kept.budget import Budget
from misdetect.said.errors import NothingToTest, RunBusy, RunMismatch
from misdetect.studies.running import budget_file

ROOMS = "rooms:val,count=12"
SOME = {"strategy": "guided", "reach": 2, "queries": 40, "cache": False}


class Blind(BlotDetector):
    fingerprint = "blind"

    def detect(self, images):
        return [found[:0] for found in super().detect(images)]


class Held(BlotDetector):
    """Waits before it answers."""

    def __init__(self):
        self.asked, self.released = threading.Event(), threading.Event()

    def detect(self, images):
        self.asked.set()
        assert self.released.wait(60)
        return super().detect(images)


def listing(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("workers", [1, 2])
def test_what_only_the_run_can_tell_leaves_neither_a_run_nor_a_count(tmp_path, workers):
    with pytest.raises(NothingToTest, match="no detections of score 1"):
        md.fuzz(f"python:{__file__}:BlotDetector", ROOMS, out=tmp_path / "run", score=1.0, workers=workers, **SOME)
    with pytest.raises(NothingToTest, match=r"no detections of score 0\.5"):
        md.fuzz(Blind(), ROOMS, out=tmp_path / "run", **SOME)
    assert list(tmp_path.iterdir()) == []


def test_a_pool_that_suits_no_background_is_said_to_be_so(tmp_path):
    elsewhere = md.pool("rooms:train,count=40", min_side=0, keep=1.0)
    lonely = type(elsewhere)([cutout for cutout in elsewhere if cutout.label == "ball"], spec="balls")

    class Plants(BlotDetector):
        fingerprint = "plants"

        def detect(self, images):
            return [found[found.labels == 1] for found in super().detect(images)]

    with pytest.raises(NothingToTest, match="the pool balls has nothing for what is detected on 3 backgrounds"):
        md.fuzz(Plants(), ROOMS, out=tmp_path / "run", **{**SOME, "reach": 0}, pool=lonely)
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_was_there_before_stays(tmp_path):
    """It was begun without asking anything; that it can find nothing turns out in a later sitting."""
    some = {"out": tmp_path / "run", **SOME}
    md.fuzz(Blind(), ROOMS, minutes=0, **some)
    before = listing(tmp_path)
    with pytest.raises(NothingToTest):
        md.fuzz(Blind(), ROOMS, **some)
    assert before.keys() <= listing(tmp_path).keys()
    assert Budget(path=budget_file(tmp_path / "run")).spent["queries"] > 0


@pytest.mark.parametrize("other", [{"seed": 5}, {}], ids=["other settings", "the same"])
def test_a_run_that_another_began_in_the_meantime_is_not_touched(tmp_path, monkeypatch, other):
    """Nothing was there when this command looked; then the other one began, and this one was refused."""
    begin, out = engine.start_run, tmp_path / "run"
    held = []

    def late(study, detector, folder, **more):
        if not held:
            theirs = type(study)(study.bench.opened, study.bench.pool, detector.names, changed(study.how), 40)
            held.append(begin(theirs, detector, folder, **more))
            Budget(path=budget_file(out)).take(7)
            held.append(listing(tmp_path))
        return begin(study, detector, folder, **more)

    def changed(how):
        return type(how)(**{**vars(how), **other})

    monkeypatch.setattr(engine, "start_run", late)
    with pytest.raises(RunMismatch if other else RunBusy):
        md.fuzz(BlotDetector(), ROOMS, out=out, **SOME)
    assert listing(tmp_path) == held[1]
    held[0].close()


@pytest.mark.heavy
def test_a_running_campaign_survives_others_that_are_refused(tmp_path):
    detector, out, done = Held(), tmp_path / "run", []
    first = threading.Thread(target=lambda: done.append(md.fuzz(detector, ROOMS, out=out, **SOME)))
    first.start()
    assert detector.asked.wait(60)
    for other, why in (({"iou": 0.6}, RunMismatch), ({"seed": 3, "queries": 400}, RunMismatch), ({}, RunBusy)):
        with pytest.raises(why):
            md.fuzz(BlotDetector(), ROOMS, out=out, **{**SOME, **other})
    detector.released.set()
    first.join(60)
    (run,) = done
    assert run.document["finished"]
    assert run.document["cost"]["queries"] == run.outcome.stats["queries"]
    whole = md.fuzz(BlotDetector(), ROOMS, out=tmp_path / "whole", **SOME)
    assert whole.rows() == run.rows()


def test_refusals_before_the_run_leave_no_count(tmp_path):
    for wrong in ({"pool": "absent"}, {"segmenter": "glassbox:none,data=rooms:val"}, {"embedding": "python:absent:f"}):
        with pytest.raises(md.MisdetectError):
            md.fuzz(BlotDetector(), ROOMS, out=tmp_path / "run", **SOME, **wrong)
        assert list(tmp_path.iterdir()) == [], wrong
