"""Detectors and a study for the tests of workers; in a module of their own, since workers import them."""

import os
import signal
import sys
import time
from pathlib import Path

import pyarrow as pa
from toys import DATA, SumDetector, picture

from misdetect.engine.requests import Case, Detect

KILL = getattr(signal, "SIGKILL", signal.SIGTERM)
"""What ends a process at once; on Windows any signal does."""


class Marked(SumDetector):
    """A detector of which only the first in a folder misbehaves."""

    def __init__(self, folder: str = "", **options) -> None:
        super().__init__(fingerprint="sum", batch_size=2, **options)
        self.folder = folder

    def first(self) -> bool:
        """Whether nobody was here before."""
        try:
            os.close(os.open(Path(self.folder) / "mark", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True


class DiesOnce(Marked):
    def detect(self, images):
        if len(self.batches) == 3 and self.first():
            os.kill(os.getpid(), KILL)
        return super().detect(images)


class StopsOnce(Marked):
    def detect(self, images):
        if len(self.batches) == 3 and self.first():
            os.kill(os.getpid(), signal.SIGSTOP)
        return super().detect(images)


class HangsOnce(Marked):
    def detect(self, images):
        if len(self.batches) == 3 and self.first():
            time.sleep(600)
        return super().detect(images)


class DiesOf(Marked):
    """Dies of one picture, each time."""

    def detect(self, images):
        if any((image == picture(5).pixels).all() for image in images):
            os.kill(os.getpid(), KILL)
        return super().detect(images)


class DiesAlways(Marked):
    def detect(self, images):
        os.kill(os.getpid(), KILL)


class Exits(Marked):
    def detect(self, images):
        sys.exit(0)


def exits_at_once():
    sys.exit(0)


class Rounds:
    """Ten cases a round; the next round is planned only when the one before is known."""

    name, schema, data = "rounds", pa.schema([("score", pa.float64())]), DATA

    def __init__(self, rounds: int = 20) -> None:
        self.rounds = rounds
        self.known: set[int] = set()
        self.planned = 0

    def settings(self):
        return {"rounds": self.rounds}

    def __len__(self):
        return self.planned

    def learn(self, index, rows):
        self.known.add(index)

    def cases(self):
        for number in range(self.rounds):
            self.planned = 10 * (number + 1)
            yield from (Case(i, str(i)) for i in range(10 * number, self.planned))
            while not self.known.issuperset(range(10 * number, self.planned)):
                yield None

    def run(self, case):
        found = yield Detect(picture(case.index))
        return [{"score": float(found.scores[0])}]


def counted(folder) -> int:
    """How many images the detectors that note them in ``folder`` were asked about."""
    asked = Path(folder) / "asked"
    return asked.stat().st_size if asked.exists() else 0


class Counted(Marked):
    """Notes every image that it is asked about in a file."""

    def detect(self, images):
        with open(Path(self.folder) / "asked", "ab") as file:
            file.write(b"." * len(images))
        return super().detect(images)


class Slow(Counted):
    """One that is still at work when something happens to it."""

    def __init__(self, folder: str) -> None:
        super().__init__(folder, delay=0.4)
