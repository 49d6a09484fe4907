"""Kills at any moment, of the command or its workers, and signals while it is still importing."""

import signal

import pytest
from early_signals import early_signal, imports_of
from random_kills import LINES, random_kills

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.mark.heavy
@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("verb", LINES)
def test_rows_are_the_same_whoever_was_killed_whenever(verb, workers, tmp_path):
    tally = random_kills(verb, workers, tmp_path, seed=0)
    assert not tally.wrong, "\n".join(tally.wrong)


@pytest.mark.parametrize("at", [20, 400])
def test_a_signal_before_some_imports(at, tmp_path):
    out = tmp_path / "out"
    assert early_signal(["data", "rooms:val,count=1", "--out", str(out)], at, SIGNALS[at % 3], out) is None


@pytest.mark.heavy
def test_a_signal_before_many_imports(tmp_path):
    out = tmp_path / "out"
    line = ["detect", "--detector", "zoo:yolox", "--data", "rooms:val,count=1", "--out", str(out), "--no-cache"]
    every = range(1, imports_of(line), 40)
    out.unlink()
    assert len(every) > 20
    wrong = [early_signal(line, at, SIGNALS[at % 3], out) for at in every]
    assert not any(wrong), "\n".join(filter(None, wrong))
