"""misdetect finds, explains and fixes the failures of object detectors.

import misdetect as md
run = md.explain("zoo:yolox", "rooms:val", limit=200)
run.document["mechanisms"]

What is listed here is imported when it is first used, so that ``import misdetect`` costs nothing.
"""

from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from misdetect.api import Run, attack, confusion, detect, doctor, explain, fuzz, scan, verify
    from misdetect.api import make_ledger as ledger
    from misdetect.api import open_any as open
    from misdetect.api.asserts import assert_no_hallucination, assert_score, assert_stable
    from misdetect.api.check import check
    from misdetect.api.checkup import checkup
    from misdetect.api.compare import compare
    from misdetect.api.export import export
    from misdetect.api.harden import harden
    from misdetect.api.pool import pool
    from misdetect.api.score import score
    from misdetect.app.serving import serve
    from misdetect.data import load_data
    from misdetect.detectors import load_detector
    from misdetect.nouns.detections import Detections, Truth
    from misdetect.nouns.open_names import OpenNames
    from misdetect.said.errors import MisdetectError

_WHERE = {
    "Detections": "misdetect.nouns.detections",
    "MisdetectError": "misdetect.said.errors",
    "OpenNames": "misdetect.nouns.open_names",
    "Run": "misdetect.api",
    "Truth": "misdetect.nouns.detections",
    "assert_no_hallucination": "misdetect.api",
    "assert_score": "misdetect.api",
    "assert_stable": "misdetect.api",
    "attack": "misdetect.api",
    "check": "misdetect.api",
    "checkup": "misdetect.api",
    "compare": "misdetect.api",
    "confusion": "misdetect.api",
    "detect": "misdetect.api",
    "doctor": "misdetect.api",
    "explain": "misdetect.api",
    "export": "misdetect.api",
    "fuzz": "misdetect.api",
    "harden": "misdetect.api.harden",
    "ledger": "misdetect.api:make_ledger",
    "load_data": "misdetect.data",
    "load_detector": "misdetect.detectors",
    "open": "misdetect.api:open_any",
    "pool": "misdetect.api",
    "scan": "misdetect.api",
    "score": "misdetect.api",
    "serve": "misdetect.app.serving",
    "verify": "misdetect.api",
}

__all__ = [
    "Detections",
    "MisdetectError",
    "OpenNames",
    "Run",
    "Truth",
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
    "harden",
    "ledger",
    "load_data",
    "load_detector",
    "open",
    "pool",
    "scan",
    "score",
    "serve",
    "verify",
]


def __getattr__(name: str) -> "Any":
    if name not in _WHERE:
        raise AttributeError(f"module 'misdetect' has no attribute {name!r}")
    module, _, other = _WHERE[name].partition(":")
    return getattr(import_module(module), other or name)


def __dir__() -> list[str]:
    return [*__all__, *(name for name in globals() if name.startswith("__"))]
