"""``torchvision:NAME,weights=…`` and ``wrap``: any torchvision detection model behind all four access levels.

``wrap`` takes an instance the user already has; ``load_torchvision`` builds one of torchvision's named models and fills
it from a file of weights, torchvision's published ones (``weights=hub``) or, if asked, nothing (``weights=random``).
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.error import URLError

import torch
from torch import Tensor, nn

from misdetect.detectors.names import COCO, COCO91, read_names
from misdetect.detectors.torchvision.dense import DenseDetector, FCOSDetector, RetinaNetDetector, SSDDetector
from misdetect.detectors.torchvision.detector import TorchvisionDetector
from misdetect.detectors.torchvision.ops import load
from misdetect.detectors.torchvision.rcnn import RCNNDetector
from misdetect.detectors.weights import fit_weights, read_weights
from misdetect.detectors.where import Where
from misdetect.nouns.spec import Spec
from misdetect.said.errors import BadSpec, BadWeights

BUILDERS = (
    "ssd300_vgg16",
    "ssdlite320_mobilenet_v3_large",
    "fasterrcnn_resnet50_fpn",
    "fasterrcnn_resnet50_fpn_v2",
    "fasterrcnn_mobilenet_v3_large_fpn",
    "fasterrcnn_mobilenet_v3_large_320_fpn",
    "maskrcnn_resnet50_fpn",
    "maskrcnn_resnet50_fpn_v2",
    "keypointrcnn_resnet50_fpn",
    "retinanet_resnet50_fpn",
    "retinanet_resnet50_fpn_v2",
    "fcos_resnet50_fpn",
)
"""torchvision's own names of its detection models."""

_SETTINGS = ("score", "nms", "max", "topk", "rpn_score", "rpn_nms", "rpn_topk", "rpn_max")
_BACKGROUND = ("__background__", "background", "no person", "unused 0")
# Models whose first published weights were trained before batch norms had an epsilon; torchvision patches them alike.
_WITHOUT_EPSILON = (
    "fasterrcnn_resnet50_fpn",
    "maskrcnn_resnet50_fpn",
    "keypointrcnn_resnet50_fpn",
    "retinanet_resnet50_fpn",
)
# Published files use names from before torchvision 0.12, which its modules rename while loading.
_OLD_NAMES = (
    (r"^(rpn\.head\.conv)\.(weight|bias)$", r"\g<1>.0.0.\g<2>"),
    (r"^(backbone\.fpn\.(?:inner|layer)_blocks\.\d+)\.(weight|bias)$", r"\g<1>.0.\g<2>"),
    *((rf"^(head\.\w+_head\.conv)\.{2 * i}\.(weight|bias)$", rf"\g<1>.{i}.0.\g<2>") for i in range(4)),
    *((rf"^(roi_heads\.mask_head)\.mask_fcn{i + 1}\.(weight|bias)$", rf"\g<1>.{i}.0.\g<2>") for i in range(4)),
)


def wrap(
    module: nn.Module, names: Sequence[str], *, spec: str = "", batch_size: int = 1, **settings: float
) -> TorchvisionDetector:
    """A detector around ``module``, an SSD, RetinaNet, FCOS or (Faster, Mask, Keypoint) R-CNN or a subclass of one.

    ``names`` are the classes in the order of the module's labels, with or without a first name for the background;
    RetinaNet and FCOS may or may not reserve column 0 for it, which the number of names tells. ``settings`` override
    the module's thresholds during calls: ``score``, ``nms``, ``max`` (detections), ``topk`` (before suppression), and
    for an R-CNN ``rpn_score``, ``rpn_nms``, ``rpn_topk``, ``rpn_max``. The module itself is left as it is.
    """
    load()
    from torchvision.models.detection.fcos import FCOS
    from torchvision.models.detection.generalized_rcnn import GeneralizedRCNN
    from torchvision.models.detection.retinanet import RetinaNet
    from torchvision.models.detection.ssd import SSD

    families: tuple[tuple[type, type[TorchvisionDetector]], ...] = (
        (SSD, SSDDetector),
        (RetinaNet, RetinaNetDetector),
        (FCOS, FCOSDetector),
        (GeneralizedRCNN, RCNNDetector),
    )
    found = next((pair for pair in families if isinstance(module, pair[0])), None)
    if found is None:
        known = ", ".join(family.__name__ for family, _ in families)
        raise BadSpec(f"Expected a torchvision detection model ({known}). Got {type(module).__name__}.")
    family, kind = found
    spec = spec or f"torchvision:{type(module).__name__}"
    names, first_label = _labels(module, kind, tuple(names), spec)
    detector = kind(module, names, first_label=first_label, spec=spec, settings=settings, batch_size=batch_size)
    if isinstance(detector, DenseDetector):
        detector.family = family
    return detector


