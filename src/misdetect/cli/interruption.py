"""How a signal ends a command: the first one interrupts it, so that what is finished is kept. Further ones are not
heeded for two seconds, in which that is done; after that they end it at once."""

import atexit
import os
import signal
import sys
import threading
import time
from types import FrameType
from typing import NoReturn

from misdetect.__main__ import ENDED

_PATIENCE = 2.0
"""Seconds that a command has to keep what is finished."""


class Interrupted(BaseException):
    """A signal asks the command to end; ``code`` is what it ends with."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Signals:
    """What becomes of the signals that end a command, from the call of ``heed`` on."""

    def __init__(self) -> None:
        self._first: float | None = None
        self._over = False
        self._code = 0

    def heed(self) -> None:
        """Interrupt the command when a signal comes."""
        for number in ENDED:
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup, or a shell's background job
                signal.signal(number, self._end)

    def leave(self, code: int) -> NoReturn:
        """End the process with ``code``: all is done and said, and a signal now ends it at once."""
        self._over, self._code = True, code
        if self._first is not None and any(not thread.daemon for thread in threading.enumerate()[1:]):
            # a detector is still at its last call, which may take minutes, and would be waited for
            atexit._run_exitfuncs()
            self._leave_now(code)
        sys.exit(code)

    def _end(self, number: int, frame: FrameType | None) -> None:
        code, now = ENDED[signal.Signals(number)], time.monotonic()
        if self._over:
            self._leave_now(self._code)
        if self._first is None:
            self._first = now
            raise Interrupted(code)
        if now - self._first > _PATIENCE:
            self._leave_now(code)

    @staticmethod
    def _leave_now(code: int) -> NoReturn:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError, AttributeError, RuntimeError):  # closed, or in the middle of a write
                continue
        os._exit(code)
