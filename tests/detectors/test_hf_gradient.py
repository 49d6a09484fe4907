"""Losses of the DETR family: gradients against finite differences, images kept apart, training loss conserved."""

import numpy as np
import pytest
import torch
from hf_models import KINDS, build, images, truth
from torch import nn

from misdetect.detectors.hf.detector import thaw, wrap
from misdetect.nouns.detections import Truth
from misdetect.said.errors import BadArray

torch.set_num_threads(1)


def floats(count, seed=0):
    return [image.astype(np.float32) for image in images(count, seed=seed)]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("loss", ["cls", "loc", "all"])
@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_slopes(kind, loss):
    module = build(kind)
    double = kind != "dab"  # DAB-DETR cannot be run in double precision
    detector = wrap(module.double() if double else module, size="native")
    (image,), truths = floats(1), [truth()]
    _, (gradient,) = detector.gradient([image], truths, loss)
    rng = np.random.default_rng(7)
    for direction in (np.sign(gradient) * rng.random(gradient.shape), rng.standard_normal(gradient.shape)):
        step = np.float32(1e-3 if double else 0.02)
        ahead = image + step * direction.astype(np.float32)
        behind = image - step * direction.astype(np.float32)
        (above, below), _ = detector.gradient([ahead, behind], truths * 2, loss)
        slope = (gradient * ((ahead.astype(np.float64) - behind) / (2 * step))).sum()
        scale = np.abs(gradient).sum()
        assert scale > 1e-3
        assert abs((above - below) / (2 * step) - slope) < (2e-3 if double else 3e-2) * scale


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", ["detr", "deformable-two-stage", "rt-detr", "d-fine"])
def test_a_gradient_is_the_same_alone_and_in_company(kind):
    """In particular for batches of one, where torch's batch norm on CPU gives wrong gradients if left to itself."""
    module = build(kind).double()
    pictures, truths = floats(3), [truth(0), truth(1, objects=1), Truth.empty()]
    alone, slopes_alone = wrap(module, size="native").gradient(pictures, truths, "all")
    company, slopes_company = wrap(module, size="native", batch_size=3).gradient(pictures, truths, "all")
    np.testing.assert_allclose(alone, company, rtol=1e-8)
    for one, other in zip(slopes_alone, slopes_company, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-8 * np.abs(one).max() + 1e-12)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", KINDS)
def test_all_is_the_sum_and_an_image_without_objects_has_no_localisation_loss(kind):
    detector = wrap(build(kind), size="native")
    pictures, truths = floats(2), [truth(), Truth.empty()]
    values = {loss: detector.gradient(pictures, truths, loss) for loss in ("cls", "loc", "all")}
    np.testing.assert_allclose(values["cls"][0] + values["loc"][0], values["all"][0], rtol=1e-6)
    assert (values["cls"][0] > 0).all()
    assert values["loc"][0][0] > 0
    assert values["loc"][0][1] == 0
    assert not values["loc"][1][1].any()
    assert values["cls"][1][1].any()


def test_a_perfect_answer_has_no_localisation_loss():
    detector = wrap(build("deformable"), size="native")
    (image,) = images(1)
    detector.module.config.class_cost = 0  # so that each object is matched by its box alone
    refined = detector.trace([image])[0].refined[:2].astype(np.float64)
    values, _ = detector.gradient([image.astype(np.float32)], [Truth(refined, [0, 1])], "loc")
    assert values[0] < 1e-4


def test_crowds_and_boxes_without_area_are_no_objects():
    detector = wrap(build("detr"), size="native")
    plain = truth()
    more = Truth(
        np.concatenate([plain.boxes, [[0, 0, 90, 90], [5, 5, 5, 9]]]),
        np.concatenate([plain.labels, [1, 2]]),
        crowd=np.array([False] * 3 + [True, False]),
    )
    image = floats(1)
    a, _ = detector.gradient(image, [plain], "all")
    b, _ = detector.gradient(image, [more], "all")
    np.testing.assert_allclose(a, b, rtol=1e-6)


def test_a_label_the_detector_does_not_have_is_refused():
    detector = wrap(build("detr"), size="native")
    with pytest.raises(BadArray, match="index the 5 names"):
        detector.gradient(floats(1), [Truth([[0, 0, 9, 9]], [5])], "cls")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", KINDS)
def test_training_losses_add_up_to_the_modules_own_training_loss(kind):
    module = build(kind)
    module.config.auxiliary_loss = True
    detector = wrap(module, size="native")
    pictures, truths = floats(2), [truth(0), truth(1)]
    modes = [part.training for part in module.modules()]
    torch.manual_seed(3)
    terms = detector.losses(pictures, truths)
    assert [part.training for part in module.modules()] == modes

    pixels = detector.prepare(torch.stack([torch.from_numpy(p).permute(2, 0, 1) / 255 for p in pictures]))
    labels = []
    for each in truths:
        size = each.boxes[:, 2:] - each.boxes[:, :2]
        boxes = np.concatenate([each.boxes[:, :2] + size / 2, size], axis=1) / [128, 96, 128, 96]
        labels.append({"class_labels": torch.tensor(each.labels), "boxes": torch.tensor(boxes, dtype=torch.float32)})
    module.train()
    torch.manual_seed(3)
    expected = module(pixel_values=pixels, labels=labels).loss
    torch.testing.assert_close(sum(terms.values()), expected)
    assert any(name.startswith(("loss_ce", "loss_vfl")) for name in terms)
    assert any(name.endswith(("_0", "_aux_0")) for name in terms)
    sum(terms.values()).backward()
    assert sum(p.grad is not None for p in detector.parameters()) > 20


def test_images_of_different_sizes_train_together_behind_a_mask():
    detector = wrap(build("deformable"), size="native")
    small, large = images(1, 64, 80)[0].astype(np.float32), floats(1)[0]
    given = {}
    handle = detector.module.register_forward_pre_hook(lambda _, __, options: given.update(options), with_kwargs=True)
    terms = detector.losses([small, large], [Truth([[8, 16, 40, 48]], [1]), truth(0)])
    handle.remove()
    assert all(torch.isfinite(value) for value in terms.values())
    mask, pixels = given["pixel_mask"].bool(), given["pixel_values"]
    assert mask[1].all()
    assert mask[0, :64, :80].all()
    assert mask[0].sum() == 64 * 80
    assert not pixels[0][:, ~mask[0]].any()
    expected = detector.prepare(torch.from_numpy(small).permute(2, 0, 1)[None] / 255)[0]
    torch.testing.assert_close(pixels[0, :, :64, :80], expected)
    # boxes are relative to the image itself, as are the model's position encodings under a mask
    torch.testing.assert_close(given["labels"][0]["boxes"], torch.tensor([[24 / 80, 32 / 64, 32 / 80, 32 / 64]]))


@pytest.mark.parametrize("kind", ["detr", "deformable", "rt-detr"])
def test_thawing_makes_the_backbone_trainable_and_changes_no_output(kind):
    module = build(kind)
    pixels = torch.rand(1, 3, 96, 128)
    with torch.no_grad():
        before = module(pixel_values=pixels).logits
        after = thaw(module)(pixel_values=pixels).logits
    torch.testing.assert_close(before, after, atol=1e-4, rtol=1e-4)
    assert not any(type(part).__name__.endswith("FrozenBatchNorm2d") for part in module.modules())
    assert any(isinstance(part, nn.BatchNorm2d) for part in module.model.backbone.modules())
    assert all(parameter.requires_grad for parameter in module.model.backbone.parameters())
