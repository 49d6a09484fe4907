"""What the training loop costs beside a bare torch loop of the same model on the same batches.

    python benchmarks/training.py [--names yolox ssd] [--rounds 9] [--steps 4]

Both sides are handed the same prepared batches and take turns, a few steps each in every round, on one thread; times
are the processor's. ``ratio`` is a step of ``Training`` (averaged weights, losses taken down) to one of the bare loop,
the median over rounds; ``ratio_saving`` adds a checkpoint every 250 steps, ``ratio_reading`` also making the batch.
"""

import json
import statistics
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from _measuring import Parser, cpu_seconds

import misdetect.training  # noqa: F401 - says which kernels to use, before torch is
from misdetect.detectors.torch_detector import TorchDetector
from misdetect.engine.store import Run
from misdetect.training.batches import Batch
from misdetect.training.curve import SCHEMA
from misdetect.training.images import TrainingImages, training_images
from misdetect.training.loop import Training
from misdetect.training.precision import widened
from misdetect.training.recipe import Recipe
from misdetect.training.zoo import _untrained, recipe_of

SAVED_EVERY = 250


class Prepared:
    """A few batches of ``images``, made once, over and over."""

    def __init__(self, images: TrainingImages, recipe: Recipe, count: int = 8) -> None:
        self.names, self.spec, self.fingerprint, self._images = images.names, images.spec, images.fingerprint, images
        self._made = [images.batch(step, recipe.batch, recipe.seed) for step in range(count)]

    def __len__(self) -> int:
        return len(self._images)

    def batch(self, step: int, size: int, seed: int) -> Batch:
        return self._made[step % len(self._made)]


def bare_step(detector: TorchDetector, batches: Prepared, recipe: Recipe) -> Callable[[int], None]:
    """One step as it is written by hand: forward, backward, clip, step."""
    module = detector.module.train()
    optimiser = torch.optim.AdamW(module.parameters(), lr=recipe.learning_rate, fused=True)

    def step(number: int) -> None:
        images, truths = batches.batch(number, recipe.batch, recipe.seed)
        tensors = [detector._tensor(image) for image in images]
        with torch.autocast("cpu", torch.bfloat16, enabled=recipe.precision == "bfloat16"):
            total = sum(loss.float() for loss in detector._training_losses(tensors, truths).values())
        optimiser.zero_grad(set_to_none=True)
        total.backward()
        torch.nn.utils.clip_grad_norm_(module.parameters(), recipe.clip)
        optimiser.step()

    return step


def measure(name: str, recipe: Recipe, rounds: int, steps: int, folder: Path) -> dict[str, float]:
    """Ratios of detector ``name``, medians over ``rounds``."""
    images = training_images("rooms:train,count=256", folder / "images")
    batches = Prepared(images, recipe)
    other = _untrained(name, images.names, 0)
    bare = bare_step(other, batches, recipe)
    training = Training(_untrained(name, images.names, 0), batches, recipe, folder / name)

    def ours() -> None:
        for _ in range(steps):
            training._curve.add(training._one_step())

    def theirs() -> None:
        for number in range(steps):
            bare(number)

    with widened(other.module, recipe.widened):
        ours(), theirs()
        pairs = [(cpu_seconds(ours), cpu_seconds(theirs)) for _ in range(rounds)]
    run = Run.start(folder / name, training._identity, SCHEMA)
    saving = statistics.median(cpu_seconds(lambda: training._save(run)) for _ in range(3))
    reading = statistics.median(cpu_seconds(lambda i=i: images.batch(i, recipe.batch, 0)) for i in range(8))
    own, hand = (statistics.median(side) / steps for side in zip(*pairs, strict=True))
    return {
        "ratio": round(statistics.median(a / b for a, b in pairs), 3),
        "ratio_saving": round((own + saving / SAVED_EVERY) / hand, 3),
        "ratio_reading": round((own + saving / SAVED_EVERY + reading) / (hand + reading), 3),
        "step_seconds": round(own, 4),
        "bare_seconds": round(hand, 4),
        "save_seconds": round(saving, 4),
        "batch_seconds": round(reading, 4),
    }


def main() -> None:
    """Measure and print one JSON document."""
    parser = Parser(__doc__)
    parser.add_argument("--names", nargs="+", default=["yolox", "ssd"], short=["ssd"])
    parser.add_argument("--rounds", type=int, default=9, short=1)
    parser.add_argument("--steps", type=int, default=4, short=1)
    args = parser.parse_args()
    torch.set_num_threads(1)
    with TemporaryDirectory() as folder:
        found = {n: measure(n, recipe_of(n), args.rounds, args.steps, Path(folder)) for n in args.names}
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
