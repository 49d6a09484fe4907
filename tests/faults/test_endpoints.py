"""Endpoints that cost: every request is counted by one count, and an answer that was paid for is never lost.

The server's own count is the judge. Commands run in processes of their own, with 1, 2 and 4 workers, are killed in the
middle and run again.
"""

import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter

import pytest
from loopback import running_server

from misdetect.engine.store import Run

DATA = "rooms:val,count=24"


@pytest.fixture
def server():
    with running_server() as running:
        running.script = answer
        yield running


def answer(handler, n, body):
    """Class names, or one box whose score is a hash of the picture."""
    if handler.command == "GET":
        handler.reply({"names": ["chair", "table"]})
        return
    score = int(hashlib.sha256(body).hexdigest()[:4], 16) / 65536
    time.sleep(0.01)
    handler.reply({"detections": [{"box": [1, 2, 60, 70], "score": score, "label": "chair"}]})


def command(server, out, *, options="", workers=1, verb="explain", more=()):
    spec = f"{server.url},concurrency=2{options}"
    arguments = ["--detector", spec, "--data", DATA, "--out", str(out), "--workers", str(workers), *more]
    return [sys.executable, "-m", "misdetect", verb, *arguments]


def go(arguments):
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return done


HEAVY = pytest.mark.heavy


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("workers", "most"),
    [(2, 5), *(pytest.param(w, m, marks=HEAVY) for w in (1, 2, 4) for m in (1, 5, 13) if (w, m) != (2, 5))],
)
def test_no_budget_is_exceeded_by_workers_or_by_resuming(server, tmp_path, workers, most):
    line = command(server, tmp_path / "run", options=f",max_requests={most}", workers=workers, more=["--pictures", "0"])
    go(line)
    assert len(server.requests) == most, "all of it is used, the request for class names among it"
    go(line)
    assert len(server.requests) == most, "and no more of it, however often it is tried again"


def test_a_checkup_has_one_budget_for_all_its_studies(server, tmp_path):
    line = command(server, tmp_path / "run", options=",max_requests=7", workers=2, verb="checkup")
    for _ in range(2):
        done = subprocess.run(line, capture_output=True, text=True, timeout=120)
        assert "Traceback" not in done.stderr
        assert len(server.requests) <= 7


@pytest.mark.heavy  # make test kills a paid run in test_kills.py
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_a_campaign_that_is_killed_asks_nothing_twice(server, tmp_path, workers):
    line = command(server, tmp_path / "run", options=",max_requests=500", workers=workers, more=["--pictures", "0"])
    chance, kills = random.Random(workers), 0
    while True:
        process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        before = len(server.requests)
        try:
            while process.poll() is None and (kills == 3 or len(server.requests) < before + chance.randint(3, 6)):
                time.sleep(0.01)
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
        finally:
            process.communicate(timeout=60)
        if process.returncode == 0:
            break
        kills += 1
    assert kills == 3
    asked = Counter(body for method, _, _, body in server.requests if method == "POST")
    assert len(asked) == 24
    in_flight = 2 * workers * kills  # what the kill struck while the endpoint was at it was never answered
    assert sum(asked.values()) <= 24 + in_flight
    assert sum(method == "GET" for method, *_ in server.requests) == 1, "class names are asked for once"
    whole = tmp_path / "whole"
    go(command(server, whole, options=",max_requests=500", more=["--pictures", "0"]))
    assert Run.open(tmp_path / "run").table().equals(Run.open(whole).table())
