"""SSD and SSDlite, RetinaNet and FCOS: torchvision's one-stage families, whose candidates are all anchors.

Forward passes are the modules' own (transform, backbone, head, anchor generator); losses are their ``compute_loss``,
called for one image at a time. Only the selection is redone, in ``torchvision_selection.py``, to remember reasons.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from misdetect.detectors.torch_detector import as_array
from misdetect.detectors.torchvision.detector import Target, TorchvisionDetector, features_of, to_original
from misdetect.detectors.torchvision.selection import Shortlist, select
from misdetect.nouns.boxes import Floats
from misdetect.nouns.candidates import Candidates, Reason
from misdetect.nouns.detections import Truth


@dataclass(frozen=True)
class Heads:
    """A batch after the head: its ``outputs`` ``[N, K, …]``, the ``anchors`` ``[K, 4]`` of each image in network
    pixels, the number of anchors on each of the ``levels``, the resized ``sizes`` (height, width), ``targets``."""

    outputs: dict[str, Tensor]
    anchors: list[Tensor]
    levels: list[int]
    sizes: list[tuple[int, int]]
    targets: list[Target] | None

    def of(self, image: int) -> dict[str, Tensor]:
        """The outputs of one image, still a batch ``[1, K, …]``."""
        if len(self.anchors) == 1:
            return self.outputs
        return {name: value[image : image + 1] for name, value in self.outputs.items()}


@dataclass(frozen=True)
class Scored:
    """All scores of one image: ``every`` ``[K, columns]`` as the module ranks them, ``background`` ``[K]``, and where
    the score is made of two, ``classes`` ``[K, columns]`` and ``objectness`` ``[K]``."""

    every: Tensor
    background: Floats
    classes: Tensor | None = None
    objectness: Tensor | None = None


class DenseDetector(TorchvisionDetector):
    """A one-stage module; a candidate is an anchor, its identity the anchor's index."""

    family: Any

    def _knobs(self) -> dict[str, tuple[Any, str, str | None]]:
        attributes = {"score": "score_thresh", "nms": "nms_thresh", "max": "detections_per_img"}
        attributes["topk"] = "topk_candidates"
        return {name: (self.module, attribute, None) for name, attribute in attributes.items()}

    def _heads(self, images: list[Tensor], targets: list[Target] | None = None) -> Heads:
        module = self.module
        batch, targets = module.transform(images, targets)
        features = list(features_of(module, batch.tensors).values())
        outputs = module.head(features)
        anchors = module.anchor_generator(batch, features)
        cells = [feature.shape[-2] * feature.shape[-1] for feature in features]
        return Heads(outputs, anchors, self._levels(cells, len(anchors[0])), batch.image_sizes, targets)

    def _levels(self, cells: list[int], anchors: int) -> list[int]:
        """Anchors per level, for feature maps of ``cells`` places each."""
        return [count * (anchors // sum(cells)) for count in cells]

    @abstractmethod
    def _scored(self, outputs: dict[str, Tensor], levels: list[int]) -> Scored:
        """The scores of one image (a batch of one)."""

    @abstractmethod
    def _shortlist(self, scores: Tensor, boxes: Tensor, heads: Heads, image: int) -> Shortlist:
        """The pairs that pass threshold and top-k, in the module's order; may sharpen ``boxes`` in place."""

    @abstractmethod
    def _decode(self, regression: Tensor, anchors: Tensor) -> Tensor:
        """Boxes ``[K, 4]`` in network pixels, unclipped."""

    @abstractmethod
    def _loss(self, target: Target, outputs: dict[str, Tensor], anchors: Tensor, levels: list[int]) -> Target:
        """The module's own losses of one image: "classification", "bbox_regression" and maybe others."""

    def _trace(self, images: list[Tensor]) -> list[Candidates]:
        self._check_selection(self.module, self.family, "postprocess_detections")
        with self._settled():
            heads = self._heads(images)
            return [self._candidates(heads, i, image.shape[-2:]) for i, image in enumerate(images)]

    def _candidates(self, heads: Heads, image: int, original: Sequence[int]) -> Candidates:
        from torchvision.ops.boxes import clip_boxes_to_image

        outputs, anchors, size = heads.of(image), heads.anchors[image], heads.sizes[image]
        scored = self._scored(outputs, heads.levels)
        boxes = clip_boxes_to_image(self._decode(outputs["bbox_regression"][0], anchors), size)
        shortlist = self._shortlist(scored.every, boxes, heads, image)
        kept, dropped = select(
            shortlist, nms=self.module.nms_thresh, cap=self.module.detections_per_img, first_label=self.first_label
        )
        first = self.first_label
        return Candidates(
            proposals=as_array(to_original(anchors, size, original)),
            refined=as_array(to_original(boxes, size, original)),
            scores=as_array(scored.every[:, first:]),
            background=scored.background,
            identity=np.arange(len(anchors)),
            kept=kept,
            dropped=dropped,
            objectness=None if scored.objectness is None else as_array(scored.objectness),
            class_scores=None if scored.classes is None else as_array(scored.classes[:, first:]),
            pyramid=np.repeat(np.arange(len(heads.levels)), heads.levels),
            settings=self.settings,
        )

    def _image_losses(self, images: list[Tensor], truths: Sequence[Truth]) -> tuple[Tensor, Tensor]:
        with self._settled():
            heads = self._heads(images, self._targets(truths))
            assert heads.targets is not None
            classification, localisation = [], []
            for i, target in enumerate(heads.targets):
                losses = self._loss(target, heads.of(i), heads.anchors[i], heads.levels)
                classification.append(losses.pop("classification"))
                localisation.append(torch.stack(list(losses.values())).sum())
        return torch.stack(classification), torch.stack(localisation)


class SSDDetector(DenseDetector):
    """SSD and SSDlite: softmax over classes and background; the best ``topk`` boxes of each class are suppressed."""

    def _levels(self, cells: list[int], anchors: int) -> list[int]:
        per_cell = self.module.anchor_generator.num_anchors_per_location()
        return [count * each for count, each in zip(cells, per_cell, strict=True)]

    def _scored(self, outputs: dict[str, Tensor], levels: list[int]) -> Scored:
        scores = F.softmax(outputs["cls_logits"][0], dim=-1)
        return Scored(scores, as_array(scores[:, 0]))

    def _decode(self, regression: Tensor, anchors: Tensor) -> Tensor:
        boxes: Tensor = self.module.box_coder.decode_single(regression, anchors)
        return boxes

    def _shortlist(self, scores: Tensor, boxes: Tensor, heads: Heads, image: int) -> Shortlist:
        above = scores > self.module.score_thresh
        parts = []
        for label in range(1, scores.shape[1]):
            candidate = torch.where(above[:, label])[0]
            kept, chosen = scores[candidate, label].topk(min(self.module.topk_candidates, len(candidate)))
            labels = torch.full_like(candidate, label)
            out = []
            if len(chosen) < len(candidate):
                rest = torch.ones_like(candidate, dtype=torch.bool)
                rest[chosen] = False
                out.append((Reason.TOP_K, candidate[rest], labels[rest]))
            picked = candidate[chosen]
            parts.append(Shortlist(picked, labels[chosen], kept, boxes[picked], labels[chosen], out))
        return Shortlist.join(parts)

    def _loss(self, target: Target, outputs: dict[str, Tensor], anchors: Tensor, levels: list[int]) -> Target:
        from torchvision.ops.boxes import box_iou

        if len(target["boxes"]):
            matched = self.module.proposal_matcher(box_iou(target["boxes"], anchors))
            losses: Target = self.module.compute_loss([target], outputs, [anchors], [matched])
            return losses
        # torchvision mines no negatives where there is no positive, which leaves an empty image without any loss; here
        # it has that of the anchors that look least like background, as many as one object would bring.
        logits = outputs["cls_logits"][0]
        each = F.cross_entropy(
            logits, torch.zeros(len(logits), dtype=torch.long, device=logits.device), reduction="none"
        )
        hardest = each.topk(min(len(each), max(1, round(self.module.neg_to_pos_ratio)))).values
        return {"classification": hardest.sum(), "bbox_regression": 0 * outputs["bbox_regression"].sum()}


class RetinaNetDetector(DenseDetector):
    """RetinaNet: a sigmoid per class, the best ``topk`` (anchor, class) pairs of each level are suppressed together."""

    def _scored(self, outputs: dict[str, Tensor], levels: list[int]) -> Scored:
        scores = torch.empty_like(outputs["cls_logits"][0])
        self._fill(scores, outputs, levels)
        return Scored(scores, self._no_class(scores))

    def _fill(self, scores: Tensor, outputs: dict[str, Tensor], levels: list[int]) -> None:
        """Level by level, as the module does, so that not even the last bit differs."""
        for part, logits in zip(
            torch.split(scores, levels), torch.split(outputs["cls_logits"][0], levels), strict=True
        ):
            torch.sigmoid(logits, out=part)

    def _no_class(self, scores: Tensor) -> Floats:
        """There is no background column: what the best class leaves."""
        return 1 - as_array(scores[:, self.first_label :].amax(dim=1))

    def _decode(self, regression: Tensor, anchors: Tensor) -> Tensor:
        boxes: Tensor = self.module.box_coder.decode_single(regression, anchors)
        return boxes

    def _shortlist(self, scores: Tensor, boxes: Tensor, heads: Heads, image: int) -> Shortlist:
        from torchvision.ops.boxes import clip_boxes_to_image

        regression, anchors = heads.outputs["bbox_regression"][image], heads.anchors[image]
        parts, start, columns = [], 0, scores.shape[1]
        for count in heads.levels:
            flat = scores[start : start + count].flatten()
            above = torch.where(flat > self.module.score_thresh)[0]
            kept, chosen = flat[above].topk(min(self.module.topk_candidates, len(above)))
            picked, label = above[chosen] // columns + start, above[chosen] % columns
            # a box decoded among others may differ in the last bit: suppress with the very boxes the module would
            exact = clip_boxes_to_image(self._decode(regression[picked], anchors[picked]), heads.sizes[image])
            boxes[picked] = exact
            out = []
            if len(chosen) < len(above):
                rest = torch.ones_like(above, dtype=torch.bool)
                rest[chosen] = False
                out.append((Reason.TOP_K, above[rest] // columns + start, above[rest] % columns))
            parts.append(Shortlist(picked, label, kept, exact, label, out))
            start += count
        return Shortlist.join(parts)

    def _loss(self, target: Target, outputs: dict[str, Tensor], anchors: Tensor, levels: list[int]) -> Target:
        from torchvision.models.detection.retinanet import RetinaNet, RetinaNetClassificationHead, RetinaNetHead
        from torchvision.ops.boxes import box_iou

        head = self.module.head
        classifier = getattr(head, "classification_head", None)
        parts = ((self.module, RetinaNet), (head, RetinaNetHead), (classifier, RetinaNetClassificationHead))
        if any(getattr(type(part), "compute_loss", None) is not kind.compute_loss for part, kind in parts):
            return dict(self.module.compute_loss([target], outputs, [anchors]))
        matched = torch.full((len(anchors),), -1, dtype=torch.long, device=anchors.device)
        if len(target["boxes"]):
            matched = self.module.proposal_matcher(box_iou(target["boxes"], anchors))
        regression = head.regression_head.compute_loss([target], outputs, [anchors], [matched])
        classes = _focal_loss(outputs["cls_logits"][0], matched, target["labels"])
        return {"classification": classes, "bbox_regression": regression}


class FCOSDetector(RetinaNetDetector):
    """FCOS: as RetinaNet, with score √(class · centre-ness); its "anchors" are stride-sized boxes around the points."""

    def _scored(self, outputs: dict[str, Tensor], levels: list[int]) -> Scored:
        classes = torch.empty_like(outputs["cls_logits"][0])
        self._fill(classes, outputs, levels)
        centre = torch.cat([torch.sigmoid(part) for part in torch.split(outputs["bbox_ctrness"][0], levels)])
        scores = torch.sqrt(classes * centre)
        return Scored(scores, self._no_class(scores), classes, centre[:, 0])

    def _decode(self, regression: Tensor, anchors: Tensor) -> Tensor:
        boxes: Tensor = self.module.box_coder.decode(regression, anchors)
        return boxes

    def _loss(self, target: Target, outputs: dict[str, Tensor], anchors: Tensor, levels: list[int]) -> Target:
        return dict(self.module.compute_loss([target], outputs, [anchors], levels))


def _focal_loss(logits: Tensor, matched: Tensor, labels: Tensor) -> Tensor:
    """What ``RetinaNetClassificationHead.compute_loss`` gives for one image, in a quarter of its time.

    Nearly all of the 160k × 80 logits belong to background anchors, whose term has a short derivative of its own.
    """
    from torchvision.ops import sigmoid_focal_loss

    found = torch.where(matched >= 0)[0]
    targets = F.one_hot(labels[matched[found]], logits.shape[1]).to(logits.dtype)
    objects = sigmoid_focal_loss(logits[found], targets, reduction="sum")
    background: Tensor = _BackgroundFocal.apply(logits, (matched == -1).to(logits.dtype))  # type: ignore[no-untyped-call]
    loss: Tensor = (objects + background) / max(1, len(found))
    return loss


class _BackgroundFocal(torch.autograd.Function):
    """Σ over ``rows`` of ¾ p² softplus(x), p = sigmoid(x): the focal loss (γ = 2, α = ¼) where no class is true."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, rows: Tensor) -> Tensor:
        p = torch.sigmoid(logits)
        entropy = F.softplus(logits)
        square = p * p
        each = (square * entropy).sum(dim=1)
        # d/dx = p² (2 (1 − p) softplus(x) + p), in place: one pass over the logits less for every temporary
        ctx.slope = (1 - p).mul_(2).mul_(entropy).add_(p).mul_(square).mul_(0.75 * rows[:, None])
        return 0.75 * (each * rows).sum()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return ctx.slope * grads[0], None
