"""For the tests of attack: a detector whose losses and slopes can be written down, and copies of it with masked
gradients. Also loaded as ``python:`` specs, by workers and as surrogates."""

import numpy as np

from misdetect.data.memory import from_pairs
from misdetect.engine.requests import Gradient
from misdetect.nouns.boxes import iou
from misdetect.nouns.detections import Detections, Truth

TILE, SIDE = 16, 48
NAMES = ("red", "green")


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


class Tiles:
    """Every 16 × 16 tile is a candidate. The mean of its red (green) channel over 128 is how sure the detector is of
    "red" ("green"); the mean of its blue one over 128 shifts the box to the right, 1 px for every 2 colours.

    ``cls`` of an object is -log of its class's score in its tile, ``loc`` half its box's squared shift, each a mean
    over the objects: both are linear in what an attack changes before they are bent, so the best attack is known.
    """

    names = NAMES
    batch_size = 4
    fingerprint = "tiles"
    slope_scale = 8.0

    def see(self, image):
        """What detection is based on; a defence may look at less than the image."""
        return np.asarray(image, dtype=np.float64)

    def means(self, image):
        return self.see(image).reshape(SIDE // TILE, TILE, SIDE // TILE, TILE, 3).mean(axis=(1, 3))

    def detect(self, images):
        return [self.one(image) for image in images]

    def one(self, image):
        means = self.means(image)
        boxes, scores, labels = [], [], []
        for row in range(SIDE // TILE):
            for column in range(SIDE // TILE):
                shift = (means[row, column, 2] - 128) / 2
                for label in range(2):
                    score = sigmoid((means[row, column, label] - 128) / self.slope_scale)
                    x0 = float(np.clip(column * TILE + shift, 0, SIDE - 1))
                    boxes.append([x0, row * TILE, min(x0 + TILE, SIDE), row * TILE + TILE])
                    scores.append(score)
                    labels.append(label)
        return Detections(boxes, scores, labels).above(0.05)

    def gradient(self, images, truths, loss):
        found = [self.slope(image, truth, loss) for image, truth in zip(images, truths, strict=True)]
        return np.array([value for value, _ in found]), [slope.astype(np.float32) for _, slope in found]

    def slope(self, image, truth, loss):
        """The mean over objects of ``one_object``."""
        total, slope = 0.0, np.zeros((SIDE, SIDE, 3))
        for box, label in zip(truth.boxes, truth.labels, strict=True):
            value, part = self.one_object(image, box, int(label), loss)
            total, slope = total + value, slope + part
        return total / max(len(truth), 1), slope / max(len(truth), 1)

    def one_object(self, image, box, label, loss):
        row, column = int(box[1]) // TILE, int(box[0]) // TILE
        mean = self.means(image)[row, column]
        inside = np.zeros((SIDE, SIDE, 3))
        part = inside[row * TILE : row * TILE + TILE, column * TILE : column * TILE + TILE]
        value = 0.0
        if loss in ("cls", "all"):
            score = sigmoid((mean[label] - 128) / self.slope_scale)
            value -= np.log(score)
            part[:, :, label] -= (1 - score) / self.slope_scale / TILE**2
        if loss in ("loc", "all"):
            shift = (mean[2] - 128) / 2
            value += shift**2 / 2
            part[:, :, 2] += shift / 2 / TILE**2
        return value, inside


class Quantised(Tiles):
    """Looks at colours in steps of 12: nothing changes a little, so every slope is 0. The classic masked gradient."""

    fingerprint = "quantised"

    def see(self, image):
        return 12 * np.rint(np.asarray(image, dtype=np.float64) / 12)

    def slope(self, image, truth, loss):
        return super().slope(image, truth, loss)[0], np.zeros((SIDE, SIDE, 3))


class Detached(Tiles):
    """Its class branch is cut off from the image, as by ``detach()``: what is left of the slope leads elsewhere."""

    fingerprint = "detached"

    def slope(self, image, truth, loss):
        value, slope = super().slope(image, truth, loss)
        slope[:, :, :2] = 1e-9
        return value, slope


class Black:
    """A black box: the same answers, nothing else."""

    names, batch_size, fingerprint = NAMES, 4, "black"

    def detect(self, images):
        return Tiles().detect(images)


def data(count=6, seed=0, right=144):
    """Images whose objects are one tile each, found with a score of σ((right - 128) / 8), boxes shifted by 1 px."""
    rng = np.random.default_rng(seed)
    pairs = []
    for _ in range(count):
        image = np.full((SIDE, SIDE, 3), 90, dtype=np.uint8)
        image[:, :, 2] = 128
        places = rng.permutation(9)[:3]
        boxes, labels = [], []
        for place in places.tolist():
            row, column, label = place // 3, place % 3, int(rng.integers(2))
            part = image[row * TILE : row * TILE + TILE, column * TILE : column * TILE + TILE]
            part[:, :, label] = right + int(rng.integers(-3, 4))
            part[:, :, 2] = 130
            boxes.append([column * TILE, row * TILE, column * TILE + TILE, row * TILE + TILE])
            labels.append(label)
        pairs.append((image, Truth(boxes, labels)))
    return from_pairs(pairs, NAMES)


def naive_found(detections, truth, score=0.3, loc=0.5):
    """Which objects are found, pair by pair."""
    return [
        any(
            detections.scores[d] >= score
            and detections.labels[d] == label
            and iou(box[None], detections.boxes[d][None])[0, 0] >= loc
            for d in range(len(detections))
        )
        for box, label in zip(truth.boxes, truth.labels, strict=True)
    ]


def drive(steps, detector):
    """Answer what ``steps`` asks by ``detector``; what it returns."""
    answer = None
    while True:
        try:
            asks = steps.send(answer)
        except StopIteration as end:
            return end.value
        single = isinstance(asks, Gradient)
        answers = []
        for ask in [asks] if single else asks:
            (value,), (slope,) = detector.gradient([ask.pixels], [ask.truth], ask.loss)
            answers.append((float(value), slope))
        answer = answers[0] if single else answers


def attacked():
    """An attack's document, as far as figures read it."""
    ends = {"AP50": [0.1, 0.4]}
    matrix = {"labels": ["cup", "background"], "counts": [[3, 1], [2, 0]], "became": [[3, 1, 2]],
              "confidence": [[2.5, 0.5], [1.0, 0.0]]}  # fmt: skip
    rungs = [
        {"name": "noise", "success": 0.125, "interval": [0.0, 0.25], "means": None},
        {"name": "fgsm", "success": 0.5, "interval": [0.25, 0.75], "means": "gradients masked"},
        {"name": "far", "success": None, "interval": None, "means": None},
    ]
    return {
        "detector": "zoo:one", "data": "rooms:val", "images": 7, "right": 20, "transfer": False,
        "settings": {"score": 0.3, "loc": 0.5, "eps": 8.0, "steps": 20, "alpha": 2.0, "where": "image"},
        "clean": {"AP50": 0.9, "intervals": {}},
        "attacks": {"noise": {"AP50": 0.85, "intervals": {}}, "cls": {"AP50": 0.2, "intervals": ends}},
        "clsaval": {"cls": {"vanilla": {"AP50": 0.2, "intervals": ends},
                            "r_idx": {"AP50": 0.3, "intervals": ends, "dcm": matrix}}},
        "dcm": {"clean": matrix, "cls": matrix},
        "ladder": {"loss": "cls", "images": 5, "verdict": "gradients masked", "rungs": rungs},
        "distance": [{"distance": 0, "success": 0.5, "interval": [0.25, 0.75]},
                     {"distance": 16, "success": 0.125, "interval": [0.0, 0.25]}],
    }  # fmt: skip
