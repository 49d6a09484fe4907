"""Adversarial pre-training of the zoo's backbone: it reaches the detector, and nothing else of the detector changes."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from attack_toys import Tiles

from misdetect.data import load_data
from misdetect.detectors.zoo.models import backbone_of, build
from misdetect.said.errors import BadSpec, RunMismatch
from misdetect.suites.harden import backbone
from misdetect.suites.harden.adversarial import Adversarial
from misdetect.suites.harden.backbone import adversarial_backbone
from misdetect.training.checkpoint import read_tensors, under
from misdetect.training.loop import CHECKPOINT

torch.set_num_threads(1)
DATA = load_data("rooms:val,count=3")
FEW = {"steps": 4, "most": 8}


@pytest.fixture(autouse=True)
def small(tmp_path, monkeypatch):
    """Batches of four, saved at every step, crops cut for this test alone."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(backbone, "RECIPE", replace(backbone.RECIPE, batch=4, log_every=1, warmup=2))
    monkeypatch.setattr(backbone, "SAVE_EVERY", 1)


def detector(family="ssd", seed=5):
    return build(family, DATA.names, seed=seed, spec=f"zoo:{family}")


def state(module):
    return {name: value.detach().clone() for name, value in module.state_dict().items()}


def differing(one, other):
    assert one.keys() == other.keys()
    return {name for name in one if not torch.equal(one[name], other[name])}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("family", ["ssd", "retinanet", "yolox", "deformable-detr"])
def test_the_classifiers_backbone_and_nothing_else_reaches_the_detector(family, tmp_path):
    pretrained = detector(family)
    before = state(pretrained.module)
    adversarial_backbone(pretrained, DATA, tmp_path / "run", **FEW)
    own = state(backbone_of(pretrained))
    learnt = under(read_tensors(tmp_path / "run" / CHECKPOINT), "average.body.net.")
    assert not differing(own, learnt)
    changed = differing(before, state(pretrained.module))
    prefix = {"yolox": "backbone.backbone.", "deformable-detr": "model.backbone.model.net.backbone."}
    parts = {name.removeprefix(prefix.get(family, "backbone.body.net.")) for name in changed}
    assert parts == own.keys()


@pytest.mark.heavy
def test_it_starts_from_the_backbone_of_the_detector(tmp_path):
    """Four steps do not lead far from where it was, and not to where another is."""
    pretrained = detector()
    before, other = state(backbone_of(pretrained)), state(backbone_of(detector(seed=6)))
    adversarial_backbone(pretrained, DATA, tmp_path / "run", **FEW)
    after = state(backbone_of(pretrained))
    kernels = [name for name, value in after.items() if value.ndim > 1]
    own, far = (max(float((after[k] - known[k]).abs().mean()) for k in kernels) for known in (before, other))
    assert 0 < 10 * own < far


@pytest.mark.heavy
def test_stopped_and_resumed_it_ends_the_same(tmp_path):
    whole, resumed = detector(), detector()
    adversarial_backbone(whole, DATA, tmp_path / "whole", **FEW)

    def stop(step, total, numbers):
        if step == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        adversarial_backbone(resumed, DATA, tmp_path / "parts", watch=stop, **FEW)
    assert not differing(state(resumed.module), state(detector().module))  # as it was, until there is something better
    steps = []
    adversarial_backbone(resumed, DATA, tmp_path / "parts", watch=lambda step, *_: steps.append(step), **FEW)
    assert steps == [3, 4]
    assert not differing(state(whole.module), state(resumed.module))


def test_another_attack_is_another_training(tmp_path):
    adversarial_backbone(detector(), DATA, tmp_path / "run", **FEW)
    with pytest.raises(RunMismatch):
        adversarial_backbone(detector(), DATA, tmp_path / "run", change=replace(backbone.CHANGE, eps=4.0), **FEW)


def test_the_attack_raises_the_loss_of_the_classifier():
    classifier = backbone._classifier(detector(), seed=0)
    image = np.random.default_rng(0).uniform(0, 255, (6, 64, 64, 3)).astype(np.float32)
    whole = [replace(DATA[0].truth[:1], boxes=np.array([[0.0, 0, 64, 64]]), masks=None)] * len(image)
    torch.manual_seed(0)
    found, _ = Adversarial(clean=0.0, half=False)(classifier, list(image), whole, 0)
    before, after = (classifier.gradient(list(each), whole, "all")[0] for each in (image, found))
    assert (after > before).all()
    assert max(np.abs(a - b).max() for a, b in zip(found, image, strict=True)) <= 8.001


@pytest.mark.parametrize("made", [Tiles, lambda: build("yolox", DATA.names, data="bikes", spec="zoo:yolox-bikes")])
def test_another_backbone_than_the_zoos_is_refused(made, tmp_path):
    with pytest.raises(BadSpec, match="does not have the backbone that is pre-trained, that of the zoo"):
        adversarial_backbone(made(), DATA, tmp_path / "run", **FEW)
    assert not (tmp_path / "run").exists()