def load_torchvision(spec: Spec) -> TorchvisionDetector:
    """The detector of ``torchvision:NAME[,weights=FILE|hub|random][,names=…][,classes=N][,score=…]…``."""
    package = load()
    name = spec.target
    if name not in BUILDERS:
        raise BadSpec(f"{spec.text!r}: {name!r} is not a torchvision detector (known: {', '.join(BUILDERS)}).")
    source = spec.take("weights", "")
    if not source:
        raise BadSpec(
            f"{spec.text!r} names no weights: add weights=FILE (a state dict), weights=hub (torchvision's published "
            "ones) or weights=random (an untrained model)."
        )
    listed, classes, where = spec.take("names", ""), spec.take("classes", 0), Where.take(spec)
    sizes = {k: spec.take(k, 0) for k in ("min_size", "max_size")}
    settings = {key: spec.take(key, 0.0) for key in _SETTINGS if key in spec.options}
    spec.finish()

    published = package.models.get_model_weights(name)
    path = None if source == "random" else _hub_file(published) if source == "hub" else Path(source)
    weights = None if path is None else read_weights(path)
    columns = None if weights is None else _columns_in(weights, name)
    names = _names(spec, listed, classes, columns, _published_names(published, path))
    build = package.models.get_model_builder(name)
    keywords = {key: value for key, value in sizes.items() if value}
    module = build(weights=None, weights_backbone=None, num_classes=columns or len(names) + 1, **keywords)
    if weights is not None and path is not None:
        if not any(key.endswith("num_batches_tracked") for key in weights):
            ancient = name in _WITHOUT_EPSILON and path.name == Path(published.COCO_V1.url).name
            _freeze_norms(module, 0.0 if ancient else None)
        fit_weights(module, _renamed(weights, module), path)
    return where.put(wrap(module, names, spec=spec.text, batch_size=1, **settings))


# Names and columns.


def _labels(
    module: Any, kind: type[TorchvisionDetector], names: tuple[str, ...], spec: str
) -> tuple[tuple[str, ...], int]:
    """The foreground names, and the number of the module's label that ``names[0]`` stands for."""
    columns = _columns_of(module)
    always = kind in (SSDDetector, RCNNDetector)  # a softmax has a background column
    if names and names[0].lower() in _BACKGROUND and columns in (None, len(names)):
        return names[1:], 1
    if columns is None:
        return names, int(always)
    if columns == len(names) + 1:
        return names, 1
    if columns == len(names) and not always:
        return names, 0
    wanted = f"{columns - 1} (its column 0 is the background)" if always else f"{columns} or {columns - 1}"
    raise BadSpec(f"{spec}: expected {wanted} names for the module's {columns} columns. Got {len(names)}.")


def _columns_of(module: Any) -> int | None:
    """How many class columns the module's head has, or ``None`` where a head of the user's own does not tell."""
    if hasattr(module, "roi_heads"):
        layer = getattr(module.roi_heads.box_predictor, "cls_score", None)
        return getattr(layer, "out_features", None)
    head = getattr(module.head, "classification_head", None)
    return getattr(head, "num_columns", getattr(head, "num_classes", None))


