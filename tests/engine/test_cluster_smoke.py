"""One node of Ray: a study's rows are those of one process, and so is what is said."""

import pytest
from toys import ChainStudy, SumDetector, chain_rows

from misdetect.engine import run_study
from misdetect.engine.backend import Asking, Cluster
from misdetect.kept.budget import Budget

ray = pytest.importorskip("ray", reason="Ray is not installed (pip install '.[ray]')")

from clusters import ray_processes, signals_given_back, until  # noqa: E402 - what it sets is for Ray


@pytest.fixture
def one_node():
    with signals_given_back():
        ray.init(
            address="local",
            num_cpus=2,
            object_store_memory=100 << 20,
            include_dashboard=False,
            log_to_driver=False,
            configure_logging=False,
        )
    yield
    ray.shutdown()
    assert until(lambda: not ray_processes()), "Ray's processes are gone afterwards"


def test_a_study_runs_on_actors_within_its_budget(one_node, tmp_path, capfd):
    def go(queries):
        return run_study(
            ChainStudy(30),
            SumDetector(fingerprint="sum"),
            tmp_path / "run",
            make_detector=SumDetector,
            cluster=Cluster("local"),
            asking=Asking(cached=False, budget=Budget(queries=queries, path=tmp_path / "budget")),
        )

    assert go(10).stopped == "budget"
    assert Budget(path=tmp_path / "budget").spent["queries"] == 10
    outcome = go(1000)
    assert (outcome.run.table().to_pylist(), outcome.notes) == (chain_rows(30), ())
    said = capfd.readouterr()
    assert (said.out, said.err) == ("", ""), "Ray's own words stay away"
