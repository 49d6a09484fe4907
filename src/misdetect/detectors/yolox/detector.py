"""``yolox:CHECKPOINT`` — this project's YOLOX behind all four access levels; reads official checkpoints.

A candidate is a grid cell: its proposal is the cell itself, its refined box the decoded one, its score objectness ×
class probability. Each cell stands for its best class only, as in the authors' post-processing. The network is in
``yolox_net.py``, the losses in ``yolox_loss.py``; definitions and choices are in docs/yolox.md.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from misdetect.detectors.names import COCO, read_names
from misdetect.detectors.preprocess import PRESETS, Placement, Preprocess
from misdetect.detectors.preprocess_torch import canvas_of
from misdetect.detectors.selection import Dense, Selection
from misdetect.detectors.torch_detector import TorchDetector, as_array, learnable
from misdetect.detectors.weights import fit_weights, read_weights
from misdetect.detectors.where import Where
from misdetect.detectors.wiring import share
from misdetect.detectors.yolox.loss import Answers, Losses, Objects, SimOTA, l1_of, losses_of, simota
from misdetect.detectors.yolox.net import VARIANTS, YOLOX, Cells, Raw, Shape
from misdetect.nouns.candidates import Candidates
from misdetect.nouns.detections import Truth
from misdetect.nouns.spec import Spec
from misdetect.said.errors import BadArray, BadSpec, BadWeights


class YoloxDetector(TorchDetector):
    """A ``Trainable`` detector around a ``YOLOX`` module; ``size`` is the side of its square input in pixels.

    ``score``, ``nms`` and ``cap`` shape the output. ``targets`` is what the gradient's classification loss aims at:
    "hard" 1 for the object's class, or "iou" as in training (see docs/yolox.md). ``l1`` adds the L1 loss to training.
    """

    module: YOLOX
    assumed: str | None = None

    def __init__(
        self,
        module: YOLOX,
        names: Sequence[str],
        *,
        size: int,
        score: float = 0.01,
        nms: float = 0.65,
        cap: int = 300,
        targets: str = "hard",
        rule: SimOTA | None = None,
        l1: bool = False,
        spec: str = "yolox",
        batch_size: int = 1,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        if len(names) != module.classes:
            raise BadArray(f"Expected {module.classes} names, one per class of the module. Got {len(names)}.")
        coarsest = module.shape.strides[-1]
        if size < coarsest or size % coarsest:
            raise BadSpec(
                f"{spec!r}: size={size} should be a multiple of {coarsest}, the stride of the coarsest level."
            )
        decided = {"size": size, "score": score, "nms": nms, "max": cap, "targets": targets}
        decided |= {"strides": list(module.shape.strides), **(settings or {})}
        super().__init__(module, names, spec=spec, settings=decided, batch_size=batch_size)
        self.convention = Preprocess(width=size, height=size, **PRESETS["yolox"])
        self.selection = Selection(score, nms, cap)
        self.targets = targets
        self.rule = rule or SimOTA()
        self.l1 = l1

    def _trace(self, images: list[Tensor]) -> list[Candidates]:
        x, places = canvas_of(images, self.convention)
        raw, cells = self.module(x), self.module.cells(x)
        boxes, class_scores, objectness = raw.boxes(cells), raw.classes.sigmoid(), raw.objectness.sigmoid()
        scores = class_scores * objectness[..., None]
        box, score, presence, by_class = map(as_array, (boxes, scores, objectness, class_scores))
        levels, grid = as_array(cells.levels), as_array(cells.boxes)
        height, width = images[0].shape[1:]
        return [
            Dense(grid, box[i], score[i], presence[i], by_class[i], pyramid=levels).candidates(
                self.selection, where, width, height, self.settings
            )
            for i, where in enumerate(places)
        ]

    def _image_losses(self, images: list[Tensor], truths: Sequence[Truth]) -> tuple[Tensor, Tensor]:
        _, _, _, found = self._losses(images, truths, iou_targets=self.targets == "iou")
        count = found.cells.clamp(min=1)
        return (found.classification + found.objectness) / count, found.localisation / count

    def _training_losses(self, images: list[Tensor], truths: Sequence[Truth]) -> dict[str, Tensor]:
        raw, cells, answers, found = self._losses(images, truths, iou_targets=True)
        count = found.cells.sum().clamp(min=1)
        losses = {name: getattr(found, name).sum() / count for name in ("classification", "objectness", "localisation")}
        return losses | ({"l1": l1_of(raw.offsets, cells, answers).sum() / count} if self.l1 else {})

    def _losses(
        self, images: list[Tensor], truths: Sequence[Truth], *, iou_targets: bool
    ) -> tuple[Raw, Cells, Answers, Losses]:
        x, places = canvas_of(images, self.convention)
        objects = [objects_in(truth, where, x) for truth, where in zip(truths, places, strict=True)]
        raw, cells = self.module(x), self.module.cells(x)
        boxes = raw.boxes(cells)
        answers = simota(raw, boxes, cells, objects, self.rule)
        return raw, cells, answers, losses_of(raw.classes, raw.objectness, boxes, answers, iou_targets=iou_targets)


def objects_in(truth: Truth, where: Placement, like: Tensor) -> Objects:
    """``truth`` in pixels of the network's input; crowds and boxes without area are no objects to learn."""
    real = learnable(truth)
    boxes = torch.from_numpy(where.to_network(real.boxes)).to(like)
    return Objects(boxes, torch.tensor(real.labels, device=like.device))


