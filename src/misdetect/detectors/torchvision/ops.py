"""A torchvision that imports: where its compiled operators do not load, the two that detectors need are supplied here.

A CPU torch beside torchvision's usual (CUDA-linked) wheel makes ``import torchvision`` raise, and transformers fails
with it. Everything in this project that wants torchvision calls ``load`` first. Where the native operators load, it
changes nothing; where they do not, ``nms`` and ``roi_align`` are replaced by versions with the same result.
"""

import importlib
import sys
from threading import Lock
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from misdetect.nouns.boxes import nms as greedy_nms
from misdetect.said.errors import MissingExtra

_lock = Lock()
_supplied: list[torch.library.Library] = []  # a Library's operators live as long as it does


def load() -> ModuleType:
    """The ``torchvision`` package, imported, with ``nms`` and ``roi_align`` that work. Cheap to call again."""
    with _lock:
        try:
            package = importlib.import_module("torchvision")
        except ModuleNotFoundError as error:
            if error.name != "torchvision":
                raise
            raise MissingExtra.named("A torchvision model", "torch") from None
        except RuntimeError as error:
            if "torchvision::nms" not in str(error):
                raise
            for name in [n for n in sys.modules if n.partition(".")[0] == "torchvision"]:
                del sys.modules[name]  # what the failed import left behind
            _supply_nms()
            package = importlib.import_module("torchvision")
        if not has_native_ops(package) and package.ops.boxes._assert_has_ops is not _operators_are_supplied:
            _supply_nms()
            _replace(package)
        return package


def has_native_ops(package: ModuleType) -> bool:
    """Whether ``package`` (torchvision) loaded its own compiled operators."""
    return bool(package.extension._has_ops())


def _supply_nms() -> None:
    """Define ``torchvision::nms`` and ``qnms``, unless something else already has."""
    for name in ("nms", "qnms"):
        if hasattr(torch.ops.torchvision, name):
            continue
        library: Any = torch.library.Library("torchvision", "FRAGMENT")  # type: ignore[no-untyped-call]
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        library.impl(name, nms, "CompositeExplicitAutograd")
        _supplied.append(library)


def _replace(package: ModuleType) -> None:
    package.ops.boxes._assert_has_ops = _operators_are_supplied
    holders = ("ops", "ops.roi_align", "ops.poolers", "models.detection.roi_heads")
    for holder in holders:
        importlib.import_module(f"torchvision.{holder}")
        sys.modules[f"torchvision.{holder}"].roi_align = roi_align  # type: ignore[attr-defined]


def _operators_are_supplied() -> None:
    """Stands in for torchvision's check that its own operators are there."""


