"""Fixtures of the command line's tests."""

import signal
import sys

import pytest
from cli_world import World


@pytest.fixture
def world(tmp_path):
    (tmp_path / "world").mkdir()
    return World(tmp_path / "world")


@pytest.fixture
def run(monkeypatch, capsys):
    """``run(*arguments)``: the command's exit code, stdout and stderr; in this process, since starting one is slow."""
    from misdetect.cli import main

    def command(*arguments) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["misdetect", *map(str, arguments)])
        before = signal.getsignal(signal.SIGTERM)
        try:
            with pytest.raises(SystemExit) as ended:
                main()
        finally:
            signal.signal(signal.SIGTERM, before)
        said = capsys.readouterr()
        return ended.value.code, said.out, said.err

    return command
