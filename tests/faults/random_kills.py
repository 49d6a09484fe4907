"""Kills at moments that chance chooses, of commands in processes of their own, with any number of workers.

A command is killed (alone, with all its workers, or one of its workers) several times and run again until it ends;
then its rows, its files and its queries are compared with those of one that nobody disturbed. What the detector was
asked is counted by the detector itself.
"""

import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from kill_points import contents, differences

TOY = '''
import os, time
from pathlib import Path

class Toy:
    """Boxes by the picture's mean; each image that it is asked about is a byte in the file "asked"."""
    names = ["chair", "table", "lamp"]
    fingerprint = None
    batch_size = 2
    def __init__(self, log=""):
        self.log = log
    def detect(self, images):
        log = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(log, b"." * len(images))
        os.close(log)
        time.sleep(0.01 * len(images))
        found = []
        for image in images:
            mean = float(image.mean())
            boxes = [[8 + 40 * i, 10, 40 + 40 * i, 50 + mean % 7] for i in range(3)]
            found.append((boxes, [0.4 + (mean * (i + 3) % 1) * 0.5 for i in range(3)], [0, 1, 2]))
        return found

class Parts(Toy):
    names = ["saddle", "chain", "front_wheel"]
'''
QUERIES = 900
TOY_OF = {"verify": "Parts"}
LINES = {
    "detect": ["detect", "--data", "rooms:val,count=60"],
    "explain": ["explain", "--data", "rooms:val,count=60", "--pictures", "0"],
    "scan": ["scan", "--data", "rooms:val,count=8", "--pairs", "4", "--step", "24", "--pictures", "0"],
    "fuzz": [
        *("fuzz", "--data", "rooms:val,count=8", "--strategy", "guided", "--reach", "2", "--per-object", "2"),
        *("--backgrounds", "4", "--queries", str(QUERIES), "--pictures", "0"),
    ],
    "confusion": ["confusion", "--data", "rooms:val,count=60", "--pictures", "0"],
    "doctor": ["doctor", "--data", "rooms:val,count=24", "--images", "12"],
    "verify": ["verify", "--data", "bikes:val,count=40", "--score", ".1", "--pictures", "0"],
    "attack": ["attack", "--data", "rooms:val,count=6", "--steps", "3", "--ladder", "2", "--pictures", "0"],
}
VICTIMS = ("command", "everything", "worker")


@dataclass
class Tally:
    """``kills`` by victim, and ``wrong``, what went wrong."""

    commands: int = 0
    kills: dict[str, int] = field(default_factory=lambda: dict.fromkeys(VICTIMS, 0))
    wrong: list[str] = field(default_factory=list)


class Campaign:
    """One command with its folder, to be killed and run again."""

    def __init__(self, verb: str, folder: Path, workers: int) -> None:
        self.verb, self.folder, self.workers = verb, folder / "out", workers
        self.folder.mkdir(parents=True)
        (folder / "toy.py").write_text(TOY)
        self._log = folder / "asked"
        out = "results.json" if verb == "detect" else "run"
        toy = f"python:../toy.py:{TOY_OF.get(verb, 'Toy')},log=../asked"  # the same words in every folder
        detector = "zoo:ssd" if verb == "attack" else toy
        self.line = [*LINES[verb], "--detector", detector, "--out", out, "--workers", str(workers), "--no-cache"]

    def start(self) -> "subprocess.Popen[str]":
        """In a session of its own."""
        command, pipe = [sys.executable, "-m", "misdetect", *self.line], subprocess.PIPE
        return subprocess.Popen(command, cwd=self.folder, stdout=pipe, stderr=pipe, text=True, start_new_session=True)

    @property
    def asked(self) -> int:
        """Images that the detector was asked about, by its own count."""
        return self._log.stat().st_size if self._log.exists() else 0


def session(leader: int) -> list[int]:
    """The processes in the session of ``leader``, itself first, that are not dead."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and os.getsid(int(entry.name)) == leader:
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
                found += [int(entry.name)] if state != "Z" else []
        except OSError:
            continue
    return sorted(found, key=lambda pid: (pid != leader, pid))


def _workers_of(leader: int) -> list[int]:
    found = []
    for pid in session(leader)[1:]:
        try:
            if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
        except OSError:
            continue
    return found


def _strike(process: "subprocess.Popen[str]", victim: str, chance: random.Random) -> str | None:
    """Kill ``victim``; who it was in the end, or ``None`` where the command was over already."""
    if process.poll() is not None:
        return None
    workers = _workers_of(process.pid)
    if victim == "worker" and workers:
        os.kill(chance.choice(workers), signal.SIGKILL)
        return "worker"
    if victim == "everything":
        os.killpg(process.pid, signal.SIGKILL)
        return victim
    process.kill()
    return "command"


def disturb(campaign: Campaign, chance: random.Random, kills: int, seconds: float, tally: Tally) -> None:
    """Kill ``campaign`` up to ``kills`` times at any moment of its ``seconds``, and run it until it ends."""
    while True:
        tally.commands += 1
        process = campaign.start()
        victim = None
        if kills:
            kills -= 1
            time.sleep(chance.uniform(0, seconds))
            victim = _strike(process, chance.choice(VICTIMS if campaign.workers > 1 else VICTIMS[:1]), chance)
            tally.kills[victim or "command"] += victim is not None
        where = f"{campaign.verb}, {campaign.workers} workers, after a kill of {victim}"
        try:
            out, err = process.communicate(timeout=300)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            tally.wrong.append(f"{where}: it hangs")
            return
        if "Traceback" in err or "fault in misdetect" in err:
            tally.wrong.append(f"{where}: a traceback: {err[-600:]}")
        deadline = time.monotonic() + 60
        while session(process.pid) and time.monotonic() < deadline:
            time.sleep(0.1)
        if session(process.pid):
            tally.wrong.append(f"{where}: processes are left: {session(process.pid)}")
            os.killpg(process.pid, signal.SIGKILL)
        if victim in ("command", "everything"):
            continue
        if process.returncode:
            tally.wrong.append(f"{where}: exit code {process.returncode}: {(out + err)[-600:] or 'silent'}")
            return
        if not kills:
            return


def random_kills(verb: str, workers: int, folder: Path, seed: int, kills: int = 3) -> Tally:
    """Disturb one command and compare what it leaves with what an undisturbed one leaves."""
    tally, chance = Tally(), random.Random(f"{verb} {workers} {seed}")
    whole = Campaign(verb, folder / "whole", workers)
    started = time.monotonic()
    disturb(whole, chance, 0, 0, tally)
    disturbed = Campaign(verb, folder / "disturbed", workers)
    struck = kills
    disturb(disturbed, chance, kills, time.monotonic() - started, tally)
    where = f"{verb}, {workers} workers, seed {seed}"
    if not tally.wrong and (differs := differences(contents(disturbed.folder), contents(whole.folder))):
        tally.wrong.append(f"{where}: differs in {differs}")
    if verb == "fuzz" and disturbed.asked > QUERIES:
        tally.wrong.append(f"{where}: {disturbed.asked} queries with a budget of {QUERIES}")
    if verb == "fuzz":  # answers that cost something are kept: a kill loses what the detector was at, no more
        at_once = 3 * 2 * workers
        if disturbed.asked > whole.asked + struck * at_once:
            tally.wrong.append(f"{where}: {disturbed.asked} queries instead of {whole.asked} after {struck} kills")
    return tally
