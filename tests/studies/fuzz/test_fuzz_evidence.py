"""The pictures behind the rows of a fuzz: what is above the threshold before and after."""

from types import SimpleNamespace

from written_runs import thing, written

from misdetect.studies.fuzz import evidence
from misdetect.studies.fuzz.evidence import FuzzStage
from misdetect.studies.fuzz.rows import SCHEMA as FUZZ
from misdetect.studies.fuzz.settings import FuzzSettings


def states(boxes):
    return [(box[4], box[5], box[6]) for box in boxes]


def test_an_insertion_has_what_is_above_the_threshold_before_and_after(tmp_path, monkeypatch):
    edit = {"phase": "insertion", "number": 0, "cutout": 1, "x": 30, "y": 30, "width": 10, "height": 20, "reach": 0,
            "opacity": 1.0}  # fmt: skip
    clean, lost, own = (0, 0, 20, 20), (50, 50, 70, 70), (30, 30, 40, 50)
    rows = [
        {"case": "a", "phase": "clean", "image": "i0", "detections": [thing("cup", clean), thing("bowl", lost, 0.9),
                                                                      thing("bed", lost, 0.49)]},
        {"case": "b", "image": "i0", "found": [thing("cup", clean, 0.5), thing("vase", own, 0.6),
                                               thing("bowl", lost, 0.4)], **edit},
        {"case": "c", "image": "i1", "found": [thing("cup", clean, 0.5)], **edit},
        {"case": "d", "image": "i0", "found": None, **edit},
    ]  # fmt: skip
    bench = SimpleNamespace(
        how=SimpleNamespace(score=0.5), sample=lambda number: SimpleNamespace(image=("photo", number)),
        picture=lambda insertion: SimpleNamespace(render=lambda: ("edited", insertion.box)),
    )  # fmt: skip
    monkeypatch.setattr(evidence, "rebuild", lambda run, data: SimpleNamespace(bench=bench))
    stage = FuzzStage(written(tmp_path / "run", "fuzz", FuzzSettings(), FUZZ, rows), None)
    stage.load()
    found = stage.scene("fuzz/b")
    assert (found["image"], found["inserted"]) == ("i0", [30, 30, 40, 50])
    assert states(found["before"]) == [("cup", 0.5, "kept"), ("bowl", 0.9, "lost")]
    assert states(found["after"]) == [("cup", 0.5, "kept"), ("vase", 0.6, "own")]
    assert states(stage.scene("fuzz/c")["after"]) == [("cup", 0.5, "new")], "nothing is known of the photo"
    assert stage.scene("fuzz/d") is None, "it changed nothing, and was not kept"
    assert stage.pictures("fuzz/b") == (("photo", 0), ("edited", (30, 30, 40, 50)))
    stage.load(["fuzz/c"])
    assert stage.scene("fuzz/b") is None
    assert stage.scene("fuzz/c") is not None
