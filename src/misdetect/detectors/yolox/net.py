"""The YOLOX network (Ge et al., 2021): CSPDarknet, path-aggregation pyramid, decoupled head; tensors in, tensors out.

Written from the paper. Module names follow the official checkpoints, so that those load without renaming. It knows
nothing of thresholds, images in files, or losses; see ``yolox.py`` and ``yolox_loss.py``.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

MAX_LOG_SIZE = 10.0
"""Largest log-size decoded, in strides: e^10 strides is no box of any image, and the bound keeps ``exp`` finite."""


@dataclass(frozen=True)
class Shape:
    """What sets a YOLOX apart from another: multipliers of depth and width, depthwise convolutions, stride of the stem.

    A stem of stride 2 is the official one (space to depth, then 3 × 3); stride 1 is for small images: a plain 3 × 3
    convolution, so that the levels have strides 4, 8, 16.
    """

    depth: float = 1.0
    width: float = 1.0
    depthwise: bool = False
    stem_stride: int = 2

    @property
    def channels(self) -> int:
        """Channels behind the stem."""
        return int(64 * self.width)

    @property
    def repeats(self) -> int:
        """Bottlenecks in the shallowest stage; the others are multiples of it."""
        return max(round(3 * self.depth), 1)

    @property
    def strides(self) -> tuple[int, int, int]:
        """Pixels per cell at the three levels."""
        return 4 * self.stem_stride, 8 * self.stem_stride, 16 * self.stem_stride


VARIANTS: Mapping[str, Shape] = {
    "nano": Shape(0.33, 0.25, depthwise=True),
    "tiny": Shape(0.33, 0.375),
    "s": Shape(0.33, 0.50),
    "m": Shape(0.67, 0.75),
    "l": Shape(1.0, 1.0),
    "x": Shape(1.33, 1.25),
}


class Cells(NamedTuple):
    """The ``K`` grid cells of an input, levels after each other, each row by row."""

    corners: Tensor
    """``[K, 2]`` column and row of the cell, in strides"""
    strides: Tensor
    """``[K]`` pixels per cell"""
    levels: Tensor
    """``[K]`` pyramid level, 0 the finest"""

    @property
    def centres(self) -> Tensor:
        """``[K, 2]`` x, y of the cells' centres in input pixels."""
        return (self.corners + 0.5) * self.strides[:, None]

    @property
    def boxes(self) -> Tensor:
        """``[K, 4]`` the cells themselves, in input pixels."""
        low = self.corners * self.strides[:, None]
        return torch.cat([low, low + self.strides[:, None]], dim=1)


@lru_cache(maxsize=32)
@torch.inference_mode(False)  # the grid outlives the call, and an inference tensor could not be used for gradients
def cells_of(height: int, width: int, strides: tuple[int, ...], device: torch.device) -> Cells:
    """The grid of an input of ``height`` × ``width`` pixels. Cached: callers do not write to it."""
    corners, steps, levels = [], [], []
    for level, stride in enumerate(strides):
        # an odd size halves upwards, as a padded 3 × 3 convolution of stride 2 does
        rows, columns = math.ceil(height / stride), math.ceil(width / stride)
        y, x = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
        corners.append(torch.stack([x, y], dim=-1).reshape(-1, 2).float())
        steps.append(torch.full((rows * columns,), float(stride)))
        levels.append(torch.full((rows * columns,), level))
    return Cells(torch.cat(corners).to(device), torch.cat(steps).to(device), torch.cat(levels).to(device))


class Raw(NamedTuple):
    """What the head says of each cell, before any decoding."""

    offsets: Tensor
    """``[N, K, 4]`` centre offset in strides, log width and height in strides"""
    objectness: Tensor
    """``[N, K]`` logits"""
    classes: Tensor
    """``[N, K, C]`` logits"""

    def boxes(self, cells: Cells) -> Tensor:
        """``[N, K, 4]`` corners in input pixels."""
        centre = (self.offsets[..., :2] + cells.corners) * cells.strides[:, None]
        half = self.offsets[..., 2:].clamp(max=MAX_LOG_SIZE).exp() * (cells.strides[:, None] / 2)
        return torch.cat([centre - half, centre + half], dim=-1)


