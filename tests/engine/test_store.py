"""The run directory: what is written is what is read, whatever happens in between."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import pytest
from fresh import in_fresh_process
from toys import DATA, ChainStudy, SumDetector, chain_rows, picture

from misdetect.data.images import ImageCorrupt
from misdetect.engine import run_study
from misdetect.engine.backend import Asking
from misdetect.engine.cache import Cache
from misdetect.engine.pump import Pump
from misdetect.engine.requests import Detect
from misdetect.engine.store import Run
from misdetect.kept.budget import Budget
from misdetect.said.errors import BadData, BadImage, DetectorFailed, RunBusy, RunMismatch

HERE = Path(__file__).parent


def go(out, study=None, detector=None, *, budget=None, **options):
    study = study or ChainStudy()
    asking = Asking(cached=False, budget=budget)
    detector = detector or SumDetector()
    detector.fingerprint = "sum"  # those that fail or interrupt stand for the same one
    return run_study(study, detector, out, asking=asking, **options)


def test_rows_are_those_of_one_case_at_a_time(tmp_path):
    outcome = go(tmp_path / "run", flush_seconds=0)
    assert outcome.run.table().to_pylist() == chain_rows(40)
    assert (outcome.cases, outcome.done, outcome.failed) == (40, 40, 0)
    assert len(list((tmp_path / "run" / "parts").iterdir())) > 1


def test_a_finished_run_asks_nothing_again(tmp_path):
    go(tmp_path / "run")
    detector = SumDetector()
    outcome = go(tmp_path / "run", detector=detector)
    assert detector.batches == []
    assert outcome.done == 40


def test_a_query_neither_changes_nor_hinders_the_next(tmp_path):
    run = go(tmp_path / "run").run
    before = run.table()
    run.query("CREATE OR REPLACE VIEW rows AS SELECT 1 AS one")
    assert run.table().equals(before)
    with pytest.raises(duckdb.Error):
        run.query("SELECT nothing FROM nowhere")
    batches = run.batches("SELECT * FROM rows", 2)
    next(batches)
    assert run.table().equals(before), "also in the middle of another one"
    del batches
    assert run.table().equals(before)


def test_cases_without_rows_are_done_too(tmp_path):
    run = go(tmp_path / "run").run
    assert run.done() == set(range(40))
    assert {r["case_index"] for r in chain_rows(40)} != set(range(40))


def test_another_run_is_refused_with_what_differs(tmp_path):
    go(tmp_path / "run")
    with pytest.raises(RunMismatch, match=r"settings\.count was 40, now 41"):
        go(tmp_path / "run", ChainStudy(41))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "precious.txt").write_text("mine")
    with pytest.raises(RunMismatch, match="not a run directory"):
        go(tmp_path / "other")
    with pytest.raises(BadData, match=r"no run\.json"):
        Run.open(tmp_path / "nowhere")


def test_two_writers_at_once_are_refused(tmp_path):
    study = ChainStudy()
    go(tmp_path / "run", study)
    first = Run.start(tmp_path / "run", Run.open(tmp_path / "run").about["identity"], study.schema)
    with pytest.raises(RunBusy):
        go(tmp_path / "run", study)
    first.close()
    go(tmp_path / "run", study)


def test_failed_cases_are_kept_apart(tmp_path):
    class Touchy(SumDetector):
        def detect(self, images):
            if any(image.mean() < 127.5 for image in images):
                raise ValueError("too dark")
            return super().detect(images)

    outcome = go(tmp_path / "run", detector=Touchy())
    errors = outcome.run.errors().to_pylist()
    dark = sorted({r["case_index"] for r in chain_rows(40) if r["score"] < 0.5})
    assert [e["case_index"] for e in errors] == dark
    assert outcome.failed == len(dark)
    assert all("too dark" in e["error"] for e in errors)
    assert outcome.run.table().to_pylist() == [r for r in chain_rows(40) if r["case_index"] not in dark]


def test_only_a_run_in_which_nothing_worked_fails(tmp_path):
    class Dead(SumDetector):
        def detect(self, images):
            raise OSError("unplugged")

    class Asking(ChainStudy):
        def cases(self):
            return (case for case in super().cases() if case.index % 6)

    with pytest.raises(DetectorFailed, match="unplugged"):
        go(tmp_path / "run", Asking(), Dead())


def test_where_every_image_is_unreadable_the_data_is_at_fault(tmp_path):
    class Torn:
        key = "torn"

        def render(self):
            raise ImageCorrupt("a.jpg is torn.")

    class Blind(ChainStudy):
        def run(self, case):
            yield Detect(Torn())
            return []

    with pytest.raises(BadImage, match="torn"):
        go(tmp_path / "run", Blind())


def interrupted_and_resumed(folder):
    """Two batches are under way when the interruption strikes; then a second sitting. Was the first interrupted, and
    what did it, and what did both, ask?"""

    class Endless(ChainStudy):
        def run(self, case):
            yield Detect(picture(case.index))
            return []

    study, asked = Endless(8), []

    class Slow(SumDetector):
        def detect(self, images):
            asked.extend(float(image.mean()) for image in images)
            if len(asked) == 2:
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.3)
            return super().detect(images)

    def sitting():
        cache = Cache(folder / "cache.sqlite")
        return list(Pump(Slow(fingerprint="slow", batch_size=2), study, cache=cache).run(study.cases()))

    interrupted = False
    try:
        sitting()
    except KeyboardInterrupt:
        interrupted = True
    before = list(asked)
    sitting()
    return interrupted, before, asked


@pytest.mark.heavy
def test_answers_that_come_after_an_interruption_are_not_paid_for_twice(tmp_path):
    """In a process of its own: a signal that strikes elsewhere than it should ends a worker of the tests."""
    interrupted, before, asked = in_fresh_process(interrupted_and_resumed, tmp_path)
    assert interrupted
    assert before
    assert len(asked) == len(set(asked)) == 8


def test_a_spent_budget_stops_cleanly_and_a_larger_one_goes_on(tmp_path):
    file = tmp_path / "budget"
    outcome = go(tmp_path / "run", budget=Budget(queries=9, path=file))
    assert outcome.stopped == "budget"
    assert outcome.done < 40
    outcome = go(tmp_path / "run", budget=Budget(queries=10_000, path=file))
    assert outcome.stopped is None
    assert outcome.run.table().to_pylist() == chain_rows(40)


class Interrupting(SumDetector):
    calls = 0

    def detect(self, images):
        self.calls += 1
        if self.calls == 6:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.2)
        return super().detect(images)


def interrupted_midway(out):
    """Whether an interruption ends a run into ``out``."""
    try:
        go(out, detector=Interrupting())
    except KeyboardInterrupt:
        return True
    return False


@pytest.mark.heavy
def test_an_exception_midway_leaves_what_was_finished(tmp_path):
    assert in_fresh_process(interrupted_midway, tmp_path / "run")
    kept = Run.open(tmp_path / "run").done()
    assert 0 < len(kept) < 40
    assert go(tmp_path / "run").run.table().to_pylist() == chain_rows(40)


def test_two_workers_give_the_same_rows(tmp_path):
    one = go(tmp_path / "one", ChainStudy(150))
    two = go(tmp_path / "two", ChainStudy(150), make_detector=SumDetector, workers=2)
    assert two.run.table().equals(one.run.table())
    assert two.stats["queries"] >= one.stats["queries"]


def test_a_worker_that_cannot_build_its_detector_says_why(tmp_path):
    with pytest.raises(DetectorFailed, match="no such weights"):
        go(tmp_path / "run", make_detector=fail_to_build, workers=2)


def fail_to_build():
    raise DetectorFailed("no such weights")


SCRIPT = """
import sys; sys.path.insert(0, {here!r})
from toys import ChainStudy, make_slow
from misdetect.engine import run_study
from misdetect.engine.backend import Asking
if __name__ == "__main__":
    run_study(ChainStudy(120), make_slow(), {out!r}, asking=Asking(cached=False), flush_seconds=0.02,
              make_detector=make_slow, workers={workers})
