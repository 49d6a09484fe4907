"""``python tests/faults/reliability.py``: kill, interrupt and mislead misdetect, and print the counts.

docs/reliability.md sums up what it printed. ``--most N`` strikes each command N times instead of before every
operation, ``--step N`` before every Nth; ``--only`` names parts, ``--verbs`` the commands that are killed or sent
signals. The exit code is 1 if anything was wrong.
"""

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

_TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(_TESTS / name) for name in ("faults", "cli", "detectors", "engine", "studies")]

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
Found = tuple[str, int, list[str]]
"""What was done, how often, and what was wrong."""


@dataclass(frozen=True)
class How:
    """``most`` strikes per command, or one before every ``step``-th operation, of the ``verbs`` (none: of all)."""

    most: int | None
    step: int
    verbs: tuple[str, ...]

    def chosen(self, verbs: Iterable[str]) -> list[str]:
        return [name for name in verbs if not self.verbs or name in self.verbs]


def kills(folder: Path, how: How) -> Iterator[Found]:
    """A kill before file operations, then the same command again."""
    from commands import VERBS
    from kill_points import every_kill

    for name in how.chosen(VERBS):
        verb = VERBS[name]
        tally = every_kill(verb, folder, step=how.step, most=how.most or verb.most)
        yield f"kill before a file operation: {verb.name} ({tally.operations.total()} operations)", *_counts(tally)


def paid(folder: Path, how: How) -> Iterator[Found]:
    """The same, with a server that counts."""
    from loopback import running_server
    from paid_kills import paid_kills

    folder.mkdir(exist_ok=True)
    with running_server() as server:
        yield "kill before a file operation: explain by an endpoint", *_counts(paid_kills(server, folder, how.most))


def signals(folder: Path, how: How) -> Iterator[Found]:
    """A signal before file operations."""
    from commands import SIGNALLED, VERBS
    from kill_points import every_kill

    for name in how.chosen(SIGNALLED):
        for number in SIGNALS:
            tally = every_kill(VERBS[name], folder, most=how.most or 20, number=number)
            yield f"{signal.Signals(number).name} before a file operation: {name}", *_counts(tally)


def early(folder: Path, how: How) -> Iterator[Found]:
    """A signal while a command is importing."""
    from early_signals import early_signal, imports_of

    folder.mkdir(exist_ok=True)
    out = folder / "out.json"
    line = ["detect", "--detector", "zoo:yolox", "--data", "rooms:val,count=1", "--out", str(out), "--no-cache"]
    count = imports_of(line)
    out.unlink()
    every = range(1, count, max(1, count // (how.most or 40)))
    wrong = [early_signal(line, at, SIGNALS[at % 3], out) for at in every]
    yield f"a signal before an import: detect ({count} imports)", len(every), [each for each in wrong if each]


def random(folder: Path, how: How) -> Iterator[Found]:
    """Kills at random moments."""
    from random_kills import LINES, random_kills

    for workers in (1, 2, 4):
        for verb in how.chosen(LINES):
            tally = random_kills(verb, workers, folder / f"{verb}-{workers}", seed=0, kills=min(how.most or 3, 3))
            told = ", ".join(f"{count} of {victim}" for victim, count in tally.kills.items() if count)
            yield f"random kills ({told}): {verb}, {workers} workers", sum(tally.kills.values()), tally.wrong


def endpoints(folder: Path, how: How) -> Iterator[Found]:
    """What a server may do wrong."""
    from cli_world import World
    from endpoints import ask, judge, try_fault
    from faulty_server import FAULTS, Faulty, at_random
    from loopback import running_server

    folder.mkdir(exist_ok=True)
    (folder / "world").mkdir()
    world, wrong, requests = World(folder / "world"), [], 0
    chosen = list(FAULTS.values())[:: max(1, len(FAULTS) // how.most) if how.most else 1]
    for number, fault in enumerate(chosen):
        with running_server() as server:
            (folder / str(number)).mkdir()
            found = try_fault(fault, world, server, folder / str(number))
        requests += found.requests
        wrong += [f"{fault.name}: {each}" for each in found.wrong]
    yield f"kinds of faults of an endpoint ({requests} requests by its own count)", len(chosen), wrong
    for workers in (1, 2, 4):
        with running_server() as server:
            faulty = Faulty(at_random(0.5, seed=workers))
            found = ask(world, server, faulty, folder / f"{workers}.json", "--workers", workers)
        judge(found, faulty)
        yield f"random faults, {workers} workers ({found.requests} requests)", faulty.struck.total(), found.wrong


def _counts(tally: "object") -> tuple[int, list[str]]:
    return tally.struck, tally.wrong  # type: ignore[attr-defined]


PARTS: dict[str, Callable[[Path, How], Iterator[Found]]] = {
    part.__name__: part for part in (kills, paid, signals, early, random, endpoints)
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, help="strikes per command; by default before every operation")
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--step", type=int, default=1, help="kill before every Nth operation")
    parser.add_argument("--verbs", nargs="+", default=[], help="commands that are killed or sent signals")
    asked = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # who is started in the background ignores it
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    how = How(asked.most, asked.step, tuple(asked.verbs))
    total = bad = 0
    for name in asked.only:
        with tempfile.TemporaryDirectory(prefix="misdetect-faults-") as place:
            began = time.monotonic()
            folder = Path(place) / name
            folder.mkdir()
            for what, count, wrong in PARTS[name](folder, how):
                print(f"{count:5d}  {len(wrong):3d} wrong  {time.monotonic() - began:6.0f} s  {what}", flush=True)
                for each in wrong:
                    print(f"       {each}", flush=True)
                total, bad, began = total + count, bad + len(wrong), time.monotonic()
    print(f"{total:5d}  {bad:3d} wrong  in all")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
