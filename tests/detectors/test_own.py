"""Objects as detectors: the user's own, torch modules, functions; and what none of them is."""

import numpy as np
import pytest
import torch
from torch import nn

from misdetect import load_detector
from misdetect.nouns.detections import Detections
from misdetect.nouns.protocols import level
from misdetect.said.errors import BadSpec, LevelTooLow

IMAGE = np.full((8, 12, 3), 100, dtype=np.uint8)


def bright(images):
    return [([[0, 0, 4, 4]], [image.mean() / 255], [1]) for image in images]


class Module(nn.Module):
    """Follows torchvision's convention: one box whose score is the mean pixel."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))

    def forward(self, images):
        assert not self.training
        return [
            {"boxes": torch.tensor([[0.0, 0, 4, 4]]), "scores": self.weight * i.mean(), "labels": torch.tensor([1])}
            for i in images
        ]


@pytest.mark.parametrize("thing", [bright, Module()])
def test_a_function_and_a_module_become_detectors(thing):
    detector = load_detector(thing, names=["dark", "bright"])
    (found,) = detector.detect([IMAGE])
    found = Detections.of(found)
    np.testing.assert_allclose(found.boxes, [[0, 0, 4, 4]])
    np.testing.assert_allclose(found.scores, [100 / 255], rtol=1e-6)
    assert (found.labels.tolist(), detector.names) == ([1], ("dark", "bright"))


def test_a_module_is_left_as_it_was():
    module = Module().train()
    load_detector(module, names=["a", "b"]).detect([IMAGE])
    assert module.training


def test_names_may_be_the_things_own():
    bright.names = ["dark", "bright"]
    try:
        assert load_detector(bright).names == ("dark", "bright")
    finally:
        del bright.names
    with pytest.raises(BadSpec, match=r"bright does not say its classes: load_detector\(…, names="):
        load_detector(bright)


def test_a_model_of_torchvision_gets_its_familys_levels():
    from torchvision_toys import retinanet

    assert level(load_detector(retinanet(3), names=["a", "b", "c"])) == "Trainable"


@pytest.mark.parametrize(("thing", "says"), [(3, "Got int"), (None, "Got NoneType"), (Module, "the class Module")])
def test_anything_else_is_refused(thing, says):
    with pytest.raises(BadSpec, match=says):
        load_detector(thing)


def test_stored_predictions_are_no_detector(tmp_path):
    (tmp_path / "r.json").write_text("[]")
    with pytest.raises(LevelTooLow, match="score and verify take stored results"):
        load_detector(f"predictions:{tmp_path / 'r.json'}")
