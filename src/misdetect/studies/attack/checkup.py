"""What a checkup does with attack: a few images, two losses, and a ladder."""

from typing import Any

from misdetect.studies.contract import Examined, InCheckup, Pace

_SHARE, _LEAST, _MOST = 0.2, 4, 24
"""Of the time; images."""
_STEPS, _RUNGS = 10, 8
_BACKWARD = 3
"""What a gradient costs, in calls of ``detect``."""


def _plan(pace: Pace) -> int:
    gradients = 2 * (_STEPS + 2) * _BACKWARD  # per image, on two losses
    images = int(_SHARE * pace.seconds / pace.inside) // (2 * gradients)
    return max(min(images, _MOST, pace.images), min(pace.images, _LEAST))


def _settings(examined: Examined) -> dict[str, Any] | str:
    if not examined.annotated:
        return "nothing is annotated here, and losses are measured against annotations."
    images = examined.plan["attack"]
    return {"limit": images, "steps": _STEPS, "ladder": min(_RUNGS, images)}


CHECKUP = InCheckup(90, _settings, _plan)
