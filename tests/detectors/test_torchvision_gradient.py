"""Eval-mode losses and pixel gradients of every torchvision family; a user's module is left as it was found."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torchvision_toys import FAMILIES, NAMES, pictures, toy, truth

from misdetect.detectors.torchvision.detector import TorchvisionDetector
from misdetect.detectors.torchvision.load import wrap
from misdetect.nouns.detections import Truth
from misdetect.nouns.masks import Masks
from misdetect.nouns.protocols import Trainable, level
from misdetect.said.errors import BadArray

LOSSES = ("cls", "loc", "all")


def photos(count: int, seed: int = 0) -> list[np.ndarray]:
    return [image.astype(np.float32) for image in pictures(count, seed=seed)]


def with_fixed_proposals(detector: TorchvisionDetector) -> TorchvisionDetector:
    """torchvision does not differentiate through the proposals' positions, so neither may the finite difference."""
    rpn = detector.module.rpn
    own, memory = rpn.filter_proposals, []

    def fixed(*args: Any) -> Any:
        memory[:] = memory or [own(*args)]
        return memory[0]

    rpn.filter_proposals = fixed
    return detector


@pytest.mark.sampled(3)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("loss", LOSSES)
def test_gradient_agrees_with_finite_differences(family: str, loss: Any) -> None:
    detector = wrap(toy(family).double(), NAMES)
    if "rcnn" in family:
        with_fixed_proposals(detector)
    rng = np.random.default_rng(1)
    # noise breaks ties: equal patches have equal losses, and the hardest negatives of SSD are then no smooth function
    image, target = photos(1)[0].astype(np.float64) + rng.uniform(0, 20, (80, 100, 3)), truth(2)
    _, (slope,) = detector.gradient([image], [target], loss)
    assert np.abs(slope).max() > 0
    for _ in range(3):
        direction = rng.normal(size=image.shape)
        step = 1e-6  # small enough not to cross a kink of a ReLU
        ahead, behind = (detector.gradient([image + s * direction], [target], loss)[0][0] for s in (step, -step))
        assert (ahead - behind) / (2 * step) == pytest.approx((slope * direction).sum(), rel=2e-4, abs=1e-9)


@pytest.mark.parametrize("family", FAMILIES)
def test_all_is_the_sum_of_both(family: str) -> None:
    detector = wrap(toy(family), NAMES)
    images, truths = photos(2), [truth(0), truth(1)]
    values, slopes = zip(*(detector.gradient(images, truths, loss) for loss in LOSSES), strict=True)
    assert np.allclose(values[0] + values[1], values[2], rtol=1e-5)
    for cls, loc, both in zip(*slopes, strict=True):
        assert cls.dtype == np.float32
        assert cls.shape == (80, 100, 3)
        assert np.allclose(cls + loc, both, atol=1e-5 * np.abs(both).max())


@pytest.mark.sampled(4)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("batch_size", [1, 3])
def test_an_image_is_normalised_by_itself(family: str, batch_size: int) -> None:
    """Neither companions nor their objects change an image's loss or gradient, but for what some CPUs round."""
    detector = wrap(toy(family), NAMES, batch_size=batch_size)
    a, b, c, d = photos(4)
    value, (slope,) = detector.gradient([a], [truth(0)], "all")
    for images, truths in (
        ([a, b, c], [truth(0), truth(1, count=9), Truth.empty()]),
        ([d, c, b, a], [truth(4), truth(5), truth(6), truth(0)]),
    ):
        place = next(i for i, image in enumerate(images) if image is a)
        values, slopes = detector.gradient(images, truths, "all")
        assert values[place] == pytest.approx(value[0], rel=1e-5)
        np.testing.assert_allclose(slopes[place], slope, rtol=1e-3, atol=1e-5 * float(np.abs(slope).max()))


