"""Adversarial pre-training of the zoo's backbone, on objects cut out of the training images.

Of what makes a detector withstand attacks, a backbone that was trained under attack before counts most (arXiv
2305.17438). Here a classifier of crops, the zoo's ``mcml`` (the backbone, pooled, and one linear layer), is trained
under attack, and its backbone takes the place of the detector's. The rest of the detector stays as it was, made for
another backbone: it has to be trained on.
"""

from dataclasses import replace
from pathlib import Path

from torch import nn

from misdetect.data.dataset import Dataset
from misdetect.detectors.classifier import ClassifierDetector
from misdetect.detectors.zoo.models import CLASSIFIER, backbone_of, build
from misdetect.nouns.protocols import Trainable, describe
from misdetect.said.errors import BadSpec
from misdetect.suites.harden.adversarial import Adversarial
from misdetect.suites.harden.crops import MOST, SIDE, object_crops
from misdetect.training.loop import Training, Watch
from misdetect.training.recipe import Recipe
from misdetect.training.zoo import cache_folder

RECIPE = Recipe(steps=3_000, batch=32, learning_rate=1e-3, warmup=100, widened=("head",))
CHANGE = Adversarial(how="pgd", eps=8.0, alpha=4.0, steps=2, clean=0.25)
SAVE_EVERY = 100
"""Steps between two checkpoints."""


def adversarial_backbone(
    detector: Trainable,
    data: Dataset,
    folder: Path,
    *,
    steps: int = RECIPE.steps,
    seed: int = 0,
    change: Adversarial = CHANGE,
    most: int = MOST,
    flip: bool = True,
    watch: Watch | None = None,
) -> None:
    """Pre-train the backbone of ``detector`` under the attack ``change`` on the objects of ``data``, and put it into
    ``detector``.

    ``folder`` is the run directory of the pre-training; the same call goes on where it was stopped, given the detector
    as it was before. ``steps`` are of 32 objects each; ``most`` objects are cut out, 64 × 64 pixels each; ``flip``
    mirrors them at random, which bicycles do not bear. Only weights and statistics of the backbone change. A detector
    that has another backbone than the zoo's is refused with a ``BadSpec``.
    """
    own = pretrainable(detector)
    classifier = _classifier(detector, seed)
    learnt = backbone_of(classifier)
    assert learnt is not None
    classifier.module.to(next(own.parameters()).device)
    learnt.load_state_dict(own.state_dict())
    crops = object_crops(data, detector.names, cache_folder(), most=most, flip=flip)
    training = Training(classifier, crops, replace(RECIPE, steps=steps, seed=seed), folder, change=change)
    training.run(watch=watch, save_every=SAVE_EVERY)
    own.load_state_dict(learnt.state_dict())


def pretrainable(detector: object) -> nn.Module:
    """The backbone of ``detector``, if it is one that can be pre-trained; a ``BadSpec`` says that it is not."""
    found = backbone_of(detector)
    if found is None:
        raise BadSpec(
            f"{describe(detector)} does not have the backbone that is pre-trained, that of the zoo: take a detector of "
            "the zoo (any but yolox-bikes), or leave its backbone as it is."
        )
    return found


def _classifier(detector: Trainable, seed: int) -> ClassifierDetector:
    """An untrained classifier of crops into the classes of ``detector``."""
    module = build(CLASSIFIER, detector.names, seed=seed).module
    spec = f"{CLASSIFIER} of objects, for {describe(detector)}"
    return ClassifierDetector(module, detector.names, size=SIDE, spec=spec, batch_size=RECIPE.batch)