"""


@pytest.mark.unix
@pytest.mark.heavy
@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.heavy)])
def test_killed_at_any_moment_the_same_command_ends_with_the_same_rows(tmp_path, workers):
    """``kill -9`` at random points, again and again, until a sitting gets through."""
    out = tmp_path / "run"
    script = tmp_path / "go.py"
    script.write_text(SCRIPT.format(here=str(HERE), out=str(out), workers=workers))
    chance = random.Random(workers)
    kills, progress = 0, []
    while True:
        process = subprocess.Popen([sys.executable, str(script)], start_new_session=True)
        while process.poll() is None and not (out / "run.json").exists():
            time.sleep(0.005)  # the first strike waits for the run to begin, however quick the machine is
        try:
            process.wait(timeout=chance.uniform(0, 0.1) + 0.1 * 1.5**kills)  # soon enough, however slow the machine
            assert process.returncode == 0
            break
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            kills += 1
        if (out / "run.json").exists():
            progress.append(len(Run.open(out).done()))
    assert kills > 0
    assert progress == sorted(progress), "finished cases are never lost"
    run = Run.open(out)
    assert run.table().to_pylist() == chain_rows(120)
    assert sorted(run.done()) == list(range(120))


def test_run_json_says_what_was_run(tmp_path):
    run = go(tmp_path / "run").run
    about = json.loads((run.path / "run.json").read_text())
    assert about["identity"] == {
        "study": "chain",
        "settings": {"count": 40},
        "detector": {"spec": None, "fingerprint": "sum", "names": ["thing"]},
        "data": {
            "spec": "memory:",
            "fingerprint": DATA.fingerprint,
            "names": ["thing"],
            "images": 1,
            "limit": None,
            "part": None,
        },
    }
    assert (about["cases"], about["format"]) == (40, 3)
    assert {"command", "versions", "id", "detector_settings"} <= set(about)
    assert run.finished


class Other(SumDetector):
    """Says something else."""

    def detect(self, images):
        return [found[:0] for found in super().detect(images)]


def test_another_detector_into_the_same_folder_is_refused_whoever_calls(tmp_path):
    run_study(ChainStudy(6), SumDetector(), tmp_path / "run", asking=Asking(cached=False))
    with pytest.raises(RunMismatch, match="detector"):
        run_study(ChainStudy(6), Other(), tmp_path / "run", asking=Asking(cached=False))
    with pytest.raises(RunMismatch, match="detector"):
        run_study(ChainStudy(6), SumDetector(delay=0.001), tmp_path / "run", asking=Asking(cached=False))
    run_study(ChainStudy(6), SumDetector(), tmp_path / "run", asking=Asking(cached=False))


def test_the_same_object_is_the_same_detector_whatever_it_counts(tmp_path):
    detector = SumDetector()
    run_study(ChainStudy(6), detector, tmp_path / "run", asking=Asking(cached=False))
    assert detector.batches
    run_study(ChainStudy(6), detector, tmp_path / "run", asking=Asking(cached=False))


def test_what_cannot_be_hashed_is_known_only_as_the_object_that_it_is(tmp_path):
    one, two = SumDetector(), SumDetector()
    one.session = two.session = object()
    run_study(ChainStudy(6), one, tmp_path / "run", asking=Asking(cached=False))
    run_study(ChainStudy(6), one, tmp_path / "run", asking=Asking(cached=False))
    with pytest.raises(RunMismatch, match="this object only"):
        run_study(ChainStudy(6), two, tmp_path / "run", asking=Asking(cached=False))


def test_failed_cases_can_be_asked_again(tmp_path):
    class Moody(SumDetector):
        broken = True

        def detect(self, images):
            if self.broken and any(image.mean() < 127.5 for image in images):
                raise ValueError("too dark")
            return super().detect(images)

    detector = Moody()
    first = go(tmp_path / "run", detector=detector)
    assert first.failed > 0
    assert first.run.finished
    assert go(tmp_path / "run", detector=detector).failed == first.failed, "without being told it asks nothing again"
    again = go(tmp_path / "run", detector=detector, retry_failed=True)
    assert again.failed == first.failed
    assert again.run.errors().num_rows == first.failed
    detector.broken = False
    mended = go(tmp_path / "run", detector=detector, retry_failed=True)
    assert (mended.failed, mended.done, mended.run.errors().num_rows) == (0, 40, 0)
    assert mended.run.table().to_pylist() == chain_rows(40)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "left",
    [
        [],
        [".lock"],
        [".run.json.writing"],
        ["parts"],
        [".lock", "parts"],
        ["parts", "parts/.part-000001-0.parquet.writing"],
    ],
)
def test_a_run_that_was_killed_while_it_was_made_can_be_made(tmp_path, left):
    (tmp_path / "run").mkdir()
    for name in left:
        (tmp_path / "run" / name).mkdir() if name == "parts" else (tmp_path / "run" / name).write_text("x")
    assert go(tmp_path / "run").run.table().to_pylist() == chain_rows(40)
