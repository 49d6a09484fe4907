"""misdetect finds, explains and fixes the failures of object detectors.

import misdetect as md
run = md.explain("zoo:yolox", "rooms:val", limit=200)
run.document["mechanisms"]

What is listed here is imported when it is first used, so that ``import misdetect`` costs nothing; every study that is
registered is a function of its name. Types for editors are in ``__init__.pyi``.
"""

from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_WHERE = {
    "Detections": "misdetect.nouns.detections",
    "MisdetectError": "misdetect.said.errors",
    "OpenNames": "misdetect.nouns.open_names",
    "Run": "misdetect.api.run",
    "Truth": "misdetect.nouns.detections",
    "assert_no_hallucination": "misdetect.api.asserts",
    "assert_score": "misdetect.api.asserts",
    "assert_stable": "misdetect.api.asserts",
    "check": "misdetect.api.check",
    "checkup": "misdetect.suites.checkup",
    "compare": "misdetect.api.compare",
    "export": "misdetect.api.export",
    "harden": "misdetect.suites.harden",
    "ledger": "misdetect.api.ledger:make_ledger",
    "load_data": "misdetect.data",
    "load_detector": "misdetect.detectors",
    "open": "misdetect.suites.checkup:open_any",
    "pool": "misdetect.api.pool",
    "serve": "misdetect.app.serving",
}
"""Where everything is that is no study."""


def _studies() -> "list[str]":
    """The studies that are functions: those with a verb."""
    from misdetect.studies.kinds import kinds

    return [kind.name for kind in kinds() if kind.example is not None]


def __getattr__(name: str) -> "Any":
    if name in _WHERE:
        module, _, other = _WHERE[name].partition(":")
        return getattr(import_module(module), other or name)
    if name == "__all__":
        return __dir__()
    if not name.startswith("_"):
        from misdetect.registry import STUDIES, registered

        if name in registered(STUDIES):
            from misdetect.api.studies import study

            return study(name)
    raise AttributeError(f"module 'misdetect' has no attribute {name!r}")


def __dir__() -> "list[str]":
    return sorted([*_WHERE, *_studies()])
