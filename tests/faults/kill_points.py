"""A kill before every file operation of a command, one after the other: deterministic, not by timing.

The command runs in a child of this process, in which everything that changes the file system is wrapped: operation
number ``at`` below the watched folder kills the child instead. Then the same command runs again, unharmed.
"""

import builtins
import os
import shutil
import signal
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path

import misdetect.api
import misdetect.cli.options  # noqa: F401

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


def run_command(arguments: list[str], watched: Path, at: int = 0, log: Path | None = None) -> int:
    """Exit code of ``misdetect ARGUMENTS`` in a child; ``-9`` if it was killed before operation ``at`` (from 1; 0:
    never) below ``watched``. Stdout and stderr go to ``log``."""
    sys.stdout.flush()
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        return os.waitstatus_to_exitcode(status)
    code = 70
    try:
        out = os.open(log or os.devnull, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(out, 1)
        os.dup2(out, 2)
        sys.stdout = sys.__stdout__ = open(1, "w", closefd=False)  # noqa: SIM115 - the child's own until it ends
        sys.stderr = sys.__stderr__ = open(2, "w", closefd=False)  # noqa: SIM115
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        if at:
            _kill_before(at, watched)
        sys.argv = ["misdetect", *arguments]
        from misdetect.cli import main

        main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _kill_before(at: int, watched: Path) -> None:
    """Wrap what changes files: operation ``at`` below ``watched`` is not done, and the process dies."""
    count = 0
    root = os.path.abspath(watched)

    def strike(path: object) -> None:
        nonlocal count
        if isinstance(path, (str, os.PathLike)) and os.path.abspath(path).startswith(root):
            count += 1
            if count == at:
                os.kill(os.getpid(), signal.SIGKILL)

    def before(function: Callable, places: tuple[int, ...] = (0,)) -> Callable:
        def wrapped(*args, **kwargs):
            for place in places:
                if len(args) > place:
                    strike(args[place])
            return function(*args, **kwargs)

        return wrapped

    def opened(path, flags=0, *args, **kwargs):
        if flags & WRITING:
            strike(path)
        return real_open(path, flags, *args, **kwargs)

    def file(path, mode="r", *args, **kwargs):
        if set(mode) & set("wax+"):
            strike(path)
        return real_file(path, mode, *args, **kwargs)

    real_open, real_file, connect = os.open, builtins.open, sqlite3.connect
    os.open, builtins.open = opened, file
    import io

    io.open = file
    for name in ("mkdir", "rmdir", "unlink", "remove", "truncate"):
        setattr(os, name, before(getattr(os, name)))
    for name in ("replace", "rename", "link"):
        setattr(os, name, before(getattr(os, name), (1,)))
    fsync = os.fsync

    def synced(number):
        strike(os.readlink(f"/proc/self/fd/{number}"))
        return fsync(number)

    os.fsync = synced
    sqlite3.connect = before(connect)


def every_kill(command: Callable[[Path], list[str]], folder: Path, step: int = 1) -> tuple[int, list[str]]:
    """Kill ``command(out)`` before each ``step``-th of its file operations below a new folder, run it again, compare
    with what an undisturbed run leaves. How many kill points there were, and what went wrong."""
    whole = folder / "whole"
    whole.mkdir()
    log = folder / "log"
    if run_command(command(whole), whole, log=log):
        raise AssertionError(f"the command fails by itself: {log.read_text()}")
    expected = contents(whole)
    at, wrong = 1, []
    while True:
        place = folder / f"kill-{at}"
        place.mkdir()
        code = run_command(command(place), place, at)
        if code == -signal.SIGKILL:
            code = run_command(command(place), place, log=log)
            if code:
                wrong.append(f"kill {at}: the same command then ends with {code}: {log.read_text()[-300:]}")
            elif (found := contents(place)) != expected:
                differs = sorted(
                    name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name)
                )
                wrong.append(f"kill {at}: differs in {differs}")
            shutil.rmtree(place)
        else:
            shutil.rmtree(place)
            return at - 1, wrong
        at += step


def contents(folder: Path) -> dict[str, object]:
    """What a command left: rows of run directories (however they are divided into parts), bytes of other files."""
    from misdetect.engine.store import Run

    found: dict[str, object] = {}
    runs = {path.parent for path in folder.rglob("run.json")}
    for run in runs:
        opened = Run.open(run)
        found[f"{run.relative_to(folder)} rows"] = opened.table().to_pylist()
        found[f"{run.relative_to(folder)} done"] = sorted(opened.done())
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_dir() or path.name == ".lock" or path.parent.name == "parts":
            continue
        data = path.read_bytes().replace(str(folder).encode(), b"FOLDER")
        found[name] = len(data) > 0 if path.name in _VARY else data
    return found


_VARY = ("run.json",)
"""Files that hold the command and so the folder's name; their rows are compared."""
