"""The HTTP detector against a real server with scripted faults: order, retries, budget, untrusted answers."""

import json
import pickle
import random
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from email.utils import formatdate
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from loopback import Server, expected, honest, picture, seen

from misdetect.detectors.http import transport as http_transport
from misdetect.detectors.http.endpoint import HttpDetector
from misdetect.detectors.http.formats import Request
from misdetect.detectors.http.transport import retry_after
from misdetect.kept.budget import Budget
from misdetect.nouns.detections import Detections
from misdetect.said.errors import BadSpec, BudgetSpent, DetectorFailed

Make = Callable[..., HttpDetector]


def test_answers_keep_the_order_of_the_images_and_the_bound_on_concurrency(server: Server, make: Make) -> None:
    order = random.Random(1)

    def slow(handler: Any, n: int, body: bytes) -> None:
        time.sleep(order.choice([0.0, 0.01, 0.03]))
        handler.reply(honest(body))

    server.script = slow
    detector = make(",concurrency=3")
    values = list(range(40))
    assert detector.detect([picture(v) for v in values]) == [expected(v) for v in values]
    assert server.most_busy == 3
    assert detector.detect([]) == []


@pytest.mark.heavy
def test_threads_share_one_bound_and_get_their_own_answers(server: Server, make: Make) -> None:
    together = threading.Barrier(4)

    def reply(handler: Any, number: int, body: bytes) -> None:
        if number < 4:  # none is answered before four are asked
            together.wait(timeout=30)
        time.sleep(0.002)
        handler.reply(honest(body))

    server.script = reply
    detector = make(",concurrency=4")
    right: list[bool] = []

    def work(first: int) -> None:
        values = list(range(first, first + 12))
        right.append(detector.detect([picture(v) for v in values]) == [expected(v) for v in values])

    threads = [threading.Thread(target=work, args=(30 * i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert right == [True] * 6
    assert server.most_busy == 4


def test_images_are_sent_without_loss_unless_asked(server: Server, make: Make) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (33, 21, 3), dtype=np.uint8)
    server.script = lambda handler, n, body: handler.reply({"detections": []})
    make().detect([noise])
    make(",encode=jpeg,quality=90").detect([noise])
    (_, _, png_headers, png), (_, _, jpeg_headers, jpeg) = server.requests
    assert png_headers["Content-Type"] == "image/png"
    assert np.array_equal(cv2.imdecode(np.frombuffer(png, np.uint8), cv2.IMREAD_COLOR)[:, :, ::-1], noise)
    assert jpeg_headers["Content-Type"] == "image/jpeg"
    assert jpeg[:2] == b"\xff\xd8"


# ------------------------------------------------------------------------------------------------------- retries


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_passing_faults_are_retried(server: Server, make: Make, status: int) -> None:
    server.script = lambda handler, n, body: handler.reply(b"busy", status) if n < 3 else handler.reply(honest(body))
    assert make(",retries=3").detect([picture(9)]) == [expected(9)]
    assert len(server.requests) == 4


def test_what_does_not_pass_is_reported_with_the_last_reason(server: Server, make: Make) -> None:
    server.script = lambda handler, n, body: handler.reply(b"out of\nmemory", 500)
    (failure,) = make(",retries=2").detect([picture(9)])
    assert isinstance(failure, DetectorFailed)
    assert str(failure) == f"{server.url} gave status 500: out of memory (the last of 3 attempts)."
    assert len(server.requests) == 3


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422, 501])
def test_refusals_are_not_retried(server: Server, make: Make, status: int) -> None:
    server.script = lambda handler, n, body: handler.reply(b"no " * 500, status)
    (failure,) = make().detect([picture(9)])
    assert isinstance(failure, DetectorFailed)
    assert f"{server.url} refused with status {status}: no no" in str(failure)
    assert len(str(failure)) < 200 + len(server.url) + 40
    assert len(server.requests) == 1


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", ["hang up", "silence", "drip", "short"])
def test_broken_connections_and_timeouts_are_retried(server: Server, make: Make, kind: str) -> None:
    def script(handler: Any, n: int, body: bytes) -> None:
        if n >= 2:
            handler.reply(honest(body))
        elif kind == "hang up":
            handler.hang_up()
        elif kind == "silence":
            time.sleep(1.2)
        elif kind == "short":  # fewer bytes than promised
            handler.reply(b'{"detections": []}', length=1000)
            handler.hang_up()
        else:  # each byte comes in time, the whole does not
            text = json.dumps(honest(body)).rjust(120).encode()
            handler.send_response(200)
            handler.send_header("Content-Length", str(len(text)))
            handler.end_headers()
            for byte in text:
                handler.wfile.write(bytes([byte]))
                time.sleep(0.015)

    server.script = script
    assert make(",timeout=0.6").detect([picture(9)]) == [expected(9)]
    assert len(server.requests) == 3


