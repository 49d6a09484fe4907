"""The zoo: what is shipped is what the manifest says, keeps the law of selection, and scores what it claims."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from misdetect.cli import app  # noqa: E402
from misdetect.data import load_data  # noqa: E402
from misdetect.detectors import load_detector  # noqa: E402
from misdetect.detectors.zoo import shipped as the_zoo  # noqa: E402
from misdetect.detectors.zoo.models import FAMILIES, Backbone, Darknet, build, start_from  # noqa: E402
from misdetect.detectors.zoo.shipped import ZOO, checked_weights, manifest  # noqa: E402
from misdetect.engine.store import Run  # noqa: E402
from misdetect.nouns.protocols import level  # noqa: E402
from misdetect.said.errors import BadSpec, BadWeights, RunMismatch  # noqa: E402
from misdetect.suites.harden.zoo import change_of  # noqa: E402
from misdetect.training.images import training_images  # noqa: E402
from misdetect.training.measure import measure  # noqa: E402
from misdetect.training.recipe import Recipe  # noqa: E402
from misdetect.training.zoo import Trained, install, read_trained, recipe_of, train_zoo, write_half  # noqa: E402

torch.set_num_threads(1)
SHIPPED = sorted(manifest())
NAMES = tuple(f"class {i}" for i in range(22))  # as many as bikes have parts


@pytest.fixture(scope="module")
def pictures() -> list[np.ndarray]:
    """Of a size that fits the ones and is resized by the others."""
    return [sample.image for sample in load_data("rooms:test,count=3")]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ZOO)
def test_every_member_is_small_trainable_and_seeded(name: str) -> None:
    family, data = ZOO[name].family, ZOO[name].data
    detector = build(family, NAMES, data=data)
    assert sum(p.numel() for p in detector.module.parameters()) <= 1_500_000
    assert all(p.requires_grad for p in detector.module.parameters())
    assert level(detector) == "Trainable"
    assert build(family, NAMES, data=data, seed=0).fingerprint == detector.fingerprint
    assert build(family, NAMES, data=data, seed=1).fingerprint != detector.fingerprint
    assert recipe_of(name, seed=5).seed == 5


@pytest.mark.parametrize("family", FAMILIES)
def test_building_leaves_the_random_state_alone(family: str) -> None:
    torch.manual_seed(4)
    expected = torch.rand(3)
    torch.manual_seed(4)
    build(family, NAMES)
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("family", FAMILIES)
def test_half_weights_are_the_weights_to_three_digits(family: str, tmp_path: Path) -> None:
    detector = build(family, NAMES, seed=1)
    write_half(detector, tmp_path / "w.safetensors")
    assert (tmp_path / "w.safetensors").stat().st_size <= 6_000_000
    again = build(family, NAMES, seed=2)
    again.load(tmp_path / "w.safetensors")
    for name, value in again.module.state_dict().items():
        own = detector.module.state_dict()[name]
        assert value.dtype == own.dtype
        assert torch.allclose(value, own, rtol=1e-3, atol=1e-4), name


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", SHIPPED)
def test_the_manifest_tells_the_truth(name: str) -> None:
    entry = manifest()[name]
    path = checked_weights(name)
    detector = load_detector(f"zoo:{name}")
    assert (entry.get("twin"), "change" in entry["recipe"]) == (ZOO[name].twin, ZOO[name].twin is not None)
    assert path.stat().st_size == entry["bytes"] <= 6_000_000
    assert sum(p.numel() for p in detector.module.parameters()) == entry["parameters"] <= 1_500_000
    data = load_data(entry["data"])
    assert data.fingerprint == entry["data_fingerprint"], "the data was changed since; train again"
    assert tuple(entry["names"]) == data.names == tuple(detector.names)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_detectors_keep_the_selection_law(name: str, pictures: list[np.ndarray]) -> None:
    detector = load_detector(f"zoo:{name}")
    for found, candidates in zip(detector.detect(pictures), detector.trace(pictures), strict=True):
        chosen = candidates.select()
        assert np.array_equal(chosen.boxes, found.boxes)
        assert np.array_equal(chosen.scores, found.scores)
        assert np.array_equal(chosen.labels, found.labels)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", SHIPPED)
def test_an_image_is_seen_alike_in_any_company(name: str, pictures: list[np.ndarray]) -> None:
    detector = load_detector(f"zoo:{name}")
    together = detector.detect(pictures)
    alone = [detector.detect([picture])[0] for picture in pictures]
    for a, b in zip(together, alone, strict=True):
        np.testing.assert_allclose(a.boxes, b.boxes, atol=1e-3)
        np.testing.assert_allclose(a.scores, b.scores, atol=1e-5)


@pytest.mark.heavy
@pytest.mark.parametrize("name", [n if n == "ssd" else pytest.param(n, marks=pytest.mark.heavy) for n in SHIPPED])
def test_scores_are_reached_on_a_hundred_images(name: str, tmp_path: Path) -> None:
    """A tenth of val: its AP50 differs from the whole's by sampling, by less than .06."""
    entry = ZOO[name]
    images = training_images(f"{entry.data}:val,count=100", tmp_path, states=entry.states)
    images = images.whole() if entry.whole else images
    scores = measure(load_detector(f"zoo:{name}"), images)
    assert abs(scores["AP50"] - manifest()[name]["scores"]["AP50"]) < 0.06


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", SHIPPED)
def test_score_option_only_cuts(name: str, pictures: list[np.ndarray]) -> None:
    usual, strict = load_detector(f"zoo:{name}"), load_detector(f"zoo:{name},score=0.5")
    for all_found, found in zip(usual.detect(pictures), strict.detect(pictures), strict=True):
        assert (found.scores >= 0.5).all()
        assert len(found) == int((all_found.scores > 0.5).sum())


