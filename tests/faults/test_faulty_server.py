"""An endpoint that does something wrong: never a traceback, every request counted, every failed image named."""

import pytest
from cli_world import World
from endpoints import ask, judge, try_fault
from faulty_server import FAULTS, Faulty, at_random
from loopback import running_server

SAMPLE = list(FAULTS)[2::9]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return World(tmp_path_factory.mktemp("faulty"))


@pytest.fixture
def server():
    with running_server() as running:
        yield running


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", SAMPLE)
def test_some_things_that_an_endpoint_does_wrong(name, world, server, tmp_path):
    assert not try_fault(FAULTS[name], world, server, tmp_path).wrong


@pytest.mark.heavy
@pytest.mark.parametrize("name", FAULTS)
def test_everything_that_an_endpoint_does_wrong(name, world, server, tmp_path):
    assert not try_fault(FAULTS[name], world, server, tmp_path).wrong


def test_there_are_enough_kinds():
    assert len(FAULTS) >= 40


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["connection closed", "invalid JSON"])
@pytest.mark.parametrize("most", [1, 4, 9])
def test_no_fault_exceeds_a_budget(name, most, world, server, tmp_path):
    faulty = Faulty(lambda n: FAULTS[name])
    for _ in range(2):
        found = ask(world, server, faulty, tmp_path / "results.json", options=f",max_requests={most}")
        assert not found.wrong
        assert found.requests <= most
    assert "error" in found.document or found.document["stopped"] in (None, "budget")


@pytest.mark.parametrize(
    "names", [b"", b"[", b"{}", b'{"names": []}', b'{"names": "cat"}', b'{"names": [1]}', b'{"names": ["a", "a"]}']
)
def test_class_names_that_cannot_be_used(names, world, server, tmp_path):
    found = ask(world, server, lambda handler, n, body: handler.reply(names), tmp_path / "results.json")
    assert not found.wrong
    assert found.code in (2, 3)
    assert found.document["error"]["message"]
    assert found.requests == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.heavy
@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("seed", [1, 2])
def test_any_faults_at_once_with_workers(workers, seed, world, server, tmp_path):
    faulty = Faulty(at_random(0.5, seed))
    found = ask(world, server, faulty, tmp_path / "results.json", "--workers", workers)
    judge(found, faulty)
    assert not found.wrong