def test_a_server_that_is_not_there(make: Make) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    (failure,) = make(",retries=1", url=f"http://127.0.0.1:{port}/x").detect([picture(9)])
    assert isinstance(failure, DetectorFailed)
    assert "connection attempts failed" in str(failure)
    assert str(port) in str(failure)


def test_retry_after_holds_back_everybody(server: Server, make: Make) -> None:
    """The one that was told to wait waits, and so do the ones that were not."""

    def script(handler: Any, n: int, body: bytes) -> None:
        if n == 0:
            handler.reply(b"", 429, Retry_After="0.4")
        else:
            handler.reply(honest(body))

    server.script = script
    assert make(",concurrency=1").detect([picture(v) for v in (1, 2, 3)]) == [expected(v) for v in (1, 2, 3)]
    assert len(server.requests) == 4
    assert server.times[1] - server.times[0] >= 0.4


def test_retry_after_in_seconds_dates_and_nonsense(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_transport.time, "time", lambda: 1_000_000.0)
    cases = {"7": 7.0, "0": 0.0, "86400": 60.0, formatdate(1_000_012, usegmt=True): 12.0}
    cases |= {formatdate(999_000, usegmt=True): 0.0, formatdate(2_000_000, usegmt=True): 60.0}
    assert {value: retry_after(value) for value in cases} == cases
    for nonsense in (None, "", "soon", "-5", "1e9", "nan", "9" * 400, "Fri, 99 Foo 2020 00:00:00 GMT"):
        assert retry_after(nonsense) is None


