"""Signals while a command ends: the first interrupts it, the next ones leave it the time to keep what is finished."""

import signal

import pytest

from misdetect.__main__ import ENDED
from misdetect.cli import interruption
from misdetect.cli.interruption import Interrupted, Signals


class Left(Exception):
    pass


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]

    def leave(code):
        raise Left(code)

    monkeypatch.setattr(interruption.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(interruption.os, "_exit", leave)
    return now


@pytest.mark.parametrize(("number", "code"), ENDED.items())
def test_the_first_interrupts_the_second_is_ignored_a_late_one_ends(clock, number, code):
    signals = Signals()
    with pytest.raises(Interrupted) as ended:
        signals._end(number, None)
    assert ended.value.code == code
    clock[0] += 1.9
    signals._end(signal.SIGINT, None)
    clock[0] += 0.2
    with pytest.raises(Left, match=str(code)):
        signals._end(number, None)


def test_after_the_end_the_exit_code_is_that_of_the_command(clock):
    signals = Signals()
    with pytest.raises(SystemExit) as ended:
        signals.leave(3)
    assert ended.value.code == 3
    with pytest.raises(Left, match="3"):
        signals._end(signal.SIGTERM, None)
