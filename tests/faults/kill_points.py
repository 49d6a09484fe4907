"""A kill before every file operation of a command, one after the other: deterministic, not by timing.

Operation number *n* below the command's folder is not done, and whoever was about to do it dies; then the same command
runs again, unharmed, and what it leaves is compared with what an undisturbed one leaves.
"""

import contextlib
import json
import pkgutil
import shutil
import signal
from collections import Counter
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

from commands import Verb
from watched import Ended, Operation, Strike, run_watched

import misdetect

INTERRUPTED = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 143}


def load_everything() -> None:
    """Import all of misdetect, so that children of this process need not, each time."""
    for module in pkgutil.walk_packages(misdetect.__path__, "misdetect."):
        with contextlib.suppress(ImportError):  # an extra that is not installed
            import_module(module.name)
    with contextlib.suppress(ImportError):
        import_module("pandas")  # Arrow looks for it


@dataclass
class Tally:
    """What was done to a command and what came of it. ``wrong`` are sentences; all else are counts."""

    struck: int = 0
    operations: "Counter[str]" = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def every_kill(
    verb: Verb, folder: Path, *, step: int = 1, most: int | None = None, number: int = signal.SIGKILL
) -> Tally:
    """Send ``number`` (a signal) to ``verb`` before each ``step``-th of its file operations (or before ``most`` of
    them, evenly spread); then run it again, and compare what it leaves with what it leaves undisturbed."""
    load_everything()
    made = folder / "made"
    verb.prepare(made)
    tally = Tally()
    undisturbed = folder / f"{verb.name}-{number}-whole"
    whole = attempt(verb, made, undisturbed)
    assert not complaints(whole, 0), f"the command fails by itself: {complaints(whole, 0)}"
    tally.operations.update(operation.name for operation in whole.operations)
    expected = contents(undisturbed)
    if most is not None:
        step = max(1, len(whole.operations) // most)
    at = 1 + step // 2
    while True:
        out = folder / f"{verb.name}-{number}-{at}"

        def strike(operation: Operation, at: int = at) -> int | None:
            return -number if operation.number == at else None

        ended = attempt(verb, made, out, strike)
        if len(ended.operations) < at:
            shutil.rmtree(out)
            return tally
        tally.struck += 1
        tally.wrong += _judge(verb, made, out, ended, at, number, expected)
        shutil.rmtree(out)
        at += step


def attempt(verb: Verb, made: Path, out: Path, strike: Strike | None = None) -> Ended:
    if not out.exists():
        (out / "tmp").mkdir(parents=True)
        verb.before(made, out)
    return run_watched(verb.body(made, out), out, strike, folder=out.parent)


def _judge(
    verb: Verb, made: Path, out: Path, ended: Ended, at: int, number: int, expected: dict[str, object]
) -> list[str]:
    """What is wrong after a strike, and after the same command was run again."""
    struck = ended.operations[at - 1]
    where = f"{verb.name}: {signal.Signals(number).name} before operation {at} ({struck.name} {struck.path})"
    code = 0 if not struck.main else -signal.SIGKILL if number == signal.SIGKILL else INTERRUPTED[number]
    # a signal that comes while the last files are written may come too late to be heeded
    allowed = (code, 0) if number != signal.SIGKILL else (code,)
    wrong = [f"{where}: {complaint}" for complaint in complaints(ended, *allowed)]
    again = attempt(verb, made, out)
    differs = [] if again.code not in (0, 2) else differences(contents(out), expected)
    # a command that overwrites nothing says that it is done already
    wrong += [f"{where}, run again: {complaint}" for complaint in complaints(again, 0, *([] if differs else [2]))]
    if not again.code and differs:
        wrong.append(f"{where}, run again: differs in {differs}")
    return wrong


def complaints(ended: Ended, *allowed: int) -> list[str]:
    """What a command must never do, and exit codes that it was not to end with."""
    said = ended.out + ended.err
    found = ["it hung"] if ended.hung else []
    found += ["a traceback"] if "Traceback" in said or "Exception ignored" in said else []
    found += [f"exit code {ended.code}"] if ended.code not in allowed else []
    found += ["it ended silently"] if ended.code > 0 and not said.strip() else []
    found += ["it blames itself"] if "a fault in misdetect" in said else []
    return [f"{each}: {said[-600:]}" for each in found]


def differences(found: dict[str, object], expected: dict[str, object]) -> list[str]:
    """Names of what differs."""
    return sorted(name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name))


def contents(folder: Path) -> dict[str, object]:
    """What a command left: rows of run directories (however they are divided into parts), bytes of other files."""
    from misdetect.engine.store import Run

    found: dict[str, object] = {}
    for run in {path.parent for path in folder.rglob("run.json")}:
        opened = Run.open(run)
        found[f"{run.relative_to(folder)} rows"] = opened.table().to_pylist()
        found[f"{run.relative_to(folder)} done"] = sorted(opened.done())
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.name in _PASSING or (path.parent.name == "parts" and path.name.startswith("part-")):
            continue
        counted = path.name == "document.json" and path.parent.with_name(f"{path.parent.name}.budget").exists()
        if path.is_dir() or path.name in _VARY or path.suffix == ".budget" or counted:
            found[name] = "there"
        elif path.name == "checkup.json":
            document = json.loads(path.read_text().replace(str(folder), "FOLDER"))
            found[name] = {study: {**own, "cost": None} for study, own in document.pop("studies").items()} | document
            found[name] |= {"check": None}
        elif path.name == "document.json":  # its checksum is of the folder's name too, where it has that
            found[name] = json.loads(path.read_text().replace(str(folder), "FOLDER")) | {"check": None}
        else:
            found[name] = path.read_bytes().replace(str(folder).encode(), b"FOLDER")
    return found


_PASSING = (".lock", "predictions.sqlite-wal", "predictions.sqlite-shm")
"""Locks, and what SQLite keeps beside the cache until the last of those who have it open, workers among them, closes it
in peace; the next who opens it tidies up."""
_VARY = ("run.json", "predictions.sqlite", "checkpoint.safetensors")
"""Files that hold the command, and so the folder's name, or times. What a run with a budget has spent is in its
document, and a kill costs what the detector was being asked: such a run is compared by its rows alone, and a checkup
without what its studies cost."""
