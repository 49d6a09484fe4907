"""``torchvision:NAME,weights=…``: it loads what torchvision itself would load, and refuses what it cannot."""

import re
from pathlib import Path
from urllib.error import URLError

import numpy as np
import pytest
import torch
from torchvision_toys import pictures, truth

from misdetect.detectors.names import COCO
from misdetect.detectors.python import load_python
from misdetect.detectors.torchvision import ops as torchvision_ops
from misdetect.detectors.torchvision.detector import TorchvisionDetector
from misdetect.detectors.torchvision.load import BUILDERS, _renamed, load_torchvision
from misdetect.detectors.weights import write_weights
from misdetect.nouns.protocols import level
from misdetect.nouns.spec import Spec
from misdetect.said.errors import BadSpec, BadWeights

models = torchvision_ops.load().models
SMALL = "ssdlite320_mobilenet_v3_large"


def loaded(text: str) -> TorchvisionDetector:
    return load_torchvision(Spec.parse(text))


@pytest.fixture(scope="module")
def ssdlite() -> torch.nn.Module:
    torch.manual_seed(0)
    module = models.get_model(SMALL, weights=None, weights_backbone=None, num_classes=4)
    for part in module.modules():  # statistics as after some training, so that the norms do matter
        if isinstance(part, torch.nn.BatchNorm2d):
            part.running_mean.normal_(std=0.1)
            part.running_var.uniform_(0.5, 2)
        elif isinstance(part, torch.nn.Conv2d):
            torch.nn.init.kaiming_normal_(part.weight)
    return module.eval()


@pytest.fixture
def names_file(tmp_path: Path) -> Path:
    path = tmp_path / "names.txt"
    path.write_text("cup\nbook\nlamp\n")
    return path


@pytest.mark.sampled(1)
@pytest.mark.parametrize("suffix", [".pth", ".safetensors", "-checkpoint.pth"])
def test_a_state_dict_loads_as_torchvision_loads_it(
    ssdlite: torch.nn.Module, names_file: Path, tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"weights{suffix}"
    if suffix == ".safetensors":
        write_weights(ssdlite, path)
    else:
        state = ssdlite.state_dict()
        torch.save({"model": state, "epoch": 3} if "checkpoint" in suffix else state, path)
    image = pictures(1, 120, 160)[0]
    detector = loaded(f"torchvision:{SMALL},weights={path},names={names_file},score=0.3,max=7")
    assert detector.names == ("cup", "book", "lamp")
    found = detector.detect([image])[0]
    with torch.no_grad():
        own = ssdlite([torch.from_numpy(image.transpose(2, 0, 1)).float() / 255])[0]
    chosen = own["scores"] > 0.3
    assert len(found) == min(7, int(chosen.sum())) > 0
    assert np.allclose(found.boxes, own["boxes"][chosen][:7].numpy(), atol=1e-3)


def test_weights_saved_with_frozen_norms_stay_frozen(
    ssdlite: torch.nn.Module, names_file: Path, tmp_path: Path
) -> None:
    path = tmp_path / "frozen.pth"
    state = {k: v for k, v in ssdlite.state_dict().items() if not k.endswith("num_batches_tracked")}
    torch.save(state, path)
    detector = loaded(f"torchvision:{SMALL},weights={path},names={names_file}")
    image = pictures(1, 120, 160)[0]
    with torch.no_grad():
        own = ssdlite([torch.from_numpy(image.transpose(2, 0, 1)).float() / 255])[0]
    assert np.allclose(detector.detect([image])[0].scores, own["scores"].numpy(), atol=1e-5)
    detector.losses([image.astype(np.float32)], [truth()])
    after = detector.module.state_dict()
    assert all(torch.equal(after[k], v) for k, v in state.items() if "running" in k)


OLD = {
    r"rpn\.head\.conv\.0\.0\.": "rpn.head.conv.",
    r"(fpn\.(?:inner|layer)_blocks\.\d)\.0\.": r"\1.",
    r"(head\.\w+_head\.conv)\.(\d)\.0\.": lambda m: f"{m[1]}.{2 * int(m[2])}.",
    r"mask_head\.(\d)\.0\.": lambda m: f"mask_head.mask_fcn{int(m[1]) + 1}.",
}


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["maskrcnn_resnet50_fpn", "retinanet_resnet50_fpn"])
def test_the_names_of_published_files_mean_what_torchvision_says(name: str) -> None:
    """torchvision's own loader, which renames as it goes, is the oracle for ours."""
    module = models.get_model(name, weights=None, weights_backbone=None, num_classes=3)
    old = {}
    for key, value in module.state_dict().items():
        for pattern, former in OLD.items():
            key = re.sub(pattern, former, key)
        old[key] = value
    assert sum(key not in module.state_dict() for key in old) >= 16
    other = models.get_model(name, weights=None, weights_backbone=None, num_classes=3)
    other.load_state_dict(old)
    ours = _renamed(old, module)
    assert ours.keys() == other.state_dict().keys()
    assert all(torch.equal(ours[key], value) for key, value in other.state_dict().items())


def test_a_published_file_brings_its_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    module = models.get_model(SMALL, weights=None, weights_backbone=None, num_classes=91)
    folder = tmp_path / "hub" / "checkpoints"
    folder.mkdir(parents=True)
    torch.save(module.state_dict(), folder / "ssdlite320_mobilenet_v3_large_coco-a79551df.pth")
    detector = loaded(f"torchvision:{SMALL},weights=hub")
    assert len(detector.names) == 90
    assert detector.names[0] == "person"
    assert detector.names[89] == "toothbrush"
    assert set(COCO) < set(detector.names)
    assert len(set(detector.names)) == 90
    assert loaded(f"torchvision:{SMALL},weights={next(folder.iterdir())},names=coco").names == detector.names


