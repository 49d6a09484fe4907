"""``checkup`` on detectors whose right answer is known: the glass box."""

import json

import pytest

import misdetect as md
from misdetect.detectors.glassbox.detector import GlassBox

ROOMS = "rooms:val,count=30"
KEYS = {"detector", "data", "doctor", "detect", "score", "explain", "elsewhere", "not_yet", "out"}


def checkup(run, tmp_path, fault):
    code, out, err = run(
        "checkup", "--detector", f"glassbox:{fault},data={ROOMS}", "--data", ROOMS, "--out", tmp_path / "up", "--json"
    )
    assert code == 0, err
    return json.loads(out)


def test_a_perfect_detector_is_called_perfect(run, tmp_path):
    document = checkup(run, tmp_path, "none")
    assert document["score"]["ap"]["AP"] == pytest.approx(1)
    assert all(points == 0 for points in document["score"]["tide"].values())
    assert document["detector"]["level"] == "Traced"
    assert document["detect"]["done"] == document["data"]["images"] == 30
    stored = json.loads((tmp_path / "up" / "checkup.json").read_text())
    assert stored["score"] == document["score"]
    assert "timing" not in stored["detect"]
    assert set(document) == KEYS
    assert set(document["explain"]) >= {"missed", "mechanisms", "pictures", "engine", "timing"}


def test_its_parts_are_runs_of_their_own(run, tmp_path):
    document = checkup(run, tmp_path, "sink,class=chair")
    folder = tmp_path / "up"
    for study in ("doctor", "detect", "score", "explain"):
        found = md.open(folder / study).document
        assert found["study"] == study
        assert found.items() <= document[study].items()
    assert document["score"]["detector"] == document["detector"]["spec"]
    by_file = md.score(folder / "results.json", ROOMS).document
    assert all(by_file[key] == document["score"][key] for key in ("ap", "tide", "counts", "by_class"))
    assert document["explain"]["missed"] == document["explain"]["mechanisms"]["background"] > 0


def test_in_python_it_takes_objects_and_needs_no_folder():
    data = md.load_data("rooms:val,count=6")
    found = md.checkup(GlassBox(data, []), data, cache=False)
    assert list(found.runs) == ["doctor", "detect", "score", "explain"]
    assert found.document["doctor"]["findings"] == []
    assert found.document["score"]["ap"]["AP"] == pytest.approx(1)
    assert found.document["detector"]["spec"] is None
    assert "AP 1.000" in repr(found)
    assert found._repr_html_().count("<div>") == 4
    assert (found.path / "checkup.json").is_file()


def test_a_planted_fault_shows_in_the_class_it_was_planted_in(run, tmp_path):
    document = checkup(run, tmp_path, "sink,class=chair")
    by_class = document["score"]["by_class"]
    assert by_class["chair"]["AP50"] < 0.5
    assert all(entry["AP50"] == pytest.approx(1) for name, entry in by_class.items() if name != "chair")


def test_a_second_checkup_gives_the_same_bytes(run, tmp_path):
    checkup(run, tmp_path, "none")
    first = (tmp_path / "up" / "checkup.json").read_bytes()
    checkup(run, tmp_path, "none")
    assert (tmp_path / "up" / "checkup.json").read_bytes() == first


def test_stored_predictions_cannot_be_checked_up(run, tmp_path):
    (tmp_path / "r.json").write_text("[]")
    code, _, err = run(
        "checkup", "--detector", f"predictions:{tmp_path / 'r.json'}", "--data", ROOMS, "--out", tmp_path
    )
    assert code == 2
    assert "needs a detector" in err
    assert not (tmp_path / "up").exists()


def test_a_detector_that_does_not_look_is_told_so_instead_of_a_table(run, tmp_path):
    (tmp_path / "same.py").write_text(
        "class Same:\n    names = ['cat', 'ball']\n    def detect(self, images):\n"
        "        return [([[5, 5, 60, 60]], [0.9], [0]) for _ in images]\n"
    )
    spec = f"python:{tmp_path / 'same.py'}:Same"
    code, out, _ = run("checkup", "--detector", spec, "--data", "rooms:val,count=12", "--out", tmp_path / "up")
    assert code == 0
    assert out.count("the same boxes on each of 12 images") == 3
    assert "TIDE" not in out
