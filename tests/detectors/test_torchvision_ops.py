"""The stand-ins for torchvision's compiled operators against short versions from their definitions, and native ones."""

import math
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from misdetect.detectors.torchvision import ops as torchvision_ops

torch.set_num_threads(1)
package = torchvision_ops.load()
needs_native = pytest.mark.skipif(
    not torchvision_ops.has_native_ops(package), reason="native torchvision ops do not load"
)


def greedy(boxes: np.ndarray, scores: np.ndarray, threshold: float) -> list[int]:
    """Suppression as everyone defines it, one float32 operation at a time."""
    kept: list[int] = []
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    for i in sorted(range(len(boxes)), key=lambda i: -scores[i]):
        for j in kept:
            w = np.maximum(np.float32(0), min(boxes[i, 2], boxes[j, 2]) - max(boxes[i, 0], boxes[j, 0]))
            h = np.maximum(np.float32(0), min(boxes[i, 3], boxes[j, 3]) - max(boxes[i, 1], boxes[j, 1]))
            union = area[i] + area[j] - w * h
            if union > 0 and float(np.float32(w * h) / union) > threshold:
                break
        else:
            kept.append(i)
    return kept


def random_boxes(seed: int, count: int, grid: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Boxes on a coarse grid with few distinct scores: ties in score and overlaps of exactly the threshold."""
    rng = np.random.default_rng(seed)
    corner = rng.integers(0, grid, (count, 2))
    boxes = np.concatenate([corner, corner + rng.integers(1, 6, (count, 2))], axis=1).astype(np.float32)
    return torch.from_numpy(boxes), torch.from_numpy(rng.integers(0, 7, count).astype(np.float32) / 7)


@given(
    seed=st.integers(0, 10**6),
    count=st.integers(0, 90),
    grid=st.integers(2, 12),
    threshold=st.sampled_from([0.0, 0.3, 0.45, 0.5, 0.6, 0.7, 1.0]),
)
def test_nms_is_the_greedy_definition_in_float32(seed: int, count: int, grid: int, threshold: float) -> None:
    boxes, scores = random_boxes(seed, count, grid)
    assert package.ops.nms(boxes, scores, threshold).tolist() == greedy(boxes.numpy(), scores.numpy(), threshold)


def test_an_overlap_between_the_float_and_the_double_threshold_is_decided_as_native_does() -> None:
    # IoU 3/5 in float32 is 0.60000002384 > 0.6: suppressed when compared in double, kept when compared in float32.
    boxes = torch.tensor([[0.0, 0, 4, 1], [0, 0, 0, 0], [1, 0, 5, 1]])
    assert package.ops.nms(boxes, torch.tensor([0.9, 0.8, 0.7]), 0.6).tolist() == [0, 1]


@needs_native
def test_nms_and_roi_align_agree_with_native() -> None:
    for seed in range(20):
        boxes, scores = random_boxes(seed, 300, 40)
        native = torch.ops.torchvision.nms(boxes, scores, 0.5)
        assert torch.equal(torchvision_ops.nms(boxes, scores, 0.5), native)
        for ratio, aligned in ((2, False), (2, True), (-1, False), (-1, True)):
            x, rois = torch.randn(2, 3, 20, 30), regions(seed)
            found = torchvision_ops.roi_align(x, rois, (5, 7), 0.5, ratio, aligned)
            assert torch.allclose(found, torch.ops.torchvision.roi_align(x, rois, 0.5, 5, 7, ratio, aligned), atol=1e-4)


def regions(seed: int) -> torch.Tensor:
    """Boxes inside, across and far outside a 20 × 30 map (scale 0.5), tiny ones, and an inverted one."""
    rng = np.random.default_rng(seed)
    corner = rng.uniform(-25, 65, (12, 2))
    boxes = np.concatenate([corner, corner + rng.uniform(0, 50, (12, 2))], axis=1)
    boxes[0] = [10, 10, 10.01, 10.01]
    boxes[1] = [30, 30, 12, 12]
    boxes[2] = [-60, -60, -40, -40]
    return torch.from_numpy(np.concatenate([rng.integers(0, 2, (12, 1)), boxes], axis=1)).float()


def sampled(image: np.ndarray, y: float, x: float) -> np.ndarray:
    """Bilinear interpolation of a ``[C, H, W]`` map as RoI Align defines it at and beyond the borders."""
    height, width = image.shape[1:]
    if y < -1 or y > height or x < -1 or x > width:
        return np.zeros(len(image))
    y, x = min(max(y, 0), height - 1), min(max(x, 0), width - 1)
    y0, x0 = int(y), int(x)
    y1, x1 = min(y0 + 1, height - 1), min(x0 + 1, width - 1)
    top = image[:, y0, x0] * (1 - (x - x0)) + image[:, y0, x1] * (x - x0)
    bottom = image[:, y1, x0] * (1 - (x - x0)) + image[:, y1, x1] * (x - x0)
    return top * (1 - (y - y0)) + bottom * (y - y0)


def aligned_by_hand(
    features: np.ndarray, rois: np.ndarray, size: tuple[int, int], scale: float, ratio: int, aligned: bool
) -> np.ndarray:
    output = np.zeros((len(rois), features.shape[1], *size))
    for k, (index, *box) in enumerate(rois):
        x0, y0, x1, y1 = (c * scale - (0.5 if aligned else 0) for c in box)
        wide, high = (x1 - x0, y1 - y0) if aligned else (max(x1 - x0, 1), max(y1 - y0, 1))
        cell_h, cell_w = high / size[0], wide / size[1]
        down, across = (ratio, ratio) if ratio > 0 else (math.ceil(cell_h), math.ceil(cell_w))
        for i, j in np.ndindex(*size):
            points = [
                sampled(
                    features[int(index)], y0 + (i + (a + 0.5) / down) * cell_h, x0 + (j + (b + 0.5) / across) * cell_w
                )
                for a in range(down)
                for b in range(across)
            ]
            output[k, :, i, j] = np.mean(points, axis=0) if points else 0
    return output


@pytest.mark.parametrize("ratio", [1, 2, 3, 0, -1])
@pytest.mark.parametrize("aligned", [False, True])
def test_roi_align_is_its_definition(ratio: int, aligned: bool) -> None:
    torch.manual_seed(ratio + 10 * aligned)
    features, rois = torch.randn(2, 3, 20, 30), regions(ratio + 5)
    found = package.ops.roi_align(features, rois, (3, 4), 0.5, ratio, aligned)
    wanted = aligned_by_hand(features.double().numpy(), rois.double().numpy(), (3, 4), 0.5, ratio, aligned)
    assert np.abs(found.numpy() - wanted).max() < 1e-4


def test_roi_align_takes_boxes_per_image_as_well_as_numbered_ones() -> None:
    features, rois = torch.randn(2, 3, 20, 30), regions(1)
    rois = rois[rois[:, 0].argsort(stable=True)]
    lists = [rois[rois[:, 0] == i, 1:] for i in (0, 1)]
    for size in (4, (4, 4)):
        numbered = package.ops.roi_align(features, rois, size, 0.5, 2)
        assert torch.equal(package.ops.roi_align(features, lists, size, 0.5, 2), numbered)
    assert package.ops.roi_align(features, [torch.zeros(0, 4)] * 2, (2, 5)).shape == (0, 3, 2, 5)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("ratio", [2, -1])
def test_roi_align_has_the_right_gradient(ratio: int) -> None:
    torch.manual_seed(0)
    features, rois = torch.randn(2, 2, 8, 9, dtype=torch.double, requires_grad=True), regions(3).double()
    rois[:, 1:] *= 0.3
    assert torch.autograd.gradcheck(lambda x: package.ops.roi_align(x, rois, (2, 3), 0.5, ratio, True), (features,))


def test_every_holder_of_roi_align_gets_the_same_one() -> None:
    holders = ("torchvision.ops.roi_align", "torchvision.ops.poolers", "torchvision.models.detection.roi_heads")
    for holder in holders:
        assert sys.modules[holder].roi_align is package.ops.roi_align
    assert torchvision_ops.load() is package


def test_nothing_is_changed_where_native_operators_load(monkeypatch: pytest.MonkeyPatch) -> None:
    check, align = object(), object()
    boxes = SimpleNamespace(_assert_has_ops=check)
    native = SimpleNamespace(
        extension=SimpleNamespace(_has_ops=lambda: True), ops=SimpleNamespace(boxes=boxes, roi_align=align)
    )
    monkeypatch.setitem(sys.modules, "torchvision", native)
    supplied = list(torchvision_ops._supplied)
    assert torchvision_ops.load() is native
    assert boxes._assert_has_ops is check
    assert native.ops.roi_align is align
    assert torchvision_ops._supplied == supplied
