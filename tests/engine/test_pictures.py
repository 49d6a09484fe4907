"""Detectors that offer ``detect_pictures`` or ``trace_pictures`` are told what was edited; all others see pixels."""

import numpy as np
import pytest
from toys import ChainStudy, SumDetector, chain_rows, picture, score_of

from misdetect.engine.pump import Pump
from misdetect.engine.requests import Detect, Trace
from misdetect.nouns.candidates import Candidates, Dropped, Pairs
from misdetect.nouns.detections import Detections


def nothing() -> Candidates:
    none = np.zeros(0, dtype=np.int64)
    boxes = np.zeros((0, 4))
    pairs = Pairs(none, none), Dropped(none, none, none, none)
    return Candidates(boxes, boxes, np.zeros((0, 1)), np.zeros(0), none, *pairs)


class Described(SumDetector):
    """Answers by the description; notes whether the pixels it was given with it are those of the picture."""

    def __init__(self, **how):
        super().__init__(**how)
        self.agree: list[bool] = []

    def detect(self, images):
        raise AssertionError("the description was not given")

    def detect_pictures(self, pictures, images):
        self.agree += [np.array_equal(p.render(), i) for p, i in zip(pictures, images, strict=True)]
        return super().detect([p.render() for p in pictures])

    def trace_pictures(self, pictures, images):
        self.agree += [np.array_equal(p.render(), i) for p, i in zip(pictures, images, strict=True)]
        return [nothing() for _ in pictures]


@pytest.mark.parametrize("batch_size", [1, 5])
def test_descriptions_and_pixels_arrive_in_the_same_order(batch_size):
    study, detector = ChainStudy(40), Described()
    finished = sorted(Pump(detector, study, batch_size=batch_size).run(study.cases()), key=lambda f: f.case.index)
    rows = [row["score"] for item in finished for row in item.rows]
    assert rows == [row["score"] for row in chain_rows(40)]
    assert detector.agree
    assert all(detector.agree)


def test_a_trace_is_described_too():
    class Traces(ChainStudy):
        def run(self, case):
            found = yield Trace(picture(case.index))
            return [{"step": len(found), "score": 0.0}]

    detector = Described()
    finished = list(Pump(detector, Traces(6)).run(Traces(6).cases()))
    assert [item.rows for item in finished] == [[{"step": 0, "score": 0.0}]] * 6
    assert detector.agree == [True] * 6


def test_the_picture_that_fails_is_found_and_the_others_keep_their_own_answers():
    bad = picture(3).key

    class Picky(Described):
        def detect_pictures(self, pictures, images):
            if any(p.key == bad for p in pictures):
                raise ValueError("not this one")
            return super().detect_pictures(pictures, images)

    class Flat(ChainStudy):
        def run(self, case):
            found = yield Detect(picture(case.index))
            return [{"step": 0, "score": float(found.scores[0])}]

    finished = {item.case.index: item for item in Pump(Picky(), Flat(8), batch_size=4).run(Flat(8).cases())}
    assert [i for i, item in finished.items() if item.error] == [3]
    assert "not this one" in finished[3].error
    for i in {*range(8)} - {3}:
        assert finished[i].rows[0]["score"] == score_of(i)


def test_what_a_described_detector_returns_is_checked_against_the_drawn_image():
    class Outside(Described):
        def detect_pictures(self, pictures, images):
            return [Detections([[90, 90, 99, 99]], [0.5], [0]) for _ in pictures]

    class Once(ChainStudy):
        def run(self, case):
            yield Detect(picture(case.index))
            return []

    (item,) = Pump(Outside(), Once(1)).run(Once(1).cases())
    assert "outside the 16x16 image" in item.error
