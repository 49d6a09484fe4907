"""Python first: every verb is a function here, and what it returns is a ``Run``.

The command line parses options, calls one of these, and shows its document; nothing can be done there only. Studies are
functions of their names, made from their kinds when they are first asked for.
"""

from typing import Any

from misdetect.api.asserts import assert_no_hallucination, assert_score, assert_stable
from misdetect.api.check import check
from misdetect.api.compare import Comparison, compare
from misdetect.api.export import export
from misdetect.api.ledger import make_ledger
from misdetect.api.pool import pool
from misdetect.api.run import Run, open_run
from misdetect.api.studies import study
from misdetect.studies.kinds import names

__all__ = [
    "Comparison",
    "Run",
    "assert_no_hallucination",
    "assert_score",
    "assert_stable",
    "check",
    "compare",
    "export",
    "make_ledger",
    "open_run",
    "pool",
    "study",
]


def __getattr__(name: str) -> Any:
    if name in names():
        return study(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
