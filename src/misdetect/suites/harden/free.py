"""Free adversarial training (Shafahi et al. 2019, algorithm 1): the attack costs no gradients of its own.

Every batch is learnt from several times in a row. The one backward pass of such a replay gives the gradients of the
weights and those of the pixels: the former move the weights, the latter the perturbation that the next replay sees.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from misdetect.detectors.torch_detector import as_array
from misdetect.nouns.boxes import Floats
from misdetect.nouns.detections import Truth
from misdetect.nouns.protocols import Differentiable, describe, require
from misdetect.said.errors import BadSpec, LevelTooLow, RunMismatch
from misdetect.studies.climb import Ball


@dataclass(frozen=True)
class _Replay:
    """What was learnt from in ``step``: the batch as it came, and its attacked images, each a leaf ``[H, W, 3]`` in
    0..255 within its ball."""

    step: int
    images: Sequence[Floats]
    balls: Sequence[Ball]
    leaves: Sequence[Tensor]


@dataclass(kw_only=True)
class Free:
    """The ``Change`` of a training on ``Replayed(batches, replays)``: all images of a batch but the share ``clean`` are
    perturbed within ``eps`` (of 255), and the perturbation moves by ``alpha`` along the sign of its gradient from one
    replay to the next.

    A batch starts at a random perturbation, so that a training stays a function of seed and step; the paper goes on
    from that of the batch before. It can therefore be stopped and saved after whole batches only: ``save_every`` and
    ``until`` should be multiples of ``replays``. A recipe's steps are replays; so are those of its learning rate.
    """

    replays: int = 4
    """m in the paper, which has 4 for ImageNet and 8 for the small images of CIFAR-10."""
    eps: float = 8.0
    alpha: float | None = None
    """``eps`` where not given, as in the paper: a batch has few replays, and a step of ``eps`` takes any pixel to or
    past the middle of the ball, so that each replay sees a strong attack."""
    clean: float = 0.5
    name: str = "free"
    _last: _Replay | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def settings(self) -> Mapping[str, Any]:
        """What decides the images that are learnt from."""
        return {"replays": self.replays, "eps": self.eps, "alpha": self._step_size, "clean": self.clean}

    @property
    def _step_size(self) -> float:
        return self.eps if self.alpha is None else self.alpha

    def __call__(
        self, detector: Any, images: Sequence[Floats], truths: Sequence[Truth], step: int
    ) -> tuple[list[Floats | Tensor], Sequence[Truth]]:
        """The batch with its attacked images as tensors that collect gradients, which the next call reads."""
        require(detector, Differentiable, "free adversarial training", "its losses give no gradients of pixels")
        first = round(self.clean * len(images))  # which images come first is by chance already
        if step % self.replays == 0:
            dice = np.random.default_rng(int(torch.randint(1 << 62, ())))
            balls: Sequence[Ball] = [Ball(image, self.eps) for image in images[first:]]
            points = [ball.somewhere(dice) for ball in balls]
        else:
            last = self._before(step, images)
            balls, points = last.balls, self._moved(last, detector)
        device = getattr(detector, "device", torch.device("cpu"))
        leaves = [torch.from_numpy(point).to(device).requires_grad_() for point in points]
        self._last = _Replay(step, images, balls, leaves)
        return [*images[:first], *leaves], truths

    def _before(self, step: int, images: Sequence[Floats]) -> _Replay:
        """The replay before ``step``, which has to be one of the same batch."""
        last = self._last
        if last is None or last.step != step - 1:
            raise RunMismatch(
                f"The training stands at step {step}, amid the {self.replays} replays of a batch, whose perturbation "
                f"is not kept on disk; begin again, and save after multiples of {self.replays} steps only."
            )
        if any(now is not before for now, before in zip(images, last.images, strict=True)):
            raise BadSpec(
                f"Steps {step - 1} and {step} brought different batches where free adversarial training replays each "
                f"{self.replays} times; train on Replayed(batches, {self.replays})."
            )
        return last

    def _moved(self, last: _Replay, detector: Any) -> list[Floats]:
        """Where the gradients of the ``last`` replay lead."""
        if last.leaves and all(leaf.grad is None for leaf in last.leaves):
            raise LevelTooLow(
                f"free adversarial training needs losses that can be differentiated with respect to the images; those "
                f"of {describe(detector)} cannot: train with Adversarial."
            )
        alpha, points = np.float32(self._step_size), []
        for ball, leaf in zip(last.balls, last.leaves, strict=True):
            uphill = np.float32(0) if leaf.grad is None else np.sign(as_array(leaf.grad))
            points.append(ball.project(as_array(leaf) + alpha * uphill))
        return points