class BaseConv(nn.Module):
    """Convolution, batch normalisation, SiLU; padded so that stride 1 keeps the size."""

    def __init__(self, inputs: int, outputs: int, size: int, stride: int = 1, groups: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, size, stride, (size - 1) // 2, groups=groups, bias=False)
        self.bn = nn.BatchNorm2d(outputs, eps=1e-3, momentum=0.03)

    def forward(self, x: Tensor) -> Tensor:
        return F.silu(self.bn(self.conv(x)), inplace=True)


class DWConv(nn.Module):
    """A depthwise convolution, then a pointwise one."""

    def __init__(self, inputs: int, outputs: int, size: int, stride: int = 1) -> None:
        super().__init__()
        self.dconv = BaseConv(inputs, inputs, size, stride, groups=inputs)
        self.pconv = BaseConv(inputs, outputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.pconv(self.dconv(x))  # type: ignore[no-any-return]


def _spatial(inputs: int, outputs: int, stride: int, depthwise: bool) -> nn.Module:
    """A 3 × 3 convolution, plain or depthwise separable."""
    return (DWConv if depthwise else BaseConv)(inputs, outputs, 3, stride)


class Stem(nn.Module):
    """The first layer: 2 × 2 pixels become channels (stride 2) or nothing does (stride 1), then a 3 × 3 convolution."""

    def __init__(self, outputs: int, stride: int) -> None:
        super().__init__()
        self.stride = stride
        self.conv = BaseConv(3 * stride * stride, outputs, 3)

    def forward(self, x: Tensor) -> Tensor:
        if self.stride == 2:
            # the order of official weights: rows within columns
            x = torch.cat([x[..., row::2, column::2] for column in (0, 1) for row in (0, 1)], dim=1)
        return self.conv(x)  # type: ignore[no-any-return]


class Bottleneck(nn.Module):
    """1 × 1, then 3 × 3, with a shortcut where asked."""

    def __init__(self, channels: int, shortcut: bool, depthwise: bool) -> None:
        super().__init__()
        self.conv1 = BaseConv(channels, channels, 1)
        self.conv2 = _spatial(channels, channels, 1, depthwise)
        self.shortcut = shortcut

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.conv2(self.conv1(x))
        return x + y if self.shortcut else y


class CSPLayer(nn.Module):
    """Cross-stage-partial stage: half the channels pass ``repeats`` bottlenecks, half pass by."""

    def __init__(self, inputs: int, outputs: int, repeats: int, shortcut: bool, depthwise: bool) -> None:
        super().__init__()
        hidden = outputs // 2
        self.conv1 = BaseConv(inputs, hidden, 1)
        self.conv2 = BaseConv(inputs, hidden, 1)
        self.conv3 = BaseConv(2 * hidden, outputs, 1)
        self.m = nn.Sequential(*(Bottleneck(hidden, shortcut, depthwise) for _ in range(repeats)))

    def forward(self, x: Tensor) -> Tensor:
        return self.conv3(torch.cat([self.m(self.conv1(x)), self.conv2(x)], dim=1))  # type: ignore[no-any-return]


class SPPBottleneck(nn.Module):
    """Spatial pyramid pooling: the same features at 1, 5, 9 and 13 cells' reach."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        hidden = inputs // 2
        self.conv1 = BaseConv(inputs, hidden, 1)
        self.conv2 = BaseConv(4 * hidden, outputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        near = self.conv1(x)
        # pooling 5 after 5 reaches 9, and once more 13: the same maxima for a third of the work
        middle = F.max_pool2d(near, 5, 1, 2)
        far = F.max_pool2d(middle, 5, 1, 2)
        farthest = F.max_pool2d(far, 5, 1, 2)
        return self.conv2(torch.cat([near, middle, far, farthest], dim=1))  # type: ignore[no-any-return]


class CSPDarknet(nn.Module):
    """The backbone: features of three levels, finest first."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        c, n, dw = shape.channels, shape.repeats, shape.depthwise
        self.stem = Stem(c, shape.stem_stride)
        self.dark2 = nn.Sequential(_spatial(c, 2 * c, 2, dw), CSPLayer(2 * c, 2 * c, n, True, dw))
        self.dark3 = nn.Sequential(_spatial(2 * c, 4 * c, 2, dw), CSPLayer(4 * c, 4 * c, 3 * n, True, dw))
        self.dark4 = nn.Sequential(_spatial(4 * c, 8 * c, 2, dw), CSPLayer(8 * c, 8 * c, 3 * n, True, dw))
        self.dark5 = nn.Sequential(
            _spatial(8 * c, 16 * c, 2, dw), SPPBottleneck(16 * c, 16 * c), CSPLayer(16 * c, 16 * c, n, False, dw)
        )

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        fine = self.dark3(self.dark2(self.stem(x)))
        middle = self.dark4(fine)
        return fine, middle, self.dark5(middle)


class YOLOPAFPN(nn.Module):
    """The neck: coarse features flow down to the finest level, then back up."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        c, n, dw = 4 * shape.channels, shape.repeats, shape.depthwise
        self.backbone = CSPDarknet(shape)
        self.lateral_conv0 = BaseConv(4 * c, 2 * c, 1)
        self.C3_p4 = CSPLayer(4 * c, 2 * c, n, False, dw)
        self.reduce_conv1 = BaseConv(2 * c, c, 1)
        self.C3_p3 = CSPLayer(2 * c, c, n, False, dw)
        self.bu_conv2 = _spatial(c, c, 2, dw)
        self.C3_n3 = CSPLayer(2 * c, 2 * c, n, False, dw)
        self.bu_conv1 = _spatial(2 * c, 2 * c, 2, dw)
        self.C3_n4 = CSPLayer(4 * c, 4 * c, n, False, dw)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        fine, middle, coarse = self.backbone(x)
        top = self.lateral_conv0(coarse)
        down = self.reduce_conv1(self.C3_p4(torch.cat([_grown(top, middle), middle], dim=1)))
        out_fine = self.C3_p3(torch.cat([_grown(down, fine), fine], dim=1))
        out_middle = self.C3_n3(torch.cat([self.bu_conv2(out_fine), down], dim=1))
        return out_fine, out_middle, self.C3_n4(torch.cat([self.bu_conv1(out_middle), top], dim=1))


def _grown(x: Tensor, like: Tensor) -> Tensor:
    """``x`` at twice its size by repetition, cut where ``like`` has an odd size."""
    return F.interpolate(x, scale_factor=2, mode="nearest")[..., : like.shape[-2], : like.shape[-1]]


class YOLOXHead(nn.Module):
    """The decoupled head: one branch for classes, one for the box and its objectness, at each level."""

    def __init__(self, classes: int, shape: Shape) -> None:
        super().__init__()
        c, dw = 4 * shape.channels, shape.depthwise

        def branch() -> nn.Sequential:
            return nn.Sequential(_spatial(c, c, 1, dw), _spatial(c, c, 1, dw))

        self.stems = nn.ModuleList(BaseConv(c * growth, c, 1) for growth in (1, 2, 4))
        self.cls_convs = nn.ModuleList(branch() for _ in range(3))
        self.reg_convs = nn.ModuleList(branch() for _ in range(3))
        self.cls_preds = nn.ModuleList(nn.Conv2d(c, classes, 1) for _ in range(3))
        self.reg_preds = nn.ModuleList(nn.Conv2d(c, 4, 1) for _ in range(3))
        self.obj_preds = nn.ModuleList(nn.Conv2d(c, 1, 1) for _ in range(3))
        prior = 0.01  # almost every cell is background: start there, or its loss drowns the rest
        for prediction in (*self.cls_preds, *self.obj_preds):
            assert isinstance(prediction, nn.Conv2d)
            assert prediction.bias is not None
            nn.init.constant_(prediction.bias, -math.log((1 - prior) / prior))

    def forward(self, levels: tuple[Tensor, Tensor, Tensor]) -> Raw:
        offsets, objectness, classes = [], [], []
        for i, features in enumerate(levels):
            x = self.stems[i](features)
            about_class, about_box = self.cls_convs[i](x), self.reg_convs[i](x)
            classes.append(self.cls_preds[i](about_class).flatten(2))
            offsets.append(self.reg_preds[i](about_box).flatten(2))
            objectness.append(self.obj_preds[i](about_box).flatten(1))
        return Raw(
            torch.cat(offsets, dim=2).transpose(1, 2),
            torch.cat(objectness, dim=1),
            torch.cat(classes, dim=2).transpose(1, 2),
        )


class YOLOX(nn.Module):
    """``[N, 3, H, W]`` BGR in 0..255 to ``Raw`` predictions of every cell, for ``classes`` classes."""

    def __init__(self, classes: int, shape: Shape = VARIANTS["s"]) -> None:
        super().__init__()
        self.shape = shape
        self.classes = classes
        self.backbone = YOLOPAFPN(shape)
        self.head = YOLOXHead(classes, shape)

    def forward(self, x: Tensor) -> Raw:
        return self.head(self.backbone(x))  # type: ignore[no-any-return]

    def cells(self, x: Tensor) -> Cells:
        """The grid cells of input ``x``, in the order of the predictions."""
        return cells_of(x.shape[-2], x.shape[-1], self.shape.strides, x.device)
