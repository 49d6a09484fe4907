"""The ladder: is an attack strong enough for what it fails to do to mean anything?

Each rung is an attack that should lose at least as many objects as the one before, on the same images. Where a rung is
lower, or a stronger attack still gains, the number of the attack itself is no measure of the detector: "attack too
weak"; where blind or borrowed directions beat the detector's own gradients, these are misleading: "gradients masked".
After Athalye et al. 2018 and arXiv 2305.17438. Pure functions of which objects each attack loses.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from misdetect.drawing.words import percent
from misdetect.metrics.bootstrap import REPEATS
from misdetect.metrics.slices import rate_intervals
from misdetect.studies.conditions_read import Objects

WEAK, MASKED = "attack too weak", "gradients masked"
STRONG, UNCHECKED = "no step broken", "not checked"
GAIN = 0.05
"""A stronger attack that surely loses more than this share of the objects in addition shows that this one is weak."""
LEFT = 0.05
"""Share of the objects that may still be found where ε is so large that nothing should be."""
LEAST = 5
"""Images on which a ladder must be climbed before it can be said to hold; broken it may be on fewer."""
FLAT = 0.5
"""Share of steps without any slope from which on there is nothing to climb."""


@dataclass(frozen=True)
class Rung:
    """An attack of the ladder. It must lose as many as ``than``; ``fallen`` is what it means if it surely does not,
    ``gained`` what it means if it surely loses much more, ``reach``: it must lose nearly all."""

    name: str
    than: str | None = None
    fallen: str = WEAK
    gained: str | None = None
    reach: bool = False


def rungs_of(noise: str, fgsm: str, few: str, main: str, many: str, starts: str, far: str, transfer: str) -> list[Rung]:
    """The ladder of paper-like attacks, given the names of their conditions."""
    return [
        Rung(noise),
        Rung(fgsm, noise, MASKED),
        Rung(few, fgsm, MASKED),
        Rung(main, few, WEAK),
        Rung(many, main, WEAK, WEAK),
        Rung(starts, main, WEAK, WEAK),
        Rung(far, main, MASKED, reach=True),
        Rung(transfer, main, "", MASKED),
    ]


def ladder(
    rungs: Sequence[Rung], lost: Mapping[str, Objects], flat: float, *, confidence: float, seed: int
) -> dict[str, Any]:
    """The rungs with their success and what each shows; ``lost`` has the objects of every rung that was climbed, the
    same ones in the same order; ``flat`` is the share of the attack's steps that found no slope."""
    found: list[dict[str, Any]] = []
    for rung in rungs:
        if rung.name not in lost:
            continue
        own = lost[rung.name]
        than = lost.get(rung.than or "")
        entry: dict[str, Any] = {"name": rung.name, "than": rung.than if than is not None else None, "means": None}
        entry["success"], entry["interval"] = _difference(own, None, confidence, seed)
        entry["change"] = entry["change_interval"] = None
        if than is not None:
            entry["change"], entry["change_interval"] = _difference(own, than, confidence, seed)
        entry["means"], entry["says"] = _judged(rung, entry)
        entry["holds"] = entry["means"] is None
        found.append(entry)
    broken = [entry for entry in found if not entry["holds"]]
    if flat >= FLAT:
        says = f"{percent(flat, 0)} of the steps found no slope at all"
        broken.append({"name": "slope", "means": MASKED, "says": says})
    first = next((entry for entry in broken if entry["means"] == MASKED), next(iter(broken), None))
    images = max((len(np.unique(objects.image)) for objects in lost.values()), default=0)
    unbroken = STRONG if images >= LEAST else UNCHECKED
    return {
        "rungs": found,
        "flat": flat,
        "broken": [entry["name"] for entry in broken],
        "verdict": unbroken if first is None else first["means"],
        "rung": None if first is None else first["name"],
        "says": "every stronger attack loses as much, none much more" if first is None else first["says"],
    }


def _judged(rung: Rung, entry: Mapping[str, Any]) -> tuple[str | None, str]:
    """What is wrong at a rung, if anything, and the sentence for it."""
    said = f"{rung.name} loses {percent(entry['success'], 0)} of the objects"
    if rung.reach and entry["interval"] is not None and entry["interval"][1] < 1 - LEFT:
        return MASKED, f"{said}: so large a change should leave hardly any to be found"
    if entry["change_interval"] is None:
        return None, said
    low, high = entry["change_interval"]
    against = f"{said}, {rung.than} {percent(entry['success'] - entry['change'], 0)}"
    if rung.fallen and high < 0:
        return rung.fallen, against
    if rung.gained and low > (0 if rung.gained == MASKED else GAIN):
        return rung.gained, against
    return None, against


def _difference(
    own: Objects, than: Objects | None, confidence: float, seed: int
) -> tuple[float | None, list[float] | None]:
    """The success of ``own``, or how much it exceeds that of ``than`` on the same objects; with its paired interval."""
    if not own.right.any():
        return None, None
    right, lost = own.right.astype(np.float64), own.lost.astype(np.float64)
    hits = lost if than is None else lost - than.lost
    _, image = np.unique(own.image, return_inverse=True)
    ((low, high),) = rate_intervals(
        hits[:, None], right[:, None], image, confidence=confidence, repeats=REPEATS, seed=seed
    )
    return float(hits.sum() / right.sum()), [low, high]
