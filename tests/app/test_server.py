"""What a server answers: rows, pictures made again, notes; and that nothing else is to be had."""

import json
import re
import shutil

import cv2
import numpy as np
import pytest
from served import DATA, EVIL, Asked, hostile_run, serving

import misdetect as md
from misdetect.app.pictures import Kept
from misdetect.engine.store import Run
from misdetect.studies.failures import Pictures, failures
from misdetect.studies.notes import Note, append_note, checked, failure_key, notes_file, read_notes


def pixels(answer):
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "image/jpeg"
    return cv2.imdecode(np.frombuffer(answer.content, np.uint8), cv2.IMREAD_COLOR)[:, :, ::-1].astype(float)


def test_photos_are_those_of_the_data(asked):
    data = md.load_data(DATA)
    for i in (0, 7):
        assert np.abs(pixels(asked.client.get(f"/picture/photo/0/{i}")) - data[i].image).mean() < 4


@pytest.mark.parametrize("study", ["fuzz", "scan"])
def test_edited_pictures_are_made_again_as_the_detector_saw_them(asked, runs, study):
    run = Run.open(runs / study)
    made = Pictures(run, md.load_data(DATA))
    failure = failures(run)[0]
    found = asked.rows({"study": [study], "key": [failure_key(failure)]})
    row = next(row for row in found["rows"] if row["case"] == failure["case"])
    scene = found["scenes"][row["stage"]]
    expected, photo = made.edited(failure), made.sample(failure).image
    drawn = pixels(asked.client.get(scene["patch"][0]))
    lossy = np.abs(drawn - expected)
    assert lossy.mean() < 5, "a JPEG of small things"
    edited = (expected != photo).any(axis=2)
    assert lossy[edited].mean() < np.abs(drawn - photo)[edited].mean() / 2
    assert scene["image"] == row["image"] == failure["image"]


def test_nothing_is_stored_of_pictures(asked, runs):
    before = sorted(path.name for path in runs.rglob("*"))
    for row in asked.rows({"study": ["fuzz", "scan"]})["scenes"].values():
        asked.client.get(row["patch"][0])
    assert sorted(path.name for path in runs.rglob("*")) == before


@pytest.mark.parametrize("path", [
    "/picture/photo/0/8", "/picture/photo/9/0", "/picture/photo/0/-1", "/picture/photo/0/x", "/picture/edited/0",
    "/picture/edited/0?scene=x", "/picture/edited/99?scene=x", "/picture/edited/-1?scene=x", "/front/../page.py",
    "/front/nothing.js", "/front/%2e%2e%2fpage.py", "/front/..%5cpage.py", "/front//etc/passwd", "/etc/passwd", "/api",
    "/picture/photo/0/" + "9" * 40,
])  # fmt: skip
def test_what_is_not_known_is_not_there(asked, path):
    answer = asked.client.get(path)
    assert answer.status_code == 404
    assert answer.json()["error"]


@pytest.mark.parametrize("scene", [
    "fuzz/../../etc/passwd", "scan/0/1,2", "scan/x/1,2", "scan/0", "fuzz/", "attack/a/b", "'",
    "scan/0/999999,1", "x" * 5000,
])  # fmt: skip
def test_no_such_scene(asked, runs, scene):
    numbers = {
        row["run"]: row["stage"].split("/")[0] for row in asked.rows({"study": ["fuzz", "scan"]}, 0, 200)["rows"]
    }
    assert len(numbers) == 2
    for number in numbers.values():
        answer = asked.client.get(f"/picture/edited/{number}", params={"scene": scene})
        assert answer.status_code in (400, 404), answer.text
        assert answer.json()["error"]
    assert asked.rows({})["total"] > 0, "it is still there"


@pytest.mark.parametrize(("path", "parameters"), [
    ("/api/rows", {"filter": "{"}), ("/api/rows", {"filter": '{"nope": []}'}), ("/api/facets", {"filter": "[]"}),
    ("/api/rows", {"offset": "-1"}), ("/api/rows", {"limit": "many"}), ("/api/rows", {"limit": "9" * 30}),
])  # fmt: skip
def test_bad_questions_are_a_sentence(asked, path, parameters):
    answer = asked.client.get(path, params=parameters)
    assert answer.status_code == 400
    assert re.fullmatch(r"[^\n]+\.", answer.json()["error"])


def test_an_answer_is_bounded(asked):
    found = asked.rows({}, 0, 10**9)
    assert len(found["rows"]) <= 240
    assert found["total"] > len(found["rows"])
    assert asked.rows({}, 10**9, 10)["rows"] == []


def test_the_page_has_no_script_of_its_own_and_only_files_that_are_there(asked):
    page = asked.client.get("/").text
    assert re.findall(r"<script[^>]*>(.*?)</script>", page) == [""]
    assert "style=" not in page
    assert not re.search(r"\son\w+=", page)
    wanted = re.findall(r'(?:src|href)="(/[^"]*)"', page)
    assert wanted
    seen = set()
    while wanted:
        path = wanted.pop()
        if path not in seen:
            seen.add(path)
            answer = asked.client.get(path)
            assert answer.status_code == 200, path
            wanted += [f"/front/{name}" for name in re.findall(r'from "\./([\w.]+)"', answer.text)]
    assert {"/front/served.js", "/front/gallery.js", "/front/endless.js"} <= seen


def test_marks_of_charts_lead_to_as_many_rows(asked):
    behind = []
    for chart in asked.json("/api/meta")["charts"].values():
        behind += [(mark["filter"], mark["value"]) for mark in (*chart.get("marks", ()), *chart.get("links", ()))]
        cells = [cell for line in chart["rows"] for cell in line] if chart["kind"] == "table" else []
        behind += [
            (cell["filter"], cell["value"]) for cell in cells if cell["filter"] and isinstance(cell["value"], int)
        ]
    assert len(behind) > 60
    for wanted, value in behind[::3]:
        assert asked.rows(wanted, 0, 1)["total"] == value, wanted


