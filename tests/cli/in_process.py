"""A command in the process of the test, since starting one is slow."""

import signal
import sys

import pytest

from misdetect.__main__ import ENDED
from misdetect.cli import main


def ended(*arguments) -> int:
    """Run ``misdetect ARGUMENTS``: its exit code. Signals are heard as before when it is over."""
    before = {number: signal.getsignal(number) for number in ENDED}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["misdetect", *map(str, arguments)])
        try:
            with pytest.raises(SystemExit) as end:
                main()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
    return end.value.code
