"""YOLOX's losses: which cells answer for which object (SimOTA), and how wrong they are.

Everything is in pixels of the network's input and knows nothing of thresholds or images. Losses come as sums per image,
so that one image can be normalised by itself (attacks) or the batch as a whole (training). See docs/yolox.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from misdetect.detectors.yolox.net import Cells, Raw


@dataclass(frozen=True)
class SimOTA:
    """The parameters of the assignment: reach of the centre region in strides, weight of the IoU cost, and how many of
    the best overlaps are summed to estimate an object's number of cells. The defaults are the authors'."""

    radius: float = 1.5
    iou_weight: float = 3.0
    overlaps: int = 10


class Objects(NamedTuple):
    """The annotated objects of one image: ``boxes`` ``[G, 4]`` corners in input pixels, ``labels`` ``[G]``."""

    boxes: Tensor
    labels: Tensor


class Assigned(NamedTuple):
    """``P`` cells that answer for objects: index of the ``cell``, of the ``truth``, and the ``iou`` of their boxes."""

    cell: Tensor
    truth: Tensor
    iou: Tensor


def paired_iou(a: Tensor, b: Tensor) -> Tensor:
    """IoU of boxes ``[..., 4]`` with boxes ``[..., 4]``, elementwise with broadcasting; 0 without area.

    The differentiable twin of ``misdetect.nouns.boxes.iou``, for where gradients are needed.
    """
    overlap = (torch.minimum(a[..., 2:], b[..., 2:]) - torch.maximum(a[..., :2], b[..., :2])).clamp(min=0).prod(-1)
    areas = (a[..., 2:] - a[..., :2]).clamp(min=0).prod(-1) + (b[..., 2:] - b[..., :2]).clamp(min=0).prod(-1)
    return overlap / (areas - overlap).clamp(min=1e-9)


def near_centre(cells: Cells, objects: Objects, radius: float) -> Tensor:
    """``[G, K]``: the cells whose centre is within ``radius`` strides of an object's centre, in x and in y."""
    centres = (objects.boxes[:, :2] + objects.boxes[:, 2:]) / 2
    reach = radius * cells.strides
    return ((cells.centres[None] - centres[:, None]).abs() < reach[None, :, None]).all(-1)


@torch.no_grad()
def assign(boxes: Tensor, scores: Tensor, near: Tensor, objects: Objects, rule: SimOTA) -> Assigned:
    """SimOTA for one image: ``boxes`` ``[K, 4]`` decoded, ``scores`` ``[K, C]`` objectness × class probability, and
    ``near`` ``[G, K]``, the cells that may answer for each object.

    An object chooses, among the cells near it, the k of least cost. The cost is the binary cross-entropy of √score plus
    ``iou_weight`` × −log IoU; k is the whole part of the summed best ``overlaps`` IoUs among the cells near any object,
    at least 1. A cell chosen twice goes where it costs less.
    """
    pool = near.any(0).nonzero().flatten()
    if not len(pool):
        return Assigned(pool, pool, boxes.new_zeros(0))
    near = near[:, pool]
    iou = paired_iou(boxes[pool][None], objects.boxes[:, None])
    cost = _class_cost(scores[pool], objects.labels) - rule.iou_weight * torch.log(iou + 1e-8)
    cost = cost.masked_fill(~near, torch.inf)
    count = iou.topk(min(rule.overlaps, len(pool)), dim=1).values.sum(1).long().clamp(min=1)
    # a stable sort: equal costs go to the earlier cell, on every machine
    rank = cost.argsort(dim=1, stable=True).argsort(dim=1, stable=True)
    chosen = (rank < count[:, None]) & near
    owner = cost.masked_fill(~chosen, torch.inf).argmin(0)
    taken = chosen.any(0).nonzero().flatten()
    return Assigned(pool[taken], owner[taken], iou[owner[taken], taken])


def _class_cost(scores: Tensor, labels: Tensor) -> Tensor:
    """``[G, A]`` summed binary cross-entropies of √``scores`` ``[A, C]`` against each label's one-hot vector.

    All but one term is the same for every object, so they are summed once: ``[A, C]``, never ``[G, A, C]``.
    """
    root = scores.sqrt()
    present, absent = root.log().clamp(min=-100), torch.log1p(-root).clamp(min=-100)
    return ((absent - present)[:, labels] - absent.sum(1, keepdim=True)).T


