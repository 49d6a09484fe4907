"""``misdetect serve`` as a command: what it says, what it refuses, and how it ends."""

import json
import shutil
import signal
import socket
import sys

import httpx
import pytest
from in_process import ended
from served import Asked, serving, start

from misdetect.app.serving import is_local
from misdetect.said.extras import command


def refused(capsys, *arguments):
    """The sentence with which the command ends at once."""
    assert ended("serve", *arguments, "--json") == 2
    return json.loads(capsys.readouterr().out)["error"]["message"]


def test_bad_input_is_a_sentence(capsys, runs, tmp_path):
    (tmp_path / "bare").mkdir()
    assert "needs a run directory" in refused(capsys)
    assert "absent" in refused(capsys, tmp_path / "absent")
    assert "bare" in refused(capsys, tmp_path / "bare")
    assert "--detector" in refused(capsys, runs, "--data", "rooms:val")
    assert "--host" in refused(capsys, runs / "explain", "--host", "no such host")
    assert "65536" in refused(capsys, runs, "--port", "65536")


def test_a_port_in_use_is_a_sentence(capsys, runs):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said = refused(capsys, runs / "explain", "--port", port)
    assert f"port {port} is in use" in said
    assert "--port" in said


def test_a_run_of_another_version_is_told_and_the_others_are_served(capsys, runs, tmp_path):
    shutil.copytree(runs / "explain", tmp_path / "old")
    about = json.loads((tmp_path / "old" / "run.json").read_text())
    (tmp_path / "old" / "run.json").write_text(json.dumps(about | {"format": 1}))
    assert "format 1" in refused(capsys, tmp_path / "old")
    with serving([runs / "explain", tmp_path / "old"]) as address:
        assert Asked(address).rows({})["total"] > 0
        assert "format 1" in Asked(address).json("/api/state")["problems"][0]
        assert "format 1" in httpx.get(address).text, "on the page too"


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.heavy)])
def test_it_prints_its_address_and_ends_when_told_to(runs, number):
    process, said = start(runs / "explain", "--port", 0)
    assert sorted(said) == ["address", "playground", "problems", "rows", "runs", "write"]
    assert said["address"].startswith("http://127.0.0.1:")
    assert Asked(said["address"]).rows({})["total"] == said["rows"] > 0
    process.send_signal(number)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (0, "")
    assert "Traceback" not in err


@pytest.mark.heavy
def test_beyond_this_machine_it_asks_for_a_token(runs):
    process, said = start(runs / "explain", "--port", 0, "--host", "0.0.0.0")
    try:
        address, token = said["address"].split("?token=")
        port = address.rstrip("/").rpartition(":")[2]
        assert len(token) >= 20
        assert httpx.get(f"http://127.0.0.1:{port}/api/rows").status_code == 401
        with httpx.Client(follow_redirects=True) as client:
            assert client.get(f"http://127.0.0.1:{port}/?token={token}").status_code == 200
    finally:
        process.terminate()
        process.wait(20)


@pytest.mark.parametrize(("host", "local"), [
    ("127.0.0.1", True), ("localhost", True), ("::1", True), ("[::1]", True), ("127.0.0.9", True), ("0.0.0.0", False),
    ("::", False), ("192.168.1.5", False), ("example.org", False), ("", False), ("localhost.example.org", False),
])  # fmt: skip
def test_what_is_this_machine(host, local):
    assert is_local(host) is local


@pytest.mark.parametrize("missing", ["starlette", "uvicorn"])
def test_without_the_extra_its_name_is_told(capsys, runs, monkeypatch, missing):
    for name in [*sys.modules]:
        if name.startswith(("misdetect.app", missing)):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    assert command("app") in refused(capsys, runs / "explain")
