"""What the DETR family of transformers computes on the way to its output, read without a second forward pass.

``FAMILIES`` says, for each architecture, how logits become scores, how many pairs its post-processing ranks, and where
its first guess of each box is found. ``Watch`` collects what the outputs leave out with hooks that are gone when the
block ends. Nothing here is a forward pass: where a number has to be computed, the model's own heads compute it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from misdetect.nouns.boxes import Floats, Ints
from misdetect.nouns.candidates import Candidates, Dropped, Pairs, Reason

Activation = Literal["softmax", "sigmoid"]


@dataclass(frozen=True)
class Stages:
    """The inside of one forward pass over ``B`` images, boxes as centre and size relative to the image.

    ``proposals`` ``[B, K, 4]`` the first guess of each query. Where an encoder proposes the queries: ``tokens``
    ``[B, K]`` the encoder token each query came from, ``anchors`` ``[B, T, 4]``, ``encoded`` ``[B, T, 4]`` and
    ``objectness`` ``[B, T]`` (logits) of every token.
    """

    proposals: Tensor
    tokens: Tensor | None = None
    anchors: Tensor | None = None
    encoded: Tensor | None = None
    objectness: Tensor | None = None


class Watch:
    """The outputs of some submodules during a block; the hooks leave with it."""

    def __init__(self, parts: dict[str, nn.Module]) -> None:
        self._parts = parts
        self._handles: list[Any] = []
        self.seen: dict[str, Any] = {}

    def __enter__(self) -> dict[str, Any]:
        for name, part in self._parts.items():
            self._handles.append(part.register_forward_hook(self._keep(name)))
        return self.seen

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for handle in self._handles:
            handle.remove()

    def _keep(self, name: str) -> Callable[[nn.Module, Any, Any], None]:
        def keep(part: nn.Module, inputs: Any, output: Any) -> None:
            self.seen[name] = output

        return keep


def _inverse_sigmoid(x: Tensor, eps: float = 1e-5) -> Tensor:
    """As the models compute it: clamped, so that 0 and 1 stay finite."""
    x = x.clamp(0, 1)
    return torch.log(x.clamp(min=eps) / (1 - x).clamp(min=eps))


def _first_layer(module: Any) -> dict[str, nn.Module]:
    return {"layer": module.model.decoder.layers[0], "decoder": module.model.decoder}


def _hidden(module: Any, seen: dict[str, Any]) -> Tensor:
    """The first decoder layer's queries as the heads see them, ``[B, K, D]``."""
    output = seen["layer"]
    hidden: Tensor = module.model.decoder.layernorm(output[0] if isinstance(output, tuple) else output)
    return hidden


def _detr(module: Any, output: Any, seen: dict[str, Any]) -> Stages:
    # DETR's queries have no place of their own: the first box they stand for is the first decoder layer's
    return Stages(module.bbox_predictor(_hidden(module, seen)).sigmoid())


def _conditional(module: Any, output: Any, seen: dict[str, Any]) -> Stages:
    offsets = module.bbox_predictor(_hidden(module, seen))
    points = _inverse_sigmoid(seen["decoder"].reference_points).transpose(0, 1)
    return Stages(torch.cat([offsets[..., :2] + points, offsets[..., 2:]], -1).sigmoid())


def _dab(module: Any, output: Any, seen: dict[str, Any]) -> Stages:
    # DAB's queries are learned anchor boxes, the same in every image
    return Stages(seen["decoder"].reference_points[0])


def _deformable(module: Any, output: Any, seen: dict[str, Any]) -> Stages:
    first = output.init_reference_points
    if module.config.two_stage:
        tokens = output.enc_outputs_class[..., 0].topk(first.shape[1], dim=1).indices
        return _encoder_stage(first, tokens, output.enc_outputs_class[..., 0], output, seen)
    # a learned point is no box, so the first box is the one that the first decoder layer puts around it
    if output.intermediate_reference_points.shape[-1] == 4:
        return Stages(output.intermediate_reference_points[:, 0])
    offsets = module.bbox_embed[0](output.intermediate_hidden_states[:, 0])
    return Stages(torch.cat([offsets[..., :2] + _inverse_sigmoid(first), offsets[..., 2:]], -1).sigmoid())


def _real_time(module: Any, output: Any, seen: dict[str, Any]) -> Stages:
    best = output.enc_outputs_class.max(-1).values
    tokens = best.topk(output.logits.shape[1], dim=1).indices
    return _encoder_stage(output.init_reference_points.sigmoid(), tokens, best, output, seen)


def _encoder_stage(proposals: Tensor, tokens: Tensor, objectness: Tensor, output: Any, seen: dict[str, Any]) -> Stages:
    """The stage before the decoder; ``tokens`` repeats the model's own top-k on the model's own numbers."""
    boxes = output.enc_outputs_coord_logits
    anchors = (boxes - seen["deltas"]).sigmoid()  # the head adds its deltas to the anchors' logits
    return Stages(proposals, tokens, anchors, boxes.sigmoid(), objectness)


def _encoder_head(module: Any) -> dict[str, nn.Module]:
    return {"deltas": module.model.enc_bbox_head}


def _two_stage_head(module: Any) -> dict[str, nn.Module]:
    return {"deltas": module.model.decoder.bbox_embed[-1]} if module.config.two_stage else {}


