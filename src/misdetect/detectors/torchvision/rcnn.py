"""Faster, Mask and Keypoint R-CNN: torchvision's two-stage families.

The first stage's candidates are all anchors, the second stage's the proposals the first one kept; a proposal's identity
is the anchor it grew from, so that runs can be joined. Images are detected and traced one by one, because the second
stage puts all proposals of a batch into one matrix product, whose last bits depend on its size; for the losses, they go
through the first stage together, and where that is asked for (``together``) through the second one too.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from misdetect.detectors.torch_detector import as_array
from misdetect.detectors.torchvision.detector import Target, TorchvisionDetector, features_of, to_original
from misdetect.detectors.torchvision.selection import Shortlist, select
from misdetect.nouns.candidates import Candidates, Reason
from misdetect.nouns.detections import Detections, Truth

_SMOOTH_L1_BETA = 1 / 9  # torchvision's, in both stages


@dataclass(frozen=True)
class First:
    """One image after the RPN's head: ``features``, ``anchors`` and decoded ``boxes`` ``[K, 4]`` in network pixels,
    ``objectness`` logits ``[K]``, box ``deltas`` ``[K, 4]``, anchors per level, and the resized ``size`` (h, w)."""

    features: dict[str, Tensor]
    anchors: Tensor
    boxes: Tensor
    objectness: Tensor
    deltas: Tensor
    levels: list[int]
    size: tuple[int, int]
    target: Target | None


class RCNNDetector(TorchvisionDetector):
    """A ``GeneralizedRCNN`` with torchvision's RPN and RoI heads."""

    def _knobs(self) -> dict[str, tuple[Any, str, str | None]]:
        rpn, heads = self.module.rpn, self.module.roi_heads
        return {
            "score": (heads, "score_thresh", None),
            "nms": (heads, "nms_thresh", None),
            "max": (heads, "detections_per_img", None),
            "rpn_score": (rpn, "score_thresh", None),
            "rpn_nms": (rpn, "nms_thresh", None),
            "rpn_topk": (rpn, "_pre_nms_top_n", "testing"),
            "rpn_max": (rpn, "_post_nms_top_n", "testing"),
        }

    @contextmanager
    def _settled(self) -> Iterator[None]:
        """Also forgets, for the call, the pooling scales that torchvision derives from the first image it ever sees and
        keeps for all others: an image's result must not depend on which one came first."""
        pools = [p for p in self.module.roi_heads.modules() if hasattr(p, "scales") and hasattr(p, "map_levels")]
        before = [(pool, pool.scales, pool.map_levels) for pool in pools]
        for pool in pools:
            pool.scales = pool.map_levels = None
        try:
            with super()._settled():
                yield
        finally:
            for pool, scales, levels in before:
                pool.scales, pool.map_levels = scales, levels

    def _detect(self, images: list[Tensor]) -> list[Detections]:
        return [found for image in images for found in super(RCNNDetector, self)._detect([image])]

    def _first(self, images: list[Tensor], targets: list[Target] | None = None) -> list[First]:
        """Each of ``images`` (all of one size) after the RPN's head, which sees them together."""
        from torchvision.models.detection.rpn import concat_box_prediction_layers

        module, rpn = self.module, self.module.rpn
        batch, targets = module.transform(images, targets)
        features = features_of(module, batch.tensors)
        maps = list(features.values())
        objectness, deltas = rpn.head(maps)
        anchors = rpn.anchor_generator(batch, maps)
        levels = [level[0].numel() for level in objectness]
        objectness, deltas = concat_box_prediction_layers(objectness, deltas)
        boxes = rpn.box_coder.decode(deltas.detach(), anchors).view(-1, 4)
        # split, not unbind: of a batch of one, torch 2.13's batch norms misread the strides of what unbind passes back
        each = zip(
            zip(*(torch.split(level, 1) for level in maps), strict=True),
            anchors,
            *(torch.split(every, len(anchors[0])) for every in (boxes, objectness.flatten(), deltas)),
            batch.image_sizes,
            [None] * len(images) if targets is None else targets,
            strict=True,
        )
        return [
            First(dict(zip(features, own, strict=True)), anchor, box, score, delta, levels, size, target)
            for own, anchor, box, score, delta, size, target in each
        ]

    def _second(self, firsts: Sequence[First], proposals: list[Tensor]) -> tuple[Tensor, Tensor]:
        """Class logits ``[P, C + 1]`` and box deltas ``[P, (C + 1) * 4]`` of the ``proposals`` ``[Pi, 4]`` of each
        image, one image after the other."""
        heads = self.module.roi_heads
        features = {name: torch.cat([each.features[name] for each in firsts]) for name in firsts[0].features}
        pooled = heads.box_roi_pool(features, proposals, [each.size for each in firsts])
        logits, deltas = heads.box_predictor(heads.box_head(pooled))
        return logits, deltas

    # Tracing.

    def _trace(self, images: list[Tensor]) -> list[Candidates]:
        from torchvision.models.detection.roi_heads import RoIHeads
        from torchvision.models.detection.rpn import RegionProposalNetwork

        self._check_selection(self.module.rpn, RegionProposalNetwork, "filter_proposals")
        self._check_selection(self.module.roi_heads, RoIHeads, "postprocess_detections")
        return [self._candidates(image) for image in images]

    def _candidates(self, image: Tensor) -> Candidates:
        from torchvision.ops.boxes import clip_boxes_to_image

        heads, original = self.module.roi_heads, image.shape[-2:]
        with self._settled():
            (first,) = self._first([image])
            anchored, proposals = self._proposed(first, original)
            logits, deltas = self._second([first], [proposals])
            boxes = heads.box_coder.decode(deltas, [proposals]).view(*logits.shape, 4)
            boxes = clip_boxes_to_image(boxes, first.size)[:, 1:]
            every = F.softmax(logits, dim=-1)
            scores = every[:, 1:]
            flat = scores.reshape(-1)
            above = torch.where(flat > heads.score_thresh)[0]
            label = above % scores.shape[1]
            # batched_nms moves each group away by a multiple of its number: number them as the module does
            shortlist = Shortlist(above // scores.shape[1], label, flat[above], boxes.reshape(-1, 4)[above], label + 1)
            kept, dropped = select(shortlist.without_small(1e-2), nms=heads.nms_thresh, cap=heads.detections_per_img)
        class_boxes = as_array(to_original(boxes, first.size, original))
        best = as_array(scores.argmax(dim=1))
        return Candidates(
            proposals=as_array(to_original(proposals, first.size, original)),
            refined=class_boxes[np.arange(len(best)), best],
            scores=as_array(scores),
            background=as_array(every[:, 0]),
            identity=anchored.kept.candidate,
            kept=kept,
            dropped=dropped,
            class_boxes=class_boxes,
            pyramid=None if anchored.pyramid is None else anchored.pyramid[anchored.kept.candidate],
            first=anchored,
            settings=self.settings,
        )

    def _proposed(self, first: First, original: Sequence[int]) -> tuple[Candidates, Tensor]:
        """The first stage as candidates of one class, and its proposals ``[P, 4]`` in network pixels."""
        from torchvision.ops.boxes import clip_boxes_to_image

        rpn = self.module.rpn
        boxes = clip_boxes_to_image(first.boxes, first.size)
        probability = torch.sigmoid(first.objectness)
        top = rpn._get_top_n_idx(first.objectness[None], first.levels)[0]
        level = torch.repeat_interleave(
            torch.arange(len(first.levels), device=top.device), torch.tensor(first.levels, device=top.device)
        )
        scores = torch.sigmoid(first.objectness[top])
        probability[top] = scores
        rest = probability >= rpn.score_thresh
        rest[top] = False
        below = torch.where(rest)[0]
        passed = top[scores >= rpn.score_thresh]
        shortlist = Shortlist(
            passed,
            torch.zeros_like(passed),
            probability[passed],
            boxes[passed],
            level[passed],
            [(Reason.TOP_K, below, torch.zeros_like(below))],
        )
        kept, dropped = select(shortlist.without_small(rpn.min_size), nms=rpn.nms_thresh, cap=rpn.post_nms_top_n())
        candidates = Candidates(
            proposals=as_array(to_original(first.anchors, first.size, original)),
            refined=as_array(to_original(boxes, first.size, original)),
            scores=as_array(probability)[:, None],
            background=1 - as_array(probability),
            identity=np.arange(len(boxes)),
            kept=kept,
            dropped=dropped,
            pyramid=as_array(level),
            settings=self.settings,
        )
        return candidates, boxes[torch.from_numpy(kept.candidate).to(boxes.device)]

    # Losses.

    def _image_losses(self, images: list[Tensor], truths: Sequence[Truth]) -> tuple[Tensor, Tensor]:
        with self._settled():
            firsts = self._first(images, self._targets(truths))
            batches = [[first] for first in firsts] if self._apart else [firsts]
            pairs = [pair for batch in batches for pair in self._losses(batch)]
        return torch.stack([cls for cls, _ in pairs]), torch.stack([loc for _, loc in pairs])

    def _losses(self, firsts: Sequence[First]) -> list[tuple[Tensor, Tensor]]:
        """The expectation of torchvision's training losses over its random sampling, of each image; proposals are held
        fixed, and go through the second stage together."""
        proposals = [self._proposals(first) for first in firsts]
        outputs = [torch.split(each, [len(own) for own in proposals]) for each in self._second(firsts, proposals)]
        seconds = map(self._second_loss, firsts, proposals, *outputs)
        return [(a + c, b + d) for (a, b), (c, d) in zip(map(self._first_loss, firsts), seconds, strict=True)]

    def _proposals(self, first: First) -> Tensor:
        """The proposals ``[P, 4]`` that the second stage learns from: all, so that the loss is free of dice, or, where
        images go together, a sample of them as in training."""
        rpn, heads, target = self.module.rpn, self.module.roi_heads, first.target
        assert target is not None
        found, _ = rpn.filter_proposals(first.boxes[None], first.objectness, [first.size], first.levels)
        proposals: Tensor = heads.add_gt_proposals(found, [target["boxes"]])[0]
        if self._apart:
            return proposals
        _, labels = heads.assign_targets_to_proposals([proposals], [target["boxes"]], [target["labels"]])
        return proposals[heads.subsample(labels)[0]]

    def _first_loss(self, first: First) -> tuple[Tensor, Tensor]:
        """Losses of objectness and of the anchors' boxes."""
        rpn = self.module.rpn
        labels, matched = rpn.assign_targets_to_anchors([first.anchors], [first.target])
        weight = expected_shares(labels[0], rpn.fg_bg_sampler, self.dtype)
        wanted = rpn.box_coder.encode(matched, [first.anchors])[0]
        positive = torch.where(labels[0] >= 1)[0]
        objectness = F.binary_cross_entropy_with_logits(
            first.objectness, labels[0].clamp(min=0).to(first.objectness.dtype), reduction="none"
        )
        return (weight * objectness).sum(), _box_loss(first.deltas[positive], wanted[positive], weight[positive])

    def _second_loss(self, first: First, proposals: Tensor, logits: Tensor, deltas: Tensor) -> tuple[Tensor, Tensor]:
        """Losses of the classes and boxes of ``proposals`` ``[P, 4]``, whose outputs are ``logits`` and ``deltas``."""
        heads, target = self.module.roi_heads, first.target
        assert target is not None
        matches, labels = heads.assign_targets_to_proposals([proposals], [target["boxes"]], [target["labels"]])
        weight = expected_shares(labels[0], heads.fg_bg_sampler, self.dtype)
        each = F.cross_entropy(logits, labels[0].clamp(min=0), reduction="none")
        positive = torch.where(labels[0] >= 1)[0]
        if not len(positive):
            return (weight * each).sum(), deltas.new_zeros(())
        wanted = heads.box_coder.encode([target["boxes"][matches[0][positive]]], [proposals[positive]])[0]
        found = deltas.view(*logits.shape, 4)[positive, labels[0][positive]]
        return (weight * each).sum(), _box_loss(found, wanted, weight[positive])

    def _training_losses(self, images: list[Tensor], truths: Sequence[Truth]) -> dict[str, Tensor]:
        """torchvision's own; keypoints are never trained, masks only where every image brings them."""
        masks = all(truth.masks is not None for truth in truths)
        absent = ["keypoint_roi_pool"] if masks else ["keypoint_roi_pool", "mask_roi_pool"]
        heads = self.module.roi_heads
        before = {name: getattr(heads, name) for name in absent}
        try:
            for name in absent:
                setattr(heads, name, None)  # how torchvision is told that a head is not there
            return dict(self.module(images, self._targets(truths, masks=masks)))
        finally:
            for name, value in before.items():
                setattr(heads, name, value)


def expected_shares(labels: Tensor, sampler: Any, dtype: torch.dtype) -> Tensor:
    """The weight ``[K]`` of each row in the mean over a random sample of positives (>= 1) and negatives (0).

    torchvision's ``sampler`` takes P of the positives and N of the negatives at random and averages over P + N rows;
    each positive is in that sample with probability P / #positives. The expectation is this weighted sum, without dice.
    """
    positive, negative = labels >= 1, labels == 0
    total = sampler.batch_size_per_image
    positives = min(int(positive.sum()), int(total * sampler.positive_fraction))
    negatives = min(int(negative.sum()), total - positives)
    count = max(1, positives + negatives)
    weight = torch.zeros(labels.shape, dtype=dtype, device=labels.device)
    weight[positive] = positives / max(1, int(positive.sum())) / count
    weight[negative] = negatives / max(1, int(negative.sum())) / count
    return weight


def _box_loss(found: Tensor, wanted: Tensor, weight: Tensor) -> Tensor:
    each = F.smooth_l1_loss(found, wanted.to(found.dtype), beta=_SMOOTH_L1_BETA, reduction="none").sum(dim=1)
    return (weight * each).sum()
