"""``python:``: a detector by module or by file, and every way in which the user's code can disappoint."""

import sys
import textwrap

import numpy as np
import pytest

from misdetect.detectors import load_detector
from misdetect.nouns.detections import Detections
from misdetect.said.errors import BadSpec, DetectorFailed

MODULE = """
from sibling_of_mine import NAMES

class Mine:
    names = NAMES
    def __init__(self, shift="0"):
        self.shift = float(shift)
    def detect(self, images):
        return [([[self.shift, 0, i.shape[1], i.shape[0]]], [0.5], [1]) for i in images]

def broken():
    raise ValueError("the weights\\nare gone.")

def number(): return 7
def textual():
    d = Mine()
    d.names = "ab"
    return d
def a_class(): return Mine
constant = 3
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a module, its sibling and a package, as the current folder."""
    (tmp_path / "my_detector.py").write_text(textwrap.dedent(MODULE))
    (tmp_path / "sibling_of_mine.py").write_text("NAMES = ['a', 'b']\n")
    (tmp_path / "raises_on_import.py").write_text("1 / 0\n")
    (tmp_path / "wants_a_package.py").write_text("import no_such_package_at_all\n")
    (tmp_path / "bad_syntax.py").write_text("def (:\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p])
    yield tmp_path
    for name in ("my_detector", "sibling_of_mine", "raises_on_import", "wants_a_package", "bad_syntax"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("target", ["my_detector:Mine", "my_detector.py:Mine", "./my_detector.py:Mine"])
def test_a_detector_by_module_or_by_file_with_its_options(here, target):
    spec = f"python:{target},shift=4"
    detector = load_detector(spec)
    assert detector.spec == spec
    assert list(detector.names) == ["a", "b"]
    (raw,) = detector.detect([np.zeros((20, 30, 3), np.uint8)])
    assert Detections.of(raw) == Detections([[4, 0, 30, 20]], [0.5], [1])


def test_a_file_elsewhere_finds_its_siblings(here, tmp_path_factory, monkeypatch):
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert list(load_detector(f"python:{here}/my_detector.py:Mine").names) == ["a", "b"]


def test_two_files_of_one_name_are_two_modules(tmp_path):
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        code = f"class D:\n    names = ['{folder}']\n    def detect(self, images): return []\n"
        (tmp_path / folder / "same_name.py").write_text(code)
    found = [load_detector(f"python:{tmp_path}/{folder}/same_name.py:D").names for folder in ("one", "two")]
    assert found == [["one"], ["two"]]


@pytest.mark.parametrize(
    ("target", "kind", "says"),
    [
        ("my_detector", BadSpec, "package.module:name"),
        (":factory", BadSpec, "package.module:name"),
        ("no_such_module:make", BadSpec, "no module 'no_such_module'"),
        ("my_detector.inner:make", BadSpec, "my_detector"),
        ("no_such_file.py:make", BadSpec, "no file 'no_such_file.py'"),
        ("my_detector:nothing", BadSpec, "has no 'nothing'"),
        ("my_detector:constant", BadSpec, "cannot call"),
        ("raises_on_import:make", DetectorFailed, "importing raises_on_import raised ZeroDivisionError"),
        ("raises_on_import.py:make", DetectorFailed, "raised ZeroDivisionError"),
        ("wants_a_package:make", DetectorFailed, "No module named 'no_such_package_at_all'"),
        ("bad_syntax:make", DetectorFailed, "SyntaxError"),
        ("my_detector:broken", DetectorFailed, "raised ValueError: the weights are gone"),
        ("my_detector:Mine,tilt=3", DetectorFailed, "unexpected keyword argument 'tilt'"),
        ("my_detector:number", BadSpec, "Got int, lacking names and detect"),
        ("my_detector:textual", BadSpec, "sequence of strings"),
        ("my_detector:a_class", BadSpec, "Got the class Mine"),
    ],
)
def test_each_mistake_is_one_sentence(here, target, kind, says):
    with pytest.raises(kind, match=says) as caught:
        load_detector(f"python:{target}")
    assert "\n" not in str(caught.value)
