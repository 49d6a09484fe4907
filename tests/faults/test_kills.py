"""Killed or interrupted before any file operation, a verb that writes can simply be run again, and leaves what it
always does: no row lost or doubled, no file left over."""

import errno
import os
import signal
import sqlite3
import subprocess
import sys
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commands import SIGNALLED, VERBS
from fresh import in_fresh_process
from kill_points import every_kill
from loopback import running_server
from paid_kills import paid_kills
from watched import can_watch, run_watched

pytestmark = pytest.mark.skipif(not can_watch(), reason="seeing system calls before they are done takes Linux 5.5")

SOME = ("data",)
WRITING = [name for name in VERBS if name != "show"]


def kills_of(verb, folder, **how):
    return every_kill(VERBS[verb], folder, **how)


def kills_of_a_paid_run(folder, **how):
    with running_server() as server:
        return paid_kills(server, folder, **how)


def some_kills(folder):
    """In one process, since what it imports takes longer than they do."""
    (folder / "paid").mkdir()
    return [*(kills_of(verb, folder, most=2) for verb in SOME), kills_of_a_paid_run(folder / "paid", most=2)]


def check(verb, folder, least, **how):
    tally = in_fresh_process(kills_of, verb, folder, **how)
    assert not tally.wrong, "\n".join(tally.wrong)
    assert tally.struck >= least


def test_a_kill_before_some_file_operations(tmp_path):
    tallies = in_fresh_process(some_kills, tmp_path)
    assert [tally.wrong for tally in tallies] == [[]] * 2
    assert min(tally.struck for tally in tallies) >= 2


@pytest.mark.heavy
@pytest.mark.parametrize("verb", WRITING)
def test_a_kill_before_every_file_operation(verb, tmp_path):
    check(verb, tmp_path, 5, most=VERBS[verb].most)


@pytest.mark.heavy
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("verb", SIGNALLED)
def test_a_signal_before_file_operations(verb, number, tmp_path):
    check(verb, tmp_path, 3, most=20, number=number)


@pytest.mark.heavy
def test_a_kill_before_every_file_operation_of_a_paid_run(tmp_path):
    tally = in_fresh_process(kills_of_a_paid_run, tmp_path)
    assert not tally.wrong, "\n".join(tally.wrong)
    assert tally.struck > 40


@pytest.mark.heavy
def test_reading_a_run_writes_nothing(tmp_path):
    tally = in_fresh_process(kills_of, "show", tmp_path)
    assert (tally.struck, tally.wrong) == (0, [])
    assert not tally.operations


def written(folder):
    """Files are changed by SQLite, by Arrow, by a child, and below an open folder."""
    db = sqlite3.connect(folder / "a.sqlite")
    db.execute("CREATE TABLE IF NOT EXISTS t (x)")
    db.close()
    pq.write_table(pa.table({"x": [1]}), folder / "b.parquet")
    subprocess.run([sys.executable, "-c", f"open({str(folder / 'c.txt')!r}, 'w').write('c')"], check=True)
    opened = os.open(folder, os.O_RDONLY)
    os.unlink("c.txt", dir_fd=opened)


def watched_twice(folder):
    """What is seen of ``written``, and of it on a disk that is full for Arrow."""
    body = partial(written, folder)
    full = lambda operation: errno.ENOSPC if operation.path.endswith(".parquet") else None  # noqa: E731
    return run_watched(body, folder, folder=folder.parent), run_watched(body, folder, full, folder=folder.parent)


def test_operations_of_libraries_and_children_are_seen(tmp_path):
    """What the whole harness rests on."""
    ended, full = in_fresh_process(watched_twice, tmp_path)
    assert ended.code == 0, ended.err
    seen = {(operation.name, operation.path.removeprefix(f"{tmp_path}/")) for operation in ended.operations}
    assert ("pwrite", "a.sqlite") in seen
    assert ("write", "b.parquet") in seen
    assert ("write", "c.txt") in seen
    assert {name for name, path in seen if path == "c.txt"} & {"unlink", "unlinkat"}
    assert full.code
    assert "No space left" in full.err
