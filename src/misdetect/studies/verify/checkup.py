"""What a checkup does with verify, where parts have states."""

from typing import Any

from misdetect.studies.contract import Examined, InCheckup


def _settings(examined: Examined) -> dict[str, Any] | str:
    if not examined.states:
        return "no part of the data has a state; see docs/verify.md for data that has."
    return {"limit": examined.plan["images"]}


CHECKUP = InCheckup(80, _settings)
