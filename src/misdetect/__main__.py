"""``python -m misdetect``, and the ``misdetect`` command: ready for a signal before anything else is imported."""

import os
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # what is imported before main() delays it, and a signal before main() is not answered
    from collections.abc import Callable
    from types import FrameType
    from typing import NoReturn

_CODES = {"SIGINT": 130, "SIGTERM": 143, "SIGHUP": 143, "SIGBREAK": 143}
ENDED = {signal.Signals[name]: code for name, code in _CODES.items() if hasattr(signal, name)}
"""Exit codes by signal, of those that this system has; the same command goes on where it was ended."""


def main() -> None:
    """Run the command line."""
    _open_streams()
    for number, code in ENDED.items():
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup, or a shell's background job
            signal.signal(number, _too_early(code))
    from misdetect.cli import main as run

    run()


def _open_streams() -> None:
    """Put something where a closed stream was, before a file takes its number: stderr leads nowhere, and what is
    printed to stdout fails."""
    for number, flags in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.dup2(os.open(os.devnull, flags), number)  # takes the number itself, as the lowest that is free
            if number:
                name = "stdout" if number == 1 else "stderr"
                stream = open(number, "w", encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
                setattr(sys, name, stream)
                setattr(sys, f"__{name}__", stream)


def _too_early(code: int) -> "Callable[[int, FrameType | None], NoReturn]":
    def end(number: int, frame: "FrameType | None") -> "NoReturn":
        os.write(2, b"misdetect: interrupted before it began.\n")
        os._exit(code)

    return end


if __name__ == "__main__":
    main()
