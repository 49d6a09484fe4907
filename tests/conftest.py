"""What all tests share: a prediction cache of their own, property tests that the machine's load cannot fail, and a
browser."""

import atexit
import gc
import os
import shutil
import signal
from collections import defaultdict
from functools import lru_cache

os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")  # as misdetect.training does, before torch is used

import pytest
from hypothesis import settings

from misdetect.__main__ import ENDED
from misdetect.kept.system import locked

UNIX = hasattr(signal, "SIGHUP")
collect_ignore = [] if UNIX else ["faults", "engine/test_cluster.py", "cli/test_strangers.py"]
"""What strikes by means of Unix: signals, forks, links, pipes, and system calls that are watched."""

settings.register_profile("misdetect", deadline=None, max_examples=30, derandomize=True)  # the same on every machine
settings.register_profile("thorough", deadline=None, max_examples=300)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "misdetect"))


def pytest_runtest_setup(item):
    if not UNIX and item.get_closest_marker("unix"):
        pytest.skip("needs what only Unix has: signals between processes, forks, links, rights")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Of a test that is ``sampled(n)``, n of its cases run, the first, the last and some between; the others are heavy.
    Every worker sees the same items, so all choose alike."""
    cases = defaultdict(list)
    for item in items:
        if (mark := item.get_closest_marker("sampled")) and not item.get_closest_marker("heavy"):
            cases[item.path, item.originalname, mark.args[0]].append(item)
    for (_, _, most), found in cases.items():
        chosen = {round(i * (len(found) - 1) / max(1, most - 1)) for i in range(most)}
        for i, item in enumerate(found):
            if i not in chosen:
                item.add_marker("heavy")


def pytest_collection_finish():
    """Thousands of tests and the modules they need stay to the end: no collection of garbage has to look at them."""
    gc.collect()
    gc.freeze()
    atexit.register(gc.unfreeze)  # or DuckDB's bindings report all of it as leaked


@pytest.fixture(autouse=True, scope="session")
def drawn_once():
    """All tests of a worker draw a scene once; tests of the drawing itself clear this cache first."""
    from misdetect.data.procedural.draw import generator

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(generator, "remembered", lru_cache(1000)(generator.remembered.__wrapped__))
        yield


@pytest.fixture(autouse=True, scope="session")
def prediction_cache(tmp_path_factory):
    """``MISDETECT_CACHE`` names a temporary file for the whole session, also for processes that tests start."""
    path = tmp_path_factory.mktemp("cache") / "predictions.sqlite"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MISDETECT_CACHE", str(path))
        yield path


@pytest.fixture(scope="session")
def made_once(tmp_path_factory):
    """``made_once(name, make)``: a folder that ``make(folder)`` has filled, once for all workers; for reading."""
    own = tmp_path_factory.getbasetemp()
    root = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own

    def folder_of(name, make):
        folder, done = root / name, root / f"{name}.done"
        with open(root / f"{name}.lock", "wb") as lock, locked(lock.fileno()):
            if not done.exists():
                make(folder)
                done.touch()
        return folder

    return folder_of


@pytest.fixture(autouse=True)
def signals_as_found():
    """A command takes the signals, and one that is over ends the process when it hears one: whoever runs a command in
    the process of a test, or of a fixture, gives them back, or the worker dies in a test of interruptions that comes
    later."""
    assert heeded() == AT_FIRST
    yield
    assert heeded() == AT_FIRST


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
if UNIX and signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def heeded():
    """Who hears each signal that ends a command."""
    return [signal.getsignal(number) for number in ENDED]


AT_FIRST = heeded()


NEEDED = "MISDETECT_NEED_BROWSER"
"""Set where the tests in a browser must run: then it is a failure that there is none."""


@pytest.fixture(scope="session")
def browser():
    """Debian's chromium, or the one that ``MISDETECT_CHROMIUM`` names; nothing is downloaded."""
    program = os.environ.get("MISDETECT_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        lacking("playwright is not installed (pip install '.[dev]')")
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
