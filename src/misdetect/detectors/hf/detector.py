"""``hf:PATH-OR-ID`` and ``wrap``: the DETR family of transformers behind all four access levels.

DETR, Conditional DETR, DAB-DETR, Deformable DETR (one- and two-stage), RT-DETR (v1, v2) and D-FINE. The module's own
forward pass and losses are called; preprocessing is ours, so that gradients reach the pixels. What is read of a folder,
and what is refused, is in ``folder``.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from misdetect.detectors.hf.folder import find_folder, read_configuration, read_module
from misdetect.detectors.hf.input import Input, default_input, parse_size, read_input
from misdetect.detectors.hf.losses import (
    at_least_float32,
    exact_slopes,
    image_losses,
    last_layer_config,
    targets_of,
    training_losses,
)
from misdetect.detectors.hf.trace import FAMILIES, Family, Watch, choose, corners, encoder_candidates, scores_of
from misdetect.detectors.names import read_names
from misdetect.detectors.torch_detector import TorchDetector
from misdetect.detectors.where import Where
from misdetect.nouns.candidates import Candidates
from misdetect.nouns.detections import Detections, Truth
from misdetect.nouns.picture import digest
from misdetect.nouns.spec import Spec
from misdetect.said.errors import BadArray, BadSpec, DetectorFailed


class HfDetector(TorchDetector):
    """A ``…ForObjectDetection`` module of transformers; make one with ``wrap`` or ``load_hf``."""

    def __init__(
        self,
        module: nn.Module,
        names: Sequence[str],
        family: Family,
        prepare: Input,
        *,
        spec: str,
        score: float,
        max_detections: int,
        top_k: int,
        batch_size: int,
    ) -> None:
        config = cast(Any, module).config
        settings = {
            "score": score,
            "top_k": top_k,
            "max": max_detections,
            "model_type": config.model_type,
            "config": digest(json.dumps(config.to_diff_dict(), sort_keys=True, default=str)),
            **prepare.settings,
        }
        super().__init__(module, names, spec=spec, settings=settings, batch_size=batch_size)
        self.family = family
        self.prepare = prepare
        self.score, self.max_detections, self.top_k = score, max_detections, top_k

    def _pixels(self, images: list[Tensor]) -> Tensor:
        pixels = self.prepare(torch.stack(images))
        stride = max(getattr(cast(Any, self.module).config, "feat_strides", (1,)))
        if any(side % stride for side in pixels.shape[-2:]):  # the encoder of RT-DETR and D-FINE joins its levels
            raise BadArray(
                f"{self.spec} takes images whose sides are multiples of {stride}. Got {pixels.shape[-2]}x"
                f"{pixels.shape[-1]}; have them resized: size=HEIGHTxWIDTH."
            )
        return pixels

    def _forward(self, images: list[Tensor]) -> Any:
        output = self.module(pixel_values=self._pixels(images))
        expected = len(self.names) + (self.family.activation == "softmax")
        if output.logits.shape[-1] != expected:
            raise DetectorFailed(
                f"{self.spec}: the module gives {output.logits.shape[-1]} class logits where {expected} were expected "
                f"for {len(self.names)} names."
            )
        return output

    def _detect(self, images: list[Tensor]) -> list[Detections]:
        output = self._forward(images)
        scores, _ = scores_of(output.logits, self.family.activation)
        boxes = corners(output.pred_boxes, images)
        found = []
        for i in range(len(images)):
            kept, _ = choose(scores[i], self.family.activation, self.score, self.top_k, self.max_detections)
            found.append(Detections(boxes[i][kept.candidate], scores[i][kept.candidate, kept.label], kept.label))
        return found

    def _trace(self, images: list[Tensor]) -> list[Candidates]:
        with Watch(self.family.watched(self.module)) as seen:
            output = self._forward(images)
        stages = self.family.stages(self.module, output, seen)
        scores, background = scores_of(output.logits, self.family.activation)
        refined, proposals = corners(output.pred_boxes, images), corners(stages.proposals, images)
        firsts = encoder_candidates(stages, images)
        traced = []
        for i in range(len(images)):
            kept, dropped = choose(scores[i], self.family.activation, self.score, self.top_k, self.max_detections)
            first = firsts[i]
            traced.append(
                Candidates(
                    proposals[i],
                    refined[i],
                    scores[i],
                    background[i],
                    np.arange(len(scores[i])) if first is None else first.kept.candidate,
                    kept,
                    dropped,
                    first=first,
                    settings=self.settings,
                )
            )
        return traced

    def _image_losses(self, images: list[Tensor], truths: Sequence[Truth]) -> tuple[Tensor, Tensor]:
        with exact_slopes(self.module, self.family):
            output = self._forward(images)
        logits, boxes = at_least_float32(output.logits), at_least_float32(output.pred_boxes)
        targets = targets_of(truths, [(image.shape[1], image.shape[2]) for image in images], boxes)
        config = last_layer_config(cast(Any, self.module).config)
        return image_losses(self.module, self.family, config, logits, boxes, targets)

    def _training_losses(self, images: list[Tensor], truths: Sequence[Truth]) -> dict[str, Tensor]:
        pixels, mask = _padded([self._pixels([image])[0] for image in images])
        if mask is not None and self.family.fixed is not None:  # RT-DETR and D-FINE do not look at the mask
            raise BadArray(f"{self.spec} is trained on images of one size; have them resized: size=HEIGHTxWIDTH.")
        sizes = [(image.shape[1], image.shape[2]) for image in images]
        targets = targets_of(truths, sizes, pixels)
        losses: dict[str, Tensor] = training_losses(self.module, self.family, pixels, mask, targets)
        return losses


def _padded(images: list[Tensor]) -> tuple[Tensor, Tensor | None]:
    """A batch ``[B, 3, H, W]`` and, where sizes differ, its mask of real pixels ``[B, H, W]``."""
    if len({image.shape for image in images}) == 1:
        return torch.stack(images), None
    height, width = (max(image.shape[axis] for image in images) for axis in (1, 2))
    batch = images[0].new_zeros(len(images), 3, height, width)
    mask = torch.zeros(len(images), height, width, dtype=torch.long, device=batch.device)
    for i, image in enumerate(images):
        batch[i, :, : image.shape[1], : image.shape[2]] = image
        mask[i, : image.shape[1], : image.shape[2]] = 1
    return batch, mask


def wrap(
    module: nn.Module,
    names: Sequence[str] | None = None,
    *,
    score: float = 0.05,
    max_detections: int = 100,
    top_k: int | None = None,
    size: str | None = None,
    prepare: Input | None = None,
    batch_size: int = 1,
    spec: str | None = None,
) -> HfDetector:
    """A detector around a ``…ForObjectDetection`` module of transformers, which stays the caller's.

    ``names`` replaces the names in ``module.config.id2label``; ``top_k`` is how many (query, class) pairs are ranked
    (as many as the model's own post-processing where not given); ``size`` is ``"SHORTEST,LONGEST"``,
    ``"HEIGHTxWIDTH"`` or ``"native"``, and replaces the resizing of ``prepare`` (see ``hf_input``).
    """
    where = spec or type(module).__name__
    config: Any = getattr(module, "config", None)
    family = FAMILIES.get(getattr(config, "model_type", ""))
    if family is None or not any(kind.__name__ == family.architecture for kind in type(module).__mro__):
        known = ", ".join(each.architecture for each in FAMILIES.values())
        raise BadSpec(f"{where}: expected one of {known}. Got {type(module).__name__}.")
    if names is None:
        names = [str(config.id2label.get(i, f"class {i}")) for i in range(config.num_labels)]
    elif len(names) != config.num_labels:
        raise BadSpec(f"{where}: {len(names)} names were given, the model has {config.num_labels} classes.")
    if not 0 <= score < 1 or max_detections < 1 or batch_size < 1 or (top_k is not None and top_k < 1):
        raise BadSpec(f"{where}: expected 0 <= score < 1, and max, top_k and batch of at least 1.")
    prepare = prepare or default_input(family.fixed)
    if size is not None:
        resize, sides = parse_size(size, where)
        prepare = replace(prepare, resize=resize, sides=sides)
    queries = int(getattr(config, "num_queries", 0)) or 300
    return HfDetector(
        module,
        names,
        family,
        prepare,
        spec=where,
        score=score,
        max_detections=max_detections,
        top_k=top_k or family.ranked or queries,
        batch_size=batch_size,
    )


def thaw(module: nn.Module) -> nn.Module:
    """Make every backbone weight of ``module`` trainable, in place: batch norms that transformers froze become real.

    For training from scratch; a fine-tuned model is better left frozen. The weights keep their names and values.
    """
    for parent in list(module.modules()):
        for name, part in list(parent.named_children()):
            if type(part).__name__.endswith("FrozenBatchNorm2d"):
                frozen = cast(Any, part)
                live = nn.BatchNorm2d(len(frozen.weight)).to(frozen.weight.device, frozen.weight.dtype)
                live.load_state_dict(part.state_dict(), strict=False)
                live.train(parent.training)
                setattr(parent, name, live)
    for parameter in cast(Any, module).model.backbone.parameters():
        parameter.requires_grad_(True)
    return module


def load_hf(spec: Spec) -> HfDetector:
    """``hf:PATH-OR-ID``, options ``score``, ``max``, ``topk``, ``size`` and ``names``, see ``wrap``; and ``where``."""
    score, most, top_k = spec.take("score", 0.05), spec.take("max", 100), spec.take("topk", 0)
    size, names, where = spec.take("size", ""), spec.take("names", ""), Where.take(spec)
    spec.finish()
    folder = find_folder(spec)
    family, config = read_configuration(folder)
    prepare = read_input(folder, default_input(family.fixed))
    module = read_module(folder, family, config)
    found = wrap(
        module.eval(),
        read_names(names, spec.text) if names else None,
        score=score,
        max_detections=most,
        top_k=top_k or None,
        size=size or None,
        prepare=prepare,
        spec=spec.text,
    )
    return where.put(found)
