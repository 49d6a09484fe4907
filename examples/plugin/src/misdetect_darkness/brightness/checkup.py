"""What a checkup does with brightness: a tenth of its time, where something is annotated."""

from typing import Any

from misdetect.studies.contract import Examined, InCheckup, Pace
from misdetect_darkness.brightness.settings import BrightnessSettings

_SHARE, _LEAST = 0.1, 8
"""Of the time; images."""


def _plan(pace: Pace) -> int:
    pictures = 1 + len(BrightnessSettings.light)
    return min(max(int(_SHARE * pace.seconds / pace.query / pictures), _LEAST), pace.images)


def _settings(examined: Examined) -> dict[str, Any] | str:
    if not examined.annotated:
        return "nothing is annotated here that darkness could hide."
    return {"limit": examined.plan["brightness"]}


CHECKUP = InCheckup(85, _settings, _plan)
