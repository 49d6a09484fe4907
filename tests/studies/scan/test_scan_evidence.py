"""The pictures behind the rows of a scan: what was there, and what is new."""

from types import SimpleNamespace

import pytest
from written_runs import position, thing, write

from misdetect.studies.scan import evidence
from misdetect.studies.scan.evidence import ScanStage


@pytest.mark.parametrize(
    ("key", "place"),
    [("scan/7/12,34", (7, 12, 34, "object")), ("scan/7/12,34/control", (7, 12, 34, "control"))],
)
def test_a_key_is_a_position_under_a_condition(key, place):
    assert evidence._position(key) == place


def states(boxes):
    return [(box[4], box[5], box[6]) for box in boxes]


def test_a_position_of_a_scan_has_its_originals_and_what_is_new(tmp_path, monkeypatch):
    box = (1, 2, 11, 12)
    objects = [
        thing("cup", box, 0.91239, outcome="kept", new_score=0.8),
        thing("bowl", box, 0.5, outcome="moved", new_score=0.4),
        thing("bed", box, 0.6, outcome="lost"), thing("vase", box, 0.7, outcome="renamed"),
    ]  # fmt: skip
    new = [thing("lamp", box, 0.75, own=True), thing("cup", box, 0.25, own=False)]
    rows = [
        position(8, 16, new, objects, pair=7), position(8, 16, [], objects[:1], pair=7, condition="control"),
        position(4, 4, [], [], pair=7), position(8, 16, [], [], pair=3, background="i3"),
    ]  # fmt: skip
    pictures = []
    pair = SimpleNamespace(
        cutout=SimpleNamespace(size=(20, 30)), background=SimpleNamespace(image="photo"),
        picture=lambda *asked: pictures.append(asked) or SimpleNamespace(render=lambda: "edited"),
    )  # fmt: skip
    study = SimpleNamespace(open_pair=lambda number: pair, how=SimpleNamespace(seed=5))
    monkeypatch.setattr(evidence, "rebuild", lambda run, data: study)
    stage = ScanStage(write(tmp_path / "run", rows), None)
    assert stage.scene("scan/7/8,16") is None, "nothing is loaded yet"
    stage.load()
    found = stage.scene("scan/7/8,16")
    assert (found["image"], found["inserted"]) == ("i0", [8, 16, 28, 46])
    assert states(found["before"]) == [
        ("cup", 0.912, "kept"), ("bowl", 0.5, "kept"), ("bed", 0.6, "lost"), ("vase", 0.7, "lost")
    ]  # fmt: skip
    assert states(found["after"]) == [
        ("cup", 0.8, "kept"), ("bowl", 0.4, "moved"), ("lamp", 0.75, "own"), ("cup", 0.25, "new")
    ]  # fmt: skip
    assert states(stage.scene("scan/7/8,16/control")["before"]) == [("cup", 0.912, "kept")]
    assert stage.scene("scan/3/8,16")["image"] == "i3"
    assert stage.pictures("scan/7/8,16/control") == ("photo", "edited")
    assert pictures == [("control", 8, 16, 5)]
    stage.load(["scan/7/4,4", "scan/3/8,16/control"])
    assert [stage.scene(f"scan/{key}") is not None for key in ("7/8,16", "7/4,4", "3/8,16")] == [False, True, True]