def test_published_weights_without_a_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(*_: object, **__: object) -> None:
        raise URLError("no route to host")

    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    monkeypatch.setattr(torch.hub, "download_url_to_file", offline)
    with pytest.raises(
        BadWeights, match=r"needs https://.*a79551df\.pth, which cannot be fetched .*weights=ssdlite320"
    ):
        loaded(f"torchvision:{SMALL},weights=hub")


def test_bad_specs_are_refused_in_one_sentence(names_file: Path) -> None:
    for text, complaint in (
        ("torchvision:yolo9000,weights=hub", r"'yolo9000' is not a torchvision detector \(known: ssd300_vgg16"),
        (f"torchvision:{SMALL}", r"names no weights: add weights=FILE"),
        (f"torchvision:{SMALL},weights=random", r"do not name their classes: add names="),
        (f"torchvision:{SMALL},weights=random,names={names_file},classes=5", r"classes=5, but there are 3 names"),
        (f"torchvision:{SMALL},weights=random,classes=3,scor=.3", r"unknown option 'scor'"),
        (f"torchvision:{SMALL},weights=random,classes=3,rpn_max=3", r"unknown setting 'rpn_max'"),
        (f"torchvision:{SMALL},weights=random,classes=3,device=toaster", r"device=toaster is not one of"),
        (f"torchvision:{SMALL},weights=random,classes=3,batch=0", r"batch=0 should be at least 1"),
    ):
        with pytest.raises(BadSpec, match=complaint):
            loaded(text)


def test_weights_that_do_not_fit_are_refused_by_key(ssdlite: torch.nn.Module, names_file: Path, tmp_path: Path) -> None:
    path = tmp_path / "weights.pth"
    state = ssdlite.state_dict()
    torch.save(state, path)
    short = tmp_path / "short.txt"
    short.write_text("cup\nbook\n")
    with pytest.raises(BadSpec, match=r"the weights have 3 classes and a background, but there are 2 names"):
        loaded(f"torchvision:{SMALL},weights={path},names={short}")
    with pytest.raises(BadWeights, match=r"does not fit the model; .* missing: .*; .* unexpected: "):
        loaded(f"torchvision:fasterrcnn_mobilenet_v3_large_320_fpn,weights={path},names={names_file}")
    key = "head.regression_head.module_list.0.1.weight"
    torch.save({**state, key: state[key][:5]}, path)
    with pytest.raises(BadWeights, match=rf"1 of another shape: {re.escape(key)} is \[5, .*the model has \[24"):
        loaded(f"torchvision:{SMALL},weights={path},names={names_file}")
    with pytest.raises(BadWeights, match="there is no such file"):
        loaded(f"torchvision:{SMALL},weights={tmp_path / 'nowhere.pth'},names={names_file}")


def test_a_pickled_model_is_refused_and_not_run(ssdlite: torch.nn.Module, names_file: Path, tmp_path: Path) -> None:
    path = tmp_path / "whole-model.pth"
    torch.save(ssdlite, path)
    with pytest.raises(BadWeights, match=r"could run code, so it is refused; .* convert it once"):
        loaded(f"torchvision:{SMALL},weights={path},names={names_file}")


def check_law(name: str) -> None:
    """On a real architecture: the kept candidates are the detections, and every loss has a gradient."""
    size = "" if name.startswith("ssd") else ",min_size=96,max_size=128"
    text = f"torchvision:{name},weights=random,classes=3,score=0.005{size}"
    torch.manual_seed(0)
    detector = loaded(text)
    image = pictures(1, 96, 128)[0]
    detected, traced = detector.detect([image])[0], detector.trace([image])[0]
    selected = traced.select()
    assert len(detected) == len(selected) > 0
    assert np.abs(detected.boxes - selected.boxes).max() < 1e-3
    assert np.abs(detected.scores - selected.scores).max() < 1e-5
    assert np.array_equal(detected.labels, selected.labels)
    assert traced.scores.shape[1] == 3
    for loss in ("cls", "loc"):
        value, (slope,) = detector.gradient([image.astype(np.float32)], [truth()], loss)  # type: ignore[arg-type]
        assert np.isfinite(value[0])
        assert np.isfinite(slope).all()
        assert slope.any()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", [SMALL, "fasterrcnn_mobilenet_v3_large_320_fpn"])
def test_the_law_holds_on_small_builders(name: str) -> None:
    check_law(name)


@pytest.mark.heavy
@pytest.mark.parametrize("name", BUILDERS)
def test_the_law_holds_on_every_builder(name: str) -> None:
    check_law(name)


def test_the_example_of_an_own_model_reaches_every_level(tmp_path: Path) -> None:
    example = Path(__file__).parents[2] / "examples" / "own_torchvision.py"
    torch.manual_seed(0)
    detector = load_python(Spec.parse(f"python:{example}:load,score=0.011"))
    assert level(detector) == "Trainable"
    assert isinstance(detector, TorchvisionDetector)
    image = pictures(1)[0]
    traced = detector.trace([image])[0]
    assert np.array_equal(traced.select().labels, detector.detect([image])[0].labels)
    detector.save(tmp_path / "mine.safetensors")
    again = load_python(Spec.parse(f"python:{example}:load,score=0.011,weights={tmp_path / 'mine.safetensors'}"))
    assert isinstance(again, TorchvisionDetector)
    assert again.fingerprint == detector.fingerprint
