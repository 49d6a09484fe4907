"""The pump against what the cases would find one by one, and against detectors that misbehave."""

import re

import numpy as np
import pytest
from toys import ChainStudy, SumDetector, chain, chain_rows, picture, score_of

from misdetect.engine.cache import Cache
from misdetect.engine.pump import Pump
from misdetect.engine.requests import Case, Detect
from misdetect.kept.budget import Budget
from misdetect.nouns.detections import Detections
from misdetect.said.errors import BadImage


def flat(finished):
    rows = []
    for item in sorted(finished, key=lambda f: f.case.index):
        for i, row in enumerate(item.rows):
            rows.append({"case_index": item.case.index, "case": item.case.id, "row": i, **row})
    return rows


@pytest.mark.parametrize("batch_size", [1, 3, 8, 64])
def test_rows_are_those_of_one_case_at_a_time(batch_size):
    study = ChainStudy(60)
    pump = Pump(SumDetector(), study, batch_size=batch_size)
    finished = list(pump.run(study.cases()))
    assert flat(finished) == chain_rows(60)
    assert len(finished) == 60
    assert max(pump.detector.batches) <= batch_size


def test_batches_are_full_while_there_is_work():
    detector = SumDetector(batch_size=8)

    class Flat(ChainStudy):
        def run(self, case):
            yield Detect(picture(case.index))
            return []

    list(Pump(detector, Flat(80)).run(Flat(80).cases()))
    assert detector.batches == [8] * 10


def test_identical_questions_are_asked_once():
    detector = SumDetector()
    study = ChainStudy(200)
    pump = Pump(detector, study)
    list(pump.run(study.cases()))
    distinct = {seed for i in range(200) for seed in chain(i)}
    assert sum(detector.batches) == len(distinct) == pump.stats["queries"]
    assert pump.stats["shared"] == len(chain_rows(200)) - len(distinct)


def test_a_list_of_requests_is_answered_in_order():
    class Many(ChainStudy):
        def run(self, case):
            answers = yield [Detect(picture(case.index + k)) for k in range(5)]
            return [{"step": k, "score": float(a.scores[0])} for k, a in enumerate(answers)]

    study = Many(10)
    for item in Pump(SumDetector(), study).run(study.cases()):
        expected = [score_of(item.case.index + k) for k in range(5)]
        assert [row["score"] for row in item.rows] == expected


def test_the_cache_answers_a_second_run_and_other_detectors_do_not_share_it(tmp_path):
    study = ChainStudy(30)

    def ask(fingerprint):
        detector = SumDetector(fingerprint=fingerprint)
        pump = Pump(detector, study, cache=Cache(tmp_path / "c.sqlite"))
        rows = flat(pump.run(study.cases()))
        assert rows == chain_rows(30)
        return sum(detector.batches)

    first = ask("a")
    assert first > 0
    assert ask("a") == 0
    assert ask("b") == first
    assert ask(None) == first  # no fingerprint: never from the disk


def test_the_budget_is_never_exceeded_and_what_is_finished_is_right():
    study = ChainStudy(60)
    for queries in (0, 1, 7, 20):
        detector = SumDetector(batch_size=4)
        pump = Pump(detector, study, budget=Budget(queries=queries))
        finished = list(pump.run(study.cases()))
        assert sum(detector.batches) == queries
        assert pump.spent
        known = {(r["case_index"], r["row"]): r for r in chain_rows(60)}
        for row in flat(finished):
            assert known[row["case_index"], row["row"]] == row


class Broken(SumDetector):
    """Misbehaves on dark pictures only."""

    def __init__(self, misbehave):
        super().__init__()
        self.misbehave = misbehave

    def detect(self, images):
        return [
            self.misbehave(i) if i.mean() < 127.5 else d for i, d in zip(images, super().detect(images), strict=True)
        ]


def raise_error(image):
    raise RuntimeError("out of luck")


@pytest.mark.parametrize(
    ("misbehave", "sentence"),
    [
        (raise_error, "RuntimeError: out of luck"),
        (lambda image: None, "Expected detections as"),
        (lambda image: ([[0, 0, 4, np.nan]], [0.5], [0]), "finite boxes"),
        (lambda image: ([[0, 0, 4, 4]], [np.nan], [0]), "finite scores"),
        (lambda image: ([[0, 0, 4, 4]], [1.5], [0]), r"scores in \[0, 1\]"),
        (lambda image: ([[0, 0, 4, 4]], [0.5], [7]), "label 7"),
        (lambda image: ([[0, 0, 4, 4]], [0.5, 0.6], [0]), r"shape \[1\]"),
        (lambda image: ([[4, 4, 0, 0]], [0.5], [0]), "x0 <= x1"),
        (lambda image: ([[100, 100, 120, 120]], [0.5], [0]), "outside the 16x16 image"),
        (lambda image: ValueError("per image"), "per image"),
    ],
)
def test_a_misbehaving_detector_costs_only_the_cases_it_misbehaves_on(misbehave, sentence):
    study = ChainStudy(60)
    finished = list(Pump(Broken(misbehave), study).run(study.cases()))
    assert len(finished) == 60
    dark = {r["case_index"] for r in chain_rows(60) if r["score"] < 0.5}
    assert {f.case.index for f in finished if f.error} == dark
    assert dark
    assert all(re.search(sentence, f.error) for f in finished if f.error)
    good = [r for r in chain_rows(60) if r["case_index"] not in dark]
    assert flat(finished) == good


@pytest.mark.parametrize("answers", [[], None, {"boxes": []}])
def test_a_wrong_number_of_results_is_caught(answers):
    class Short(SumDetector):
        def detect(self, images):
            return answers

    study = ChainStudy(12)
    finished = list(Pump(Short(), study).run(study.cases()))
    assert {f.case.index for f in finished if f.error} == {r["case_index"] for r in chain_rows(12)}


def test_boxes_that_stick_out_are_cut_and_counted():
    class Wide(SumDetector):
        def detect(self, images):
            return [Detections([[-3, 2, 40, 9]], [0.5], [0]) for _ in images]

    class Look(ChainStudy):
        def run(self, case):
            found = yield Detect(picture(case.index))
            return [{"step": 0, "score": float(found.boxes[0, 2])}]

    pump = Pump(Wide(), Look(5))
    assert [r["score"] for r in flat(pump.run(Look(5).cases()))] == [16.0] * 5
    assert pump.stats["clipped"] == 5


def test_an_unreadable_picture_is_an_error_of_its_case_alone():
    class Torn:
        key = "torn"

        def render(self):
            raise BadImage("a.jpg is torn.")

    class Mixed(ChainStudy):
        def run(self, case):
            yield Detect(Torn() if case.index == 3 else picture(case.index))
            return []

    finished = list(Pump(SumDetector(), Mixed(8)).run(Mixed(8).cases()))
    assert {f.case.index: f.error for f in finished if f.error} == {3: "bad-image: a.jpg is torn."}


def test_a_case_may_handle_the_failure_itself():
    class Brave(ChainStudy):
        def run(self, case):
            try:
                yield Detect(picture(case.index))
            except Exception as error:
                return [{"step": -1, "score": float(len(str(error)) > 0)}]
            return []

    finished = list(Pump(Broken(raise_error), Brave(10)).run(Brave(10).cases()))
    assert not any(f.error for f in finished)
    assert any(f.rows for f in finished)


def test_programming_errors_of_a_study_are_not_hidden():
    class Buggy(ChainStudy):
        def run(self, case):
            yield Detect(picture(case.index))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        list(Pump(SumDetector(), Buggy(3)).run([Case(0, "a")]))