def test_the_two_kinds_of_data_are_covered() -> None:
    plain = {name: entry for name, entry in ZOO.items() if entry.twin is None}
    assert {name for name, entry in plain.items() if entry.data == "rooms"} == set(FAMILIES)
    assert all(entry.states == ("intact", "damaged") for entry in plain.values() if entry.data == "bikes")


def test_a_robust_detector_is_its_twin_but_for_the_training() -> None:
    robust = {name: entry for name, entry in ZOO.items() if entry.twin is not None}
    assert {entry.family for entry in robust.values()} == {"ssd", "faster-rcnn", "yolox", "deformable-detr"}
    for name, entry in robust.items():
        assert name == f"{entry.twin}-robust"
        assert replace(entry, twin=None) == ZOO[entry.twin]
        own, twin = recipe_of(name, seed=4), recipe_of(entry.twin, seed=4)
        differing = {key for key, value in own.document().items() if twin.document()[key] != value}
        assert differing == {"steps", "learning_rate", "warmup", "check_every"}
        assert recipe_of(name, steps=7).steps == 7


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A zoo of its own with one untrained detector."""
    detector = build("ssd", load_data("rooms:val").names)
    write_half(detector, tmp_path / "weights.safetensors")
    trained = Trained("ssd", tmp_path / "weights.safetensors", {"AP": 0.0, "AP50": 0.0}, Recipe(steps=1), "rooms:val")
    install(trained, tmp_path / "zoo")
    yield tmp_path / "zoo"
    manifest.cache_clear()


def test_an_altered_file_is_refused(folder: Path) -> None:
    path = checked_weights("ssd", folder)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(BadWeights, match=r"ssd\.safetensors is not the file that was shipped"):
        checked_weights("ssd", folder)
    path.unlink()
    with pytest.raises(BadWeights, match=r"ssd\.safetensors: there is no such file"):
        checked_weights("ssd", folder)


def test_loading_checks_before_reading(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(folder / "manifest.json", folder / "ssd.safetensors")
    monkeypatch.setattr(the_zoo, "manifest", lambda where=folder: manifest(folder))
    monkeypatch.setattr(the_zoo, "checked_weights", lambda name: checked_weights(name, folder))
    with pytest.raises(BadWeights, match="not the file that was shipped"):
        load_detector("zoo:ssd")


def test_what_is_not_shipped_says_how_to_make_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(the_zoo, "manifest", dict)
    with pytest.raises(BadSpec, match="misdetect zoo train yolox"):
        load_detector("zoo:yolox")


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("zoo:resnet", "no 'resnet' in the zoo"),
        ("zoo:ssd,score=2", "between 0 and 1"),
        ("zoo:ssd,nms=1", "unknown option"),
    ],
)
def test_wrong_specs_are_one_sentence(spec: str, says: str) -> None:
    with pytest.raises(BadSpec, match=says):
        load_detector(spec)


@pytest.fixture
def few_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixteen images to learn from and four to be measured on."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("misdetect.training.zoo.TRAINING_IMAGES", 16)
    monkeypatch.setattr(
        "misdetect.training.zoo.training_images",
        lambda spec, *a, **k: training_images(spec if "count" in spec else spec + ",count=4", *a, **k),
    )


@pytest.mark.usefixtures("few_images")
def test_train_measure_install_and_load(tmp_path: Path) -> None:
    """The whole way with three steps on few images; the weights loaded at the end are the ones that were measured."""
    said: list[str] = []
    trained = train_zoo("yolox", tmp_path / "run", steps=3, progress=lambda what, *_: said.append(what))
    assert said[-1] == "training"
    assert read_trained(tmp_path / "run") == trained
    (point,) = trained.curve()
    (row,) = Run.open(tmp_path / "run").table().to_pylist()
    loss = sum(pair["value"] for pair in row["losses"])
    assert point == {"step": 3, "loss": round(loss, 4), **{key: trained.scores[key] for key in ("AP", "AP50")}}
    entry = install(trained, tmp_path / "zoo")
    assert json.loads((tmp_path / "zoo" / "manifest.json").read_text())["yolox"] == json.loads(json.dumps(entry))
    own = load_detector(f"zoo:yolox,weights={trained.weights}")
    images = training_images("rooms:val,count=4", tmp_path / "cache")
    assert measure(own, images) == trained.scores
    manifest.cache_clear()


@pytest.mark.usefixtures("few_images")
def test_a_robust_detector_is_trained_on_from_its_twin_under_attack(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the command, which knows the attack; asked once more, it is done. What is installed says how it was made."""
    command = ["zoo", "train", "ssd-robust", "--steps", "2", "--out", str(tmp_path / "run"), "--json"]
    for _ in range(2):
        app(command, result_action="return_value")
        told = json.loads(capsys.readouterr().out)
    trained = read_trained(tmp_path / "run")
    assert (trained.name, trained.recipe) == ("ssd-robust", recipe_of("ssd-robust", steps=2))
    assert trained.scores == told["scores"]
    run = Run.open(tmp_path / "run")
    assert run.about["identity"]["detector"]["fingerprint"] == load_detector("zoo:ssd").fingerprint
    attack = change_of("ssd-robust")
    assert trained.change == {"name": "adversarial", **attack.settings} == run.settings["change"]
    entry = install(trained, tmp_path / "zoo")
    assert (entry["twin"], entry["recipe"]["change"]) == ("ssd", trained.change)
    assert json.loads((tmp_path / "zoo" / "manifest.json").read_text())["ssd-robust"] == json.loads(json.dumps(entry))
    manifest.cache_clear()
    with pytest.raises(RunMismatch):
        train_zoo("ssd-robust", tmp_path / "run", steps=2, change=replace(attack, eps=4.0))


