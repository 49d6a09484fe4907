"""Device, float type and batch of torch detectors."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from misdetect.data import load_data
from misdetect.detections import Truth
from misdetect.detectors import load_detector
from misdetect.detectors.where import fastest_batch
from misdetect.errors import BadSpec
from misdetect.grid import boxes_on_grid, scores_on_grid

FAMILIES = ["ssd", "yolox", "faster-rcnn", "retinanet", "deformable-detr"]


@pytest.fixture(scope="module")
def images() -> list[np.ndarray]:
    return [sample.image for sample in load_data("rooms:val").limit(3)]


@pytest.fixture(scope="module")
def detector() -> Any:
    return load_detector("zoo:yolox,batch=1")


def _asked(detector: Any, images: list[np.ndarray]) -> dict[str, Callable[[], Any]]:
    truth = Truth([[20, 20, 70, 70]], [0])
    floats = [images[0].astype(np.float32)]
    return {
        "detect": lambda: [found.boxes for found in detector.detect(images[:1])],
        "trace": lambda: [inside.refined for inside in detector.trace(images[:1])],
        "gradient": lambda: [detector.gradient(floats, [truth], "all")[0]],
        "losses": lambda: [np.array([value.item() for value in detector.losses(floats, [truth]).values()])],
    }


@pytest.mark.parametrize("what", ["detect", "trace", "gradient", "losses"])
def test_no_tensor_is_made_elsewhere(detector: Any, images: list[np.ndarray], what: str) -> None:
    """With another default device, whatever is made without saying where lies on ``meta``, and cannot be computed with:
    as on a GPU, where it would lie on the CPU. Only of the family whose network is ours: the libraries of the others
    make tensors on the CPU and move them, which is slow but right."""
    torch.manual_seed(0)
    expected = _asked(detector, images)[what]()
    torch.manual_seed(0)
    with torch.device("meta"):
        found = _asked(detector, images)[what]()
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-3)


def test_the_check_itself_finds_a_careless_tensor() -> None:
    with torch.device("meta"), pytest.raises(RuntimeError):
        (torch.from_numpy(np.ones(3)) + torch.zeros(3)).numpy()


@pytest.mark.parametrize("name", ["ssd", "yolox"])
def test_the_batch_decides_nothing(name: str, images: list[np.ndarray]) -> None:
    one, many = load_detector(f"zoo:{name},batch=1"), load_detector(f"zoo:{name},batch=auto")
    assert many.settings["batch"] == f"auto: {many.batch_size}"
    assert one.fingerprint == many.fingerprint
    for first, second in zip(one.detect(images), many.detect(images), strict=True):
        np.testing.assert_allclose(boxes_on_grid(first.boxes), boxes_on_grid(second.boxes), atol=0.01)
        np.testing.assert_allclose(scores_on_grid(first.scores), scores_on_grid(second.scores), atol=1e-3)


@pytest.mark.parametrize("name", FAMILIES)
def test_half_precision_finds_nearly_the_same(name: str, images: list[np.ndarray]) -> None:
    full, half = load_detector(f"zoo:{name}"), load_detector(f"zoo:{name},half=yes")
    assert (half.dtype, half.settings["half"]) == (torch.bfloat16, "bfloat16")
    assert half.fingerprint != full.fingerprint
    for first, second in zip(full.detect(images), half.detect(images), strict=True):
        sure, faint = first.above(0.7), second.above(0.3)
        for box, label in zip(sure.boxes, sure.labels, strict=True):
            near = (np.abs(faint.boxes - box).max(axis=1) <= 6) & (faint.labels == label)
            assert near.any()


def test_a_batch_that_does_not_fit_ends_the_search() -> None:
    class Small:
        """Has memory for four images."""

        batch_size, device = 3, torch.device("cuda")

        def detect(self, images: list[Any]) -> list[Any]:
            if len(images) > 4:
                raise torch.OutOfMemoryError("out of memory")
            return images

    small = Small()
    assert fastest_batch(small, 8) in (1, 2, 4)  # type: ignore[arg-type]
    assert small.batch_size == 3


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("device=tpu", "cpu, cuda, mps"),
        ("batch=0", "at least 1, or auto"),
        ("batch=many", "should be int"),
        ("half=perhaps", "yes or no"),
        *([] if torch.cuda.is_available() else [("device=cuda", "device=cuda is not there")]),
        *([] if torch.backends.mps.is_available() else [("device=mps", "device=mps is not there")]),
    ],
)
def test_what_cannot_be_is_one_sentence(options: str, says: str) -> None:
    for spec in ("zoo:ssd", "torchvision:ssd300_vgg16,weights=random,classes=2"):
        with pytest.raises(BadSpec, match=says):
            load_detector(f"{spec},{options}")
