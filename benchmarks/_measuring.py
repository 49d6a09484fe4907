"""What the benchmarks share: how they are asked, the photos some of them need, and clocks and memory. No benchmark.

Every benchmark has a short form, ``--short``: the smallest sizes and one round, seconds instead of minutes. Its figures
mean nothing; it shows that the benchmark still runs.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

FIXTURES = Path(__file__).parents[2] / "shared" / "fixtures"
PHOTOS = f"coco:{FIXTURES / 'coco66' / 'instances.json'}"
YOLOX_NANO = f"onnx:{FIXTURES / 'models' / 'yolox_nano.onnx'},decoder=yolox,names=coco"


class Parser(argparse.ArgumentParser):
    """A parser whose arguments say with ``short=`` what they are in the short form, where they are not given.

    ``--check`` reads the arguments and ends: whether a command that a page quotes would start.
    """

    def __init__(self, description: str | None) -> None:
        self._short: dict[str, Any] = {}
        super().__init__(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
        self.add_argument("--short", action="store_true", help="smallest sizes, one round: does it still run?")
        self.add_argument("--check", action="store_true", help="only read the arguments")

    def add_argument(self, *names: str, short: Any = None, **how: Any) -> argparse.Action:
        """As argparse's; ``short`` is the argument's default in the short form, where that differs."""
        action = super().add_argument(*names, **how)
        if short is not None:
            self._short[action.dest] = short
        return action

    def parse_args(self, given: Sequence[str] | None = None) -> argparse.Namespace:  # type: ignore[override]
        """The arguments ``given``, or else those of the command line."""
        given = sys.argv[1:] if given is None else given
        if "--short" in given:
            self.set_defaults(**self._short)
        found = super().parse_args(given)
        if found.check:
            self.exit()
        return found


def need_fixtures() -> None:
    """End here, without a failure, where the photos and models are not."""
    if not FIXTURES.exists():
        skip("the photos and the models of this benchmark are not here")


def skip(why: str) -> None:
    """End the benchmark without a failure."""
    print(f"skipped: {why}.", file=sys.stderr)
    sys.exit()


def cpu_seconds(run: Callable[[], object]) -> float:
    """Processor time of one call: that of this process, whatever else the machine is doing."""
    start = time.process_time()
    run()
    return time.process_time() - start


def memory_kb(name: str, process: int | str = "self") -> int:
    """What the kernel says of a process's memory: ``VmRSS`` now, ``VmHWM`` at the most so far. Linux only.

    ``getrusage`` would report the parent's peak where that is higher.
    """
    lines = Path(f"/proc/{process}/status").read_text(encoding="utf-8").splitlines()
    return int(next(line for line in lines if line.startswith(f"{name}:")).split()[1])
