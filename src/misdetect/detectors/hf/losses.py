"""The DETR family's own losses: per image for attacks, per batch for training.

Matching and losses are transformers' own (``module.loss_function``); this file makes targets of truths, keeps images
apart, and weights the terms so that their sum is the training loss. An attack looks at the last decoder layer alone,
since that is the output; auxiliary, encoder and denoising terms exist to help training and are in training losses only.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from misdetect.detectors.hf.trace import Family
from misdetect.detectors.torch_detector import learnable
from misdetect.nouns.detections import Truth

_CLASSIFICATION = ("loss_ce", "loss_vfl")
_LOCALISATION = ("loss_bbox", "loss_giou")


class _ThroughDetach(TorchFunctionMode):
    """Inside this block, in this thread only, ``detach`` does nothing."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is torch.Tensor.detach:
            return args[0]
        return func(*args, **kwargs) if kwargs else func(*args)


class ExactLoss(TorchFunctionMode):
    """As ``exact_slopes``, for loss functions: their targets and weights may depend on the image.

    RT-DETR's loss detaches both. Weights, which torch's own losses do not differentiate and want in the type of the
    logits, are multiplied in afterwards or converted.
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        weight = kwargs.get("weight")
        if func is torch.Tensor.detach:
            return args[0]
        if func is functional.cross_entropy and weight is not None:
            kwargs = {**kwargs, "weight": weight.to(args[0].dtype)}
        unreduced = func is functional.binary_cross_entropy_with_logits and kwargs.get("reduction") == "none"
        if unreduced and weight is not None:
            return func(*args, **{**kwargs, "weight": None}) * weight
        return func(*args, **kwargs)


@contextmanager
def exact_slopes(module: Any, family: Family) -> Iterator[None]:
    """Inside this block a forward pass of ``module`` can be differentiated exactly, its batch norms included.

    Most of these models ``detach`` their boxes between decoder layers, and what their encoder proposes, to steady
    training. The output still depends on what was cut off, so for a gradient to be the slope of the loss that is
    reported beside it, ``detach`` does nothing from the encoder's end to the decoder's. (Only there, because watching
    every torch call costs some microseconds.)
    """
    stretch = ExitStack()

    def begin(*_: Any) -> None:
        stretch.enter_context(_ThroughDetach())

    def end(*_: Any) -> None:
        stretch.close()

    handles = []
    with stretch, sound_batch_norms(module):
        if family.detaches:
            handles.append(module.model.encoder.register_forward_hook(begin))
            handles.append(module.model.decoder.register_forward_hook(end))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()


@contextmanager
def sound_batch_norms(module: nn.Module) -> Iterator[None]:
    """Inside this block a single image's gradient will pass the batch norms of ``module`` correctly.

    On a CPU torch (seen in 2.13) reads a gradient in the wrong order where it is a transposed map of one image, as it
    is wherever a feature map becomes a sequence right after a batch norm: RT-DETR and D-FINE. The error is silent and
    large. A gradient that was made contiguous is read correctly.
    """

    def straighten(part: nn.Module, inputs: Any, output: Tensor) -> None:
        if output.requires_grad and output.is_contiguous():
            output.register_hook(torch.Tensor.contiguous)  # type: ignore[no-untyped-call]

    norms = [part for part in module.modules() if isinstance(part, nn.BatchNorm2d)]
    handles = [norm.register_forward_hook(straighten) for norm in norms]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def at_least_float32(values: Tensor) -> Tensor:
    """``values`` of a half-precision module as float32, others as they are."""
    return values if values.dtype == torch.float64 else values.float()


def targets_of(truths: Sequence[Truth], sizes: Sequence[tuple[int, int]], like: Tensor) -> list[Any]:
    """Labels as the models take them: class indices and relative centre-and-size boxes.

    ``sizes`` are heights and widths in pixels. Crowd regions and boxes without area are left out: neither is an object
    that one query could match.
    """
    made = []
    for truth, (height, width) in zip(truths, sizes, strict=True):
        real = learnable(truth)
        extent = real.boxes[:, 2:] - real.boxes[:, :2]
        boxes = np.concatenate([real.boxes[:, :2] + extent / 2, extent], axis=1) / np.tile([width, height], 2)
        made.append(
            {
                "class_labels": torch.as_tensor(real.labels.copy(), device=like.device),
                "boxes": torch.as_tensor(boxes, dtype=like.dtype, device=like.device),
            }
        )
    return made


def last_layer_config(config: Any) -> Any:
    """A copy of ``config`` under which the loss function looks at the last decoder layer only."""
    config = copy.copy(config)
    config.auxiliary_loss = False
    return config


def image_losses(
    module: Any, family: Family, config: Any, logits: Tensor, boxes: Tensor, targets: Sequence[Any]
) -> tuple[Tensor, Tensor]:
    """Classification and localisation loss ``[B]`` of each image, each normalised by its own number of objects."""
    classification, localisation = [], []
    for i, target in enumerate(targets):
        one = slice(i, i + 1)
        with ExactLoss():
            _, terms, _ = module.loss_function(logits[one], [target], logits.device, boxes[one], config)
        weighted = _weighted(terms, family, config)
        classification.append(sum(value for name, value in weighted.items() if name.startswith(_CLASSIFICATION)))
        localisation.append(sum(value for name, value in weighted.items() if name.startswith(_LOCALISATION)))
    return torch.stack(classification), torch.stack(localisation)  # type: ignore[arg-type]


def training_losses(module: Any, family: Family, pixels: Tensor, mask: Tensor | None, targets: list[Any]) -> Any:
    """Every term of the module's own training loss, weighted: their sum is ``module(…, labels=…).loss``."""
    with sound_batch_norms(module):
        output = module(pixel_values=pixels, pixel_mask=mask, labels=targets)
    return _weighted(output.loss_dict, family, module.config)


def _weighted(terms: dict[str, Tensor], family: Family, config: Any) -> dict[str, Tensor]:
    if family.weighted:
        return dict(terms)
    weights = {"loss_ce": 1.0, "loss_bbox": config.bbox_loss_coefficient, "loss_giou": config.giou_loss_coefficient}
    return {  # auxiliary terms are named after the main ones; what has no weight (cardinality) is for logs
        name: value * weight
        for name, value in terms.items()
        for prefix, weight in weights.items()
        if name.startswith(prefix)
    }
