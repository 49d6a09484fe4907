"""The catalogue and ``load_detector``: every family is listed, and a missing extra is named by what is listed."""

import importlib.util
import json
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from misdetect.cli.detectors import detectors
from misdetect.detectors import load_detector
from misdetect.detectors.catalogue import catalogue, families
from misdetect.detectors.names import COCO, COCO91, COCO_IDS, read_names
from misdetect.said.errors import BadSpec, MisdetectError, MissingExtra
from misdetect.said.extras import command

ROOT = Path(__file__).parents[2]
INSTANCES = ROOT / "../shared/fixtures/coco66/instances.json"


class Plain:
    names = ("a",)

    def detect(self, images):
        return [(np.zeros((0, 4)), [], []) for _ in images]


def test_an_object_is_its_own_detector():
    detector = Plain()
    assert load_detector(detector) is detector
    with pytest.raises(BadSpec, match=r"an object with names and detect\(images\).* Got object"):
        load_detector(object())
    with pytest.raises(BadSpec, match="Got the class Plain"):
        load_detector(Plain)


@pytest.mark.parametrize("spec", ["tensorflow:ssd", "yolox", "", ":x"])
def test_an_unknown_scheme_is_refused(spec):
    with pytest.raises(BadSpec):
        load_detector(spec)


def test_extras_are_those_of_the_package():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    own = [family for family in families()[0].values() if family.package == "misdetect"]
    assert {family.extra for family in own if family.extra} <= set(extras)
    assert all(bool(family.needs) == bool(family.extra) for family in own)


def test_what_is_not_installed_comes_with_its_command(monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr("misdetect.detectors.family.find_spec", lambda n: None if n == "onnxruntime" else real(n))
    entry = {e["scheme"]: e for e in catalogue()}["onnx"]
    assert (entry["installed"], entry["missing"]) == (False, ["onnxruntime"])
    assert entry["install"] == command("onnx")


def test_a_family_whose_package_is_absent_names_its_extra(monkeypatch):
    """Importing the family fails on a third-party package, as it does where the extra is not installed."""
    monkeypatch.delitem(sys.modules, "misdetect.detectors.torchvision.load", raising=False)

    class NoTorchvision:
        def find_spec(self, name, path=None, target=None):
            if name == "misdetect.detectors.torchvision.load":
                raise ModuleNotFoundError("No module named 'torch'", name="torch")

    monkeypatch.setattr(sys, "meta_path", [NoTorchvision(), *sys.meta_path])
    with pytest.raises(MissingExtra, match="torchvision: needs the 'torch' extra: pip install "):
        load_detector("torchvision:ssd300_vgg16")


def test_the_verb_lists_every_family_and_decoder(capsys):
    detectors(json=True)
    document = json.loads(capsys.readouterr().out)
    assert {entry["scheme"] for entry in document["detectors"]} == set(families()[0])
    assert {"yolox", "yolov5", "yolov8", "yolo11", "detr", "nms"} <= {entry["name"] for entry in document["decoders"]}
    detectors(json=False)
    shown = capsys.readouterr().out
    for entry in document["detectors"]:
        assert entry["scheme"] in shown
    assert "[1, N, 5+C]" in shown


@pytest.mark.heavy
@pytest.mark.skipif(not INSTANCES.is_file(), reason="../shared/fixtures is absent")
def test_coco_names_are_those_of_coco():
    categories = json.loads(INSTANCES.read_text())["categories"]
    assert {c["id"]: c["name"] for c in categories} == dict(zip(COCO_IDS, COCO, strict=True))
    assert all(COCO91[c["id"]] == c["name"] for c in categories)
    assert read_names(str(INSTANCES), "spec") == COCO


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("n.txt", "\ufeffcat\n\ntwo words\r\n"),
        ("n.names", "cat\ntwo words"),
        ("data.yaml", "train: x\nnames: [cat, two words]\n"),
        ("data.yml", "names:\n  1: two words\n  0: cat\n"),
        ("n.json", '["cat", "two words"]'),
        ("c.json", '{"categories": [{"id": 9, "name": "two words"}, {"id": 2, "name": "cat"}]}'),
    ],
)
def test_names_from_files(tmp_path, file, content):
    (tmp_path / file).write_text(content, encoding="utf-8")
    assert read_names(str(tmp_path / file), "spec") == ("cat", "two words")


@pytest.mark.parametrize(
    ("file", "content", "says"),
    [
        ("n.txt", "", "list of class names"),
        ("n.txt", b"\xff\xfe\x00", "cannot be read as class names"),
        ("n.yaml", "names: !!python/object/apply:os.system ['x']", "not valid yaml"),
        ("n.yaml", "names: {a: b}", "names by number"),
        ("n.yaml", "path: x", "numbers|number"),
        ("n.json", '{"categories": [{"id": 1}]}', "'id' and 'name'"),
        ("n.json", "[[1]]", "class name to be text"),
        ("n.json", "{", "not valid JSON"),
    ],
)
def test_files_that_hold_no_names(tmp_path, file, content, says):
    (tmp_path / file).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(MisdetectError, match=says):
        read_names(str(tmp_path / file), "spec")
