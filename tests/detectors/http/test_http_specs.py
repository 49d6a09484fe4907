"""The HTTP detector's specs, secrets, fingerprint and lifetime, against a real server."""

import importlib.util
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loopback import NAMES, Server, expected, honest, picture

from misdetect.detectors import load_detector
from misdetect.detectors.http.endpoint import HttpDetector, load_http
from misdetect.nouns.detections import Detections
from misdetect.nouns.spec import Spec
from misdetect.said.errors import BadArray, BadSpec, BudgetSpent, DetectorFailed, MisdetectError

Make = Callable[..., HttpDetector]


def test_secrets_come_from_the_environment_and_go_nowhere_else(
    server: Server, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", "s3cret")
    server.script = lambda handler, n, body: handler.reply(b"bad key s3cret", 403)
    detectors = [
        make(",auth_env=MY_TOKEN"),
        make(",auth_env=MY_TOKEN,auth_header=X-Api-Key"),
        make(",auth_env=MY_TOKEN,auth_query=api_key", url=f"{server.url}?size=2"),
    ]
    for detector in detectors:
        (failure,) = detector.detect([picture(1)])
        assert "refused with status 403: bad key ***" in str(failure)
        shown = repr((detector, detector.settings, detector.spec, pickle.dumps(detector), str(failure)))
        assert "s3cret" not in shown
    bearer, key, query = server.requests
    assert bearer[2]["Authorization"] == "Bearer s3cret"
    assert (key[2]["X-Api-Key"], "Authorization" in key[2]) == ("s3cret", False)
    assert (query[1], "Authorization" in query[2]) == ("/detect?size=2&api_key=s3cret", False)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("http://me:pw@h/x,names=coco", "auth_env=VARIABLE"),
        ("http://h/x?api_key=K123,names=coco", "auth_query=api_key"),
        ("http://h/x,names=coco,header.Authorization=K123", "auth_header=Authorization"),
        ("http://h/x,names=coco,header.X-Api-Key=K123", "auth_header=X-Api-Key"),
        ("http://h/x,names=coco,auth_env=NOT_SET_ANYWHERE", "NOT_SET_ANYWHERE is not set"),
        ("http://h/x,names=coco,auth_header=X-Key", "need auth_env"),
        ("http://h/x,format=coco", "give names=coco or names=FILE"),
        ("http://h/x,names=coco,format=xml", "format=xml is not one of misdetect, json-base64"),
        ("http://h/x,names=coco,concurrency=0", "concurrency=0 should be from 1 to 256"),
        ("http://h/x,names=coco,timeout=nan", "timeout=nan should be from"),
        ("http://h/x,names=coco,retries=2.5", "retries=2.5 should be int"),
        ("http://h/x,names=coco,usd=5", "needs the price"),
        ("http://h/x,names=coco,max_requests=-1", "0 or more"),
        ("http://h/x,names=coco,retry=5", "unknown option 'retry'"),
        ("http://h/x,names=coco,tensor=pixels", "unknown option 'tensor'"),
        ("http://,names=coco", "Expected an address"),
        ("http://h:99999/x,names=coco", "Expected an address"),
        ("http://h:port/x,names=coco", "is not an address"),
    ],
)
def test_specs_that_are_refused(spec: str, message: str) -> None:
    with pytest.raises(BadSpec) as refused:
        load_http(Spec.parse(spec))
    assert message in str(refused.value)
    assert "K123" not in str(refused.value)
    assert "pw@" not in str(refused.value)


def test_only_a_version_makes_answers_last_beyond_the_run(make: Make) -> None:
    assert make().fingerprint is None
    first = make(",version=3").fingerprint
    assert first is not None
    assert make(",version=3,concurrency=2,retries=1,timeout=5").fingerprint == first
    others = [",version=4", ",version=3,encode=jpeg", ",version=3,units=relative", ",version=3,header.X-Model=b"]
    assert len({first, *(make(other).fingerprint for other in others)}) == 5


def test_names_are_asked_for_and_headers_sent(server: Server) -> None:
    server.script = lambda handler, n, body: handler.reply(
        {"names": NAMES} if handler.command == "GET" else honest(body)
    )
    detector = load_http(Spec.parse(f"{server.url},max_requests=2,header.X-Model=big"))
    assert detector.names == tuple(NAMES)
    assert detector.detect([picture(4)]) == [expected(4)]
    assert [request[2]["X-Model"] for request in server.requests] == ["big", "big"]
    assert isinstance(detector.detect([picture(4)])[0], BudgetSpent)  # asking for the names was a request too
    detector.close()
    for wrong in ({}, {"names": []}, {"names": [1]}, []):
        server.script = lambda handler, n, body, wrong=wrong: handler.reply(wrong)  # type: ignore[misc]
        with pytest.raises(DetectorFailed, match=r"did not say its class names \(give names=\)"):
            load_http(Spec.parse(server.url))


