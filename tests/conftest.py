"""What all tests share: a prediction cache of their own, and property tests that the machine's load cannot fail."""

import signal

import pytest
from hypothesis import settings

settings.register_profile("misdetect", deadline=None)
settings.load_profile("misdetect")


@pytest.fixture(autouse=True, scope="session")
def prediction_cache(tmp_path_factory):
    """``MISDETECT_CACHE`` names a temporary file for the whole session, also for processes that tests start."""
    path = tmp_path_factory.mktemp("cache") / "predictions.sqlite"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MISDETECT_CACHE", str(path))
        yield path


# A process started in the background of a shell ignores Ctrl-C, and so would everything it starts: the tests of
# interruptions need it to be heard.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