_CLASS_LAYERS = {
    "ssd300": ("head.classification_head.module_list.0.bias", 4),
    "ssdlite": ("head.classification_head.module_list.0.1.bias", 6),
    "retinanet": ("head.classification_head.cls_logits.bias", 9),
    "fcos": ("head.classification_head.cls_logits.bias", 1),
    "": ("roi_heads.box_predictor.cls_score.bias", 1),
}
"""Per family the layer whose length tells the number of columns, and how many anchors share it."""


def _columns_in(weights: Mapping[str, Tensor], name: str) -> int | None:
    layer, anchors = next(value for prefix, value in _CLASS_LAYERS.items() if name.startswith(prefix))
    found = weights.get(layer)
    return None if found is None or found.ndim != 1 else len(found) // anchors


def _names(
    spec: Spec, listed: str, classes: int, columns: int | None, published: tuple[str, ...] | None
) -> tuple[str, ...]:
    """The classes asked for, else those the published weights carry, else ``classes`` numbers; no background."""
    if listed:
        names = read_names(listed, spec.text)
        if names == COCO and columns == len(COCO91):  # torchvision's columns are COCO's category ids
            names = COCO91[1:]
    elif published is not None:
        names = published
    elif classes:
        names = tuple(f"class {i + 1}" for i in range(classes))
    else:
        raise BadSpec(f"{spec.text!r}: these weights do not name their classes: add names=coco or names=FILE.")
    names = names[1:] if names[0].lower() in _BACKGROUND else names
    if classes and len(names) != classes:
        raise BadSpec(f"{spec.text!r}: classes={classes}, but there are {len(names)} names.")
    if columns is not None and len(names) not in (columns, columns - 1):
        raise BadSpec(
            f"{spec.text!r}: the weights have {columns - 1} classes and a background, but there are {len(names)} names."
        )
    return names


def _published_names(published: Any, path: Path | None) -> tuple[str, ...] | None:
    """The classes of torchvision's own weights, where ``path`` is one of those files; unused ones keep a name each."""
    for member in published:
        if path is not None and path.name == Path(member.url).name:
            categories = member.meta["categories"]
            return tuple(f"unused {i}" if c == "N/A" else c for i, c in enumerate(categories) if i)
    return None


# Weights.


def _hub_file(published: Any) -> Path:
    """torchvision's published weights in torch's own cache, downloaded on first use and checked by their hash."""
    url = published.DEFAULT.url
    path = Path(torch.hub.get_dir()) / "checkpoints" / Path(url).name
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        digits = re.search(r"-([0-9a-f]{8,})\.", path.name)
        try:
            torch.hub.download_url_to_file(url, str(path), digits and digits[1], progress=False)
        except (URLError, OSError, RuntimeError) as error:
            raise BadWeights(
                f"weights=hub needs {url}, which cannot be fetched ({error}): download it where there is a connection "
                f"and pass weights={path.name}."
            ) from None
    return path


def _renamed(weights: Mapping[str, Tensor], module: nn.Module) -> dict[str, Tensor]:
    """``weights`` under the names that today's torchvision uses."""
    own = module.state_dict().keys()
    renamed = {}
    for key, value in weights.items():
        forms = [re.sub(pattern, new, key) for pattern, new in _OLD_NAMES]
        renamed[next((form for form in forms if form in own), key) if key not in own else key] = value
    return renamed


def _freeze_norms(module: nn.Module, epsilon: float | None) -> None:
    """Batch norms without counters were frozen when the weights were saved; run them as what they were."""
    from torchvision.ops.misc import FrozenBatchNorm2d

    for part in list(module.modules()):
        for name, child in list(part.named_children()):
            if isinstance(child, nn.BatchNorm2d):
                eps = child.eps if epsilon is None else epsilon
                setattr(part, name, FrozenBatchNorm2d(child.num_features, eps=eps))
