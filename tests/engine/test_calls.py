"""How many images the engine hands over in one call: as many as the detector divides itself, but no hoard of pixels."""

import numpy as np
from toys import ChainStudy, SumDetector, chain_rows, picture, score_of

from misdetect.engine import pump as pump_module
from misdetect.engine.pump import Pump
from misdetect.engine.requests import Detect, Trace
from misdetect.nouns.picture import Raw


class Dividing(SumDetector):
    """Takes one image at a time and divides a longer call itself; its inside is looked at one image at a time."""

    def __init__(self, images_per_call=6, batch_size=2):
        super().__init__(batch_size=batch_size)
        self.images_per_call, self.looks = images_per_call, []

    def trace(self, images):
        self.looks.append(len(images))
        return ["no candidates"] * len(images)


class Flat(ChainStudy):
    def run(self, case):
        found = yield Detect(self.picture(case.index))
        return [{"step": case.index, "score": float(found.scores[0])}]

    def picture(self, index):
        return picture(index)


def test_a_detector_that_divides_calls_gets_more_at_once_and_finds_the_same():
    detector, study = Dividing(), Flat(60)
    one_by_one = {i: score_of(i) for i in range(60)}
    found = {item.case.index: item.rows[0]["score"] for item in Pump(detector, study).run(study.cases())}
    assert found == one_by_one
    assert detector.batches == [6] * 10
    chained = ChainStudy(60)
    finished = sorted(Pump(Dividing(), chained).run(chained.cases()), key=lambda item: item.case.index)
    assert [row["score"] for item in finished for row in item.rows] == [row["score"] for row in chain_rows(60)]


def test_who_states_a_batch_gets_that_batch():
    detector, study = Dividing(), Flat(40)
    list(Pump(detector, study, batch_size=4).run(study.cases()))
    assert detector.batches == [4] * 10


def test_insides_are_asked_for_by_the_detectors_own_batch():
    class Looking(Flat):
        def run(self, case):
            yield Trace(self.picture(case.index))
            return []

    detector, study = Dividing(), Looking(20)
    list(Pump(detector, study).run(study.cases()))
    assert set(detector.looks) <= {1, 2}, "a failed batch is asked again one by one, never in larger ones"


def test_large_pictures_are_not_hoarded(monkeypatch):
    """Calls end with the picture that exceeds the limit, but never below the detector's batch; none is lost."""
    monkeypatch.setattr(pump_module, "_CALL_BYTES", 3 * 30 * 30 * 3)
    sizes = [30, 30, 5, 60, 60, 30] * 5

    class Mixed(Flat):
        def picture(self, index):
            return Raw(np.full((sizes[index], sizes[index], 3), index, dtype=np.uint8))

    class Weighing(Dividing):
        calls: list

        def detect(self, images):
            self.calls.append([image.nbytes for image in images])
            return super().detect(images)

    detector, study = Weighing(images_per_call=6, batch_size=1), Mixed(30)
    detector.calls = []
    found = {item.case.index: item.rows[0]["score"] for item in Pump(detector, study).run(study.cases())}
    assert found == {i: round(i / 255, 4) for i in range(30)}
    assert sum(map(len, detector.calls)) == 30, "no picture is asked twice"
    assert all(sum(call[:-1]) <= 3 * 30 * 30 * 3 for call in detector.calls)
    assert max(map(len, detector.calls)) > 1
