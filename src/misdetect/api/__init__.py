"""Python first: every verb is a function here, and what it returns is a ``Run``.

The command line parses options, calls one of these, and shows its document; nothing can be done there only.
"""

from misdetect.api.asserts import assert_no_hallucination, assert_score, assert_stable
from misdetect.api.check import check
from misdetect.api.checkup import Checkup, checkup, open_any
from misdetect.api.compare import Comparison, compare
from misdetect.api.export import export
from misdetect.api.ledger import make_ledger
from misdetect.api.pool import pool
from misdetect.api.run import Run, open_run
from misdetect.api.score import score
from misdetect.api.studies import attack, confusion, detect, doctor, explain, fuzz, scan, verify

__all__ = [
    "Checkup",
    "Comparison",
    "Run",
    "assert_no_hallucination",
    "assert_score",
    "assert_stable",
    "attack",
    "check",
    "checkup",
    "compare",
    "confusion",
    "detect",
    "doctor",
    "explain",
    "export",
    "fuzz",
    "make_ledger",
    "open_any",
    "open_run",
    "pool",
    "scan",
    "score",
    "verify",
]
