"""The zoo's architectures: torchvision's, transformers' and our YOLOX's own classes, built small for small images.

Only sizes are chosen here: one small backbone for all families, anchors of 6 to 90 pixels, narrow
heads. The classes are those of full-size models, so what works on one of these works on a user's. No weights are read
here (see ``zoo.py``) and nothing is trained (see ``misdetect.training``).
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from misdetect.detectors.classifier import ClassifierDetector
from misdetect.detectors.hf import detector as hf
from misdetect.detectors.hf.small import small_deformable_detr
from misdetect.detectors.torch_detector import TorchDetector
from misdetect.detectors.torchvision import load as torchvision
from misdetect.detectors.torchvision.ops import load as torchvision_package
from misdetect.detectors.yolox.detector import YoloxDetector
from misdetect.detectors.yolox.net import YOLOPAFPN, YOLOX, CSPDarknet, Shape
from misdetect.detectors.zoo.shipped import BATCH


@dataclass(frozen=True)
class Scale:
    """What depends on how large the images and the objects in them are: the ``size`` of the (square) images, anchors in
    pixels per level, coarsest level last, channels of RetinaNet's pyramid, and YOLOX's shape."""

    size: int
    retinanet: tuple[tuple[float, ...], ...]
    retinanet_width: int
    faster_rcnn: tuple[tuple[float, ...], ...]
    yolox: Shape


SCALES: Mapping[str, Scale] = {
    "rooms": Scale(128, ((10, 16), (25, 40), (60, 90)), 64, ((10,), (20,), (40,), (80,)), Shape(0.33, 0.1875)),
    # half of a bicycle's parts are smaller than 14 pixels: finer levels pay for themselves
    "bikes": Scale(
        160,
        ((6, 9), (14, 20), (30, 42), (60, 80)),
        32,
        ((7,), (14,), (28,), (60,)),
        Shape(0.33, 0.125, stem_stride=1),
    ),
}
"""By the data that a detector is made for. Images of other sizes are resized, except by Deformable DETR."""


class _YoloxPixels(nn.Module):
    """Images normalised as torchvision and transformers do (RGB, less ImageNet's mean and over its deviation) to what
    YOLOX reads: BGR in 0..255."""

    mean: Tensor
    deviation: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor((0.485, 0.456, 0.406)).view(3, 1, 1), persistent=False)
        self.register_buffer("deviation", torch.tensor((0.229, 0.224, 0.225)).view(3, 1, 1), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return (255 * (x * self.deviation + self.mean)).flip(1)


class Darknet(nn.Module):
    """The backbone of the zoo's YOLOX for detectors that normalise their images as torchvision does.

    ``[N, 3, H, W]`` to feature maps at strides 4, 8, 16 and 32. All families can therefore start from what
    ``zoo:yolox`` learnt, which is most of the time that training takes.
    """

    channels = (24, 48, 96, 192)

    def __init__(self) -> None:
        super().__init__()
        self.pixels = _YoloxPixels()
        self.net = CSPDarknet(SCALES["rooms"].yolox)

    def forward(self, x: Tensor) -> list[Tensor]:
        x = self.pixels(x)
        maps = []
        for stage in (nn.Sequential(self.net.stem, self.net.dark2), self.net.dark3, self.net.dark4, self.net.dark5):
            x = stage(x)
            maps.append(x)
        return maps


class Pyramid(nn.Module):
    """``Darknet`` with a top-down pyramid of ``width`` channels over its ``levels`` coarsest maps.

    ``[N, 3, H, W]`` to ``{"0": …, "1": …}``, finest first: what torchvision's detectors expect of a backbone.
    """

    def __init__(self, width: int, levels: int) -> None:
        super().__init__()
        self.body = Darknet()
        self.levels = levels
        self.fpn = torchvision_package().ops.FeaturePyramidNetwork(
            list(Darknet.channels[-levels:]), width, norm_layer=nn.BatchNorm2d
        )
        self.out_channels = width

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        maps = self.body(x)[-self.levels :]
        levels: dict[str, Tensor] = self.fpn(OrderedDict((str(i), level) for i, level in enumerate(maps)))
        return levels


class Backbone(nn.Module):
    """The zoo's YOLOX without its head as a backbone of transformers: ``[N, 3, H, W]`` to maps at strides 8, 16, 32.

    With YOLOX's neck, which the paper does without: the neck and one encoder layer mix the levels in less time than
    two encoder layers do, and start from weights that were trained. The neck joins maps that must fit each other, so
    images are stretched to multiples of the coarsest stride: boxes are relative to the image, and stay where they are.
    """

    def __init__(self) -> None:
        super().__init__()
        self.pixels = _YoloxPixels()
        self.net = YOLOPAFPN(SCALES["rooms"].yolox)

    def forward(self, pixel_values: Tensor) -> list[Tensor]:
        stride = SCALES["rooms"].yolox.strides[-1]
        size = [-(-side // stride) * stride for side in pixel_values.shape[-2:]]
        if size != list(pixel_values.shape[-2:]):
            pixel_values = nn.functional.interpolate(pixel_values, size, mode="bilinear", align_corners=False)
        return list(self.net(self.pixels(pixel_values)))


def start_from(detector: TorchDetector, yolox: YOLOX) -> None:
    """Copy YOLOX's backbone into the ``Darknet`` of ``detector``, or with its neck into its ``Backbone``."""
    for part in detector.module.modules():
        if isinstance(part, Darknet):
            part.net.load_state_dict(yolox.backbone.backbone.state_dict())
        elif isinstance(part, Backbone):
            part.net.load_state_dict(yolox.backbone.state_dict())


def backbone_of(detector: object) -> CSPDarknet | None:
    """The backbone that all families of the zoo have in common, as it is in ``detector``: what is copied into it is
    what the detector then sees with. ``None`` where there is none, or one of another shape (``yolox-bikes``)."""
    module = getattr(detector, "module", None)
    found = [part for part in module.modules() if isinstance(part, CSPDarknet)] if isinstance(module, nn.Module) else []
    with torch.device("meta"):  # for its shapes alone
        wanted = CSPDarknet(SCALES["rooms"].yolox).state_dict()
    if len(found) != 1 or _shapes(found[0].state_dict()) != _shapes(wanted):
        return None
    return found[0]


def _shapes(state: Mapping[str, Tensor]) -> dict[str, torch.Size]:
    return {name: value.shape for name, value in state.items()}


_RATIOS = (0.5, 1.0, 2.0)


def _anchors(sizes: Sequence[tuple[float, ...]]) -> Any:
    package = torchvision_package()
    return package.models.detection.anchor_utils.AnchorGenerator(tuple(sizes), (_RATIOS,) * len(sizes))


def small_ssd(classes: int, scale: Scale) -> nn.Module:
    """torchvision's ``SSD`` for ``classes`` and a background, default boxes at strides 4 to 32."""
    detection = torchvision_package().models.detection
    backbone: Any = Pyramid(48, 4)
    boxes = detection.anchor_utils.DefaultBoxGenerator(
        [[2], [2, 3], [2, 3], [2, 3]], scales=[0.075, 0.15, 0.3, 0.55, 0.85], steps=[4, 8, 16, 32]
    )
    head = detection.ssd.SSDHead([48] * 4, boxes.num_anchors_per_location(), classes + 1)
    module: nn.Module = detection.ssd.SSD(
        backbone, boxes, (scale.size, scale.size), classes + 1, head=head, score_thresh=0.01, nms_thresh=0.5,
        detections_per_img=100, topk_candidates=200,
    )  # fmt: skip
    return module


def small_retinanet(classes: int, scale: Scale) -> Any:
    """torchvision's ``RetinaNet`` with one column per class and two convolutions per branch instead of four."""
    detection = torchvision_package().models.detection
    backbone = Pyramid(scale.retinanet_width, len(scale.retinanet))
    anchors = _anchors(scale.retinanet)
    head = detection.retinanet.RetinaNetHead(
        scale.retinanet_width, anchors.num_anchors_per_location()[0], classes, norm_layer=partial(nn.BatchNorm2d)
    )
    for branch in (head.classification_head, head.regression_head):
        branch.conv = branch.conv[:2]
    module: Any = detection.retinanet.RetinaNet(
        backbone, classes, min_size=scale.size, max_size=scale.size, anchor_generator=anchors, head=head,
        score_thresh=0.02, nms_thresh=0.5, detections_per_img=100, topk_candidates=300,
    )  # fmt: skip
    # offsets in quarters of an anchor: four times the weight against a focal loss that is small by nature
    coder = detection._utils.BoxCoder(weights=(4.0, 4.0, 4.0, 4.0))
    module.box_coder = module.head.regression_head.box_coder = coder
    return module


def small_faster_rcnn(classes: int, scale: Scale) -> nn.Module:
    """torchvision's ``FasterRCNN`` with a pyramid from stride 4 and a second stage of 128 units."""
    package = torchvision_package()
    detection = package.models.detection
    backbone = Pyramid(48, 4)
    pool = package.ops.MultiScaleRoIAlign(["0", "1", "2", "3"], 7, 2, canonical_scale=64, canonical_level=4)
    box_head = detection.faster_rcnn.TwoMLPHead(48 * 7 * 7, 128)
    predictor = detection.faster_rcnn.FastRCNNPredictor(128, classes + 1)
    module: nn.Module = detection.faster_rcnn.FasterRCNN(
        backbone, min_size=scale.size, max_size=scale.size, rpn_anchor_generator=_anchors(scale.faster_rcnn),
        box_roi_pool=pool, box_head=box_head, box_predictor=predictor, rpn_pre_nms_top_n_train=200,
        rpn_pre_nms_top_n_test=200, rpn_post_nms_top_n_train=100, rpn_post_nms_top_n_test=100,
        rpn_batch_size_per_image=64, box_batch_size_per_image=48, box_score_thresh=0.02, box_nms_thresh=0.5,
        box_detections_per_img=100,
    )  # fmt: skip
    return module


def small_yolox(classes: int, scale: Scale) -> nn.Module:
    """This project's ``YOLOX``."""
    return YOLOX(classes, scale.yolox)


def small_classifier(classes: int, scale: Scale) -> nn.Module:
    """Paper 2's MCML, a classifier of the whole image, many labels at once."""
    return SmallClassifier(classes)


class SmallClassifier(nn.Module):
    """``[N, 3, H, W]`` to logits ``[N, classes]``: the mean and the largest value of every channel of ``Darknet``, at
    all four strides, and one linear layer. The largest tells of parts that are a few pixels wide, which a mean over the
    image drowns; neither says where."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.body = Darknet()
        self.head = nn.Linear(2 * sum(Darknet.channels), classes)

    def forward(self, x: Tensor) -> Tensor:
        pooled = [pool(level, dim=(2, 3)) for level in self.body(x) for pool in (torch.mean, torch.amax)]
        logits: Tensor = self.head(torch.cat(pooled, dim=1))
        return logits


_BUILDERS: Mapping[str, Callable[[int, Scale], nn.Module]] = {
    "ssd": small_ssd,
    "faster-rcnn": small_faster_rcnn,
    "retinanet": small_retinanet,
    "yolox": small_yolox,
}
FAMILIES = (*_BUILDERS, "deformable-detr")
CLASSIFIER = "mcml"
"""Not a family of detectors: it says what is there, and not where."""


def build(
    family: str,
    names: Sequence[str],
    *,
    data: str = "rooms",
    seed: int = 0,
    spec: str = "",
    score: float | None = None,
) -> TorchDetector:
    """A small detector of ``family`` (one of ``FAMILIES``, or ``CLASSIFIER``) for ``names``.

    ``seed`` decides its random weights; ``data`` names the ``Scale`` it is made for; ``score`` replaces the family's
    usual threshold. torch's own random state is left alone.
    """
    if family == "deformable-detr":
        module: Any = small_deformable_detr(names, channels=Darknet.channels, queries=40, encoder_layers=1, seed=seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            module.model.backbone.model = Backbone()
        return hf.wrap(_last(module), names, size="native", batch_size=BATCH, spec=spec, score=_or(score, 0.02))
    scale = SCALES[data]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = _last((small_classifier if family == CLASSIFIER else _BUILDERS[family])(len(names), scale))
    if family == "yolox":
        usual = _or(score, 0.01)
        return YoloxDetector(module, names, size=scale.size, score=usual, nms=0.6, cap=100, spec=spec, batch_size=BATCH)
    if family == CLASSIFIER:
        usual = _or(score, 0.01)
        return ClassifierDetector(module, names, size=scale.size, score=usual, spec=spec, batch_size=BATCH)
    settings = {} if score is None else {"score": score}
    return torchvision.wrap(module, names, spec=spec, batch_size=BATCH, **settings)


def _or(score: float | None, usual: float) -> float:
    return usual if score is None else score


def _last(module: Any) -> Any:
    """``module`` ready to detect, with convolution weights laid out channels last (half as fast again on a CPU)."""
    return module.eval().to(memory_format=torch.channels_last)
