"""``Recipe``: how long and how to train. Every field decides the weights or the rows of a training, so all of them are
part of what identifies it."""

import math
from dataclasses import dataclass
from typing import Annotated, Literal

from misdetect.nouns.settings import Count, Heading, Number, Range, Settings, Share

_HOW = Heading("Training")


@dataclass(frozen=True, kw_only=True)
class Recipe(Settings):
    """How long and how to train: AdamW, linear warm-up, half a cosine, clipped gradients, averaged weights."""

    steps: Annotated[Count, _HOW]
    """Steps in all."""
    batch: Annotated[Count, _HOW] = 32
    """Images per step."""
    learning_rate: Annotated[float, _HOW, Range(0)] = 2e-3
    """Learning rate after the warm-up."""
    weight_decay: Annotated[float, _HOW, Range(0)] = 0.02
    """Of AdamW, on matrices and kernels; biases and norms are not pulled to zero."""
    warmup: Annotated[Number, _HOW] = 300
    """Steps until the learning rate is reached."""
    clip: Annotated[float, _HOW, Range(0)] = 10.0
    """Gradients of a larger norm are scaled down to it."""
    average: Annotated[Share, _HOW] = 0.999
    """Share of the averaged weights that a step keeps."""
    precision: Annotated[Literal["bfloat16", "float32"], _HOW] = "bfloat16"
    """bfloat16 halves the bits of convolutions, for speed."""
    widened: Annotated[tuple[str, ...], _HOW] = ()
    """With bfloat16: modules that still answer in float32, so that the losses computed from them keep their bits."""
    backbone_rate: Annotated[float, _HOW, Range(0)] = 1.0
    """Times the learning rate is that of parameters with "backbone" in their names: less than 1 where these can
    already see and all others know nothing yet."""
    log_every: Annotated[Count, _HOW] = 50
    """Steps per row of the run."""
    check_every: Annotated[Count, _HOW] = 1000
    """Steps between two checks, where there is a check."""
    seed: Annotated[int, _HOW] = 0
    """Decides the order of images, their variation, and the dice inside the model."""

    def rate(self, step: int) -> float:
        """Learning rate at ``step``: linear warm-up, then half a cosine down to 1 %."""
        if step < self.warmup:
            return self.learning_rate * (step + 1) / self.warmup
        progress = (step - self.warmup) / max(1, self.steps - self.warmup)
        return self.learning_rate * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * min(1.0, progress))))
