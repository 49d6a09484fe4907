"""Every family learns from images of several sizes in one batch, or says in one sentence why not.

The law: where an image lies on the canvas that a batch is laid on is known to the losses. So a trained detector finds
the right boxes of such a batch cheap, and the same boxes in the wrong places dear.
"""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import torchvision_toys  # noqa: E402
from hf_models import CLASSES, KINDS, TWO_STAGE, build, images  # noqa: E402

from misdetect.data import load_data  # noqa: E402
from misdetect.detectors import load_detector  # noqa: E402
from misdetect.detectors.hf.detector import wrap as wrap_hf  # noqa: E402
from misdetect.detectors.torchvision.load import wrap as wrap_torchvision  # noqa: E402
from misdetect.detectors.zoo.models import FAMILIES  # noqa: E402
from misdetect.nouns.detections import Truth  # noqa: E402
from misdetect.said.errors import BadArray  # noqa: E402

torch.set_num_threads(1)
SIZES = ((128, 128), (113, 97), (80, 128), (100, 120), (128, 66), (96, 96))
FIXED = ("rt-detr", "rt-detr-v2", "d-fine")


@cache
def corners() -> tuple[list[np.ndarray], list[Truth]]:
    """The upper left corners of rooms, with the objects that are wholly inside."""
    pictures, truths = [], []
    for (height, width), sample in zip(SIZES, load_data("rooms:val,count=6"), strict=True):
        inside = (sample.truth.boxes[:, 2] <= width) & (sample.truth.boxes[:, 3] <= height)
        pictures.append(sample.image[:height, :width].astype(np.float32))
        truths.append(sample.truth[inside])
    assert all(len(truth) > 1 for truth in truths)
    return pictures, truths


def moved(truth: Truth, size: tuple[int, int]) -> Truth:
    """Every box mirrored to the other side and the other end of its image."""
    (x0, y0, x1, y1), (height, width) = truth.boxes.T, size
    return replace(truth, boxes=np.stack([width - x1, height - y1, width - x0, height - y0], 1), masks=None)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("family", FAMILIES)
def test_trained_detectors_know_where_boxes_lie_in_images_of_several_sizes(family: str) -> None:
    detector = load_detector(f"zoo:{family}")
    pictures, truths = corners()
    wrong = [moved(truth, size) for truth, size in zip(truths, SIZES, strict=True)]
    torch.manual_seed(0)
    with torch.no_grad():
        right_cost = float(sum(detector.losses(pictures, truths).values()))
        wrong_cost = float(sum(detector.losses(pictures, wrong).values()))
    assert right_cost < 0.6 * wrong_cost


def learns(detector, pictures, truths) -> bool:
    total = sum(detector.losses(pictures, truths).values())
    total.backward()
    slopes = [p.grad for p in detector.parameters() if p.grad is not None]
    finite = all(bool(torch.isfinite(slope).all()) for slope in slopes)
    return bool(torch.isfinite(total)) and finite and any(bool(slope.any()) for slope in slopes)


def of_several_sizes(classes: int, shapes: tuple[tuple[int, int], ...]) -> tuple[list[np.ndarray], list[Truth]]:
    pictures = [images(1, seed=i)[0][:height, :width].astype(np.float32) for i, (height, width) in enumerate(shapes)]
    truths = [Truth([[4.0, 5, 30, 28], [8, 2, 20, 30]], [i % classes, 0]) for i in range(len(shapes))]
    return pictures, [*truths[:-1], Truth.empty()]


@pytest.mark.parametrize("family", torchvision_toys.FAMILIES)
def test_torchvision_learns_from_images_of_several_sizes(family: str) -> None:
    detector = wrap_torchvision(torchvision_toys.toy(family), torchvision_toys.NAMES)
    assert learns(detector, *of_several_sizes(3, ((64, 64), (37, 90), (80, 50))))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in FIXED])
def test_the_detr_family_learns_from_images_of_several_sizes(kind: str) -> None:
    assert learns(wrap_hf(build(kind), size="native"), *of_several_sizes(CLASSES, ((64, 64), (37, 90), (80, 50))))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", FIXED)
def test_those_that_take_one_size_resize_or_say_so(kind: str) -> None:
    assert kind in TWO_STAGE
    pictures, truths = of_several_sizes(CLASSES, ((64, 64), (37, 90), (80, 50)))
    assert learns(wrap_hf(build(kind), size="64x96"), pictures, truths)
    native = wrap_hf(build(kind), size="native")
    with pytest.raises(BadArray, match=r"sides are multiples of 32\. Got 37x90; have them resized: size=HEIGHTxWIDTH"):
        native.losses(pictures, truths)
    with pytest.raises(BadArray, match="sides are multiples of 32"):
        native.detect([picture.astype(np.uint8) for picture in pictures])
    pictures, truths = of_several_sizes(CLASSES, ((64, 64), (32, 96)))
    with pytest.raises(BadArray, match="is trained on images of one size"):
        native.losses(pictures, truths)
