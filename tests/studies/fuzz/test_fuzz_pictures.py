"""Pictures of insertions: which are shown, in which order, and what lies where."""

from types import SimpleNamespace

import numpy as np
import pytest
from drawn_parts import GAP, TOP, part

from misdetect.drawing import figures
from misdetect.nouns.detections import Detections
from misdetect.nouns.picture import Raw
from misdetect.studies.fuzz import figures as fuzz
from misdetect.studies.fuzz.rows import Classes


def bench(side=400):
    """What pictures want of a workbench: a black photo, and a grey one with the object in it."""
    photo, edited = (Raw(np.full((side, side, 3), shade, np.uint8)) for shade in (0, 60))
    classes = Classes(("cup", "bowl"))
    return SimpleNamespace(
        sample=lambda i: photo, picture=lambda i: edited, how=SimpleNamespace(score=0.5), classes=classes
    )


@pytest.mark.parametrize("side", [400, 200])
def test_an_insertion_is_framed_white_and_what_changed_yellow(side):
    """Frames lie outside the boxes, black around them; detections below the threshold are not drawn."""
    by = 400 // side
    row = {"number": 0, "cutout": 0, "x": 200 // by, "y": 240 // by, "width": 60 // by, "height": 40 // by,
           "beside": None, "reach": 0, "opacity": 1.0, "label": "cup", "case": "c"}  # fmt: skip
    boxes = np.array([[100.0, 100, 160, 160], [300, 300, 360, 360]]) / by
    before, after = Detections(boxes, [0.9, 0.5], [1, 0]), Detections(boxes[1:], [0.49], [0])
    change = dict(zip(("x0", "y0", "x1", "y1"), boxes[0].tolist(), strict=True))
    change |= {"type": "missed", "label": "bowl", "became": None, "score": 0.9, "after": 0.0, "effect": "lost right"}
    made = fuzz._side_by_side(bench(side), row, before, after, [change])
    assert made.shape == (2 * TOP + 400, 2 * (400 + GAP), 3)
    clean, edited = (part(made, i, 400, 2) for i in (0, 1))
    for picture in (clean, edited):
        across = np.flatnonzero((picture[130, 85:100] == fuzz._YELLOW).all(axis=1)) + 85
        assert len(across) > 2
        assert across.max() < 98, "outside the box"
        assert (picture[130, [across.min() - 1, across.max() + 1]] == 0).all()
        assert (picture[165, 120:140] == fuzz._YELLOW).all()
    assert tuple(clean[130, 100]) == figures.colour(1)
    assert tuple(clean[330, 300]) == figures.colour(0)
    assert tuple(edited[330, 300]) == (60, 60, 60), "below the threshold"
    assert (edited[260, 193:200] == 255).all(axis=1).any()
    assert (edited[283:287, 230] == 255).all(axis=1).any()
    assert not (clean[230:300, 190:270] == 255).any(), "only where it was inserted"


def test_a_frame_that_would_leave_the_image_is_pulled_inside():
    image = np.full((50, 80, 3), 100, np.uint8)
    fuzz._mark(image, np.array([0.0, 0, 80, 50]), fuzz._YELLOW, 3)
    yellow = np.argwhere((image == fuzz._YELLOW).all(axis=2))
    assert ((yellow.min(axis=0) > 0) & (yellow.min(axis=0) < 4)).all(), "all of it, with its black edge"
    assert ((yellow.max(axis=0) <= [48, 78]) & (yellow.max(axis=0) > [45, 75])).all()
    assert (image[10:40, 10:70] == 100).all()


def test_changes_are_told_in_a_line_the_first_by_name():
    change = {"type": "missed", "label": "cup", "became": None, "score": 0.9, "after": 0.25, "effect": "lost right"}
    other = change | {"type": "renamed", "became": "bowl", "effect": None}
    one = "missed cup 0.90 -> 0.25 (lost right)"
    assert fuzz._told([]) == "nothing changes"
    assert fuzz._told([change, other]) == f"{one}, renamed cup as bowl 0.90 -> 0.25 (yellow)"
    assert fuzz._told([change] * 3) == f"{one}, {one}, {one} (yellow)"
    assert fuzz._told([change] * 5) == f"{one}, {one}, {one}, 2 more (yellow)"


def test_the_worst_failures_are_drawn_once_for_a_case_and_the_tables_are_a_page(tmp_path, monkeypatch):
    rows = [{"case": name, "image": image, "found": f"after {name}"} for name, image in
            (("i/3", "p"), ("i/1", "q"), ("i/3", "p"), ("i/2", "p"))]  # fmt: skip
    campaign = SimpleNamespace(
        clean=[{"image": image, "detections": f"before {image}"} for image in "pq"],
        distinct=[SimpleNamespace(row=row) for row in rows], how=SimpleNamespace(count_flicker=True),
    )  # fmt: skip
    bench, drawn = SimpleNamespace(classes=SimpleNamespace(detections=lambda said: said)), []
    monkeypatch.setattr(fuzz.Campaign, "of", lambda run: campaign)
    monkeypatch.setattr(fuzz, "rebuild", lambda run, data: SimpleNamespace(bench=bench))
    monkeypatch.setattr(fuzz, "counted", lambda row, flicker: (row["case"], flicker))
    monkeypatch.setattr(fuzz, "read_document", lambda run: "document")
    monkeypatch.setattr(fuzz, "page", lambda document: f"the tables of a {document}")
    monkeypatch.setattr(
        fuzz, "_side_by_side", lambda bench, row, *more: drawn.append((row["case"], *more)) or np.zeros((4, 4, 3))
    )
    run = SimpleNamespace(path=tmp_path)
    assert fuzz.draw(run, None, 0) == []
    made = fuzz.draw(run, None, 2)
    assert [str(path.relative_to(tmp_path)) for path in made] == ["images/i-3.png", "images/i-1.png", "tables.md"]
    assert drawn == [("i/3", "before p", "after i/3", ("i/3", True)), ("i/1", "before q", "after i/1", ("i/1", True))]
    assert made[-1].read_text() == "the tables of a document"
    assert all(path.is_file() for path in made)