@dataclass(frozen=True)
class Family:
    """One architecture: its class in transformers, its scores, and where its first guess is.

    ``ranked`` is how many (query, class) pairs its own post-processing keeps: a number, or ``None`` for as many as
    there are queries. ``weighted`` says whether its loss dictionary already carries the loss weights. ``fixed`` is the
    height and width it is run at where nothing else is said, ``None`` for shortest edge 800, longest 1333, with
    ImageNet's mean and deviation. ``detaches`` says whether it stops gradients inside its forward pass.
    """

    architecture: str
    activation: Activation
    ranked: int | None
    weighted: bool
    fixed: tuple[int, int] | None
    watched: Callable[[Any], dict[str, nn.Module]]
    stages: Callable[[Any, Any, dict[str, Any]], Stages]
    detaches: bool = True


FAMILIES: dict[str, Family] = {
    "detr": Family("DetrForObjectDetection", "softmax", None, False, None, _first_layer, _detr, False),
    "conditional_detr": Family(
        "ConditionalDetrForObjectDetection", "sigmoid", 100, False, None, _first_layer, _conditional, False
    ),
    "dab-detr": Family("DabDetrForObjectDetection", "sigmoid", 100, False, None, _first_layer, _dab),
    "deformable_detr": Family(
        "DeformableDetrForObjectDetection", "sigmoid", 100, False, None, _two_stage_head, _deformable
    ),
    "rt_detr": Family("RTDetrForObjectDetection", "sigmoid", None, True, (640, 640), _encoder_head, _real_time),
    "rt_detr_v2": Family("RTDetrV2ForObjectDetection", "sigmoid", None, True, (640, 640), _encoder_head, _real_time),
    "d_fine": Family("DFineForObjectDetection", "sigmoid", None, True, (640, 640), _encoder_head, _real_time),
}
"""By ``config.model_type``."""


def scores_of(logits: Tensor, activation: Activation) -> tuple[Floats, Floats]:
    """Class scores ``[B, K, C]`` and background ``[B, K]``: the no-object class, or what the best class leaves."""
    if activation == "softmax":
        shares = logits.float().softmax(-1).cpu().numpy()
        return shares[..., :-1], shares[..., -1]
    scores = logits.float().sigmoid().cpu().numpy()
    return scores, 1 - scores.max(axis=-1)


def corners(boxes: Tensor, images: list[Tensor]) -> Floats:
    """Relative centres and sizes ``[B, K, 4]`` to corners in pixels of ``images`` (all of one size), not clipped."""
    height, width = images[0].shape[-2:]
    half = boxes[..., 2:].float().clamp(min=0) / 2  # D-FINE's distances can cross over
    both = torch.cat([boxes[..., :2].float() - half, boxes[..., :2].float() + half], -1)
    pixels: Floats = (both * both.new_tensor([width, height, width, height])).cpu().numpy()
    return pixels


def choose(
    scores: Floats, activation: Activation, threshold: float, top_k: int, max_detections: int
) -> tuple[Pairs, Dropped]:
    """The pairs that transformers' post-processing keeps of ``scores`` ``[K, C]``, by falling score, and the others
    above ``threshold`` with the reason.

    Softmax models give each query its best label only (any other is below that top 1); sigmoid models rank all pairs
    and keep ``top_k``. Of these the first ``max_detections`` are reported. A score equal to the threshold is below it.
    """
    query, label = np.nonzero(scores > threshold)
    value = scores[query, label]
    if activation == "softmax":
        ranked = label == scores.argmax(axis=1)[query] if len(query) else np.zeros(0, bool)
        order = np.lexsort((query, -value, ~ranked))
        available = min(int(ranked.sum()), top_k)
    else:
        order = np.argsort(-value, kind="stable")
        available = min(len(order), top_k)
    kept, rest = order[: min(available, max_detections)], order[min(available, max_detections) :]
    place = np.arange(len(kept), len(order))
    reason = np.where(place < available, Reason.CAP, Reason.TOP_K)
    by: Ints = np.full(len(rest), -1)
    return Pairs(query[kept], label[kept]), Dropped(query[rest], label[rest], reason, by)


def encoder_candidates(stages: Stages, images: list[Tensor]) -> list[Candidates | None]:
    """What the encoder proposed, one candidate per token, of which the decoder's queries are the kept ones in order."""
    if stages.tokens is None or stages.anchors is None or stages.encoded is None or stages.objectness is None:
        return [None] * len(images)
    anchors, encoded = corners(stages.anchors, images), corners(stages.encoded, images)
    scores = stages.objectness.float().sigmoid().cpu().numpy()[..., None]
    tokens = stages.tokens.cpu().numpy()
    made: list[Candidates | None] = []
    for i in range(len(images)):
        others = np.setdiff1d(np.arange(len(scores[i])), tokens[i], assume_unique=True)
        none = np.zeros(len(others), np.int64)
        made.append(
            Candidates(
                anchors[i],
                encoded[i],
                scores[i],
                1 - scores[i][:, 0],
                np.arange(len(scores[i])),
                Pairs(tokens[i], np.zeros(len(tokens[i]), np.int64)),
                Dropped(others, none, none + Reason.TOP_K, none - 1),
                settings={"top_k": len(tokens[i])},
            )
        )
    return made
