"""A Ray cluster of two nodes: the rows are those of one process, whatever is lost on the way."""

import signal
import subprocess
import sys
from functools import partial

import pytest
from toys import ChainStudy, SumDetector, chain_rows, score_of
from worker_toys import Counted, DiesOf, DiesOnce, HangsOnce, Rounds, Slow, StopsOnce, counted

from misdetect.engine import conversation, run_study
from misdetect.engine.backend import Asking, Cluster
from misdetect.engine.cluster import RayWorkers, connect
from misdetect.kept.budget import Budget
from misdetect.said.errors import BadCluster

ray = pytest.importorskip("ray", reason="Ray is not installed (pip install '.[ray]')")

from clusters import ray_processes, two_nodes, until  # noqa: E402 - what it sets is for Ray

pytestmark = pytest.mark.heavy
COUNT = 60


@pytest.fixture(scope="module")
def nodes():
    with two_nodes() as cluster:
        yield cluster
    assert until(lambda: not ray_processes()), "Ray's processes are gone afterwards"


def go(nodes, folder, kind=SumDetector, study=None, *, count=2, budget=None, timeout=None):
    return run_study(
        ChainStudy(COUNT) if study is None else study,
        SumDetector(fingerprint="sum"),
        folder / "run",
        make_detector=kind if kind is SumDetector else partial(kind, str(folder)),
        workers=count,
        cluster=Cluster(nodes.address),
        asking=Asking(cached=False, budget=budget, timeout=timeout),
    )


def test_rows_are_those_of_one_process(nodes, tmp_path):
    outcome = go(nodes, tmp_path, count=None)
    assert outcome.run.table().to_pylist() == chain_rows(COUNT)
    assert (outcome.failed, outcome.notes) == (0, ())
    whole = go(nodes, tmp_path, count=None)
    assert (whole.done, whole.stats["queries"]) == (COUNT, 0), "nothing is done twice"


@pytest.mark.parametrize("kind", [DiesOnce, HangsOnce, StopsOnce])
def test_an_actor_that_is_lost_is_replaced_and_its_cases_are_asked_again(nodes, tmp_path, monkeypatch, kind):
    monkeypatch.setattr(conversation, "_SILENT", 8.0)
    budget = Budget(queries=1000, path=tmp_path / "budget")
    outcome = go(nodes, tmp_path, kind, budget=budget, timeout=2.0 if kind is HangsOnce else None)
    assert (tmp_path / "mark").exists(), "one of them did misbehave"
    assert outcome.run.table().to_pylist() == chain_rows(COUNT)
    assert any("replaced" in note for note in outcome.notes)


def test_a_case_that_kills_its_workers_is_given_up_and_named(nodes, tmp_path):
    outcome = go(nodes, tmp_path, DiesOf, ChainStudy(6))
    (error,) = outcome.run.errors().to_pylist()
    assert error["case_index"] == 5
    assert "lost its worker" in error["error"]


@pytest.mark.parametrize("queries", [0, 7, 40])
def test_the_parent_counts_the_budget_to_the_last_query(nodes, tmp_path, queries):
    file = tmp_path / "budget"
    outcome = go(nodes, tmp_path, Counted, Rounds(), budget=Budget(queries=queries, path=file))
    assert (outcome.stopped, Budget(path=file).spent["queries"], counted(tmp_path)) == ("budget", queries, queries)
    whole = go(nodes, tmp_path, Counted, Rounds(), budget=Budget(queries=1000, path=file))
    assert (whole.done, whole.stopped) == (200, None)
    assert counted(tmp_path) == Budget(path=file).spent["queries"] == 200, "nothing is asked twice"


def test_a_lost_object_is_put_again(nodes, tmp_path, monkeypatch):
    put, freed = RayWorkers._put, []

    class Owner:
        def own(self, values):
            import ray

            return [ray.put(value) for value in values]

    def put_and_lose(self, study):
        objects = put(self, study)
        if not freed:
            owner = ray.remote(num_cpus=0)(Owner).remote()
            objects = ray.get(owner.own.remote([ray.get(each) for each in objects]))
            ray.kill(owner)  # what it owned goes with it
            freed.extend(objects)
        return objects

    monkeypatch.setattr(RayWorkers, "_put", put_and_lose)
    outcome = go(nodes, tmp_path)
    assert freed
    assert outcome.run.table().to_pylist() == chain_rows(COUNT)


PARENT = """
import sys
sys.path[:0] = {path!r}
from functools import partial
from pathlib import Path
from toys import SumDetector
from worker_toys import Rounds, Slow
from misdetect.kept.budget import Budget
from misdetect.engine import run_study
from misdetect.engine.backend import Asking, Cluster
folder = Path({folder!r})
run_study(
    Rounds(6), SumDetector(fingerprint="sum"), folder / "run", make_detector=partial(Slow, str(folder)), workers=2,
    cluster=Cluster({address!r}), asking=Asking(cached=False, budget=Budget(queries=1000, path=folder / "budget")),
    flush_seconds=0.1,
)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_parent_that_is_killed_leaves_no_actor_and_goes_on(nodes, tmp_path, number):
    code = PARENT.format(path=sys.path, folder=str(tmp_path), address=nodes.address)
    parent = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
    assert until(lambda: counted(tmp_path) > 20), "it has begun"
    parent.send_signal(number)
    parent.wait(60)
    connect(nodes.address)
    assert until(lambda: ray.available_resources().get("CPU") == 2), "the actors are gone"
    before = counted(tmp_path)
    outcome = go(nodes, tmp_path, Slow, Rounds(6), budget=Budget(queries=1000, path=tmp_path / "budget"))
    rows = [{"case_index": i, "case": str(i), "row": 0, "score": score_of(i)} for i in range(60)]
    assert outcome.run.table().to_pylist() == rows
    spent, asked = Budget(path=tmp_path / "budget").spent["queries"], counted(tmp_path)
    assert before < asked <= spent, "what is asked is counted first"
    assert asked <= 60 + 2 * 2 * 2, "twice only what was on its way to two workers, two batches of two each"


def test_a_worker_without_room_is_refused(nodes, tmp_path):
    with pytest.raises(BadCluster, match="no node of the cluster has room for a worker of 5 CPUs"):
        run_study(
            ChainStudy(2),
            SumDetector(),
            tmp_path / "run",
            make_detector=SumDetector,
            cluster=Cluster(nodes.address, cpus=5),
        )
    assert not (tmp_path / "run").exists()
