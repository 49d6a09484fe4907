"""Folders of failures, on two that are written down by hand: one on a photo, one on an edited picture."""

import json
from types import SimpleNamespace

import cv2
import numpy as np
import pytest
from written_runs import NAMES, written

from misdetect.data.memory import from_pairs
from misdetect.drawing.figures import colour
from misdetect.nouns.boxes import SIDES
from misdetect.report import failure_folders
from misdetect.report.failure_folders import write_folders
from misdetect.studies.explain.rows import SCHEMA
from misdetect.studies.explain.settings import ExplainSettings
from misdetect.studies.notes import Note, failure_key

SIDE, FACTOR, BOX = 96, 3, (20, 30, 60, 50)


def failure(**more):
    """A missed cup, as the ledger tells it."""
    known = {
        "case": "i0", "image": "0", "object": 3, "condition": "clean", "outcome": "missed", "label": "cup",
        "became": None, "mechanism": None, "score": None, "score_before": 0.5, "times": 1, "evidence": None,
        "study": "explain",
    }  # fmt: skip
    return known | dict(zip(SIDES, BOX, strict=True)) | more


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """``folders(*found, notes)``: the names of the folders, and what is in each: its files, document and page."""
    photo, edited = (np.full((SIDE, SIDE, 3), shade, np.uint8) for shade in (40, 80))
    run = written(tmp_path / "a run", "explain", ExplainSettings(), SCHEMA, [])
    data = from_pairs([(photo, {"boxes": [], "labels": []})], NAMES)
    pictures = SimpleNamespace(
        sample=lambda each: data[0], edited=lambda each: None if each["condition"] == "clean" else edited
    )
    monkeypatch.setattr(failure_folders, "Pictures", lambda *given: pictures)

    def made(*found, notes=None):
        names = write_folders(run, data, found, tmp_path / "out", notes)
        at = [tmp_path / "out" / name for name in names]
        files = [{path.name: cv2.imread(str(path)) for path in folder.glob("*.png")} for folder in at]
        documents = [json.loads((folder / "failure.json").read_text()) for folder in at]
        return names, files, documents, [(folder / "README.md").read_text() for folder in at]

    return made


def framed(image):
    """Left, right and lower side of the box that is framed in ``image``, in the pixels that the detector saw (on its
    upper side is a caption); ``None`` where nothing is."""
    assert image.shape[:2] == (FACTOR * SIDE, FACTOR * SIDE)
    rows, columns = np.nonzero((image[:, :, ::-1] == colour(0)).all(axis=2))
    if not len(rows):
        return None
    lowest = columns[rows == rows.max()]
    return [side / FACTOR for side in (lowest.min(), lowest.max(), rows.max())]


def test_a_folder_has_its_number_its_pictures_and_all_numbers(folders):
    long = failure(label="a / " + 50 * "x", condition="insertion", outcome="extra", evidence='{"x": 3}', times=2)
    names, files, documents, _ = folders(failure(score=float("nan")), long, failure(condition="insertion"))
    assert names == ["001-missed-cup", "002-extra-a-" + 32 * "x", "003-missed-cup"]
    assert [sorted(each) for each in files] == [["failure.png"], *[["after.png", "asked.png", "before.png"]] * 2]
    assert framed(files[1]["before.png"]) is None, "what is not there yet"
    for image in (files[0]["failure.png"], files[1]["after.png"], files[2]["before.png"], files[2]["after.png"]):
        assert framed(image) == pytest.approx([BOX[0], BOX[2], BOX[3]], abs=1)
    assert files[0]["failure.png"][-1, -1].tolist() == files[2]["before.png"][-1, -1].tolist() == [40, 40, 40]
    assert files[2]["after.png"][-1, -1].tolist() == [80, 80, 80]
    assert (files[2]["asked.png"] == 80).all()
    assert files[2]["asked.png"].shape == (SIDE, SIDE, 3)
    assert [each["failure"]["evidence"] for each in documents] == [None, {"x": 3}, None]
    assert documents[0]["failure"] == failure(), "JSON has no NaN"
    assert documents[0]["detector"] == {"fingerprint": "one", "spec": "zoo:one"}
    assert "names" not in documents[0]["data"]
    assert list(documents[0]) == sorted(documents[0])
    assert (documents[0]["settings"], documents[0]["command"]) == (ExplainSettings().document(), ["explain"])


def test_its_page_says_what_where_why_and_how_to_ask_again(folders, tmp_path):
    found = [failure(), failure(object=4, times=2, mechanism="proposal", condition="insertion")]
    notes = {failure_key(found[1]): Note(("dark", "odd"), "look")}
    *_, documents, pages = folders(*found, notes=notes)
    plain, edited = ([line.strip() for line in page.splitlines() if line.startswith("    ")] for page in pages)
    ends = ["detector  zoo:one", "data      made", f"again     misdetect replay '{tmp_path / 'a run'}' i0"]
    assert plain == ["what      missed cup, 0.50", "where     0, object 3, clean", *ends]
    assert edited == [
        "what      missed cup, 0.50 (2 times)", "where     0, object 4, insertion", "why       proposal",
        "tags      dark, odd", "note      look", *ends,
    ]  # fmt: skip
    assert "\n`failure.png` shows it;" in pages[0]
    assert "\n`before.png` and `after.png` show it," in pages[1]
    assert (documents[1]["failure"]["tags"], documents[1]["failure"]["note"]) == (["dark", "odd"], "look")
    assert "tags" not in documents[0]["failure"]