def test_a_wrong_image_is_the_callers_mistake(server: Server, make: Make) -> None:
    with pytest.raises(BadArray):
        make().detect([picture(1), np.zeros((4, 4))])
    assert server.requests == []


# ------------------------------------------------------------------------------------------------------ lifetime


def test_a_closed_detector_opens_again(server: Server, make: Make) -> None:
    before = set(threading.enumerate())
    detector = make()
    for _ in range(3):
        assert detector.detect([picture(3)]) == [expected(3)]
        detector.close()
    assert not [thread for thread in set(threading.enumerate()) - before if thread.name == "misdetect-http"]


def test_closing_while_asking_ends_the_asking(server: Server, make: Make) -> None:
    arrived = threading.Event()
    server.script = lambda handler, n, body: (arrived.set(), time.sleep(1))  # type: ignore[func-returns-value]
    detector = make()
    threading.Thread(target=lambda: (arrived.wait(5), detector.close())).start()
    with pytest.raises(MisdetectError, match="closed while it was being asked"):
        detector.detect([picture(3)])


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "ending",
    ["", "detector.close()", "del detector", "sys.exit(0)", pytest.param("fork()", marks=pytest.mark.unix)],
)
def test_a_program_ends_in_silence(server: Server, ending: str) -> None:
    """No warning, no traceback and no hanging thread at exit, closed or not, nor in a forked child, which works."""
    program = f"""
import os, sys, numpy as np
from misdetect.detectors.http.endpoint import load_http
from misdetect.nouns.spec import Spec
detector = load_http(Spec.parse("{server.url},names=coco,retries=0,unknown=drop"))
image = np.full((30, 40, 3), (9, 246, 7), np.uint8)
def fork():
    if (child := os.fork()):
        assert os.waitpid(child, 0)[1] == 0
    else:
        assert len(detector.detect([image])[0]) == 1
        sys.exit(0)
assert len(detector.detect([image])[0]) == 1
{ending}
"""
    # A forked child cannot close the connections it inherits; that much is left to the system.
    strict = [] if "fork" in ending else ["-W", "error::ResourceWarning"]
    environment = {k: v for k, v in os.environ.items() if "proxy" not in k.lower()}
    done = subprocess.run(
        [sys.executable, *strict, "-c", program],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        env=environment,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_load_detector_knows_the_scheme(server: Server) -> None:
    detector = load_detector(f"{server.url},names=coco")
    assert isinstance(detector, HttpDetector)
    (found,) = detector.detect([picture(2)])
    assert [detector.names[label] for label in found.labels] == ["bird"]
    detector.close()


def test_the_example_server_says_what_its_detector_says(server: Server) -> None:
    """A detector and the same one behind the example's endpoint are the same detector, to the last bit."""
    path = Path(__file__).parents[3] / "examples" / "serve_detector.py"
    loaded = importlib.util.spec_from_file_location("serve_detector", path)
    assert loaded is not None
    assert loaded.loader is not None
    example = importlib.util.module_from_spec(loaded)
    loaded.loader.exec_module(example)

    class Noisy:
        names = ("cat", "traffic light", "Straße")

        def detect(self, images: Any) -> Any:
            return [self.one(np.random.default_rng(int(image.sum()))) for image in images]

        def one(self, rng: np.random.Generator) -> Detections:
            n = int(rng.integers(0, 6))
            corner, size = rng.random((n, 2)) * 20, rng.random((n, 2)) * 10
            return Detections(np.hstack([corner, corner + size]), rng.random(n), rng.integers(0, 3, n))

    running = example.server(Noisy(), 0)
    running.RequestHandlerClass.log_message = lambda *_: None
    threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    detector = load_http(Spec.parse(f"http://127.0.0.1:{running.server_port}"))
    images = list(np.random.default_rng(0).integers(0, 256, (20, 24, 32, 3), dtype=np.uint8))
    assert detector.names == Noisy.names
    assert detector.detect(images) == Noisy().detect(images)
    detector.close()
    running.shutdown()
    running.server_close()
