"""harden: train on what was found, guarded, and test again (papers 4 and 5)."""

from typing import Any


def __getattr__(name: str) -> Any:
    if name in ("Hardened", "harden"):  # training wants torch; its settings and its page do not
        from misdetect.suites.harden import run

        return getattr(run, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
