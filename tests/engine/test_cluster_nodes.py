"""Nodes of a Ray cluster that are lost or are not like the others; each test has a cluster of its own."""

import os
import threading
from functools import partial

import pytest
from toys import ChainStudy, SumDetector, chain_rows
from worker_toys import Slow, counted

from misdetect.engine import run_study
from misdetect.engine.backend import Asking, Cluster
from misdetect.kept.budget import Budget
from misdetect.said.errors import BadCluster

pytest.importorskip("ray", reason="Ray is not installed (pip install '.[ray]')")

from clusters import two_nodes

pytestmark = pytest.mark.heavy
COUNT = 60


def test_a_node_that_is_lost_takes_nothing_with_it(tmp_path):
    """Its actors are asked for again where there is room; the budget holds."""
    with two_nodes() as nodes:
        file = tmp_path / "budget"
        losing = threading.Timer(6.0, nodes.remove_node, args=(nodes.other,), kwargs={"allow_graceful": False})
        losing.start()
        outcome = run_study(
            ChainStudy(COUNT),
            SumDetector(fingerprint="sum"),
            tmp_path / "run",
            make_detector=partial(Slow, str(tmp_path)),
            workers=2,
            cluster=Cluster(nodes.address),
            asking=Asking(cached=False, budget=Budget(queries=1000, path=file)),
        )
        losing.join()
    assert outcome.run.table().to_pylist() == chain_rows(COUNT)
    assert any("replaced" in note for note in outcome.notes)
    assert counted(tmp_path) <= Budget(path=file).spent["queries"]


def test_nodes_of_other_versions_are_refused_by_name(tmp_path):
    """The other node has a numpy that says it is another."""
    fake = tmp_path / "packages" / "numpy-0.0.1.dist-info"
    fake.mkdir(parents=True)
    (fake / "METADATA").write_text("Metadata-Version: 2.1\nName: numpy\nVersion: 0.0.1\n")
    places = os.pathsep.join([str(fake.parent), os.environ.get("PYTHONPATH", "")])
    with two_nodes(env_vars={"PYTHONPATH": places}) as nodes, pytest.raises(BadCluster) as refused:
        run_study(
            ChainStudy(COUNT),  # long enough for the other node to say what it has
            SumDetector(fingerprint="sum"),
            tmp_path / "run",
            make_detector=partial(Slow, str(tmp_path)),
            workers=2,
            cluster=Cluster(nodes.address),
            asking=Asking(cached=False),
        )
    assert "numpy 0.0.1 (here " in str(refused.value)
    assert "node " in str(refused.value)
    assert not (tmp_path / "run").exists(), "nothing is left behind"
