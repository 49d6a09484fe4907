"""A classifier as a detector: whole images for boxes, probabilities for scores, cross-entropy for a loss."""

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from misdetect.detectors.classifier import ClassifierDetector  # noqa: E402
from misdetect.nouns.detections import Detections, Truth  # noqa: E402
from misdetect.said.errors import BadArray  # noqa: E402
from misdetect.training.images import TrainingImages  # noqa: E402
from misdetect.training.measure import measure  # noqa: E402

NAMES = ("a", "b", "c")


class Brightness(torch.nn.Module):
    """Logits of one image: its mean (normalised) red, green and blue, each times a weight."""

    def __init__(self, classes=3):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.linspace(0.5, 1.5, classes))

    def forward(self, x):
        return x.mean(dim=(2, 3))[:, : len(self.weight)] * self.weight


@pytest.fixture
def detector():
    return ClassifierDetector(Brightness(), NAMES, size=8, score=0.3, batch_size=2)


@pytest.fixture
def images():
    dice = np.random.default_rng(0)
    return [dice.integers(0, 256, size, dtype=np.uint8) for size in ((10, 12, 3), (8, 8, 3), (10, 12, 3))]


def probability(image, k):
    """By hand; an 8 × 8 image is not resampled."""
    mean, deviation = (0.485, 0.456, 0.406)[k], (0.229, 0.224, 0.225)[k]
    logit = (image[:, :, k].mean() / 255 - mean) / deviation * (0.5, 1.0, 1.5)[k]
    return 1 / (1 + math.exp(-logit))


def test_every_class_above_the_threshold_has_the_whole_image(detector, images):
    found = detector.detect(images)
    for image, each in zip(images, found, strict=True):
        assert (each.boxes == [0, 0, image.shape[1], image.shape[0]]).all()
        assert (each.scores >= 0.3).all()
        assert len(set(each.labels.tolist())) == len(each)
    expected = {k: p for k in range(3) if (p := probability(images[1], k)) >= 0.3}
    assert dict(zip(found[1].labels.tolist(), found[1].scores.tolist(), strict=True)) == pytest.approx(
        expected, abs=1e-5
    )


def test_the_trace_has_one_candidate_and_selects_what_is_detected(detector, images):
    for candidates, found in zip(detector.trace(images), detector.detect(images), strict=True):
        assert len(candidates) == 1
        assert candidates.select() == found


def test_the_loss_is_cross_entropy_and_nothing_is_localised(detector, images):
    truth = Truth([[0, 0, 2, 2], [1, 1, 3, 3]], [2, 2])
    values, slopes = detector.gradient([images[1].astype(np.float32)], [truth], "cls")
    p = [probability(images[1], k) for k in range(3)]
    assert values[0] == pytest.approx(-(math.log(1 - p[0]) + math.log(1 - p[1]) + math.log(p[2])) / 3, rel=1e-4)
    assert (slopes[0][:, :, 2] < 0).all(), "a brighter blue makes the right class likelier"
    values, slopes = detector.gradient([images[1].astype(np.float32)], [truth], "loc")
    assert values[0] == 0
    assert not slopes[0].any()


def test_too_few_logits_are_named(images):
    with pytest.raises(BadArray, match="one per class"):
        ClassifierDetector(Brightness(2), NAMES, size=8).detect(images)


def test_ap_of_whole_images_is_the_ap_of_classes():
    """Ranking images by each class's score, precision at every image that has it, as COCO interpolates; both objects of
    a class in one image are one."""
    dice = np.random.default_rng(1)
    has, scores = dice.random((40, 3)) < 0.5, dice.random((40, 3))

    class Known:
        names = NAMES

        def detect(self, batch):
            return [Detections.of_whole_image(scores[int(image[0, 0, 0])], 6, 6) for image in batch]

    pixels = np.zeros((40, 6, 6, 3), np.uint8)
    pixels[:, 0, 0, 0] = np.arange(40)
    image, label = np.nonzero(np.repeat(has, 2, axis=1))  # every object twice
    boxes = np.tile([1.0, 1, 3, 3], (len(image), 1))
    starts = np.searchsorted(image, np.arange(41))
    data = TrainingImages(NAMES, pixels, boxes, label // 2, starts).whole()
    expected = []
    for k in range(3):
        order = np.argsort(-scores[:, k])
        hit = has[order, k]
        precision, recall = np.cumsum(hit) / np.arange(1, 41), np.cumsum(hit) / hit.sum()
        at = [precision[recall >= r - 1e-12].max(initial=0) for r in np.linspace(0, 1, 101)]
        expected.append(np.mean(at))
    assert measure(Known(), data)["AP"] == pytest.approx(np.mean(expected), abs=1e-3)
    assert data.fingerprint != TrainingImages(NAMES, pixels, boxes, label // 2, starts).fingerprint
