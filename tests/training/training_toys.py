"""What the tests of training learn from and with: coloured rectangles, a tiny YOLOX, and a detector of two lines of
arithmetic that is no ``TorchDetector``."""

from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from misdetect.detectors.yolox.detector import YoloxDetector
from misdetect.detectors.yolox.net import YOLOX, Shape
from misdetect.nouns.detections import Detections
from misdetect.training.images import TrainingImages

NAMES = ("red", "green")
COLOURS = ((230, 20, 20), (20, 230, 20))


def squares(count: int = 24, side: int = 64, **more) -> TrainingImages:
    """Grey images with one or two rectangles each, red or green, whose boxes are exact."""
    dice = np.random.default_rng(5)
    pixels = np.full((count, side, side, 3), 90, np.uint8)
    boxes, labels, starts = [], [], [0]
    for i in range(count):
        for _ in range(dice.integers(1, 3)):
            x0, y0 = dice.integers(0, side - 24, 2)
            x1, y1 = x0 + dice.integers(8, 24), y0 + dice.integers(8, 24)
            label = int(dice.integers(2))
            pixels[i, y0:y1, x0:x1] = COLOURS[label]
            boxes.append([x0, y0, x1, y1])
            labels.append(label)
        starts.append(len(boxes))
    return TrainingImages(NAMES, pixels, np.array(boxes, float), np.array(labels), np.array(starts), **more)


def tiny(seed: int = 0) -> YoloxDetector:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return YoloxDetector(YOLOX(2, Shape(0.33, 0.125)), NAMES, size=64, batch_size=8)


class Colourist:
    """Names the colour inside a box, given boxes; says nothing of where objects are. It has dice, a float buffer and a
    counter, so that a resume which forgets any of these shows."""

    names = NAMES

    def __init__(self) -> None:
        self.weight = torch.nn.Parameter(torch.tensor([[0.1, 0.2, 0.3], [0.3, 0.1, 0.2]]))
        self.bias = torch.nn.Parameter(torch.zeros(2))
        self.brightness = torch.zeros(3)
        self.seen = torch.zeros((), dtype=torch.int64)
        self.heard: list[dict[str, float]] = []

    def detect(self, images):
        return [Detections.empty() for _ in images]

    def losses(self, images, truths):
        rows, labels = [], []
        for image, truth in zip(images, truths, strict=True):
            for box, label in zip(truth.boxes.astype(int), truth.labels, strict=True):
                rows.append(image[box[1] : box[3], box[0] : box[2]].mean(axis=(0, 1)) / 255)
                labels.append(int(label))
        x = torch.tensor(np.array(rows), dtype=torch.float32)
        with torch.no_grad():
            self.brightness.lerp_(x.mean(0), 0.1)
            self.seen += 1
        logits = torch.nn.functional.dropout(x - self.brightness, 0.2) @ self.weight.T + self.bias
        found = {
            "colour": torch.nn.functional.cross_entropy(logits, torch.tensor(labels)),
            "size": 0.01 * logits.square().mean(),
        }
        self.heard.append({name: float(value.detach()) for name, value in found.items()})
        return found

    def parameters(self):
        return [self.weight, self.bias]

    def state(self):
        return {"weight": self.weight, "bias": self.bias, "brightness": self.brightness, "seen": self.seen}

    def save(self, path: Path) -> None:
        save_file({name: value.detach() for name, value in self.state().items()}, path)

    def load(self, path: Path) -> None:
        with torch.no_grad():
            for name, value in load_file(path).items():
                self.state()[name].copy_(value)


class Darker:
    """A change of batches: every image loses some of its light."""

    name = "darker"

    def __init__(self, share: float = 0.5) -> None:
        self.settings = {"share": share}
        self.steps: list[int] = []

    def __call__(self, detector, images, truths, step):
        self.steps.append(step)
        noise = torch.rand(len(images)).numpy()  # torch's dice are seeded by the step
        return [image * np.float32(self.settings["share"] * n) for image, n in zip(images, noise, strict=True)], truths


class Counted:
    """A check: how many batches the detector has seen, and its first weight."""

    name = "counted"

    def __init__(self) -> None:
        self.settings = {"of": "batches"}

    def __call__(self, detector):
        return {"seen": float(detector.state()["seen"]), "first": float(detector.state()["weight"][0, 0].detach())}


def weights(detector) -> dict[str, np.ndarray]:
    return {name: value.detach().numpy().copy() for name, value in detector.state().items()}


def same(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)