def test_a_robust_detector_is_not_trained_without_an_attack(tmp_path: Path) -> None:
    with pytest.raises(BadSpec, match="'ssd-robust' is 'ssd' trained on under attack: its training needs a change"):
        train_zoo("ssd-robust", tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", [*ZOO, "nothing"])
def test_only_robust_detectors_are_attacked_while_they_train(name: str) -> None:
    attack = change_of(name)
    assert (attack is not None) == name.endswith("-robust")
    assert attack is None or (attack.eps, attack.half) == (8, recipe_of(name).precision == "bfloat16")


@pytest.mark.parametrize("family", [family for family in FAMILIES if family != "yolox"])
def test_every_family_can_start_from_what_yolox_sees(family: str) -> None:
    """With YOLOX's weights, normalised RGB gives the features that YOLOX computes from BGR in 0..255: those of its
    backbone or, for Deformable DETR, of its neck."""
    yolox = build("yolox", NAMES, seed=1).module
    for part in yolox.modules():
        if isinstance(part, torch.nn.BatchNorm2d):  # statistics as after a training
            part.running_mean.normal_()
            part.running_var.uniform_(0.5, 2)
    detector = build(family, NAMES, seed=2)
    (body,) = (part for part in detector.module.modules() if isinstance(part, Darknet | Backbone))
    rgb = torch.rand(2, 3, 64, 64)
    normalised = (rgb - torch.tensor((0.485, 0.456, 0.406)).view(3, 1, 1)) / torch.tensor((0.229, 0.224, 0.225)).view(
        3, 1, 1
    )
    with torch.no_grad():
        source = yolox.backbone if isinstance(body, Backbone) else yolox.backbone.backbone
        expected = source(255 * rgb[:, [2, 1, 0]])
        before = body(normalised)[-3:]
        start_from(detector, yolox)
        found = body(normalised)[-3:]
    for wanted, new, old in zip(expected, found, before, strict=True):
        assert torch.allclose(wanted, new, rtol=1e-3, atol=1e-3)
        assert not torch.allclose(wanted, old, rtol=1e-3, atol=1e-3)


def test_listing_needs_no_torch() -> None:
    code = "import sys; from misdetect.cli import app; app(['zoo', '--json'], result_action='return_value'); "
    code += "assert 'torch' not in sys.modules"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    rows = {row["name"]: row for row in json.loads(found.stdout)["zoo"]}
    assert rows.keys() == ZOO.keys()
    for name, row in rows.items():
        assert row["shipped"] == (name in SHIPPED)
        assert row["twin"] == ZOO[name].twin
        assert row["scores"] == manifest().get(name, {}).get("scores")
