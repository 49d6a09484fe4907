"""What a checkup does with fuzz: as many questions as the time allows."""

from misdetect.studies.contract import InCheckup, Pace

_SHARE, _LEAST, _MOST = 0.2, 60, 1500
"""Of the time; questions."""


def _plan(pace: Pace) -> int:
    return max(min(int(_SHARE * pace.seconds / pace.query), _MOST), _LEAST)


CHECKUP = InCheckup(70, lambda examined: {"limit": examined.plan["images"], "queries": examined.plan["fuzz"]}, _plan)
