"""What an endpoint may do wrong, one function per kind, and what has to come of it.

``AGAIN``: the request is repeated, and a server that then behaves costs nothing but that request. ``FAILS``: repeating
it would change nothing, so the case fails, is named, and costs one request. ``FINE``: strange, but it can be used.
"""

import gzip
import json
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

AGAIN, FAILS, FINE = "again", "fails", "fine"
NAMES = ["thing", "other"]
RIGHT = {"detections": [{"box": [1, 2, 11, 12], "score": 0.75, "label": "thing"}]}
OPTIONS = ",concurrency=2,retries=3,backoff=0.01,max_mb=0.02"
TIMEOUT = 4
"""Seconds, for the kinds that are slow; any other answer has time, however busy the machine is."""
Handler = Any


@dataclass(frozen=True)
class Fault:
    """``do(handler)`` answers in its way."""

    name: str
    do: Callable[[Handler], object]
    expected: str

    @property
    def slow(self) -> bool:
        """Whether it takes a timeout to be noticed."""
        return self.do in (_slow, _drip)

    def __repr__(self) -> str:
        return self.name


def _raw(handler: Handler, data: bytes, *, then_close: bool = True) -> None:
    handler.wfile.write(data)
    handler.wfile.flush()
    if then_close:
        handler.hang_up()


def _drip(handler: Handler) -> None:
    """A byte now and then: no single read takes long."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
    for _ in range(20 * TIMEOUT):
        handler.wfile.write(b" ")
        handler.wfile.flush()
        time.sleep(0.1)


def _slow(handler: Handler) -> None:
    time.sleep(2 * TIMEOUT)
    handler.reply(RIGHT)


def _detection(**changed: Any) -> bytes:
    return json.dumps({"detections": [{**RIGHT["detections"][0], **changed}]}).encode()


_BODY = json.dumps(RIGHT).encode()


def _faults() -> list[Fault]:
    def status(code: int, expected: str, **headers: str) -> Fault:
        named = "".join(f" with {name} {value}" for name, value in headers.items())
        return Fault(f"status {code}{named}", lambda h: h.reply(b"no", code, **headers), expected)

    def body(name: str, data: bytes, expected: str = FAILS, **headers: str) -> Fault:
        return Fault(name, lambda h: h.reply(data, **headers), expected)

    def raw(name: str, data: bytes, expected: str = AGAIN) -> Fault:
        return Fault(name, lambda h: _raw(h, data), expected)

    return [
        Fault("slow", _slow, AGAIN),
        Fault("a byte now and then", _drip, AGAIN),
        status(429, AGAIN),
        status(429, AGAIN, Retry_After="0"),
        status(500, AGAIN),
        status(502, AGAIN),
        status(503, AGAIN, Retry_After="0.05"),
        status(503, AGAIN, Retry_After="Wed, 21 Oct 2015 07:28:00 GMT"),
        status(503, AGAIN, Retry_After="soon"),
        status(504, AGAIN),
        Fault("connection closed", lambda h: h.hang_up(), AGAIN),
        Fault("half a body", lambda h: (h.reply(_BODY[:20], length=len(_BODY)), h.hang_up()), AGAIN),
        raw("no HTTP", b"220 mail.example.org ESMTP\r\n"),
        raw("half a header", b"HTTP/1.1 200 OK\r\nContent-Le"),
        raw("a broken chunk", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n"),
        status(400, FAILS),
        status(401, FAILS),
        status(404, FAILS),
        status(307, FAILS, Location="http://127.0.0.1:9/elsewhere"),
        Fault("no content", lambda h: h.reply(b"", 204), FAILS),
        body("empty", b""),
        body("invalid JSON", b'{"detections": ['),
        body("a page", b"<html>It works!</html>", Content_Type="text/html"),
        body("invalid UTF-8", b'{"detections": "\xff\xfe"}'),
        body("null", b"null"),
        body("a list", b"[1, 2]"),
        body("without detections", b"{}"),
        body("detections are no list", b'{"detections": 7}'),
        body("deep", b"[" * 9000),
        body("huge", b" " * 100_000 + _BODY),
        Fault("a length that is too short", lambda h: (h.reply(_BODY, length=20), h.hang_up()), FAILS),
        body("NaN", _BODY.replace(b"11", b"NaN")),
        body("infinity", _BODY.replace(b"0.75", b"1e999")),
        body("a score of 2", _detection(score=2)),
        body("a score that is text", _detection(score="high")),
        body("an unknown label", _detection(label="unicorn")),
        body("without a label", _BODY.replace(b"label", b"lable")),
        body("a box of three numbers", _detection(box=[1, 2, 3])),
        body("a box beyond the image", _detection(box=[5000, 5000, 6000, 6000])),
        body("says gzip, is none", _BODY, Content_Encoding="gzip"),
        body("gzip of too much", gzip.compress(b" " * 1_000_000), Content_Encoding="gzip"),
        body("an encoding that nobody asked for", _BODY, Content_Encoding="br"),
        body("right, as text", _BODY, FINE, Content_Type="text/plain"),
        body("right, zipped", gzip.compress(_BODY), FINE, Content_Encoding="gzip"),
        body("right, with more keys", _BODY[:-1] + b', "model": null}', FINE),
    ]


FAULTS = {fault.name: fault for fault in _faults()}


class Faulty:
    """The script of a server (``loopback.Server``): says its class names, and does ``choose(n)`` wrong the first time
    that it is asked about an image, ``n`` being the number of that image; the second time it behaves. ``asked``: how
    often, by image."""

    def __init__(self, choose: Callable[[int], Fault | None]) -> None:
        self.choose = choose
        self.asked: Counter[bytes] = Counter()
        self.struck: Counter[str] = Counter()
        self.names = 0

    def __call__(self, handler: Handler, n: int, body: bytes) -> None:
        if handler.command == "GET":
            self.names += 1
            handler.reply({"names": NAMES})
            return
        self.asked[body] += 1
        fault = self.choose(list(self.asked).index(body)) if self.asked[body] == 1 else None
        if fault is None:
            handler.reply(RIGHT)
            return
        self.struck[fault.expected] += 1
        fault.do(handler)

    @property
    def requests(self) -> int:
        """By the server's own count."""
        return self.names + self.asked.total()


def at_random(share: float, seed: int) -> Callable[[int], Fault | None]:
    """Something wrong with a ``share`` of the images; the slow kinds are left out."""
    chance = random.Random(seed)
    kinds = [fault for fault in FAULTS.values() if not fault.slow]
    drawn = [chance.choice(kinds) if chance.random() < share else None for _ in range(1000)]
    return lambda n: drawn[n]
