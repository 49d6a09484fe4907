"""Commands whose disk fills up: what was finished stays, nothing is cut off under its final name, and the same command
ends as if nothing had happened once there is room.

``python tests/faults/full_disk.py [--every N] [VERB…]`` gives each command a disk of its own (a tmpfs in a namespace of
its own, for which the script starts itself again with ``unshare``; 77 where the machine allows none), first large, then
with less and less room, and prints what breaks the law.
"""

import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet as pq
from malformed import warm
from malformed_case import in_a_child
from malformed_world import coco, coco_document, mine, results_document, score_command
from PIL import Image

NOT_HERE = 77
SHARES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9)
"""Of the room that a command needs, in which it is tried."""
Make = Callable[[Path, Path], list[str]]


def _study(verb: str, *more: str) -> Make:
    """``verb`` over the data in ``world``, writing to ``disk``."""

    def make(world: Path, disk: Path) -> list[str]:
        spec = f"{mine(world)},fingerprint=mine"
        (world / "mine.py").write_text((world / "mine.py").read_text() + "    def __init__(self, fingerprint): pass\n")
        data = f"coco:{world / 'instances.json'}"
        return [verb, "--detector", spec, "--data", data, "--out", str(disk / "out"), *more, "--no-cache"]

    return make


def _looks(*arguments: str) -> Make:
    """A command that reads ``run`` in ``world``."""

    def make(world: Path, disk: Path) -> list[str]:
        return [a.replace("WORLD", str(world)).replace("DISK", str(disk)) for a in arguments]

    return make


ATTACK = ("attack", "--detector", "zoo:ssd", "--data", "rooms:val,count=2", "--steps", "2", "--ladder", "0")
DOCTOR = ("doctor", "--detector", "glassbox:none,data=rooms:val,count=6", "--data", "rooms:val,count=6")
BIKES = "bikes:val,count=3"
VERIFY = ("verify", "--detector", f"glassbox:hallucinate-context/rate=.5,data={BIKES}", "--data", BIKES)
SCORE = ("score", "--truth", "coco:WORLD/instances.json", "--predictions", "WORLD/results.json")
COMMANDS: dict[str, Make] = {
    "detect": _study("detect"),
    "explain": _study("explain", "--pictures", "2"),
    "scan": _study("scan", "--pairs", "2", "--step", "16"),
    "fuzz": _study("fuzz", "--queries", "24"),
    "confusion": _study("confusion", "--pictures", "1"),
    "attack": _looks(*ATTACK, "--transfer", "none", "--pictures", "1", "--out", "DISK/out", "--no-cache"),
    "doctor": _looks(*DOCTOR, "--images", "6", "--out", "DISK/out", "--no-cache"),
    "verify": _looks(*VERIFY, "--pictures", "1", "--out", "DISK/out", "--no-cache"),
    "checkup": _study("checkup", "--minutes", "0.1", "--pictures", "0"),
    "data": _looks("data", "coco:WORLD/instances.json", "--out", "DISK/out"),
    "pool": _looks("pool", "--data", "coco:WORLD/instances.json", "--out", "DISK/out", "--min-side", "0", "--no-cache"),
    "score --rows": _looks(*SCORE, "--rows", "DISK/rows.csv"),
    "score --out": _looks(*SCORE, "--out", "DISK/out"),
    "ledger": _looks("ledger", "WORLD/run", "--out", "DISK/ledger.parquet"),
    "compare": _looks("compare", "WORLD/run", "WORLD/other", "--out", "DISK/out"),
}


def build(world: Path, runs: bool) -> None:
    """Data, stored predictions and, if they are needed, two runs."""
    (world / "tmp").mkdir()
    score_command(world, results_document())
    coco(world, coco_document())
    for name, more in (("run", ()), ("other", ("--loc", "0.6"))) if runs else ():
        arguments = _study("explain", *more)(world, world)
        arguments[arguments.index("--out") + 1] = str(world / name)
        code = in_a_child(arguments, world)
        assert code == 0, (world / "err").read_text()


