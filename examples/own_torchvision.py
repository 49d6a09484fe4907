"""Your own torchvision model as a detector: ``misdetect scan --detector python:examples/own_torchvision.py:load …``.

Any SSD, RetinaNet, FCOS or R-CNN instance will do, with any backbone. ``wrap`` puts it behind every access level: it
can be traced, attacked and hardened. Options of the spec arrive as strings: ``…:load,weights=mine.pth,score=0.3``.
"""

from pathlib import Path

from torch import nn

from misdetect.detectors.torchvision.load import wrap
from misdetect.detectors.torchvision.ops import load as load_torchvision
from misdetect.detectors.weights import fit_weights, read_weights

load_torchvision()  # torchvision imports even where its compiled operators do not fit the installed torch

from torchvision.models.detection import RetinaNet  # noqa: E402
from torchvision.models.detection.anchor_utils import AnchorGenerator  # noqa: E402

NAMES = ("cup", "book", "lamp")


class Backbone(nn.Sequential):
    """Stands for your network: strides of 16 pixels, 32 channels."""

    out_channels = 32

    def __init__(self) -> None:
        layers: list[nn.Module] = []
        for before, after in ((3, 8), (8, 16), (16, 32), (32, 32)):
            layers += [nn.Conv2d(before, after, 3, stride=2, padding=1), nn.BatchNorm2d(after), nn.ReLU()]
        super().__init__(*layers)


def load(weights: str = "", score: str = "0.05"):
    """The detector. ``names`` has one entry per class; the model's own thresholds apply where none is given here."""
    anchors = AnchorGenerator(sizes=((24, 48, 96),), aspect_ratios=((0.5, 1.0, 2.0),))
    module = RetinaNet(Backbone(), num_classes=len(NAMES), anchor_generator=anchors, min_size=256, max_size=512)
    if weights:
        fit_weights(module, read_weights(Path(weights)), weights)
    return wrap(module, NAMES, score=float(score))
