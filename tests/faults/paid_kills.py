"""An endpoint that costs, and a kill before every file operation of a command that asks it: no request over the budget,
no answer paid for twice but the one that was on its way, and the same rows. The server counts."""

import hashlib
import shutil
import signal
from collections import Counter
from pathlib import Path
from typing import Any

from commands import Verb, data
from kill_points import Tally, attempt, complaints, contents, differences, load_everything
from loopback import Server
from watched import Operation

IMAGES, MOST = 3, 6


def paid(server: Server) -> Verb:
    """``explain`` with an endpoint: one request for class names, and one for each of three images."""
    spec = f"{server.url},concurrency=1,max_requests={MOST}"
    return Verb(
        "explain by an endpoint",
        lambda made, out: [
            *("explain", "--detector", spec, "--data", data(made), "--out", str(out / "run"), "--pictures", "0")
        ],
    )


def answer(handler: Any, n: int, body: bytes) -> None:
    """Class names, or one box whose score is a hash of the picture."""
    if handler.command == "GET":
        handler.reply({"names": ["chair", "table"]})
        return
    score = int(hashlib.sha256(body).hexdigest()[:4], 16) / 65536
    handler.reply({"detections": [{"box": [1, 2, 60, 70], "score": score, "label": "chair"}]})


def paid_kills(server: Server, folder: Path, most: int | None = None) -> Tally:
    """Kill it before each operation (or ``most`` of them), run it again, and look at the server's count."""
    load_everything()
    server.script, verb, tally = answer, paid(server), Tally()
    verb.prepare(folder / "made")
    whole = attempt(verb, folder / "made", folder / "whole")
    assert not complaints(whole, 0), whole
    assert len(server.requests) == IMAGES + 1
    expected = contents(folder / "whole")
    step = 1 if most is None else max(1, len(whole.operations) // most)
    at = 1 + step // 2
    while True:
        server.requests.clear()
        out = folder / f"paid-{at}"

        def strike(operation: Operation, at: int = at) -> int | None:
            return -signal.SIGKILL if operation.number == at else None

        killed = attempt(verb, folder / "made", out, strike)
        if len(killed.operations) < at:
            return tally
        tally.struck += 1
        again = attempt(verb, folder / "made", out)
        struck = killed.operations[at - 1]
        where = f"{verb.name}: a kill before operation {at} ({struck.name} {struck.path})"
        wrong = complaints(again, 0) + differences(contents(out), expected)
        asked = Counter(body for method, _, _, body in server.requests if method == "POST")
        wrong += [f"{len(server.requests)} requests"] if len(server.requests) > min(MOST, IMAGES + 2) else []
        wrong += [f"{asked.total()} questions about {len(asked)} images"] if asked.total() > IMAGES + 1 else []
        tally.wrong += [f"{where}: {each}" for each in wrong]
        shutil.rmtree(out)
        at += step