@pytest.mark.parametrize("family", FAMILIES)
def test_together_gives_what_each_gives_alone(family: str) -> None:
    """Where all fit into the sample that training takes; a smaller one is drawn again by the same seed."""
    detector = wrap(toy(family), NAMES, batch_size=1)
    images, truths = photos(3), [truth(0), truth(1), truth(2)]
    if "rcnn" in family:
        sampler = detector.module.roi_heads.fg_bg_sampler
        sampler.batch_size_per_image = 10_000
        sampler.positive_fraction = 0.5
    values, slopes = detector.gradient(images, truths, "all")
    with detector.together(3):
        assert detector.batch_size == 3
        found, along = detector.gradient(images, truths, "all")
        assert np.allclose(found, values, rtol=1e-4)
        for a, b in zip(along, slopes, strict=True):
            assert np.allclose(a, b, atol=1e-4 * np.abs(b).max())
        if "rcnn" in family:
            sampler.batch_size_per_image = 4
            drawn = [torch.manual_seed(seed) and detector.gradient(images, truths, "all")[0] for seed in (0, 0, 1)]
            assert np.allclose(drawn[0], drawn[1], rtol=1e-6)
            assert not np.allclose(drawn[0], drawn[2], rtol=1e-6)
    assert detector.batch_size == 1
    assert np.allclose(detector.gradient(images, truths, "all")[0], values, rtol=1e-4) or "rcnn" in family


@pytest.mark.parametrize("family", FAMILIES)
def test_eval_mode_has_no_dice_and_no_drift(family: str) -> None:
    """Dropout, batch norm and the samplers of training are held still: pytorch/vision#1574."""
    module = toy(family)
    images, truths = photos(2), [truth(0), truth(1)]
    detector = wrap(module, NAMES)
    torch.manual_seed(1)
    first = detector.gradient(images, truths, "all")
    torch.manual_seed(2)
    again = detector.gradient(images, truths, "all")
    assert np.array_equal(first[0], again[0])
    assert all(np.array_equal(a, b) for a, b in zip(first[1], again[1], strict=True))


@pytest.mark.parametrize("family", FAMILIES)
def test_one_step_up_the_gradient_raises_the_loss(family: str) -> None:
    detector = wrap(toy(family), NAMES)
    image, target = photos(1)[0], truth(0)
    for loss in LOSSES:
        value, (slope,) = detector.gradient([image], [target], loss)
        attacked = np.clip(image + 0.5 * np.sign(slope), 0, 255)
        assert detector.gradient([attacked], [target], loss)[0][0] > value[0]


@pytest.mark.parametrize("family", FAMILIES)
def test_an_image_without_objects_has_no_localisation_loss(family: str) -> None:
    detector = wrap(toy(family), NAMES)
    crowd = Truth([[5, 5, 60, 60]], [0], crowd=[True])
    line = Truth([[5, 5, 60, 5]], [0])  # a box without area is no object either
    for empty in (Truth.empty(), crowd, line):
        value, (slope,) = detector.gradient(photos(1), [empty], "loc")
        assert value[0] == 0
        assert not slope.any()
        value, (slope,) = detector.gradient(photos(1), [empty], "cls")
        assert value[0] > 0
        assert slope.any()


@pytest.mark.parametrize("family", ["ssd", "retinanet", "fcos"])
def test_one_stage_losses_are_the_modules_own_for_a_batch_of_one(family: str) -> None:
    module = toy(family)
    image, target = photos(1)[0], truth(3)
    for part in module.modules():  # the training branch, with nothing random left in it
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.0
    detector = wrap(module, NAMES)
    cls, loc = (detector.gradient([image], [target], loss)[0][0] for loss in ("cls", "loc"))
    module.train()
    for part in module.modules():
        if isinstance(part, torch.nn.BatchNorm2d):
            part.eval()
    first_label = 0 if family in ("retinanet", "fcos") else 1
    tensor = torch.from_numpy(image.transpose(2, 0, 1)) / 255
    wanted = {"boxes": torch.tensor(target.boxes).float(), "labels": torch.tensor(target.labels) + first_label}
    own = {name: value.item() for name, value in module([tensor], [wanted]).items()}
    assert cls == pytest.approx(own.pop("classification"), rel=1e-5)
    assert loc == pytest.approx(sum(own.values()), rel=1e-5)