def test_backoff_is_full_jitter_under_a_doubling_bound(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[tuple[float, float]] = []

    class Rng(random.Random):
        def uniform(self, a: float, b: float) -> float:
            waits.append((a, b))
            return 0.0

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        detector = make(
            ",retries=8,backoff=0.5".replace(",backoff=0.5", ""), url=f"http://127.0.0.1:{probe.getsockname()[1]}/"
        )
        detector.transport._rng = Rng()
        monkeypatch.setattr(http_transport, "LONGEST_BACKOFF", 0.1)
        detector.detect([picture(1)])
    assert waits == [(0, b) for b in (0.01, 0.02, 0.04, 0.08, 0.1, 0.1, 0.1, 0.1)]


# -------------------------------------------------------------------------------------------------------- budget


def test_the_budget_is_never_exceeded_under_faults_and_concurrency(server: Server, make: Make) -> None:
    """A third of all attempts fail; what the server counts is what the budget allowed, and paid answers are kept."""
    server.script = lambda handler, n, body: handler.reply(b"", 503) if n % 3 == 0 else handler.reply(honest(body))
    detector = make(",concurrency=6,max_requests=45,price=0.002,usd=0.08,retries=6")
    answers = detector.detect([picture(v) for v in range(60)])
    assert len(server.requests) == 40  # 0.08 USD at 0.002 bind before the 45 requests
    kept = [i for i, answer in enumerate(answers) if isinstance(answer, Detections)]
    assert all(answers[i] == expected(i) for i in kept)
    assert len(kept) == 40 - 14  # attempts 0, 3, …, 39 failed; every other one was paid for and is here
    assert all(isinstance(answer, BudgetSpent) for i, answer in enumerate(answers) if i not in kept)
    assert detector.budget is not None
    assert detector.budget.spent == {"queries": 40, "usd": 0.08}
    assert all(isinstance(answer, BudgetSpent) for answer in detector.detect([picture(1)]))
    assert len(server.requests) == 40


def test_the_engines_budget_does_not_lift_the_specs(server: Server, make: Make, tmp_path: Path) -> None:
    detector = make(",max_requests=5,price=0.5")
    assert detector.limits == {"queries": 5, "usd": None, "price": 0.5}
    detector.budget = Budget(100, path=tmp_path / "budget")
    answers = detector.detect([picture(v) for v in range(9)])
    assert sum(isinstance(answer, Detections) for answer in answers) == len(server.requests) == 5
    tight = make()
    tight.budget = Budget(2)
    tight.detect([picture(v) for v in range(9)])
    assert len(server.requests) == 7


def test_a_retry_that_is_not_paid_for_says_what_it_was_for(server: Server, make: Make) -> None:
    server.script = lambda handler, n, body: handler.reply(b"warming up", 503)
    (spent,) = make(",max_requests=2").detect([picture(1)])
    assert isinstance(spent, BudgetSpent)
    assert "503: warming up" in str(spent)
    assert len(server.requests) == 2


def test_a_budget_file_is_shared_by_detectors_and_pickles(server: Server, make: Make, tmp_path: Path) -> None:
    options = f",max_requests=6,budget_file={tmp_path / 'spent'}"
    first, second = make(options), make(options)
    first.detect([picture(1), picture(2)])
    third = pickle.loads(pickle.dumps(second))  # noqa: S301
    third.detect([picture(1), picture(2), picture(3)])
    assert [type(answer) for answer in second.detect([picture(1), picture(2)])].count(BudgetSpent) == 1
    assert len(server.requests) == 6
    third.close()
    with pytest.raises(BadSpec, match="budget_file="):
        pickle.dumps(make(",max_requests=6"))


# ------------------------------------------------------------------------------------------------ untrusted answers


BAD_BODIES: dict[str, bytes] = {
    "not JSON": b"<html>hello</html>",
    "empty": b"",
    "cut": b'{"detections": [{"box": [1,2,',
    "not UTF-8": b'{"detections": "\xff\xfe"}',
    "NaN": b'{"detections": [{"box": [1,2,3,4], "score": NaN, "label": "cat"}]}',
    "NaN where nobody looks": b'{"detections": [], "seconds": NaN}',
    "infinite": b'{"detections": [{"box": [1,2,3,1e999], "score": 0.5, "label": "cat"}]}',
    "huge": b'{"detections": [{"box": [1,2,3,1' + b"0" * 3000 + b'], "score": 0.5, "label": "cat"}]}',
    "endless number": b'{"detections": [{"box": [1,2,3,1' + b"0" * 9000 + b'], "score": 0.5, "label": "cat"}]}',
    "deep": b"[" * 200_000,
    "deep and whole": b'{"detections": ' + b"[" * 50_000 + b"]" * 50_000 + b"}",
    "a list": b"[]",
    "no detections": b'{"boxes": []}',
    "text for a box": b'{"detections": [{"box": "1 2 3 4", "score": 0.5, "label": "cat"}]}',
    "three numbers": b'{"detections": [{"box": [1,2,3], "score": 0.5, "label": "cat"}]}',
    "a flipped box": b'{"detections": [{"box": [9,2,3,4], "score": 0.5, "label": "cat"}]}',
    "a score of 50": b'{"detections": [{"box": [1,2,3,4], "score": 50, "label": "cat"}]}',
    "a score of true": b'{"detections": [{"box": [1,2,3,4], "score": true, "label": "cat"}]}',
    "no label": b'{"detections": [{"box": [1,2,3,4], "score": 0.5}]}',
    "unknown name": b'{"detections": [{"box": [1,2,3,4], "score": 0.5, "label": "unicorn"}]}',
    "unknown number": b'{"detections": [{"box": [1,2,3,4], "score": 0.5, "label": 3}]}',
    "a negative number": b'{"detections": [{"box": [1,2,3,4], "score": 0.5, "label": -1}]}',
    "half a label": b'{"detections": [{"box": [1,2,3,4], "score": 0.5, "label": 0.5}]}',
    "null": b'{"detections": [null]}',
}


def test_one_bad_answer_costs_only_its_own_image(server: Server, make: Make) -> None:
    """Each bad body is one entry with one sentence that names the address; the good answers beside it stay."""
    bad = list(BAD_BODIES.values())

    def script(handler: Any, n: int, body: bytes) -> None:
        red = seen(body)[0]
        handler.reply(bad[red // 2] if red % 2 else honest(body))

    server.script = script
    answers = make().detect([picture(v) for v in range(2 * len(bad))])
    for value, answer in enumerate(answers):
        if value % 2 == 0:
            assert answer == expected(value)
        else:
            what = list(BAD_BODIES)[value // 2]
            assert isinstance(answer, DetectorFailed), what
            assert str(answer).startswith(f"{server.url} gave an answer that cannot be used: "), what
            assert len(str(answer)) < 400, what
    assert len(server.requests) == 2 * len(bad)  # such an answer is paid for and not asked for again


def test_a_format_that_fails_costs_only_its_own_image(server: Server, make: Make) -> None:
    """Neither what a user's format raises nor a request that cannot be sent is tried again, or ends the batch."""
    detector = make()
    good = detector.format

    def request(image: Any) -> Request:
        if image.pixels[0, 0, 0] == 1:
            raise KeyError("no\nsuch key")
        return Request(b"", {"X-Bad": "a\nb"}) if image.pixels[0, 0, 0] == 2 else good.request(image)

    detector.format = replace(good, request=request)
    first, second, third = detector.detect([picture(v) for v in (1, 2, 3)])
    assert "making the request by misdetect raised KeyError" in str(first)
    assert "\n" not in str(first)
    assert "cannot be asked this way: Illegal header value" in str(second)
    assert third == expected(3)
    assert len(server.requests) == 1


def test_large_answers_are_not_read_to_the_end(server: Server, make: Make) -> None:
    written = []

    def script(handler: Any, n: int, body: bytes) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(10**9))
        handler.end_headers()
        for _ in range(1000):
            handler.wfile.write(b" " * 10**6)
            written.append(10**6)

    server.script = script
    (failure,) = make(",max_mb=1").detect([picture(1)])
    assert "more than 1048576 bytes" in str(failure)
    assert sum(written) < 10**8


def test_redirects_are_not_followed_with_the_secret(
    server: Server, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", "s3cret")
    server.script = lambda handler, n, body: handler.reply(b"", 307, Location="http://elsewhere.example/?t=s3cret")
    (failure,) = make(",auth_env=MY_TOKEN").detect([picture(1)])
    assert "redirects to http://elsewhere.example/?t=*** (status 307)" in str(failure)
    assert len(server.requests) == 1


def test_certificates_are_verified_and_not_asked_again(make: Make, tmp_path: Path) -> None:
    """A self-signed server is refused in one attempt, by a sentence that says how to trust it."""
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    made = subprocess.run(
        f"openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=h -keyout {key} -out {certificate}".split(),
        capture_output=True,
        check=False,
    )
    if made.returncode:
        pytest.skip("openssl could not make a certificate")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    secure = Server()
    secure.http.socket = context.wrap_socket(secure.http.socket, server_side=True)
    detector = make(",max_requests=9", url=secure.url.replace("http:", "https:"))
    (failure,) = detector.detect([picture(1)])
    secure.stop()
    assert "is not trusted" in str(failure)
    assert "SSL_CERT_FILE" in str(failure)
    assert detector.budget is not None
    assert detector.budget.spent["queries"] == 1
    assert secure.requests == []