def test_names_are_text(tmp_path):
    with serving([hostile_run(tmp_path)]) as address:
        asked = Asked(address)
        page = asked.client.get("/").text
        assert "<b>run" not in page
        assert "<script>window" not in page
        assert "onerror='" not in page
        assert {row["label"] for row in asked.rows({})["rows"]} >= set(EVIL[:2])
        for name in EVIL[:2]:
            assert asked.rows({"label": [name]})["total"] > 0


@pytest.fixture
def written(runs, tmp_path):
    """A server that may write, of a run of its own, and that run."""
    shutil.copytree(runs / "explain", tmp_path / "run")
    with serving([tmp_path / "run"], write=True) as address:
        yield Asked(address), tmp_path / "run"


def test_without_write_nothing_is_written(asked, runs):
    row = asked.rows({"failure": [True]})["rows"][0]
    answer = asked.client.post("/api/note", json={"run": row["run"], "key": row["key"], "tags": ["x"], "note": ""})
    assert answer.status_code == 403
    assert "--write" in answer.json()["error"]
    assert not list(runs.glob("*.notes.jsonl"))


def test_tags_and_notes_are_kept_found_and_exported(written, tmp_path):
    asked, path = written
    row = asked.rows({"failure": [True]})["rows"][0]
    said = {"run": row["run"], "key": row["key"], "tags": [" night ", "night", "dark  sky", ""], "note": "see *this*"}
    assert asked.client.post("/api/note", json=said).json() == {"tags": ["night", "dark sky"], "note": "see *this*"}
    assert dict(asked.facets({})["tag"]) == {"night": 1, "dark sky": 1}
    (found,) = asked.rows({"tag": ["night"]})["rows"]
    assert (found["key"], found["tags"], found["note"]) == (row["key"], ["night", "dark sky"], "see *this*")
    assert asked.rows({"tag": ["other"]})["total"] == 0
    md.export(path, tmp_path / "coco", to="coco")
    labels = json.loads((tmp_path / "coco" / "labels.json").read_text())["annotations"]
    assert [each["note"] for each in labels if each.get("tags") == ["night", "dark sky"]] == ["see *this*"]
    md.export(path, tmp_path / "folders", to="folders")
    pages = [page.read_text() for page in (tmp_path / "folders").glob("*/README.md")]
    assert sum("    tags      night, dark sky\n    note      see *this*" in page for page in pages) == 1
    assert asked.client.post("/api/note", json={**said, "tags": [], "note": ""}).status_code == 200
    assert asked.facets({})["tag"] == []
    assert len(notes_file(Run.open(path)).read_text().splitlines()) == 2, "nothing is taken back from the file"


@pytest.mark.sampled(5)
@pytest.mark.parametrize("change", [
    {"run": "../elsewhere"}, {"run": None}, {"key": "nothing"}, {"tags": "x"}, {"tags": [1]}, {"note": None},
    {"tags": ["x" * 100]}, {"tags": [str(i) for i in range(50)]}, {"note": "x" * 5000},
])  # fmt: skip
def test_what_is_no_note_is_refused(written, change):
    asked, path = written
    row = asked.rows({"failure": [True]})["rows"][0]
    answer = asked.client.post(
        "/api/note", json={"run": row["run"], "key": row["key"], "tags": [], "note": ""} | change
    )
    assert answer.status_code in (400, 404)
    assert answer.json()["error"]
    assert not notes_file(Run.open(path)).exists()


def test_a_body_that_is_no_json_is_refused(written):
    asked, _ = written
    for body in (b"", b"[]", b"{", b"\xff", b"[" * 100_000):
        answer = asked.client.post("/api/note", content=body, headers={"content-type": "application/json"})
        assert answer.status_code == 400, body[:10]


def test_keys_are_the_same_in_sql_and_python(asked):
    for row in asked.all_rows({"failure": [True]}):
        assert row["key"] == failure_key(row)


def test_a_damaged_line_costs_only_itself(runs, tmp_path):
    shutil.copytree(runs / "explain", tmp_path / "run")
    run = Run.open(tmp_path / "run")
    first, second, third = failures(run)[:3]
    append_note(run, first, checked(["one"], ""))
    with notes_file(run).open("ab") as file:
        file.write(b'{"key": "half')
    append_note(run, second, checked([], "two"))
    with notes_file(run).open("ab") as file:
        file.write(b'\xff\n[]\n{"key": 1}\n' + b"[" * 5000 + b"\n")
    append_note(run, third, checked(["three"], ""))
    append_note(run, third, Note())
    assert read_notes(run) == {failure_key(first): Note(("one",)), failure_key(second): Note((), "two")}


@pytest.mark.unix
def test_a_link_where_the_notes_should_be_is_not_followed(runs, tmp_path):
    shutil.copytree(runs / "explain", tmp_path / "run")
    (tmp_path / "precious").write_text("mine")
    run = Run.open(tmp_path / "run")
    notes_file(run).symlink_to(tmp_path / "precious")
    with pytest.raises(OSError, match="symbolic"):
        append_note(run, failures(run)[0], checked(["x"], ""))
    assert (tmp_path / "precious").read_text() == "mine"


def test_what_is_kept_is_bounded():
    kept, made = Kept(10, len), []

    def make(key):
        made.append(key)
        return bytes(4)

    for key in (1, 2, 1, 3, 1, 2):
        kept.get(key, lambda key=key: make(key))
    assert made == [1, 2, 3, 2], "the one that was used longest ago goes"
