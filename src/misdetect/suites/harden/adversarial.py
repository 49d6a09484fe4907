"""Adversarial training (paper 5): a part of every batch is attacked before it is learnt from.

The attacks climb as ``studies.climb`` does, run side by side on the detector as it is at that step: ``pgd``
raises the whole loss, ``mtd`` takes for each image the stronger of an attack on ``cls`` and one on ``loc``, ``cwat``
raises the class-aware loss.
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np
import torch

from misdetect.engine.requests import Asks, Gradient
from misdetect.nouns.boxes import Floats
from misdetect.nouns.detections import Truth
from misdetect.nouns.protocols import Differentiable, require
from misdetect.studies.climb import Ball, Climb, Pace, Slope, class_aware, climb, uphill
from misdetect.suites.harden.settings import How
from misdetect.training.batches import Batch

Ascent = Generator[Asks, Any, Climb]


_SLOPES: Mapping[How, Sequence[Callable[[Truth], Slope]]] = {
    "pgd": (partial(uphill, loss="all"),),
    "mtd": (partial(uphill, loss="cls"), partial(uphill, loss="loc")),
    "cwat": (class_aware,),
}
"""What is climbed; of several, the end that harms an image most."""


@dataclass(frozen=True, kw_only=True)
class Adversarial:
    """The ``Change`` of a training: all images of a batch but the share ``clean`` are attacked, by ``how``, within
    ``eps`` (of 255), in ``steps`` of ``alpha`` from a random start."""

    how: How = "pgd"
    eps: float = 8.0
    alpha: float = 4.0
    steps: int = 2
    clean: float = 0.5
    half: bool = True
    """Gradients in bfloat16 where the processor has it; signs are all that is used of them."""
    name: str = "adversarial"

    @property
    def settings(self) -> Mapping[str, Any]:
        """What decides the images that are learnt from."""
        return {key: value for key, value in vars(self).items() if key != "name"}

    def __call__(self, detector: Any, images: Sequence[Floats], truths: Sequence[Truth], step: int) -> Batch:
        attacked: Differentiable = require(detector, Differentiable, "adversarial training", "it gives no gradients")
        first = round(self.clean * len(images))  # which images come first is by chance already
        dice = np.random.default_rng(int(torch.randint(1 << 62, ())))
        device = getattr(detector, "device", torch.device("cpu"))
        with torch.autocast(device.type, torch.bfloat16, enabled=self.half):
            found = self._attack(attacked, images[first:], truths[first:], dice)
        return [*images[:first], *found], truths

    def _attack(
        self, detector: Differentiable, images: Sequence[Floats], truths: Sequence[Truth], dice: np.random.Generator
    ) -> list[Floats]:
        pace, slopes = Pace(self.steps, self.alpha), _SLOPES[self.how]
        balls = [Ball(image, self.eps) for image in images]
        starts = [ball.somewhere(dice) for ball in balls]
        reached = []
        for slope in slopes:
            tasks = zip(balls, starts, truths, strict=True)
            climbs = [climb(ball, start, slope(truth), pace) for ball, start, truth in tasks]
            reached.append([end.x for end in together(detector, climbs)])
        if len(reached) == 1:
            return reached[0]
        asks = [[Gradient(end, truth, "all") for end, truth in zip(ends, truths, strict=True)] for ends in reached]
        harm = [[loss for loss, _ in _slopes(detector, each)] for each in asks]
        return [reached[worst][i] for i, worst in enumerate(np.argmax(harm, axis=0).tolist())]


def together(detector: Differentiable, climbs: Sequence[Ascent]) -> list[Climb]:
    """Where each of ``climbs`` ends, run side by side: what all of them ask about one loss is one call."""
    ends: dict[int, Climb] = {}
    answers: dict[int, Any] = dict.fromkeys(range(len(climbs)))
    while answers:
        asked: dict[int, Asks] = {}
        for i, answer in answers.items():
            try:
                asked[i] = climbs[i].send(answer)
            except StopIteration as stop:
                ends[i] = stop.value
        told = _slopes(detector, [ask for asks in asked.values() for ask in _listed(asks)])
        answers = {i: [next(told) for _ in _listed(asks)] for i, asks in asked.items()}
        answers |= {i: answers[i][0] for i, asks in asked.items() if isinstance(asks, Gradient)}
    return [ends[i] for i in range(len(climbs))]


def _listed(asks: Asks) -> Sequence[Gradient]:
    return cast("Sequence[Gradient]", asks if isinstance(asks, Sequence) else [asks])


def _slopes(detector: Differentiable, asks: Sequence[Gradient]) -> Iterator[tuple[float, Floats]]:
    """Losses and slopes in the order of ``asks``."""
    told: dict[int, tuple[float, Floats]] = {}
    for loss, shape in dict.fromkeys((ask.loss, ask.pixels.shape) for ask in asks):
        group = [i for i, ask in enumerate(asks) if (ask.loss, ask.pixels.shape) == (loss, shape)]
        with getattr(detector, "together", nullcontext)(len(group)):
            values, slopes = detector.gradient([asks[i].pixels for i in group], [asks[i].truth for i in group], loss)
        told |= zip(group, zip(values.tolist(), slopes, strict=True), strict=True)
    return (told[i] for i in range(len(asks)))