@pytest.mark.heavy
def test_two_stage_losses_are_the_expectation_of_the_sampled_ones() -> None:
    """The mean of torchvision's own randomly sampled losses over many draws comes to the value without dice."""
    from torchvision.models.detection.roi_heads import fastrcnn_loss

    module = toy("faster-rcnn").eval()
    detector = wrap(module, NAMES)
    image, target = photos(1)[0], truth(3, count=5)
    rpn, heads = module.rpn, module.roi_heads
    rpn.fg_bg_sampler.batch_size_per_image = heads.fg_bg_sampler.batch_size_per_image = 16  # fewer than there are
    cls, loc = (detector.gradient([image], [target], loss)[0][0] for loss in ("cls", "loc"))
    wanted = [{"boxes": torch.tensor(target.boxes).float(), "labels": torch.tensor(target.labels) + 1}]
    torch.manual_seed(0)
    draws = []
    with torch.no_grad():
        batch, wanted = module.transform([torch.from_numpy(image.transpose(2, 0, 1)) / 255], wanted)
        features = module.backbone(batch.tensors)
        proposals, _ = rpn(batch, features)
        objectness, deltas = rpn.head(list(features.values()))
        from torchvision.models.detection.rpn import concat_box_prediction_layers

        objectness, deltas = concat_box_prediction_layers(objectness, deltas)
        anchors = rpn.anchor_generator(batch, list(features.values()))
        labels, matched = rpn.assign_targets_to_anchors(anchors, wanted)
        encoded = rpn.box_coder.encode(matched, anchors)
        for _ in range(600):
            rpn_cls, rpn_loc = rpn.compute_loss(objectness, deltas, labels, encoded)
            sampled, _, classes, regression = heads.select_training_samples([proposals[0].clone()], wanted)
            pooled = heads.box_head(heads.box_roi_pool(features, sampled, batch.image_sizes))
            head_cls, head_loc = fastrcnn_loss(*heads.box_predictor(pooled), classes, regression)
            draws.append([(rpn_cls + head_cls).item(), (rpn_loc + head_loc).item()])
    mean, error = np.mean(draws, axis=0), np.std(draws, axis=0) / len(draws) ** 0.5
    assert (np.std(draws, axis=0) > 1e-3).all()  # the samplers did throw dice
    assert abs(mean[0] - cls) < 4 * error[0]
    assert abs(mean[1] - loc) < 4 * error[1]


def snapshot(module: torch.nn.Module) -> dict[str, Any]:
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return {
        "modes": [part.training for part in module.modules()],
        "requires_grad": [p.requires_grad for p in module.parameters()],
        "grads": [None if p.grad is None else p.grad.clone() for p in module.parameters()],
        "hooks": [len(getattr(part, kind)) for part in module.modules() for kind in hooks],
        "state": {name: value.clone() for name, value in module.state_dict().items()},
        "children": [name for name, _ in module.named_modules()],
        "attributes": [
            {k: v for k, v in vars(part).items() if isinstance(v, (int, float, str, dict)) and not k.startswith("_mod")}
            for part in (module, getattr(module, "rpn", None), getattr(module, "roi_heads", None))
            if part is not None
        ],
    }


