"""What all tests share: a prediction cache of their own, property tests that the machine's load cannot fail, and a
browser."""

import os
import shutil
import signal

os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")  # as misdetect.training does, before torch is used

import pytest
from hypothesis import settings

settings.register_profile("misdetect", deadline=None, max_examples=30, derandomize=True)  # the same on every machine
settings.register_profile("thorough", deadline=None, max_examples=200)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "misdetect"))


@pytest.fixture(autouse=True, scope="session")
def prediction_cache(tmp_path_factory):
    """``MISDETECT_CACHE`` names a temporary file for the whole session, also for processes that tests start."""
    path = tmp_path_factory.mktemp("cache") / "predictions.sqlite"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MISDETECT_CACHE", str(path))
        yield path


@pytest.fixture(autouse=True)
def signals_as_found():
    """A command takes the signals, and one that is over ends the process when it hears one: whoever runs a command in
    the process of a test gives them back, or the worker dies in a test of interruptions that comes later."""
    heard = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in heard]
    yield
    assert [signal.getsignal(number) for number in heard] == before


@pytest.fixture
def run(capsys):
    """``run(*arguments)``: the command's exit code, stdout and stderr."""
    from in_process import ended

    def command(*arguments) -> tuple[int, str, str]:
        code, said = ended(*arguments), capsys.readouterr()
        return code, said.out, said.err

    return command


# A process started in the background of a shell ignores Ctrl-C, one started by nohup a hangup, and so would everything
# it starts: the tests of interruptions need both to be heard.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


NEEDED = "MISDETECT_NEED_BROWSER"
"""Set where the tests in a browser must run: then it is a failure that there is none."""


@pytest.fixture(scope="session")
def browser():
    """Debian's chromium, or the one that ``MISDETECT_CHROMIUM`` names; nothing is downloaded."""
    program = os.environ.get("MISDETECT_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        lacking("playwright is not installed (pip install 'misdetect[dev]')")
    if program is None:
        lacking("there is no chromium on the PATH, and MISDETECT_CHROMIUM does not name one")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield opened
        opened.close()


def lacking(why):
    """Skip, or fail where these tests are needed."""
    if os.environ.get(NEEDED):
        pytest.fail(f"{NEEDED} is set, but {why}.")
    pytest.skip(f"{why}.")
