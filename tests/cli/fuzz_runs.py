"""Campaigns for the tests of ``fuzz``, ``replay`` and ``export``: the command in this process, and toy detectors."""

import contextlib
import io
import json
from pathlib import Path

from in_process import ended

from misdetect.engine.store import Run

TOYS = Path(__file__).parents[1] / "studies" / "fuzz_toys.py"
BLOTS = f"python:{TOYS}:make_blots"
ROOMS = "rooms:val,count=12"
GUIDED = ["fuzz", "--detector", BLOTS, "--data", ROOMS, "--strategy", "guided", "--reach", 2, "--no-cache", "--json"]

MORE_TOYS = f'''
from fuzz_toys import BlotDetector

class Calm(BlotDetector):
    """Sees the same in every image, whatever is inserted."""
    fingerprint = None
    def detect(self, images):
        return [super(Calm, self)._one(image.astype(float) * 0 + 90.0) for image in images]

class Paid(BlotDetector):
    """Has limits of its own, as an endpoint's spec may."""
    fingerprint = None
    def __init__(self, queries="", usd=""):
        given = {{"queries": int(queries) if queries else None, "usd": float(usd) if usd else None}}
        self.limits = {{**given, "price": 0.01}}

class Stranger(BlotDetector):
    names = ("zebra", "yak", "yeti")

class Knowing:
    """Segments what it knows by heart."""
    def __init__(self, skip="0"):
        from misdetect.data import load_data
        data = load_data({ROOMS!r})
        self.names, self.skip = data.names, int(skip)
        self.truth = {{sample.image.tobytes(): sample.truth for sample in data}}
    def detect(self, images):
        return [self._one(self.truth[image.tobytes()][self.skip:]) for image in images]
    def _one(self, truth):
        scores = truth.boxes[:, 0] * 0 + 0.9
        return {{"boxes": truth.boxes, "scores": scores, "labels": truth.labels, "masks": truth.masks}}
'''


def command(*arguments) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of the command; for fixtures that are shared, where ``capsys`` cannot be had."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = ended(*arguments)
    return code, out.getvalue(), err.getvalue()


def instead(arguments, *more):
    """``arguments`` with ``more`` in place of what they say of the same options."""
    kept, rest = [], list(arguments)
    while rest:
        word = rest.pop(0)
        if word in more and str(word).startswith("--"):
            rest.pop(0)
        else:
            kept.append(word)
    return [*kept, *more]


def document(*arguments):
    """The document of a command that works."""
    code, out, err = command(*arguments)
    assert code == 0, out + err
    return json.loads(out)


def rows(out: Path):
    """All rows of a run, in order."""
    return Run.open(out).table().to_pylist()
