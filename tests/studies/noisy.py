"""Detectors with the noise of kernels planted: the last digits of an answer depend on the batch it was asked in.

The noise is that of a CPU on which results depend on companions and on the place among them, only far stronger, and
nothing else is random: the same batch gets the same answer.
"""

from dataclasses import replace

import numpy as np
from fuzz_toys import BlotDetector
from scan_toys import TileDetector

from misdetect.nouns.candidates import Candidates, Dropped, Pairs
from misdetect.nouns.detections import Detections
from misdetect.nouns.grid import PIXEL_STEPS, SCORE_STEPS
from misdetect.nouns.picture import digest

INSIDE, NOISE = 0.35, 0.1
"""In steps of the grid: how far from its point a number lies at most, and by how much noise moves it at most. Together
less than half a step, so that none falls to its neighbour; without noise most numbers are off the grid all the same."""


def shaken(values: np.ndarray, steps: int, random: np.random.Generator) -> np.ndarray:
    """``values`` near the grid's points but not on them, and moved by noise."""
    scaled = values.astype(np.float64) * steps
    point = np.rint(scaled)
    away = np.clip(scaled - point, -INSIDE, INSIDE) + random.uniform(-NOISE, NOISE, values.shape)
    return (point + away) / steps


class _Noisy:
    """Mixed into a detector that is a function of the pixels."""

    def detect(self, images):
        return [self._shaken(found, random) for found, random in self._with_noise(super().detect(images), images)]

    def _with_noise(self, answers, images):
        batch = digest(*(image.tobytes() for image in images))
        return [(answer, np.random.default_rng([int(batch, 16), place])) for place, answer in enumerate(answers)]

    def _shaken(self, found, random):
        scores = np.clip(shaken(found.scores, SCORE_STEPS, random), 0, 1)
        return Detections(shaken(found.boxes, PIXEL_STEPS, random), scores, found.labels)


class NoisyTiles(_Noisy, TileDetector):
    """One that can be looked into: every tile is a candidate that was moved by a pixel."""

    def trace(self, images):
        found = TileDetector.detect(self, images)
        return [self._inside(answer, random) for answer, random in self._with_noise(found, images)]

    def _inside(self, found, random):
        every = np.arange(len(found))
        scores = np.tile(0.6 * found.scores[:, None], 3).astype(np.float32)
        scores[every, found.labels] = found.scores
        kept = np.flatnonzero((found.scores >= 0.2) & (every % 2 == 0))
        inside = Candidates(
            found.boxes - 1, found.boxes, scores, 1 - found.scores, every, Pairs(kept, found.labels[kept]),
            Dropped([], [], [], []),
        )  # fmt: skip
        return replace(
            inside,
            proposals=shaken(inside.proposals, PIXEL_STEPS, random),
            refined=shaken(inside.refined, PIXEL_STEPS, random).astype(np.float32),
            scores=np.clip(shaken(inside.scores, SCORE_STEPS, random), 0, 1).astype(np.float32),
            background=np.clip(shaken(inside.background, SCORE_STEPS, random), 0, 1),
        )


class NoisyBlots(_Noisy, BlotDetector):
    pass


class Stops:
    """The detector ``inner`` until ``most`` images were asked, then the user interrupts."""

    def __init__(self, inner, most):
        self.inner, self.most, self.names, self.asked = inner, most, inner.names, 0
        self.fingerprint, self.batch_size = inner.fingerprint, inner.batch_size

    def detect(self, images):
        return self._ask("detect", images)

    def trace(self, images):
        return self._ask("trace", images)

    def _ask(self, method, images):
        self.asked += len(images)
        if self.asked > self.most:
            raise KeyboardInterrupt
        return getattr(self.inner, method)(images)
