"""How much each study of a checkup may ask: planned once, from how fast the detector is, and kept in ``plan.json``, so
that an interrupted checkup goes on with the same plan, and ends with the same rows."""

import json
import time
from contextlib import suppress
from pathlib import Path

from misdetect.data.dataset import Dataset
from misdetect.kept.files import write_atomically
from misdetect.nouns.protocols import Detector, as_white_box
from misdetect.report.checkups import PLAN
from misdetect.said.errors import BadImage
from misdetect.studies.contract import Pace
from misdetect.studies.kinds import in_checkup
from misdetect.suites.checkup.settings import CheckupSettings

IMAGES = "images"
"""What the plan calls the images of studies that look at each image once."""
_SHARE, _LEAST, _MOST = 0.25, 16, 1000
"""Of the time, for these images; what studies do not take is left to wiring, figures and the report."""
_TIMED, _QUICKEST = 8, 0.005
"""Images by which the detector is timed, and the seconds that a question takes at the least, with all around it."""
_SLOW = 0.5
"""Seconds that a question takes where the detector cannot be timed."""


def planned(pace: Pace) -> dict[str, int]:
    """How much is asked at ``pace``: ``images``, and what each study plans for itself, by its name."""
    images = int(_SHARE * pace.seconds / (pace.query + pace.inside))  # detect and explain ask once each
    found = {IMAGES: max(min(images, _MOST, pace.images), min(pace.images, _LEAST))}
    for kind in in_checkup():
        if kind.checkup is not None and kind.checkup.plan is not None:
            found[kind.name] = kind.checkup.plan(pace)
    return found


def plan_for(model: Detector, data: Dataset, out: Path, how: CheckupSettings) -> dict[str, int]:
    """As the first sitting planned it, or from how fast the detector is now."""
    path, asked = out / PLAN, {"minutes": how.minutes, "limit": how.limit, "images": len(data)}
    with suppress(OSError, ValueError, LookupError, TypeError):  # none yet, or one that cannot be read: planned anew
        kept = json.loads(path.read_text(encoding="utf-8"))
        if kept["for"] == asked:
            return {name: int(kept["plan"][name]) for name in planned(Pace(60, 1, 1, len(data)))}
    query, (white, _) = _seconds(model, data), as_white_box(model)
    inside, hands = query if white is model else _seconds(white, data), how.workers or 1
    plan = planned(Pace(60 * how.minutes, query / hands, inside / hands, len(data)))
    out.mkdir(parents=True, exist_ok=True)
    write_atomically(path, (json.dumps({"for": asked, "plan": plan}, indent=2) + "\n").encode())
    return plan


def _seconds(model: Detector, data: Dataset) -> float:
    """What one image takes. A detector that costs money is not asked for that: it is taken for a slow one."""
    if getattr(model, "limits", None) or hasattr(model, "budget"):
        return _SLOW
    images = []
    for sample in data[:_TIMED]:
        try:
            images.append(sample.image)
        except BadImage:
            continue
    if not images:
        return _SLOW
    try:
        model.detect(images[:1])  # the first call may load something
        began = time.perf_counter()
        model.detect(images)
    except Exception:  # whatever a stranger's detector may raise: the studies will say it
        return _SLOW
    return max((time.perf_counter() - began) / len(images), _QUICKEST)