def same(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return bool(a == b)


def peculiar(family: str) -> torch.nn.Module:
    """A module in a state nobody would expect: modes, gradients and hooks all mixed."""
    module = toy(family)
    module.backbone.stem.eval()
    module.backbone.stem[0].weight.requires_grad_(False)
    module.backbone.down[1].weight.grad = torch.full_like(module.backbone.down[1].weight, 0.25)
    module.backbone.register_forward_hook(lambda *_: None)
    return module


@pytest.mark.sampled(3)
@pytest.mark.parametrize("family", FAMILIES)
def test_the_module_is_left_as_it_was_found(family: str) -> None:
    module = peculiar(family)
    before = snapshot(module)
    detector = wrap(module, NAMES, score=0.4, max=5)
    detector.detect(pictures(2))
    detector.trace(pictures(2))
    for loss in LOSSES:
        detector.gradient(photos(2), [truth(0), Truth.empty()], loss)
    assert same(before, snapshot(module))


@pytest.mark.parametrize("family", FAMILIES)
def test_the_module_is_left_as_it_was_found_after_an_error(family: str) -> None:
    module = peculiar(family)
    detector = wrap(module, NAMES, score=0.4, max=5)
    part = module.roi_heads.box_head if "rcnn" in family else module.head
    handle = part.register_forward_pre_hook(lambda *_: (_ for _ in ()).throw(RuntimeError("broken layer")))
    before = snapshot(module)
    for call in (
        lambda: detector.detect(pictures(1)),
        lambda: detector.trace(pictures(1)),
        lambda: detector.gradient(photos(1), [truth(0)], "all"),
        lambda: detector.losses(photos(1), [truth(0)]),
    ):
        with pytest.raises(RuntimeError, match="broken layer"):
            call()
        after = snapshot(module)
        for key in set(before) - {"state"}:  # training does move the running means of batch norms
            assert same(before[key], after[key]), key
    handle.remove()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_few_training_steps_lower_the_training_loss(family: str) -> None:
    module = toy(family)
    detector = wrap(module, NAMES)
    assert isinstance(detector, Trainable)
    assert level(detector) == "Trainable"
    modes = [part.training for part in module.eval().modules()]
    images, truths = photos(2), [truth(0), truth(1)]
    optimiser = torch.optim.Adam(detector.parameters(), lr=2e-3)
    torch.manual_seed(0)
    history = []
    for _ in range(25):
        total = sum(detector.losses(images, truths).values())
        optimiser.zero_grad()
        total.backward()
        optimiser.step()
        history.append(total.item())
    assert np.mean(history[-5:]) < 0.8 * np.mean(history[:5])
    assert [part.training for part in module.modules()] == modes


@pytest.mark.sampled(3)
@pytest.mark.parametrize("family", FAMILIES)
def test_training_losses_of_tensors_reach_their_pixels(family: str) -> None:
    """They are those of arrays, and their slopes agree with finite differences."""
    detector = wrap(toy(family).double(), NAMES)
    if "rcnn" in family:
        with_fixed_proposals(detector)
    rng = np.random.default_rng(1)
    arrays = [image.astype(np.float64) + rng.uniform(0, 20, image.shape) for image in photos(2)]
    truths = [truth(2), truth(1)]

    def total(images: Any) -> torch.Tensor:
        torch.manual_seed(0)  # dropout and samplers
        losses = detector.losses(images, truths)
        losses.pop("loss_objectness", None)  # single precision, in torchvision: too coarse for differences
        return sum(losses.values())

    leaves = [torch.tensor(array, requires_grad=True) for array in arrays]
    found = total(leaves)
    assert found.item() == pytest.approx(total(arrays).item(), rel=1e-9)
    found.backward()
    for i, leaf in enumerate(leaves):
        direction, step = rng.normal(size=arrays[i].shape), 1e-6
        ends = [[*arrays[:i], arrays[i] + s * direction, *arrays[i + 1 :]] for s in (step, -step)]
        ahead, behind = (total(images).item() for images in ends)
        assert (ahead - behind) / (2 * step) == pytest.approx((leaf.grad.numpy() * direction).sum(), rel=2e-4, abs=1e-9)
    with pytest.raises(BadArray, match=r"shape \[H, W, 3\] in 0\.\.255\. Got \[3, 80, 100\]"):
        detector.losses([leaf.permute(2, 0, 1) for leaf in leaves], truths)


def test_masks_are_trained_where_the_truth_has_them() -> None:
    detector = wrap(toy("mask-rcnn"), NAMES)
    plain = truth(0)
    masks = np.zeros((len(plain), 80, 100), dtype=bool)
    for mask, (x0, y0, x1, y1) in zip(masks, plain.boxes.astype(int), strict=True):
        mask[y0:y1, x0:x1] = True
    masked = Truth(plain.boxes, plain.labels, masks=Masks.from_array(masks))
    assert "loss_mask" not in detector.losses(photos(1), [plain])
    assert detector.losses(photos(1), [masked])["loss_mask"].item() > 0
    assert detector.module.roi_heads.has_mask()


def test_saving_and_loading_gives_the_same_detector(tmp_path: Path) -> None:
    for family in FAMILIES:
        one, other = wrap(toy(family, seed=1), NAMES), wrap(toy(family, seed=2), NAMES)
        assert one.fingerprint != other.fingerprint
        one.save(tmp_path / "w.safetensors")
        other.load(tmp_path / "w.safetensors")
        assert one.fingerprint == other.fingerprint
        assert one.detect(pictures(1)) == other.detect(pictures(1))


def test_truth_that_does_not_fit_is_refused() -> None:
    detector = wrap(toy("ssd"), NAMES)
    with pytest.raises(BadArray, match="one truth per image"):
        detector.gradient(photos(2), [truth(0)], "all")
    with pytest.raises(BadArray, match=r"index the 3 names .* Got 7 to 7; join the data's names"):
        detector.gradient(photos(1), [Truth([[1, 1, 5, 5]], [7])], "all")
    with pytest.raises(BadArray, match=r"shape \[H, W, 3\]"):
        detector.gradient([np.zeros((8, 8), np.float32)], [Truth.empty()], "all")
    with pytest.raises(BadArray, match="'cls', 'loc' or 'all'"):
        detector.gradient(photos(1), [truth(0)], "objectness")  # type: ignore[arg-type]


def test_a_copy_gives_the_same_answers() -> None:
    detector = wrap(toy("retinanet"), NAMES)
    twin = copy.deepcopy(detector)
    assert twin.detect(pictures(1)) == detector.detect(pictures(1))
