"""What can be seen in the answers without changing anything: silence, one answer for all, thresholds, caps, sigmoids.

Such a thing is a finding without an ``after``: what was cut off cannot be had back from outside.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from misdetect.metrics.degenerate import degenerate, sentence
from misdetect.studies.doctor.answers import AS_IS, Evidence

Finding = dict[str, Any]
_LEAST_SCORE = 0.2
_ENOUGH = 30
"""Detections from which on their lowest score says something."""
_MISSED = 0.05
"""Share of the objects without any box from which on something was cut."""
_CAPPED = 0.5
"""Share of the images with the largest number of detections from which on that number is a cap."""
_TWICE = (0.5, 1 / (1 + np.exp(-1)))
"""What a sigmoid makes of numbers between 0 and 1."""


def observed(kind: str, change: str, fix: str, before: float | None = None) -> Finding:
    """A finding without an ``after``."""
    return {"change": change, "kind": kind, "before": before, "after": None, "interval": None, "fix": fix}


def observe(evidence: Evidence, images: Sequence[int], before: float) -> list[Finding]:
    """What the answers as they are show; ``before`` is their AP."""
    answers = [answer for image in images if (answer := evidence.said(AS_IS, image)) is not None]
    counts = np.array([len(answer.scores) for answer in answers])
    image = np.repeat(np.arange(len(answers)), counts)
    scores, labels = (
        np.concatenate([getattr(answer, name) for answer in answers] or [np.zeros(0)]) for name in ("scores", "labels")
    )
    boxes = np.concatenate([answer.boxes for answer in answers]) if answers else np.zeros((0, 4))
    kind = degenerate(image, boxes, scores, labels, len(answers))
    if kind is not None:
        fix = "check what the network is fed (scale, mean and std, layout) and the score threshold"
        return [observed(kind, sentence(kind, len(answers)).partition(";")[0] + ".", fix, before)]
    found = []
    low, high, most = float(scores.min()), float(scores.max()), int(counts.max())
    at_cap = counts == most
    if at_cap.mean() >= _CAPPED and _cuts(evidence, images, most):
        told = f"{at_cap.sum()} of {len(counts)} have exactly so many"
        change = f"no image has more than {most} detections, {told}: a cap cuts"
        found.append(observed("cap", change, f"raise the cap of {most} detections per image to 100", before))
    elif len(scores) >= _ENOUGH and low >= _TWICE[0] - 1e-6 and high <= _TWICE[1] + 1e-6:
        change = f"all {len(scores)} scores lie between {low:.2f} and {high:.2f}: a sigmoid is applied twice"
        found.append(observed("scores", change, "scores = np.log(scores / (1 - scores))  # undo one of them", before))
    elif len(scores) >= _ENOUGH and low >= _LEAST_SCORE and high <= 1 and evidence.unfound(AS_IS, images) > _MISSED:
        change = f"no score is below {low:.2f}: a threshold cuts what AP, and the search for flicker, need"
        found.append(observed("threshold", change, "lower the detector's own score threshold to 0.01", before))
    return found


def _cuts(evidence: Evidence, images: Sequence[int], most: int) -> bool:
    """Whether a cap of ``most`` leaves no room for the objects of a good part of the images."""
    real = evidence.objects.image[~evidence.objects.crowd]
    objects = np.bincount(real, minlength=evidence.objects.images)[list(images)]
    return bool((objects >= most).mean() >= 0.2)
