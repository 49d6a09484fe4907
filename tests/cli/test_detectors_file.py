"""``misdetect detectors FILE.onnx`` and ``--detector FILE.onnx``, as a user types them."""

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
def test_a_file_alone_names_the_spec_to_use(capsys, tmp_path):
    out = tmp_path / "o.json"
    assert ended("detect", "--detector", ONNX, "--data", "rooms:val,count=1", "--out", out) == 2
    told = capsys.readouterr().err
    assert f"'onnx:{ONNX},decoder=yolox,names=coco'" in told
    assert f"misdetect detectors {ONNX}" in told
    assert not out.exists()


@pytest.mark.parametrize(("file", "says"), [("none.onnx", "no file"), ("zoo:ssd", "Expected an ONNX file")])
def test_what_is_no_onnx_file_is_one_sentence(capsys, tmp_path, monkeypatch, file, says):
    monkeypatch.chdir(tmp_path)
    assert ended("detectors", file) == 2
    assert says in capsys.readouterr().err
