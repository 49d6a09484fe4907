"""What a step of adversarial training costs beside one of a bare torch loop of the same model on the same batches.

    python benchmarks/harden.py [--names ssd yolox] [--batch 16] [--rounds 7] [--steps 2] [--replays 4]

All loops are handed the same prepared batches and take turns, a few steps each in every round, on one thread; times are
the processor's. A ratio is the median over rounds; each is printed with the limit that was set for it. A PGD-k step is
k gradients of the pixels and a training step; a replay of free training is one backward pass for both.
"""

import itertools
import json
import statistics
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from _measuring import Parser, cpu_seconds
from training import Prepared, bare_step

from misdetect.detectors import load_detector
from misdetect.suites.harden.adversarial import Adversarial
from misdetect.suites.harden.free import Free
from misdetect.training.batches import Replayed
from misdetect.training.images import training_images
from misdetect.training.loop import Change, Training
from misdetect.training.precision import widened
from misdetect.training.recipe import Recipe
from misdetect.training.zoo import recipe_of

PGD_STEPS = (2, 5)
CLEAN = (0.0, 0.5)


def changes(replays: int) -> dict[str, tuple[Change | None, float]]:
    """What is measured, by name: the change of a training, and the limit of its ratio."""
    found: dict[str, tuple[Change | None, float]] = {"training": (None, 1.05)}
    for k in PGD_STEPS:
        found |= {f"pgd-{k}, {clean:.0%} clean": (Adversarial(steps=k, clean=clean), k + 1.3) for clean in CLEAN}
    return found | {f"free-{replays}, {clean:.0%} clean": (Free(replays=replays, clean=clean), 1.3) for clean in CLEAN}


def measure(name: str, recipe: Recipe, rounds: int, steps: int, replays: int, folder: Path) -> dict[str, dict]:
    """Ratios of the zoo's detector ``name``, by what is measured."""
    batches = Prepared(training_images("rooms:train,count=256", folder / "images"), recipe)
    by_hand = load_detector(f"zoo:{name}")
    bare, chosen = bare_step(by_hand, batches, recipe), changes(replays)
    numbers = itertools.count()
    turns: dict[str, tuple[Callable[[], object], int]] = {"bare": (_turn(lambda: bare(next(numbers)), steps), steps)}
    for key, (change, _) in chosen.items():
        count = replays if isinstance(change, Free) else steps
        source = Replayed(batches, replays) if isinstance(change, Free) else batches
        training = Training(load_detector(f"zoo:{name}"), source, recipe, folder / name / key, change=change)
        turns[key] = _turn(training._one_step, count), count
    taken: dict[str, list[float]] = {key: [] for key in turns}
    with widened(by_hand.module, recipe.widened):
        for number in range(rounds + 1):
            for key, (turn, count) in turns.items():
                spent = cpu_seconds(turn) / count
                if number:  # the first round warms up
                    taken[key].append(spent)
    return {
        key: {
            "ratio": round(statistics.median(a / b for a, b in zip(taken[key], taken["bare"], strict=True)), 3),
            "limit": limit,
            "seconds": round(statistics.median(taken[key]), 4),
        }
        for key, (_, limit) in chosen.items()
    }


def _turn(step: Callable[[], object], count: int) -> Callable[[], None]:
    def turn() -> None:
        for _ in range(count):
            step()

    return turn


def main() -> None:
    """Measure and print one JSON document."""
    parser = Parser(__doc__)
    parser.add_argument("--names", nargs="+", default=["ssd", "yolox"], short=["ssd"])
    parser.add_argument("--batch", type=int, default=16, short=2)
    parser.add_argument("--rounds", type=int, default=7, short=1)
    parser.add_argument("--steps", type=int, default=2, short=1)
    parser.add_argument("--replays", type=int, default=4, short=2)
    args = parser.parse_args()
    torch.set_num_threads(1)
    found = {}
    with TemporaryDirectory() as folder:
        for name in args.names:
            recipe = replace(recipe_of(name), batch=args.batch)
            found[name] = measure(name, recipe, args.rounds, args.steps, args.replays, Path(folder))
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
