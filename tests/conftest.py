"""What all tests share: a prediction cache of their own, and property tests that the machine's load cannot fail."""

import os
import signal
import sys

os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")  # as misdetect.training does, before torch is used

import pytest
from hypothesis import settings

settings.register_profile("misdetect", deadline=None, max_examples=50)
settings.register_profile("thorough", deadline=None, max_examples=200)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "misdetect"))


@pytest.fixture(autouse=True, scope="session")
def prediction_cache(tmp_path_factory):
    """``MISDETECT_CACHE`` names a temporary file for the whole session, also for processes that tests start."""
    path = tmp_path_factory.mktemp("cache") / "predictions.sqlite"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MISDETECT_CACHE", str(path))
        yield path


@pytest.fixture
def run(monkeypatch, capsys):
    """``run(*arguments)``: the command's exit code, stdout and stderr; in this process, since starting one is slow."""
    from misdetect.__main__ import ENDED
    from misdetect.cli import main

    def command(*arguments) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["misdetect", *map(str, arguments)])
        before = {number: signal.getsignal(number) for number in ENDED}
        try:
            with pytest.raises(SystemExit) as ended:
                main()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        said = capsys.readouterr()
        return ended.value.code, said.out, said.err

    return command


# A process started in the background of a shell ignores Ctrl-C, one started by nohup a hangup, and so would everything
# it starts: the tests of interruptions need both to be heard.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
