"""Workers that die, stop, hang or run out of budget: nothing is lost, nothing waits for ever, and it is said."""

from functools import partial
from types import SimpleNamespace

import pytest
from toys import ChainStudy, SumDetector, chain_rows
from worker_toys import DiesAlways, DiesOf, DiesOnce, Exits, HangsOnce, Rounds, StopsOnce, exits_at_once

from misdetect.engine import conversation, run_study, workers
from misdetect.engine.backend import Asking
from misdetect.kept.budget import Budget
from misdetect.said.errors import DetectorFailed

COUNT = 60


def go(folder, kind, study=None, *, count=2, budget=None, timeout=None):
    return run_study(
        ChainStudy(COUNT) if study is None else study,
        SumDetector(fingerprint="sum"),
        folder / "run",
        make_detector=partial(kind, str(folder)) if isinstance(kind, type) else kind,
        workers=count,
        asking=Asking(cached=False, budget=budget, timeout=timeout),
    )


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", [DiesOnce, StopsOnce, HangsOnce])
def test_a_worker_that_is_lost_is_replaced_and_its_cases_are_asked_again(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(conversation, "_SILENT", 3.0)
    outcome = go(tmp_path, kind, timeout=2.0 if kind is HangsOnce else None)
    assert (tmp_path / "mark").exists(), "one of them did misbehave"
    assert (outcome.done, outcome.failed) == (COUNT, 0)
    assert outcome.run.table().to_pylist() == chain_rows(COUNT)
    assert any("replaced" in note for note in outcome.notes)


def test_a_case_that_kills_its_workers_is_given_up_and_named(tmp_path):
    count = 30
    outcome = go(tmp_path, DiesOf, ChainStudy(count))
    doomed = {5, 22}  # which show the picture it dies of
    errors = outcome.run.errors().to_pylist()
    assert {each["case_index"] for each in errors} == doomed
    assert all("lost its worker" in each["error"] for each in errors)
    assert outcome.run.table().to_pylist() == [row for row in chain_rows(count) if row["case_index"] not in doomed]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("count", [2, 4])
def test_workers_that_keep_dying_end_the_run_with_a_sentence(tmp_path, count):
    with pytest.raises(DetectorFailed, match=r"keep ending|not one of"):
        go(tmp_path, DiesAlways, count=count)


@pytest.mark.heavy
def test_a_detector_that_exits_is_the_detectors_fault(tmp_path):
    study = Rounds(1)
    with pytest.raises(DetectorFailed, match="SystemExit"):
        run_study(study, Exits(str(tmp_path)), tmp_path / "run", asking=Asking(cached=False))
    with pytest.raises(DetectorFailed, match="SystemExit"):
        go(tmp_path, Exits, study)
    with pytest.raises(DetectorFailed, match="ended its process"):
        go(tmp_path, exits_at_once, study)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("count", "queries"),
    [
        pytest.param(c, q, marks=[] if (c, q) in {(1, 7), (2, 0), (4, 40)} else pytest.mark.heavy)
        for c in (1, 2, 4)
        for q in (0, 7, 40, 63)
    ],
)
def test_a_budget_that_ends_while_a_round_is_awaited_ends_the_run(tmp_path, count, queries):
    file = tmp_path / "budget"
    outcome = go(tmp_path, SumDetectorOf, Rounds(), count=count, budget=Budget(queries=queries, path=file))
    assert outcome.stopped == "budget"
    assert outcome.done <= queries
    assert Budget(path=file).spent["queries"] == queries
    whole = go(tmp_path, SumDetectorOf, Rounds(), count=count, budget=Budget(queries=1000, path=file))
    assert (whole.done, whole.stopped) == (200, None)
    assert Budget(path=file).spent["queries"] == 200, "nothing is asked twice"


def test_a_worker_whose_parent_is_gone_ends_without_a_word(monkeypatch):
    monkeypatch.setattr(workers.signal, "signal", lambda *_: None)

    def gone():
        raise EOFError

    line = SimpleNamespace(poll=lambda: True, send=lambda message: None, recv=gone)
    assert workers._work(line, ChainStudy(2), SumDetector, Asking(cached=False)) is None


class SumDetectorOf(SumDetector):
    def __init__(self, folder: str) -> None:
        super().__init__(fingerprint="sum", batch_size=3)


@pytest.mark.parametrize(
    ("queue", "held", "hungry", "share"),
    [
        (1000, 0, True, 64),  # plenty: as many as may be ahead
        (150, 0, True, 32),  # a fair share of 37, in whole batches of 8
        (150, 33, True, 0),  # it has enough
        (20, 9, True, 8),  # towards the end a batch, not a quarter of what is left
        (20, 16, True, 0),
        (6, 1, True, 3),  # the last ones are divided
        (20, 1, False, 5),  # its detector is busy: a case fills batches by itself
        (20, 6, False, 0),
        (0, 0, True, 0),
    ],
)
def test_shares_are_whole_batches_for_a_detector_that_waits(queue, held, hungry, share):
    parent = workers.Workers(2, SumDetector, Asking(cached=False))
    parent._queue.extend(range(queue))
    worker = SimpleNamespace(batch=8, hungry=hungry, held=dict.fromkeys(range(held)))
    assert parent._share(worker) == share
    worker.batch = 0
    assert parent._share(worker) == 0, "nothing before its detector is loaded"
