"""``misdetect detectors FILE`` and a file as a detector, as a user types them."""

import json
from pathlib import Path

import pytest
from in_process import ended

ONNX = Path(__file__).parents[2] / "../shared/fixtures/models/yolox_nano.onnx"
needs_fixtures = pytest.mark.skipif(not ONNX.is_file(), reason="../shared/fixtures is absent")


@needs_fixtures
def test_a_real_file_s_spec_is_printed_with_what_is_guessed(capsys):
    assert ended("detectors", ONNX) == 0
    shown = capsys.readouterr().out
    assert shown.splitlines()[0] == f"onnx:{ONNX},decoder=yolox,names=coco"
    assert "guessed: names=coco" in shown
    assert ended("detectors", f"onnx:{ONNX},names=coco,preset=yolox", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["sure"] is True
    assert document["spec"] == f"onnx:{ONNX},names=coco,preset=yolox,decoder=yolox"
    assert {"file", "inputs", "outputs", "classes", "findings"} <= document.keys()
    assert document["classes"] == 80


@needs_fixtures
def test_a_file_alone_runs_and_says_what_was_assumed(capsys, tmp_path):
    out = tmp_path / "o.json"
    assert ended("detect", ONNX, "rooms:val,count=1", "--out", out) == 0
    told = capsys.readouterr().err
    assert "note: assumed decoder=yolox, names=coco and preset=yolox" in told
    assert f"The whole spec: onnx:{ONNX},decoder=yolox,names=coco" in told
    assert out.exists()


@pytest.mark.parametrize(
    ("file", "spec", "shown"),
    [
        (
            "raw.tflite",
            "tflite:{},decoder=yolov8,names=FILE",
            ["input: ", "float32[1, 64, 96, 3]", "guessed: decoder=yolov8"],
        ),
        ("suppressed.tflite", "tflite:{},scale=1/127.5,mean=1,resize=stretch,colour=rgb", ["guessed: colour=rgb"]),
    ],
)
def test_other_formats_are_looked_into_as_onnx_is(capsys, file, spec, shown):
    path = Path(__file__).parents[1] / "detectors" / "models" / file
    assert ended("detectors", path) == 0
    told = capsys.readouterr().out
    assert told.splitlines()[0] == spec.format(path)
    assert all(each in told for each in shown)
    assert ended("detectors", path, "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document.keys() == {"file", "spec", "sure", "inputs", "outputs", "classes", "findings"}
    assert document["sure"] is False


@pytest.mark.parametrize(
    ("file", "says"),
    [("none.onnx", "no file"), ("zoo:ssd", "Expected the file or folder of a model"), ("x.json", "Expected a spec")],
)
def test_what_is_no_file_of_a_model_is_one_sentence(capsys, tmp_path, monkeypatch, file, says):
    monkeypatch.chdir(tmp_path)
    assert ended("detectors", file) == 2
    assert says in capsys.readouterr().err
