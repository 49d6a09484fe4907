"""A command against a server that does something wrong, and all that has to hold whatever that is.

The server's own count of requests is the judge of the claimed one.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path

from cli_world import World
from faulty_server import AGAIN, FAILS, OPTIONS, TIMEOUT, Fault, Faulty
from fuzz_runs import command
from loopback import Server

IMAGES = 6


@dataclass
class Asked:
    """A command's exit code and document, what the server counted, and what is ``wrong``."""

    code: int
    document: dict
    requests: int
    wrong: list[str] = field(default_factory=list)


def ask(world: World, server: Server, faulty: Faulty, out: Path, *more: object, options: str = "") -> Asked:
    """``detect`` of the six images of ``world``."""
    server.script = faulty
    spec = f"{server.url}{OPTIONS}{options}"
    line = ["detect", "--detector", spec, "--data", world.data, "--out", out, "--json", "--no-cache", *more]
    code, said, err = command(*line)
    found = Asked(code, json.loads(said), len(server.requests))
    if "Traceback" in err or "fault in misdetect" in said:
        found.wrong.append(f"a traceback: {err[-500:]}")
    return found


def try_fault(fault: Fault, world: World, server: Server, folder: Path) -> Asked:
    """Every second image is answered wrongly the first time."""
    faulty = Faulty(lambda n: fault if n % 2 else None)
    options = f",timeout={TIMEOUT}" if fault.slow else ""
    found = ask(world, server, faulty, folder / "results.json", options=options)
    judge(found, faulty)
    expected = IMAGES // 2 if fault.expected == FAILS else 0
    if not found.wrong and found.document["failed"] != expected:
        found.wrong.append(f"{found.document['failed']} images failed, not {expected}")
    if found.code == 0:
        answered = {each["image_id"] for each in json.loads((folder / "results.json").read_text())}
        found.wrong += ["results are lost"] if len(answered) != IMAGES - expected else []
    left = sorted(path.name for path in folder.iterdir() if path.name != "results.json")
    found.wrong += [f"files are left: {left}"] if left else []
    return found


def judge(found: Asked, faulty: Faulty) -> None:
    """Compare what a command claims with what the server saw."""
    if found.code:
        found.wrong.append(f"exit code {found.code}: {found.document}")
        return
    engine, failures = found.document["engine"], found.document["failures"]
    claims = {
        "requests": (engine["requests"], found.requests),
        "requests, counted twice": (faulty.requests, found.requests),
        "retried": (engine["retried"], faulty.asked.total() - IMAGES),
        "retried, as expected": (engine["retried"], faulty.struck[AGAIN]),
        "failed": (found.document["failed"], faulty.struck[FAILS]),
        "failed images that are named": (len({each["image"] for each in failures}), faulty.struck[FAILS]),
        "requests for class names": (faulty.names, 1),
    }
    found.wrong += [f"{name}: {claimed} and not {seen}" for name, (claimed, seen) in claims.items() if claimed != seen]
    known = {f"{i}.png" for i in range(IMAGES)}
    found.wrong += [f"named by no image: {each}" for each in failures if each["image"] not in known]
