"""Tiny torchvision models with random weights whose scores are spread out, so that every threshold and cap acts."""

import numpy as np
import torch
from torch import nn

from misdetect.detectors.torchvision import ops as torchvision_ops
from misdetect.nouns.detections import Truth

torchvision_ops.load()
torch.set_num_threads(1)

from torchvision.models.detection import FCOS, FasterRCNN, MaskRCNN, RetinaNet  # noqa: E402
from torchvision.models.detection.anchor_utils import AnchorGenerator, DefaultBoxGenerator  # noqa: E402
from torchvision.models.detection.fcos import FCOSHead  # noqa: E402
from torchvision.models.detection.ssd import SSD  # noqa: E402
from torchvision.ops import MultiScaleRoIAlign  # noqa: E402

NAMES = ("cup", "book", "lamp")
FAMILIES = ("ssd", "retinanet", "fcos", "faster-rcnn", "mask-rcnn")


class Pyramid(nn.Module):
    """Two levels of features, with a batch norm and a dropout that eval mode must hold still."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, channels, 3, stride=4, padding=1), nn.BatchNorm2d(channels), nn.Tanh())
        self.down = nn.Sequential(nn.Dropout(0.2), nn.Conv2d(channels, channels, 3, stride=2, padding=1), nn.Tanh())
        self.out_channels = channels

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        fine = self.stem(x)
        return {"0": fine, "1": self.down(fine)}


class Ladder(Pyramid):
    """The same for SSD, which wants the channels of each level."""

    def __init__(self, channels: int) -> None:
        super().__init__(channels)
        self.out_channels = [channels, channels]


def anchors(*per_level: tuple[int, ...]) -> AnchorGenerator:
    return AnchorGenerator(per_level, ((0.5, 1.0, 2.0),) * len(per_level))


def ssd(columns: int) -> SSD:
    return SSD(
        Ladder(16), DefaultBoxGenerator([[2], [2]], min_ratio=0.2, max_ratio=0.7), (64, 64), columns,
        score_thresh=0.3, nms_thresh=0.45, detections_per_img=12, topk_candidates=60,
    )  # fmt: skip


def retinanet(columns: int) -> RetinaNet:
    return RetinaNet(
        Pyramid(16), columns, min_size=64, max_size=96, anchor_generator=anchors((12,), (28,)),
        score_thresh=0.3, nms_thresh=0.5, detections_per_img=12, topk_candidates=80,
    )  # fmt: skip


def fcos(columns: int) -> FCOS:
    generator = AnchorGenerator(((4,), (8,)), ((1.0,),) * 2)
    return FCOS(
        Pyramid(32), columns, min_size=64, max_size=96, anchor_generator=generator, head=FCOSHead(32, 1, columns, 1),
        score_thresh=0.3, nms_thresh=0.6, detections_per_img=12, topk_candidates=80,
    )  # fmt: skip


def faster_rcnn(columns: int, kind: type = FasterRCNN) -> FasterRCNN:
    return kind(
        Pyramid(16), columns, min_size=64, max_size=96, rpn_anchor_generator=anchors((12,), (28,)),
        rpn_pre_nms_top_n_test=90, rpn_post_nms_top_n_test=80, rpn_nms_thresh=0.5, rpn_batch_size_per_image=32,
        box_roi_pool=MultiScaleRoIAlign(["0", "1"], 5, 2), box_batch_size_per_image=24,
        box_score_thresh=0.2, box_nms_thresh=0.3, box_detections_per_img=10,
        **({"mask_roi_pool": MultiScaleRoIAlign(["0", "1"], 4, 2)} if kind is MaskRCNN else {}),
    )  # fmt: skip


def toy(family: str, *, columns: int | None = None, seed: int = 0) -> nn.Module:
    """A model of ``family`` over ``NAMES``, in training mode as torchvision builds it."""
    torch.manual_seed(seed)
    build = {
        "ssd": ssd,
        "retinanet": retinanet,
        "fcos": fcos,
        "faster-rcnn": faster_rcnn,
        "mask-rcnn": lambda columns: faster_rcnn(columns, MaskRCNN),
    }[family]
    module = build(columns or (len(NAMES) if family in ("retinanet", "fcos") else len(NAMES) + 1))
    for name, weight in module.named_parameters():
        if weight.ndim > 1:
            gain = 2.0 if any(part in name for part in ("cls", "classification", "ctrness", "box_head")) else 0.7
            nn.init.normal_(weight, std=gain / weight[0].numel() ** 0.5)
        elif "cls_logits" in name and family in ("retinanet", "fcos"):
            nn.init.constant_(weight, -1.0)
        elif "bbox_reg" in name and family == "fcos":
            nn.init.constant_(weight, 2.0)  # boxes of two strides to each side, so that they overlap
    for name, buffer in module.named_buffers():
        if name.endswith("running_mean"):
            nn.init.normal_(buffer, std=0.1)
    return module


def pictures(count: int, height: int = 80, width: int = 100, seed: int = 0) -> list[np.ndarray]:
    """Photos of coloured blocks on noise."""
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 90, (count, height, width, 3), dtype=np.uint8)
    for image in images:
        for _ in range(6):
            x, y, w, h = rng.integers(0, [max(1, width - 20), max(1, height - 20), 40, 40])
            image[y : y + h + 8, x : x + w + 8] = rng.integers(60, 256, 3)
    return list(images)


def truth(seed: int = 0, count: int = 3, height: int = 80, width: int = 100) -> Truth:
    rng = np.random.default_rng(seed)
    corner = rng.uniform(0, [width - 40, height - 40], (count, 2))
    return Truth(
        np.concatenate([corner, corner + rng.uniform(10, 40, (count, 2))], 1), rng.integers(0, len(NAMES), count)
    )
