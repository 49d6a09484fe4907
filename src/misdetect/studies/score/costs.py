"""Intervals of TIDE's costs. They take longer than all else that score says, so only a checkup asks for them."""

import numpy as np

from misdetect.engine.store import Run
from misdetect.metrics.bootstrap import interval, resamples
from misdetect.metrics.paired import REPEATS
from misdetect.metrics.tide_draws import costs_of_draws
from misdetect.studies.score.document import scored


def tide_intervals(run: Run, confidence: float = 0.9, seed: int = 0) -> dict[str, list[float] | None]:
    """By type of error of a detection, the interval of what it costs in points of AP50, drawing the images of the score
    ``run`` again; ``None`` where nothing is annotated."""
    score = scored(run)
    images = len(score.truth.images)
    if not images:
        return {}
    draws = resamples(images, REPEATS, seed)
    found = costs_of_draws(score.assignment, score.truth, score.detections, draws, score.tide_settings)
    ends = {name: [float(end) for end in interval(costs, confidence)] for name, costs in found.items()}
    return {name: None if np.isnan(each).any() else each for name, each in ends.items()}
