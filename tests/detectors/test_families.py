"""Detector families of other packages: found by their entry points, and no trouble to others when they are broken."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import misdetect as md
from misdetect.cli.detectors import detectors
from misdetect.detectors import load_detector
from misdetect.detectors.catalogue import catalogue, extra_of, families, reach
from misdetect.registry import DETECTORS, registered
from misdetect.said.errors import BadPlugin, BadSpec, DetectorFailed, MissingExtra

ROOT = Path(__file__).parents[2]
DECLARED = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"][DETECTORS]
MODULE = """
from misdetect.detectors.family import SENT, Family

FAMILY = Family("mirrors", "Detector", "acme:left", "acme_mirrors.inside:load", reach=lambda spec: SENT)
TRAINED = Family("trained", "Detector", "acme-trained:FILE", "acme_mirrors.inside:load", trained_later=True)
NEEDY = Family("needy", "Detector", "acme-needy:", "acme_mirrors.inside:load", ("no_such_module",), "all", "acme")
FALLEN = Family("fallen", "Detector", "acme-fallen:", "acme_mirrors.inside:fall")
GONE = Family("gone", "Detector", "acme-gone:", "acme_mirrors.nowhere:load")
LIKE = ("mirrors", "Detector")
"""
INSIDE = """
class Mirror:
    names = ("chair",)
    weights = None

    def detect(self, images):
        return [([[1, 2, 30, 40]], [0.5], [0])] * len(images)

    def load(self, path):
        self.weights = path


def load(spec):
    spec.finish()
    return Mirror()


def fall(spec):
    raise ValueError("it is not plugged in.")
"""
LINES = {
    "acme": "acme_mirrors:FAMILY",
    "acme-trained": "acme_mirrors:TRAINED",
    "acme-needy": "acme_mirrors:NEEDY",
    "acme-fallen": "acme_mirrors:FALLEN",
    "acme-gone": "acme_mirrors:GONE",
    "acme-like": "acme_mirrors:LIKE",
    "acme-absent": "acme_no_such_module:FAMILY",
    "max": "acme_mirrors:FAMILY",
}


@pytest.fixture
def acme(tmp_path, monkeypatch):
    """A package ``acme`` 2.1 that registers families, some of which are of no use."""
    about = tmp_path / "acme-2.1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 2.1\n")
    lines = [f"{name} = {value}" for name, value in LINES.items()]
    (about / "entry_points.txt").write_text("\n".join([f"[{DETECTORS}]", *lines, ""]))
    (tmp_path / "acme_mirrors").mkdir()
    (tmp_path / "acme_mirrors" / "__init__.py").write_text(MODULE)
    (tmp_path / "acme_mirrors" / "inside.py").write_text(INSIDE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    registered.cache_clear()
    yield
    registered.cache_clear()
    for name in [name for name in sys.modules if name.startswith("acme_mirrors")]:
        del sys.modules[name]


def test_those_declared_are_listed_and_ours_come_first_in_their_order():
    found, broken = families()
    assert set(DECLARED) <= set(found) | set(broken)
    places = [family.place for family in found.values()]
    assert places == sorted(places)
    own = [scheme for scheme in found if scheme in DECLARED]
    assert own == list(DECLARED), "the order of pyproject.toml, which its build tool does not keep"
    assert [*found][: len(own)] == own


def test_a_family_of_another_package_is_one_of_all(acme, tmp_path):
    detector = load_detector("acme:left")
    assert (type(detector).__name__, detector.spec) == ("Mirror", "acme:left")
    assert len(detector.detect([np.zeros((50, 50, 3), np.uint8)])) == 1
    assert reach("acme:left") == "would be sent images, and the secrets that its spec names"
    assert load_detector("acme-trained:x,weights=later.bin").weights == Path("later.bin")
    with pytest.raises(BadSpec, match="weights"):
        load_detector("acme:left,weights=later.bin")
    entry = {each["scheme"]: each for each in catalogue()}["acme"]
    assert (entry["what"], entry["installed"], entry["install"]) == ("mirrors", True, None)


def test_workers_find_it_too(acme, tmp_path):
    data = "rooms:val,count=4"
    alone = md.detect("acme:left", data, out=tmp_path / "alone")
    assert md.detect("acme:left", data, out=tmp_path / "two", workers=2).rows().equals(alone.rows())


def test_its_extra_is_its_package_s(acme):
    with pytest.raises(MissingExtra, match=r"acme-needy: needs the 'all' extra: pip install 'acme\[all\]'"):
        load_detector("acme-needy:")
    assert extra_of("no_such_module") is None, "it is none of misdetect's"
    assert extra_of("torch.nn") == "torch"


@pytest.mark.parametrize(
    ("spec", "kind", "says"),
    [
        ("acme-like:x", BadPlugin, "acme 2.1 cannot be used: acme_mirrors:LIKE is no Family but a tuple; update"),
        ("acme-absent:x", BadPlugin, "cannot be imported, ModuleNotFoundError: No module named 'acme_no_such_module';"),
        ("acme-gone:", BadPlugin, "acme_mirrors.nowhere:load cannot be imported, ModuleNotFoundError: No module named"),
        ("max:http://a", BadPlugin, "'max' is claimed by two packages, misdetect 0.1.0 and acme 2.1; uninstall one"),
        ("acme-fallen:", DetectorFailed, "'acme-fallen' raised ValueError: it is not plugged in."),
        ("acmee:x", BadSpec, "there is no detector scheme 'acmee' (known: zoo, torchvision, hf, yolox, onnx, "),
        ("acmee:x", BadSpec, "Did you mean 'acme'?"),
    ],
)
def test_one_that_cannot_be_used_says_why(acme, spec, kind, says):
    with pytest.raises(kind, match=re.escape(says)):
        load_detector(spec)


def test_and_hinders_no_other(acme, capsys):
    assert load_detector("glassbox:none,data=rooms:val,count=2").names
    detectors(json=True)
    entries = {each["scheme"]: each for each in json.loads(capsys.readouterr().out)["detectors"]}
    assert {scheme for scheme, each in entries.items() if "error" in each} == {"acme-like", "acme-absent", "max"}
    assert "claimed by two packages" in entries["max"]["error"]
    assert set(DECLARED) <= set(entries)
    detectors(json=False)
    shown = capsys.readouterr().out
    assert "acme-absent:\n" in shown
    assert "acme:left\n    mirrors; boxes only; installed" in shown
    assert "uninstall one of them." in " ".join(shown.split())


def test_the_list_waits_for_no_runtime():
    heavy = ("torch", "torchvision", "transformers", "onnxruntime", "tensorflow", "openvino", "ai_edge_litert", "cv2")
    code = "import sys; from misdetect.detectors.catalogue import catalogue; catalogue(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(heavy).isdisjoint(done.stdout.split())
