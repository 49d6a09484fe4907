"""What a checkup does first: are there mistakes of wiring?"""

from typing import Any

from misdetect.studies.contract import Examined, InCheckup

_IMAGES = 24


def _settings(examined: Examined) -> dict[str, Any] | None:
    return {"images": _IMAGES, "limit": examined.limit} if examined.annotated else None


CHECKUP = InCheckup(10, _settings)
