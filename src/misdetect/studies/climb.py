"""Raising a loss within a ball around an image: FGSM, PGD and its variants (paper 5, eq. 2), as coroutines.

Each yields ``Gradient`` requests and returns the point it reached. A ``Ball`` holds the pixels that are allowed: within
ε of the clean image, within 0..255, unchanged outside a mask. Nothing here knows of detectors, files or success.
"""

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from misdetect.engine.requests import Asks, Gradient
from misdetect.nouns.boxes import Bools, Floats
from misdetect.nouns.detections import Truth
from misdetect.nouns.picture import Pixels
from misdetect.nouns.protocols import Loss

Uphill = Generator[Asks, Any, tuple[float, Floats]]
"""Asks for, and returns, a loss and its slope ``[H, W, 3]``."""
Slope = Callable[[Floats], Uphill]
_CHECKPOINTS = 5
"""How often a decaying step is looked at."""
_RISING = 0.75
"""Share of the steps between two looks that must raise the loss, or the step is halved (APGD's ρ)."""


class Ball:
    """The images within ``eps`` of ``clean`` (``[H, W, 3]``, 0..255) that differ only in ``mask`` (``[H, W]``)."""

    def __init__(self, clean: Pixels | Floats, eps: float, mask: Bools | None = None) -> None:
        self.clean: Floats = clean.astype(np.float32)
        allowed = np.float32(1) if mask is None else mask[:, :, None].astype(np.float32)
        self.low, self.high = self._ends(np.float32(eps) * allowed)
        self._whole = np.float32(math.floor(eps)) * allowed  # single precision may have rounded ε up

    def _ends(self, reach: Any) -> tuple[Floats, Floats]:
        return np.maximum(self.clean - reach, 0), np.minimum(self.clean + reach, 255)

    def project(self, x: Floats) -> Floats:
        """The nearest point of the ball, in place."""
        np.maximum(x, self.low, out=x)
        np.minimum(x, self.high, out=x)
        return x

    def somewhere(self, rng: np.random.Generator) -> Floats:
        """A point of the ball, each colour at random."""
        share = rng.random(self.clean.shape, dtype=np.float32)
        return self.project(self.low + share * (self.high - self.low))

    def noise(self, rng: np.random.Generator) -> Floats:
        """A corner of the ball at random: the control of an attack, which ends at corners too."""
        up = rng.integers(0, 2, self.clean.shape, dtype=np.int8).astype(np.bool_)
        corner: Floats = np.where(up, self.high, self.low)
        return corner

    def rounded(self, x: Floats) -> Pixels:
        """``x`` as the image that can be saved: the nearest whole colours that are in the ball (an ε of 2.5 allows
        2)."""
        return np.clip(np.rint(x), *self._ends(self._whole)).astype(np.uint8)


@dataclass(frozen=True)
class Pace:
    """How a climb moves: ``steps`` of ``alpha`` (of 255), ``momentum`` in 0..1, whether the step ``decay``s."""

    steps: int
    alpha: float
    momentum: float = 0.0
    decay: bool = False


@dataclass
class Climb:
    """Where a climb ended (``x``), the loss at the start of each step, and how many steps had no slope at all."""

    x: Floats
    losses: list[float] = field(default_factory=list)
    flat: int = 0


def uphill(truth: Truth, loss: Loss) -> Slope:
    """The slope of one of the detector's losses."""

    def slope(x: Floats) -> Uphill:
        found: tuple[float, Floats] = yield Gradient(x, truth, loss)
        return found

    return slope


def class_aware(truth: Truth, loss: Loss = "all") -> Slope:
    """The slope of CWAT's loss: the mean over the classes present of the mean loss of a class's objects.

    A detector gives L(T), a mean over the objects T of an image. What class c adds to the sum, n L(T) - (n - n_c)
    L(T without c), divided by n_c, is the mean over its objects; losses of the background cancel. docs/attack.md.
    """
    real = truth[~np.asarray(truth.crowd, dtype=np.bool_)]
    classes, sizes = np.unique(real.labels, return_counts=True)
    if len(classes) < 2:
        return uphill(truth, loss)
    count = len(real)
    whole = float(np.mean(count / sizes))
    each = zip(classes, sizes, strict=True)
    others = [(real[real.labels != label], (count - size) / size / len(classes)) for label, size in each]

    def slope(x: Floats) -> Uphill:
        (value, found), *rest = yield [Gradient(x, real, loss), *(Gradient(x, part, loss) for part, _ in others)]
        value, found = whole * value, whole * found
        for (other, down), (_, weight) in zip(rest, others, strict=True):
            value -= weight * other
            found -= np.float32(weight) * down
        return value, found

    return slope


def climb(ball: Ball, start: Floats, slope: Slope, pace: Pace) -> Generator[Asks, Any, Climb]:
    """Projected gradient ascent from ``start``: steps of ``alpha`` along the sign of the slope.

    Without decay it ends where the last step led. With it, at the best point that was looked at.
    """
    found = Climb(start.copy())
    x, step = found.x, np.float32(pace.alpha)
    heading: Floats | None = None
    best = _Best(pace.steps)
    for i in range(pace.steps):
        loss, up = yield from slope(x)
        found.losses.append(loss)
        found.flat += not up.any()
        if pace.decay:
            best.see(loss, x, up)
            if best.stuck(i):
                step, x, up, heading = step / 2, best.x, best.up, None
        if pace.momentum:
            size = float(np.abs(up).mean()) or 1.0
            heading = up / size if heading is None else pace.momentum * heading + up / size
            up = heading
        x = ball.project(x + step * np.sign(up))  # a new array: the request that was asked keeps the old one
    found.x = best.x if pace.decay else x
    return found


class _Best:
    """The best point so far with its slope, and whether the loss still rises between two looks."""

    def __init__(self, steps: int) -> None:
        self.every = max(1, steps // _CHECKPOINTS)
        self.loss = self._last = self._at_look = -np.inf
        self.x = self.up = np.zeros(0, np.float32)
        self._rises = 0

    def see(self, loss: float, x: Floats, up: Floats) -> None:
        self._rises += loss > self._last
        self._last = loss
        if loss > self.loss:
            self.loss, self.x, self.up = loss, x, up

    def stuck(self, i: int) -> bool:
        """Whether the step is to be halved in step ``i``."""
        if not i or i % self.every:
            return False
        stuck = self._rises < _RISING * self.every or self.loss <= self._at_look
        self._rises, self._at_look = 0, self.loss
        return stuck