def mounted(disk: Path, size: int) -> None:
    """A fresh disk of ``size`` bytes at ``disk``."""
    subprocess.run(["umount", "--lazy", disk], capture_output=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={max(size, 4096)}", "none", disk], check=True)


def used(disk: Path) -> int:
    about = os.statvfs(disk)
    return (about.f_blocks - about.f_bfree) * about.f_frsize


def cut_off(disk: Path) -> Iterator[str]:
    """Files that are not whole."""
    for path in sorted(p for p in disk.rglob("*") if p.is_file() and p.name != ".lock"):
        data, name = path.read_bytes(), str(path.relative_to(disk))
        try:
            if path.name.endswith((".writing", ".tmp")):
                yield f"{name} is left"
            elif path.suffix == ".json":
                json.loads(data)
            elif path.suffix == ".png":
                Image.open(io.BytesIO(data)).load()
            elif path.suffix == ".parquet":
                pq.read_table(path)
            elif path.suffix == ".html" and not data.rstrip().endswith(b"</html>"):
                yield f"{name} is cut off"
        except Exception as error:
            yield f"{name} is cut off ({type(error).__name__})"


def results(disk: Path) -> dict[str, object]:
    """What a command has to end with: rows of runs, and the bytes of what has no times in it."""
    found: dict[str, object] = {}
    for path in sorted(p for p in disk.rglob("*") if p.is_file()):
        name = str(path.relative_to(disk))
        if path.suffix == ".parquet" and path.parent.name == "parts":
            rows = found.setdefault(str(path.parent.relative_to(disk)), [])
            assert isinstance(rows, list)
            rows += pq.read_table(path).to_pylist()
        elif path.suffix in (".png", ".csv", ".html", ".md") or name in ("out", "out/document.json"):
            found[name] = path.read_bytes()
    for rows in found.values():
        if isinstance(rows, list):
            rows.sort(key=repr)  # parts end where they are flushed
    return found


def complaints(name: str, make: Make, world: Path, disk: Path, every: int) -> Iterator[str]:
    """How the command ``name`` breaks the law on disks of several sizes."""
    mounted(disk, 64 << 20)
    arguments = make(world, disk)
    code = in_a_child(arguments, world)
    if code:
        yield f"ends with {code} where there is room: {(world / 'err').read_text()[-300:]}"
        return
    needed, expected = used(disk), results(disk)
    for share in SHARES[::every]:
        size = int(share * needed)
        mounted(disk, size)
        code, where = in_a_child(arguments, world), f"in {size} of {needed} bytes"
        said = (world / "err").read_text()
        told = [line for line in said.splitlines() if line.startswith("misdetect: ")]
        if code == 0 and results(disk) == expected:  # it fits after all: disks are counted in pages
            continue
        if code != 2 or len(told) != 1 or re.search("Traceback|fault in misdetect", said):
            yield f"{where}: ends with {code} and says {said[-300:]!r}"
        yield from (f"{where}: {what}" for what in cut_off(disk))
        subprocess.run(["mount", "-o", "remount,size=64m", disk], check=True)
        code = in_a_child(arguments, world)
        if code:
            yield f"{where}: ends with {code} when there is room again: {(world / 'err').read_text()[-300:]}"
        elif (found := results(disk)) != expected:
            other = sorted(n for n in {*found, *expected} if found.get(n) != expected.get(n))
            yield f"{where}: other results when there is room again: {other[:4]}"


def in_a_namespace() -> int:
    """This script again, where it may mount."""
    if not shutil.which("unshare") or subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode:
        return NOT_HERE
    return subprocess.run(["unshare", "-rm", sys.executable, __file__, "--inside", *sys.argv[1:]]).returncode


def main(words: list[str]) -> int:
    every = int(words.pop(words.index("--every") + 1)) if "--every" in words else 1
    chosen = {name: make for name, make in COMMANDS.items() if not (verbs := set(words) - {"--every"}) or name in verbs}
    warm()
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="full-disk-") as folder:
        world, disk = Path(folder) / "world", Path(folder) / "disk"
        world.mkdir()
        disk.mkdir()
        os.chdir(world)
        build(world, runs=bool({"ledger", "compare"} & chosen.keys()))
        for name, make in chosen.items():
            found = list(complaints(name, make, world, disk, every))
            wrong += bool(found)
            print("".join(f"{name}: {what}\n" for what in found), end="", flush=True)
        subprocess.run(["umount", "--lazy", disk], check=True)
        os.chdir("/")
    print(f"{len(chosen)} commands on {len(SHARES[::every])} full disks each, {wrong} misbehave")
    return bool(wrong)


if __name__ == "__main__":
    inside = "--inside" in sys.argv
    sys.exit(main([w for w in sys.argv[1:] if w != "--inside"]) if inside else in_a_namespace())
