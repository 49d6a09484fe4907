"""Pictures of a verification: whose they are, and the places under every edit."""

import numpy as np
import pytest
import verify_toys

import misdetect as md
from misdetect.studies.verify import figures as verify


def test_the_figures_of_a_verification_say_whose_they_are(tmp_path, monkeypatch):
    """Causes are drawn where something was hallucinated, with strips of each; nothing where there are no parts."""
    answers = [([verify_toys.BOXES[1]], [0.8], [1]), *[([], [], [])] * 3]
    said, names = [], ["states", "prior", "ap", "missing-recall", "f_vv"]
    monkeypatch.setattr(verify.charts, "caption", lambda figure, words: said.append(words))
    monkeypatch.setattr(verify.charts, "save", lambda path, figure: path)
    run = md.verify(verify_toys.Told(answers), verify_toys.data(), cache=False, score=0.25, out=tmp_path / "run")
    (row,) = [row for row in run.rows().to_pylist() if row["kind"] == "hallucination"]
    made = verify.draw(run.directory, run.data, 1)
    images = run.directory.path / "images"
    assert made == [images / f"{name}.png" for name in (*names, "causes", row["cause"])]
    assert made[-1].is_file()
    assert said == ["a detector on toys, score ≥ 0.25"] * 6
    told = run.document | {"detector": "zoo:x", "hallucinations": 0}
    monkeypatch.setattr(verify, "read_document", lambda run: told)
    assert verify.draw(run.directory, run.data, 1) == made[:5]
    assert said[6:] == ["zoo:x on toys, score ≥ 0.25"] * 5
    told["by_part"] = {}
    assert verify.draw(run.directory, run.data, 1) == []


def test_hallucinated_boxes_are_those_of_missing_parts_in_the_frame_of_their_image(tmp_path, monkeypatch):
    """Of each missing part of an image the surest detection that is sure enough."""
    half = [16.0, 32, 48, 64]
    far, boxes = [50.0, 50, 60, 60], verify_toys.BOXES
    answers = [
        ([boxes[0], half, far, far], [0.9, 0.8, 0.7, 0.9], [0, 1, 1, 2]),  # the lock, and it is not there
        ([boxes[1], far], [0.45, 0.6], [0, 1]),  # a bell that is not sure enough, and a lock
        ([boxes[0], boxes[1]], [0.9, 0.9], [0, 1]),
        ([], [], []),
    ]
    run = md.verify(verify_toys.Told(answers), verify_toys.data(), cache=False, score=0.5, out=tmp_path / "run")
    drawn = []
    monkeypatch.setattr(verify.drawn, "prior", lambda *given: drawn.append(given))
    verify._prior(run.directory, run.document)
    ((means, found, labels),) = drawn
    assert set(means) == set(verify_toys.NAMES)
    assert labels == ["lock", "lock"]
    assert found == pytest.approx(np.array([half, far]) / verify_toys.SIZE)


def test_a_strip_has_the_scores_and_the_places_under_every_edit(tmp_path, monkeypatch):
    answers = [([verify_toys.BOXES[1]], [0.8], [1]), *[([], [], [])] * 3]
    run = md.verify(verify_toys.Told(answers), verify_toys.data(), cache=False, out=tmp_path / "run")
    strips = []
    monkeypatch.setattr(verify.drawn, "strip", lambda views, title: strips.append((views, title)))
    (row,) = [row for row in run.rows().to_pylist() if row["kind"] == "hallucination"]
    verify.hallucination(verify.rebuild(run.directory, run.data), row)
    ((views, title),) = strips
    assert title == f"lock (absent), p0: {row['cause']}, {row['reason']}"
    assert [(view[0], view[4]) for view in views] == [
        ("as it is", row["score"]), ("neighbours covered", row["score_covered"]),
        ("other's pixels", row["score_patched"]), ("moved", row["score_moved"]), ("flipped", row["score_flipped"]),
        ("control", row["score_control"]),
    ]  # fmt: skip
    x0, y0, x1, y1 = box = verify_toys.BOXES[1].tolist()
    places = {view[0]: view[3].tolist() for view in views}
    assert places["as it is"] == places["neighbours covered"] == places["control"] == box
    assert places["flipped"] == [verify_toys.SIZE - x1, y0, verify_toys.SIZE - x0, y1]
    assert places["moved"] != box
    assert all(view[2].tolist() == view[3].tolist() for view in views), "it is where the part would be"
