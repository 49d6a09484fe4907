"""Device, float type and batch of torch detectors."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import hf_models
import numpy as np
import pytest
import torch
from pretended_device import PretendedDevice

from misdetect.data import load_data
from misdetect.detectors import load_detector
from misdetect.detectors.hf.detector import wrap as wrap_hf
from misdetect.detectors.torchvision.load import wrap as wrap_torchvision
from misdetect.detectors.where import fastest_batch
from misdetect.detectors.yolox.net import cells_of
from misdetect.nouns.detections import Truth
from misdetect.nouns.grid import boxes_on_grid, scores_on_grid
from misdetect.said.errors import BadSpec

FAMILIES = ["ssd", "yolox", "faster-rcnn", "retinanet", "deformable-detr"]


@pytest.fixture(scope="module")
def images() -> list[np.ndarray]:
    return [sample.image for sample in load_data("rooms:val").limit(3)]


def _zoo(name: str) -> Callable[[], Any]:
    return lambda: (
        load_detector(f"zoo:{name},batch=1"),
        load_data("rooms:val")[0].image,
        Truth([[20, 20, 70, 70]], [0]),
    )


def _torchvision(family: str) -> Callable[[], Any]:
    def make() -> Any:
        import torchvision_toys as toys

        return wrap_torchvision(toys.toy(family), toys.NAMES), toys.pictures(1)[0], toys.truth()

    return make


def _hf(kind: str) -> Callable[[], Any]:
    names = [f"class {i}" for i in range(hf_models.CLASSES)]
    return lambda: (wrap_hf(hf_models.build(kind), names), hf_models.images(1)[0], hf_models.truth())


TORCHVISION = ("ssd", "retinanet", "fcos", "faster-rcnn", "mask-rcnn")
EVERY = {
    **{f"zoo:{name}": _zoo(name) for name in ("yolox", "ssd", "faster-rcnn", "retinanet", "deformable-detr")},
    **{f"torchvision:{family}": _torchvision(family) for family in TORCHVISION},
    **{f"hf:{kind}": _hf(kind) for kind in hf_models.KINDS},
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", EVERY)
def test_nothing_is_computed_from_tensors_of_two_devices(name: str) -> None:
    detector, image, truth = EVERY[name]()
    two, floats, truths = [image] * 2, [image.astype(np.float32)] * 2, [truth, Truth.empty()]
    cells_of.cache_clear()  # the mode does not know what was made before it
    with PretendedDevice(detector.module) as device:
        detector.detect(two)
        detector.trace(two)
        detector.gradient(floats, truths, "all")
        losses = detector.losses(floats, truths)
        assert detector.fingerprint
    assert device.refused == []
    assert all(loss.is_there for loss in losses.values() if loss.requires_grad)  # so the mode was not blind


@pytest.mark.parametrize(
    ("careless", "call"),
    [
        (lambda x: x + torch.ones(3), "add"),
        (lambda x: torch.cat([x, torch.from_numpy(np.ones(3, np.float32))]), "cat"),
        (lambda x: torch.where(x > 0, x, torch.zeros(3).to(x.dtype)), "where"),
        (lambda x: x + x.detach().cpu(), "add"),
        (lambda x: torch.arange(3)[x.long()], "__getitem__"),
        (lambda x: x.detach().numpy(), "numpy"),
    ],
)
def test_the_pretended_device_refuses_what_a_gpu_refuses(careless: Callable[[Any], Any], call: str) -> None:
    module = torch.nn.BatchNorm1d(3)
    with PretendedDevice(module) as device:
        careless(module.weight)
    assert [line.split()[0] for line in device.refused] == [call]


@pytest.mark.parametrize(
    "careful",
    [
        lambda x: x + torch.ones(3, device=x.device),
        lambda x: x + torch.from_numpy(np.ones(3)).to(x),
        lambda x: x + torch.zeros_like(x) + torch.tensor(2.0),
        lambda x: x[torch.arange(2)] + 1,
        lambda x: x.detach().cpu().numpy() + torch.ones(3).numpy(),
        lambda x: sum(x) + x.new_ones(3),
    ],
)
def test_the_pretended_device_takes_what_a_gpu_takes(careful: Callable[[Any], Any]) -> None:
    module = torch.nn.BatchNorm1d(3)
    with PretendedDevice(module) as device:
        careful(module.weight)
    assert device.refused == []


@pytest.mark.parametrize("name", ["yolox", pytest.param("ssd", marks=pytest.mark.heavy)])
def test_the_batch_decides_nothing(name: str, images: list[np.ndarray]) -> None:
    one, many = load_detector(f"zoo:{name},batch=1"), load_detector(f"zoo:{name},batch=auto")
    assert many.settings["batch"] == f"auto: {many.batch_size}"
    assert one.fingerprint == many.fingerprint
    for first, second in zip(one.detect(images), many.detect(images), strict=True):
        np.testing.assert_allclose(boxes_on_grid(first.boxes), boxes_on_grid(second.boxes), atol=0.01)
        np.testing.assert_allclose(scores_on_grid(first.scores), scores_on_grid(second.scores), atol=1e-3)


@pytest.mark.sampled(2)
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


@pytest.mark.parametrize("kind", sorted({*hf_models.KINDS} - {"dab"}))  # whose own code mixes float types
def test_half_precision_of_transformers(kind: str, tmp_path: Path) -> None:
    """Also where images have to be resized, for which torch has no half precision on the CPU."""
    hf_models.build(kind).save_pretrained(tmp_path)
    spec = f"hf:{tmp_path},size=64x96,score=0"
    full, half = load_detector(spec), load_detector(f"{spec},half=yes")
    image = hf_models.images(1)[0][:50, :70]
    for one, other in zip(full.detect([image]), half.detect([image]), strict=True):
        assert len(one) == len(other) > 0
        np.testing.assert_allclose(one.scores[:3], other.scores[:3], atol=0.05)


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
