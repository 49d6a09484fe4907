"""An endpoint that does something wrong: never a traceback, every request counted, every failed image named.

The server's own count of requests is the judge of the claimed one.
"""

import json

import pytest
from cli_world import World
from faulty_server import AGAIN, FAILS, FAULTS, OPTIONS, Faulty, at_random
from loopback import running_server

SAMPLE = list(FAULTS)[2::9]
SLOW = ("slow", "a byte now and then")


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return World(tmp_path_factory.mktemp("faulty"))


@pytest.fixture
def server():
    with running_server() as running:
        yield running


def document(run, world, server, out, *more, options=""):
    line = ["detect", "--detector", f"{server.url}{OPTIONS}{options}", "--data", world.data, "--out", out]
    code, said, err = run(*line, "--json", "--no-cache", *more)
    assert "Traceback" not in err
    assert "fault in misdetect" not in said
    return code, json.loads(said)


def check(fault, world, server, run, folder):
    server.script = faulty = Faulty(lambda n: fault if n % 2 else None)
    code, found = document(run, world, server, folder / "results.json")
    assert code == 0, found
    engine = found["engine"]
    assert engine["requests"] == faulty.requests == len(server.requests), "the claimed count is the server's"
    repeated = 3 if fault.expected == AGAIN else 0
    assert engine["retried"] == repeated == faulty.asked.total() - 6
    failed = {"11", "13", "15"} if fault.expected == FAILS else set()
    named = {each["image"] for each in found["failures"]}
    assert (found["failed"], len(named)) == (len(failed), len(failed))
    assert named <= {str(10 + i) for i in range(6)}, "by the names of the data"
    assert all(server.url in each["error"] or "detector" in each["error"] for each in found["failures"])
    assert len({each["image_id"] for each in json.loads((folder / "results.json").read_text())}) == 6 - len(failed)
    assert not (folder / "results.json.partial").exists()


@pytest.mark.parametrize("name", SAMPLE)
def test_some_things_that_an_endpoint_does_wrong(name, world, server, run, tmp_path):
    check(FAULTS[name], world, server, run, tmp_path)


@pytest.mark.heavy
@pytest.mark.parametrize("name", FAULTS)
def test_everything_that_an_endpoint_does_wrong(name, world, server, run, tmp_path):
    check(FAULTS[name], world, server, run, tmp_path)


def test_there_are_enough_kinds():
    assert len(FAULTS) >= 40


@pytest.mark.parametrize("name", ["connection closed", "invalid JSON"])
@pytest.mark.parametrize("most", [1, 4, 9])
def test_no_fault_exceeds_a_budget(name, most, world, server, run, tmp_path):
    server.script = Faulty(lambda n: FAULTS[name])
    for _ in range(2):
        _, found = document(run, world, server, tmp_path / "results.json", options=f",max_requests={most}")
        assert len(server.requests) <= most
    assert "error" in found or found["stopped"] in (None, "budget")


@pytest.mark.parametrize(
    "names", [b"", b"[", b"{}", b'{"names": []}', b'{"names": "cat"}', b'{"names": [1]}', b'{"names": ["a", "a"]}']
)
def test_class_names_that_cannot_be_used(names, world, server, run, tmp_path):
    server.script = lambda handler, n, body: handler.reply(names)
    code, found = document(run, world, server, tmp_path / "results.json")
    assert code in (2, 3)
    assert found["error"]["message"]
    assert len(server.requests) == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.heavy
@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("seed", [1, 2])
def test_any_faults_at_once_with_workers(workers, seed, world, server, run, tmp_path):
    server.script = faulty = Faulty(at_random(0.5, seed))
    code, found = document(run, world, server, tmp_path / "results.json", "--workers", workers)
    assert code == 0, found
    assert found["engine"]["requests"] == faulty.requests == len(server.requests)
    assert found["engine"]["retried"] == faulty.asked.total() - 6 == faulty.struck[AGAIN]
    assert found["failed"] == faulty.struck[FAILS] == len({each["image"] for each in found["failures"]})
    assert faulty.names == 1