def nms(boxes: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """Indices of the boxes that greedy suppression at IoU > ``iou_threshold`` keeps, by falling score.

    IoU is computed in the boxes' own float32 or float64 and compared in double, as the native operator does.
    """
    wide = torch.float64 if boxes.dtype == torch.float64 else torch.float32
    kept, _ = greedy_nms(
        boxes.detach().to("cpu", wide).numpy(),
        scores.detach().to("cpu", torch.float64).numpy(),
        np.float64(iou_threshold),  # a plain float would be rounded to float32 before the comparison
    )
    return torch.from_numpy(kept).to(boxes.device)


def roi_align(
    input: Tensor,
    boxes: Tensor | list[Tensor],
    output_size: int | tuple[int, int] | list[int],
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
    aligned: bool = False,
) -> Tensor:
    """RoI Align with the arguments and the result (``[K, C, height, width]``) of ``torchvision.ops.roi_align``.

    Each bin is the mean of bilinear samples on a regular grid: ``sampling_ratio`` per side, or, where that is not
    positive, one per feature cell. Samples further than one cell outside the map count as 0. Differentiable.
    """
    height, width = (output_size, output_size) if isinstance(output_size, int) else tuple(output_size)
    rois = (boxes if isinstance(boxes, Tensor) else _numbered(boxes, input)).detach()
    features = input.float() if input.dtype in (torch.float16, torch.bfloat16) else input
    _, channels, rows, columns = features.shape
    corners = rois[:, 1:].to(features.dtype) * spatial_scale - (0.5 if aligned else 0.0)
    size = corners[:, 2:] - corners[:, :2]
    if not aligned:
        size = size.clamp(min=1.0)
    cell = size / torch.tensor([width, height], dtype=size.dtype, device=size.device)
    samples = torch.full_like(cell, sampling_ratio) if sampling_ratio > 0 else cell.ceil().clamp(min=0)
    # A bin is a weighted sum of cells, hence a bag of rows of one table [N * H * W, C]: exact, and ten times faster on
    # a CPU than interpolating every sample.
    table = features.permute(0, 2, 3, 1).reshape(-1, channels)
    parts, places = (
        [table[:0].view(0, height * width, channels)],
        [torch.zeros(0, dtype=torch.long, device=rois.device)],
    )
    for across, down in torch.unique(samples, dim=0).int().tolist():
        chosen = torch.where((samples[:, 0] == across) & (samples[:, 1] == down))[0]
        places.append(chosen)
        if across * down == 0:  # an inverted box holds no sample
            parts.append(table.new_zeros(len(chosen), height * width, channels))
            continue
        x, x_weight = _neighbours(_positions(corners[chosen, 0], cell[chosen, 0], width, across), columns)
        y, y_weight = _neighbours(_positions(corners[chosen, 1], cell[chosen, 1], height, down), rows)
        first = rois[chosen, 0].long() * (rows * columns)
        place = first[:, None, None, None, None] + y[:, :, None, :, None] * columns + x[:, None, :, None, :]
        weight = y_weight[:, :, None, :, None] * x_weight[:, None, :, None, :] / (across * down)
        bags = F.embedding_bag(
            place.reshape(len(chosen) * height * width, -1),
            table,
            mode="sum",
            per_sample_weights=weight.reshape(len(chosen) * height * width, -1),
        )
        parts.append(bags.view(len(chosen), height * width, channels))
    output = parts[1] if len(parts) == 2 else torch.cat(parts)[torch.argsort(torch.cat(places))]
    return output.transpose(1, 2).reshape(len(rois), channels, height, width).to(input.dtype)


def _numbered(boxes: list[Tensor], like: Tensor) -> Tensor:
    """Boxes of each image as one ``[K, 5]`` tensor with the image's number in front."""
    rows = [torch.cat([b.new_full((len(b), 1), i), b], dim=1) for i, b in enumerate(boxes)]
    return torch.cat(rows) if rows else like.new_zeros(0, 5)


def _positions(start: Tensor, cell: Tensor, cells: int, samples: int) -> Tensor:
    """Where ``[K]`` boxes are sampled along one axis: ``[K, cells, samples]`` feature coordinates."""
    steps: dict[str, Any] = {"dtype": start.dtype, "device": start.device}
    bins = torch.arange(cells, **steps)[None, :, None]
    inside = (torch.arange(samples, **steps)[None, None, :] + 0.5) * (cell / samples)[:, None, None]
    return start[:, None, None] + bins * cell[:, None, None] + inside


def _neighbours(position: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """The two cells beside each of ``[K, cells, samples]`` positions and their weights, both ``[K, cells, 2*samples]``.

    A position is moved to the edge of the map; one more than a cell outside has no weight.
    """
    inside = ((position >= -1) & (position <= size)).to(position.dtype)
    position = position.clamp(0, size - 1)
    low = position.floor()
    high_weight = (position - low) * inside
    low_weight = inside - high_weight
    index = low.long()
    return (
        torch.cat([index, (index + 1).clamp(max=size - 1)], dim=2),
        torch.cat([low_weight, high_weight], dim=2),
    )
