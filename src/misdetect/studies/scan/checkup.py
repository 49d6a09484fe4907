"""What a checkup does with a scan: a few pairs, on a grid as fine as the time allows."""

from math import ceil, sqrt
from typing import Any

from misdetect.studies.contract import Examined, InCheckup, Pace

_PAIRS = 6
_SHARE, _LEAST, _MOST = 0.15, 60, 3000
"""Of the time; positions over all pairs."""


def _plan(pace: Pace) -> int:
    """Positions, each asked with its control."""
    return max(min(int(_SHARE * pace.seconds / pace.query) // 2, _MOST), _LEAST)


def _settings(examined: Examined) -> dict[str, Any]:
    first = examined.data[0]
    step = ceil(sqrt(first.width * first.height * _PAIRS / examined.plan["scan"]))
    return {"limit": examined.plan["images"], "pairs": _PAIRS, "step": max(4, step)}


CHECKUP = InCheckup(60, _settings, _plan)