class Answers(NamedTuple):
    """The ``P`` cells of a batch that answer for objects: ``image`` and ``cell`` index, the object's ``label`` and box
    (``truth`` ``[P, 4]``), and the ``iou`` reached."""

    image: Tensor
    cell: Tensor
    label: Tensor
    truth: Tensor
    iou: Tensor

    @classmethod
    def join(cls, found: Sequence[Assigned], objects: Sequence[Objects]) -> "Answers":
        """The assignments of each image of a batch, one after the other."""
        return cls(
            torch.cat([torch.full_like(one.cell, i) for i, one in enumerate(found)]),
            torch.cat([one.cell for one in found]),
            torch.cat([o.labels[one.truth] for one, o in zip(found, objects, strict=True)]),
            torch.cat([o.boxes[one.truth] for one, o in zip(found, objects, strict=True)]),
            torch.cat([one.iou for one in found]),
        )

    def per_image(self, values: Tensor, images: int) -> Tensor:
        """Sums ``[images]`` of ``values`` ``[P]``."""
        return values.new_zeros(images).index_add(0, self.image, values)


def simota(raw: Raw, boxes: Tensor, cells: Cells, objects: Sequence[Objects], rule: SimOTA) -> Answers:
    """Which cells answer for which objects, given the network's own predictions (``boxes`` are ``raw``'s, decoded)."""
    with torch.no_grad():
        scores = raw.objectness.sigmoid()[..., None] * raw.classes.sigmoid()
        found = [
            assign(boxes[i], scores[i], near_centre(cells, one, rule.radius), one, rule)
            for i, one in enumerate(objects)
        ]
    return Answers.join(found, objects)


class Losses(NamedTuple):
    """Sums of each loss per image ``[N]``, and the number of cells ``[N]`` that answer for objects."""

    classification: Tensor
    objectness: Tensor
    localisation: Tensor
    cells: Tensor


def losses_of(
    classes: Tensor, objectness: Tensor | None, boxes: Tensor, answers: Answers, *, iou_targets: bool
) -> Losses:
    """The losses of each image of a batch, from logits ``[N, K, C]`` and ``[N, K]`` and boxes ``[N, K, 4]``.

    Classification: binary cross-entropy of the answering cells, whose target is 1 (or, with ``iou_targets``, the IoU
    reached, held constant) for the object's class. Objectness: binary cross-entropy of all cells. Where a detector has
    no objectness, the classification of all cells says what is background. Localisation: 5 · (1 − IoU²).
    """
    n, _, width = classes.shape
    image, cell = answers.image, answers.cell
    wanted = F.one_hot(answers.label, width).to(classes)
    if iou_targets:
        wanted = wanted * answers.iou[:, None]
    if objectness is None:
        everywhere = torch.zeros_like(classes).index_put((image, cell), wanted)
        classification = F.binary_cross_entropy_with_logits(classes, everywhere, reduction="none").sum((1, 2))
        presence = torch.zeros_like(classification)
    else:
        each = F.binary_cross_entropy_with_logits(classes[image, cell], wanted, reduction="none").sum(1)
        classification = answers.per_image(each, n)
        occupied = torch.zeros_like(objectness).index_put((image, cell), objectness.new_ones(()))
        presence = F.binary_cross_entropy_with_logits(objectness, occupied, reduction="none").sum(1)
    localisation = 5 * (1 - paired_iou(boxes[image, cell], answers.truth) ** 2)
    return Losses(
        classification,
        presence,
        answers.per_image(localisation, n),
        torch.bincount(image, minlength=n).to(boxes),
    )


def l1_of(offsets: Tensor, cells: Cells, answers: Answers) -> Tensor:
    """``[N]`` sums of the distances of raw ``offsets`` ``[N, K, 4]`` from those that decode to the truth."""
    truth, stride = answers.truth, cells.strides[answers.cell, None]
    centre = (truth[:, :2] + truth[:, 2:]) / 2 / stride - cells.corners[answers.cell]
    size = ((truth[:, 2:] - truth[:, :2]) / stride + 1e-8).log()
    distance = (offsets[answers.image, answers.cell] - torch.cat([centre, size], dim=1)).abs().sum(1)
    return answers.per_image(distance, len(offsets))
