"""The first look: one command, nothing to give, a report and the way on; and words without options."""

import json

import pytest
from in_process import ended

from misdetect.data import load_data
from misdetect.data.export import export_coco


@pytest.fixture
def run(capfd):
    def told(*arguments):
        code = ended(*arguments)
        return code, *capfd.readouterr()

    return told


@pytest.mark.parametrize("data", ["rooms:val,count=6", pytest.param(None, marks=pytest.mark.heavy)])
def test_the_demo_says_what_was_found_and_how_it_goes_on(run, tmp_path, monkeypatch, data):
    """On its own images, and always on a few of them."""
    if data is not None:
        monkeypatch.setattr("misdetect.cli.demo._DATA", data)
        monkeypatch.setattr("misdetect.cli.demo._MINUTES", 0.1)
    out = tmp_path / "out"
    code, said, _ = run("demo", "--out", out)
    assert code == 0
    lines = said.strip().splitlines()
    assert 3 <= len(lines) <= 5
    assert lines[-2].endswith(str(out / "report.html"))
    assert "misdetect checkup best.onnx data.yaml" in lines[-1]
    findings = json.loads((out / "checkup.json").read_text())["findings"]
    assert [f"• {each['sentence']}" for each in findings[: len(lines) - 2]] == lines[:-2]
    assert "What is wrong" in (out / "report.html").read_text()


@pytest.fixture
def photos(tmp_path):
    export_coco(load_data("rooms:val,count=2"), tmp_path / "photos")
    return tmp_path / "photos"


def test_detector_and_data_are_the_first_words_and_how_the_data_was_taken_is_said(run, photos, tmp_path):
    out = tmp_path / "found.json"
    spec = "glassbox:none,data=rooms:val,count=2"
    told = run("detect", spec, str(photos), "--out", str(out))
    options = run("detect", "--detector", spec, "--data", f"coco:{photos}/instances.json", "--out", f"{out}.2")
    assert told[0] == options[0] == 0
    assert f"note: {photos} was read as COCO instances, coco:{photos}/instances.json." in told[2]
    assert out.read_bytes() == (tmp_path / "found.json.2").read_bytes()
    assert "was read" not in options[2]


def test_words_that_changed_places_are_told(run, photos, tmp_path):
    (tmp_path / "best.onnx").touch()
    code, _, said = run("explain", photos, tmp_path / "best.onnx")
    assert code == 2
    assert f"'{tmp_path}/best.onnx' is a detector, and stands where the data should: DETECTOR DATA." in said


def test_a_checkup_is_kept_unless_another_folder_is_named(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, said, _ = run("checkup", "glassbox:none,data=rooms:val,count=2", "rooms:val,count=2", "--minutes", "0.1")
    assert code == 0
    assert "Report: checkup/report.html" in said
    assert (tmp_path / "checkup" / "report.html").is_file()


def test_one_word_too_few_and_one_too_many_are_told(run, photos):
    assert run("detect", "zoo:yolox")[0] == 2
    code, _, said = run("detect", "zoo:yolox", str(photos), "more", "--out", "x")
    assert (code, "more" in said) == (2, True)