def load_yolox(spec: Spec) -> YoloxDetector:
    """The detector that ``yolox:CHECKPOINT[,variant=…][,size=…][,names=…][,score=…][,nms=…][,max=…]…`` names.

    The network's shape is read off the checkpoint; ``variant``, ``depth``, ``width``, ``depthwise`` and ``classes``
    only insist on it.
    """
    path = Path(spec.target)
    weights = read_weights(path)
    shape, classes = shape_of(weights, path)
    variant = next((name for name, known in VARIANTS.items() if _alike(known, shape)), "custom")
    _insist(spec, shape, classes)
    size = spec.take("size", 416 if variant in ("nano", "tiny") else 640)
    names, assumed = _names(spec, classes)
    score, nms_above, cap = share(spec, "score", 0.01), spec.take("nms", 0.65), spec.take("max", 300)
    targets = spec.take("targets", "hard", choices=("hard", "iou"))
    where = Where.take(spec)
    spec.finish()
    if nms_above < 0:
        raise BadSpec(f"{spec.text!r}: nms={nms_above:g} should be between 0 and 1.")
    if cap < 1:
        raise BadSpec(f"{spec.text!r}: max= should be at least 1.")
    module = YOLOX(classes, shape)
    fit_weights(module, weights, path)
    found = YoloxDetector(
        module.eval().to(memory_format=torch.channels_last),  # type: ignore[call-overload]
        names,
        size=size,
        score=score,
        nms=nms_above,
        cap=cap,
        targets=targets,
        spec=spec.text,
        settings={
            "variant": variant,
            "depth": shape.depth,
            "width": shape.width,
            "depthwise": shape.depthwise,
        },
    )
    found.assumed = assumed
    return where.put(found, size)


def _names(spec: Spec, classes: int) -> tuple[tuple[str, ...], str | None]:
    """The names of the checkpoint's classes, and a sentence where they are those of the data, which it does not say."""
    named = spec.take("names", "coco" if classes == len(COCO) else "")
    if named:
        names = read_names(named, spec.text)
        if len(names) != classes:
            raise BadSpec(f"{spec.text!r}: names={named} has {len(names)} names, the checkpoint has {classes} classes.")
        return names, None
    if spec.known_names is not None and len(spec.known_names) == classes:
        return spec.known_names, None
    names, _ = spec.data_names() if spec.data_names is not None else ((), "")
    if len(names) != classes:
        raise BadSpec(f"{spec.text!r}: the checkpoint has {classes} classes, so their names are needed: names=FILE.")
    return names, f"assumed that the checkpoint's {classes} classes are those of the data, in its order."


def shape_of(weights: Mapping[str, Tensor], where: object) -> tuple[Shape, int]:
    """The network's shape and number of classes, read off the ``weights``' own shapes."""
    stem, last = "backbone.backbone.stem.conv.conv.weight", "head.cls_preds.0.weight"
    for name in (stem, last):
        if name not in weights or weights[name].ndim != 4:
            raise BadWeights(f"{where} is not a YOLOX checkpoint: it has no convolution {name!r}.")
    channels, inputs = weights[stem].shape[:2]
    if inputs not in (3, 12):
        raise BadWeights(f"{where}: expected the stem {stem!r} to read 3 or 12 channels. Got {inputs}.")
    prefix = "backbone.backbone.dark2.1.m."
    repeats = len({name[len(prefix) :].split(".")[0] for name in weights if name.startswith(prefix)})
    depthwise = "backbone.backbone.dark2.0.dconv.conv.weight" in weights
    found = Shape(repeats / 3, channels / 64, depthwise, 2 if inputs == 12 else 1)
    official = next((known for known in VARIANTS.values() if _alike(known, found)), found)
    return official, int(weights[last].shape[0])


def _alike(a: Shape, b: Shape) -> bool:
    """Whether two shapes make the same network (depth .33 and ⅓ do)."""
    return (a.channels, a.repeats, a.depthwise, a.stem_stride) == (b.channels, b.repeats, b.depthwise, b.stem_stride)


def _insist(spec: Spec, shape: Shape, classes: int) -> None:
    """Complain where the spec states another network than the checkpoint holds."""
    variant = spec.take("variant", "", choices=tuple(VARIANTS))
    wanted = VARIANTS[variant] if variant else shape
    wanted = Shape(
        spec.take("depth", wanted.depth),
        spec.take("width", wanted.width),
        spec.take("depthwise", wanted.depthwise),
        wanted.stem_stride,
    )
    if not _alike(wanted, shape):
        raise BadWeights(
            f"{spec.target} holds a YOLOX of depth {shape.depth:.3g}, width {shape.width:.3g} and depthwise "
            f"{'yes' if shape.depthwise else 'no'}, not the one that {spec.text!r} states."
        )
    if spec.take("classes", classes) != classes:
        raise BadWeights(f"{spec.target} has {classes} classes, not the {spec.options['classes']} of {spec.text!r}.")
