"""Small data made by hand, crowded on purpose, and paper 3's Algorithm 1 written naively as the oracle."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from misdetect.data import load_data
from misdetect.data.dataset import Dataset, Sample
from misdetect.nouns.detections import Truth
from misdetect.nouns.masks import Masks
from misdetect.nouns.picture import digest

COCO66 = Path(__file__).resolve().parents[2] / "../shared/fixtures/coco66/instances.json"
NAMES = ("cup", "bowl", "chair", "lamp", "dog")


def coco66() -> Dataset:
    if not COCO66.exists():
        pytest.skip("the coco66 fixture is not there")
    return load_data(f"coco:{COCO66}")


@dataclass(frozen=True)
class Noise:
    seed: int
    width: int
    height: int

    def read(self):
        generator = np.random.default_rng(self.seed)
        return generator.integers(0, 256, (self.height, self.width, 3), dtype=np.uint8)

    def key(self):
        return digest("noise", self.seed, self.width, self.height)


def scene(
    seed: int, count: int, width: int = 160, height: int = 120, states: bool = False, masks: bool = False
) -> Sample:
    """``count`` objects, a third of them shifted copies of an earlier one and of its class, one a crowd."""
    dice = np.random.default_rng(seed)
    boxes: list[np.ndarray] = []
    labels: list[int] = []
    for i in range(count):
        if i and dice.random() < 0.35:
            twin = int(dice.integers(i))
            box = boxes[twin] + np.tile(dice.uniform(-6, 6, 2), 2)
            labels.append(labels[twin])
        else:
            corner = dice.uniform(0, [width - 8, height - 8])
            box = np.concatenate([corner, corner + dice.uniform(5, 60, 2)])
            labels.append(int(dice.integers(len(NAMES))))
        box = np.clip(box, 0, [width, height, width, height])
        boxes.append(box if (box[2:] - box[:2] > 3).all() else np.array([1.0, 1, 9, 9]))
    array = np.array(boxes).reshape(-1, 4)
    kinds = tuple(dice.choice(["intact", "damaged", "absent", "occluded"], count).tolist()) if states else None
    crowd = np.zeros(count, bool)
    crowd[count - 1 : count] = count > 3 and not states
    drawn = None
    if masks:
        grid = np.zeros((count, height, width), bool)
        for i, (x0, y0, x1, y1) in enumerate(array.astype(int)):
            grid[i, y0 : y1 + 1, x0 : x1 + 1] = True
        drawn = Masks.from_array(grid)
    truth = Truth(array, labels, ids=np.arange(count) + 100 * seed, crowd=crowd, states=kinds, masks=drawn)
    return Sample(f"image-{seed}", Noise(seed, width, height), truth, width, height, image_id=seed)


def toys(images: int = 12, count: int = 14, **how) -> Dataset:
    samples = [scene(seed, (seed * 5 + count) % (count + 1), **how) for seed in range(images)]
    return Dataset("toys", NAMES, images, lambda i: samples[i], fingerprint=digest("toys", images, count, repr(how)))


def overlap(a, b) -> float:
    """IoU of two boxes."""
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    if width <= 0 or height <= 0:
        return 0.0
    shared = width * height
    return shared / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared)


def is_found(box, label, detections) -> bool:
    """Paper 3's code: any final detection of the class with IoU >= .5."""
    return any(
        found == label and overlap(box, other) >= 0.5
        for other, found in zip(detections.boxes, detections.labels, strict=True)
    )


def algorithm_1(box, label, candidates) -> str:
    """Paper 3, Algorithm 1, line by line, for an object that was missed."""
    localised = [k for k in range(len(candidates)) if overlap(box, candidates.refined[k]) >= 0.5]
    if localised:
        if any(candidates.scores[k, label] >= 0.3 for k in localised):
            return "discarded"
        if any(candidates.scores[k].max() >= 0.3 for k in localised):
            return "interclass"
        return "background"
    if any(overlap(box, proposal) >= 0.5 for proposal in candidates.proposals):
        return "regressor"
    return "proposal"


def countable(truth: Truth) -> list[int]:
    """Rows of objects that a detector should find."""
    there = [s in ("intact", "damaged") for s in truth.states] if truth.states else [True] * len(truth)
    return [i for i in range(len(truth)) if there[i] and not truth.crowd[i]]
