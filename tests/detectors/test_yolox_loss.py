"""SimOTA against a naive version in plain loops, and the losses against their definitions and laws."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from misdetect.detectors.yolox.loss import Objects, SimOTA, assign, l1_of, losses_of, near_centre, paired_iou, simota
from misdetect.detectors.yolox.net import Raw, cells_of
from misdetect.nouns.boxes import iou as numpy_iou

torch.set_num_threads(1)
CELLS = cells_of(64, 64, (8, 16, 32), torch.device("cpu"))
K = len(CELLS.strides)


def assigned(boxes, scores, objects, rule):
    return assign(boxes, scores, near_centre(CELLS, objects, rule.radius), objects, rule)


def batch_losses(raw, objects, *, iou_targets):
    """Losses per image, and the L1 loss."""
    boxes = raw.boxes(CELLS)
    answers = simota(raw, boxes, CELLS, objects, SimOTA())
    found = losses_of(raw.classes, raw.objectness, boxes, answers, iou_targets=iou_targets)
    return found, l1_of(raw.offsets, CELLS, answers)


def naive_simota(boxes, scores, objects, rule):
    """The assignment as the paper tells it, one pair at a time: {cell: truth}."""
    centres = CELLS.centres.tolist()
    strides = CELLS.strides.tolist()
    truths = objects.boxes.tolist()
    near = []
    for x0, y0, x1, y1 in truths:
        cx, cy = (x0 + x1) / 2, (y0 + y1) / 2
        inside = {
            k
            for k in range(K)
            if abs(centres[k][0] - cx) < rule.radius * strides[k] and abs(centres[k][1] - cy) < rule.radius * strides[k]
        }
        near.append(inside)
    pool = sorted(set().union(*near))
    overlap = numpy_iou(objects.boxes.numpy(), boxes.numpy())
    choices = {}
    for g, label in enumerate(objects.labels.tolist()):
        best = sorted((overlap[g, k] for k in pool), reverse=True)[: rule.overlaps]
        count = max(int(sum(best)), 1)
        costs = []
        for k in sorted(near[g]):
            cost = -rule.iou_weight * math.log(overlap[g, k] + 1e-8)
            for c, score in enumerate(scores[k].tolist()):
                p = math.sqrt(score)
                cost -= math.log(p) if c == label else math.log(1 - p)
            costs.append((cost, k))
        for cost, k in sorted(costs)[:count]:
            choices.setdefault(k, []).append((cost, g))
    return {k: min(options)[1] for k, options in choices.items()}


def scene(seed, objects, classes=4):
    """Random predictions near random objects: float64, so that both versions order equal costs alike."""
    random = np.random.default_rng(seed)
    corner = random.uniform(0, 44, (objects, 2))
    truth = np.concatenate([corner, corner + random.uniform(4, 40, (objects, 2))], axis=1).clip(0, 64)
    target = truth[random.integers(0, objects, K)]
    predicted = target + random.normal(0, 4, (K, 4))
    predicted[:, 2:] = np.maximum(predicted[:, 2:], predicted[:, :2] + 1)
    scores = random.uniform(0.001, 0.999, (K, classes))
    return (
        torch.from_numpy(predicted),
        torch.from_numpy(scores),
        Objects(torch.from_numpy(truth), torch.from_numpy(random.integers(0, classes, objects))),
    )


@given(st.integers(0, 2**31), st.integers(1, 8), st.sampled_from([SimOTA(), SimOTA(2.5, 1.0, 5), SimOTA(0.6)]))
def test_simota_agrees_with_the_naive_version(seed, objects, rule):
    boxes, scores, truth = scene(seed, objects)
    found = assigned(boxes, scores, truth, rule)
    assert dict(zip(found.cell.tolist(), found.truth.tolist(), strict=True)) == naive_simota(boxes, scores, truth, rule)
    expected = numpy_iou(boxes.numpy(), truth.boxes.numpy())[found.cell, found.truth]
    np.testing.assert_allclose(found.iou, expected, atol=1e-9)


@given(st.integers(0, 2**31), st.integers(1, 6))
def test_simota_does_not_depend_on_the_order_of_the_objects(seed, objects):
    boxes, scores, truth = scene(seed, objects)
    order = torch.from_numpy(np.random.default_rng(seed).permutation(objects))
    one = assigned(boxes, scores, truth, SimOTA())
    other = assigned(boxes, scores, Objects(truth.boxes[order], truth.labels[order]), SimOTA())
    assert one.cell.tolist() == other.cell.tolist()
    assert one.truth.tolist() == order[other.truth].tolist()


def test_a_lone_object_has_at_least_one_cell_however_bad_the_predictions():
    truth = Objects(torch.tensor([[30.0, 30.0, 34.0, 34.0]]), torch.tensor([1]))
    found = assigned(torch.zeros(K, 4), torch.zeros(K, 3), truth, SimOTA())
    assert len(found.cell) == 1


def test_an_object_out_of_reach_of_every_cell_has_none():
    truth = Objects(torch.tensor([[500.0, 500.0, 520.0, 520.0]]), torch.tensor([0]))
    found = assigned(torch.rand(K, 4), torch.rand(K, 3), truth, SimOTA())
    assert found.cell.tolist() == []


@given(st.integers(0, 2**31))
def test_torch_iou_is_the_projects_iou(seed):
    random = np.random.default_rng(seed)
    a, b = random.uniform(0, 10, (2, 5, 4))
    a[0], b[0] = 0, 0
    pairs = paired_iou(torch.from_numpy(a)[:, None], torch.from_numpy(b)[None])
    ordered = np.all(a[:, 2:] >= a[:, :2], axis=1)[:, None] & np.all(b[:, 2:] >= b[:, :2], axis=1)[None]
    np.testing.assert_allclose(pairs.numpy()[ordered], numpy_iou(a, b)[ordered], atol=1e-9)


def raw_scene(seed, classes=3):
    random = torch.Generator().manual_seed(seed)
    return Raw(
        (torch.randn(2, K, 4, generator=random, dtype=torch.float64) * 0.3).requires_grad_(),
        torch.randn(2, K, generator=random, dtype=torch.float64).requires_grad_(),
        torch.randn(2, K, classes, generator=random, dtype=torch.float64).requires_grad_(),
    )


TWO = [
    Objects(torch.tensor([[8.0, 8.0, 30.0, 26.0], [40, 30, 60, 60]], dtype=torch.float64), torch.tensor([0, 2])),
    Objects(torch.zeros(0, 4, dtype=torch.float64), torch.zeros(0, dtype=torch.int64)),
]


@pytest.mark.parametrize("iou_targets", [False, True])
def test_losses_are_what_they_are_defined_to_be(iou_targets):
    raw = raw_scene(1)
    found, found_l1 = batch_losses(raw, TWO, iou_targets=iou_targets)
    boxes = raw.boxes(CELLS)[0]
    scores = raw.objectness[0].sigmoid()[:, None] * raw.classes[0].sigmoid()
    pairs = assigned(boxes.detach(), scores.detach(), TWO[0], SimOTA())
    classification = localisation = l1 = 0.0
    occupied = torch.zeros(K, dtype=torch.float64)
    for k, g, overlap in zip(pairs.cell.tolist(), pairs.truth.tolist(), pairs.iou.tolist(), strict=True):
        occupied[k] = 1
        target = torch.zeros(3, dtype=torch.float64)
        target[TWO[0].labels[g]] = overlap if iou_targets else 1
        classification += F.binary_cross_entropy(raw.classes[0, k].sigmoid(), target, reduction="sum").item()
        localisation += 5 * (1 - overlap**2)
        x0, y0, x1, y1 = TWO[0].boxes[g].tolist()
        (cx, cy), s = CELLS.corners[k].tolist(), CELLS.strides[k].item()
        perfect = ((x0 + x1) / 2 / s - cx, (y0 + y1) / 2 / s - cy, math.log((x1 - x0) / s), math.log((y1 - y0) / s))
        l1 += sum(abs(a - b) for a, b in zip(raw.offsets[0, k].tolist(), perfect, strict=True))
    assert found.cells.tolist() == [len(pairs.cell), 0]
    assert found.classification.tolist() == pytest.approx([classification, 0])
    assert found.localisation.tolist() == pytest.approx([localisation, 0])
    assert found_l1.tolist() == pytest.approx([l1, 0], rel=1e-6)
    whole = F.binary_cross_entropy(raw.objectness[0].sigmoid(), occupied, reduction="sum").item()
    assert found.objectness[0].item() == pytest.approx(whole)
    assert found.objectness[1].item() == pytest.approx(-torch.log(1 - raw.objectness[1].sigmoid()).sum().item())


def test_an_image_without_objects_still_has_a_gradient():
    raw = raw_scene(2)
    found, found_l1 = batch_losses(raw, [TWO[1], TWO[1]], iou_targets=True)
    sum(part.sum() for part in (*found, found_l1)).backward()
    assert raw.objectness.grad.abs().min() > 0
    assert not raw.offsets.grad.any()


def test_a_perfect_prediction_has_no_localisation_loss():
    truth = TWO[0]
    stride = CELLS.strides[:, None].double()
    nearest = truth.boxes[[0] * K]
    centre, size = (nearest[:, :2] + nearest[:, 2:]) / 2, nearest[:, 2:] - nearest[:, :2]
    offsets = torch.cat([centre / stride - CELLS.corners, (size / stride).log()], dim=1)[None]
    classes = torch.full((1, K, 3), -20.0, dtype=torch.float64)
    classes[..., 0] = 20
    raw = Raw(offsets, torch.zeros(1, K, dtype=torch.float64), classes)
    found, found_l1 = batch_losses(raw, [Objects(truth.boxes[:1], truth.labels[:1])], iou_targets=True)
    assert found.cells.item() == SimOTA().overlaps, "ten perfect overlaps ask for ten cells"
    assert found.localisation.item() == pytest.approx(0, abs=1e-6)
    assert found_l1.item() == pytest.approx(0, abs=1e-5)
    assert found.classification.item() == pytest.approx(0, abs=1e-5)
