"""A signal before any import of a command: in its first second it is importing, and a signal then must not be lost in
an import that turns every error into one of its own, nor end in a traceback."""

import signal
import subprocess
import sys
from pathlib import Path

from misdetect.__main__ import ENDED

_COMMAND = """
import os, sys
import misdetect.__main__

class Watch:
    seen = 0
    def find_spec(self, name, path=None, target=None):
        Watch.seen += 1
        if Watch.seen == {at}:
            os.kill(os.getpid(), {number})

sys.meta_path.insert(0, Watch())
sys.argv = ["misdetect", *{line!r}]
try:
    misdetect.__main__.main()
finally:
    if not {at}:
        print(Watch.seen, file=sys.stderr)
"""


def _run(line: list[str], at: int, number: int) -> "subprocess.CompletedProcess[str]":
    code = _COMMAND.format(at=at, number=int(number), line=line)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)


def imports_of(line: list[str]) -> int:
    """How many modules a command asks for."""
    return int(_run(line, 0, signal.SIGINT).stderr.split()[-1])


def early_signal(line: list[str], at: int, number: int, out: Path) -> str | None:
    """Send ``number`` before import ``at`` of a command that writes ``out``; what is wrong, or ``None``."""
    ended = _run(line, at, number)
    said = ended.stdout + ended.stderr
    where = f"{signal.Signals(number).name} before import {at} of {line[0]}"
    if "Traceback" in said or "Exception ignored" in said:
        return f"{where}: a traceback: {said[-800:]}"
    if ended.returncode != ENDED[signal.Signals(number)] or "interrupted" not in said:
        return f"{where}: exit code {ended.returncode}: {said[-800:] or 'silent'}"
    return f"{where}: {out} is there" if out.exists() else None
