"""What a page draws for its rows: boxes before and after with what became of each, and the pictures of scenes."""

from types import SimpleNamespace

import numpy as np
import pytest
from written_runs import thing

import misdetect as md
from misdetect.data.dataset import Dataset, Sample
from misdetect.data.memory import from_pairs
from misdetect.drawing.scenes import paired
from misdetect.report import scenes
from misdetect.report.album import Album
from misdetect.report.scenes import detections, draw_scenes, image_records, stages, take_photos
from misdetect.said.errors import BadImage


def photos(count=3, side=32):
    """Images that differ, named by their places."""
    generator = np.random.default_rng(0)
    pixels = generator.integers(0, 256, (count, side, side + 8, 3)).astype(np.uint8)
    return from_pairs([(image, {"boxes": [], "labels": []}) for image in pixels], ["cup"])


def test_a_record_has_objects_with_the_score_that_finds_them_and_detections_that_can_be_seen():
    data = photos()
    names = [sample.id for sample in data]
    box = (1.04, 2.06, 30.0, 31.0)
    rows = [
        thing("cup", box, 0.12345, image=names[0], kind="object", tide=None, id=7),
        thing("cup", box, None, image=names[0], kind="object", tide=None, id=8),
        thing("bowl", box, 0.98765, image=names[0], kind="detection", tide="TP", id=0),
        thing("bowl", box, scenes.FAINT, image=names[0], kind="detection", tide="Bkg", id=1),
        thing("bowl", box, scenes.FAINT - 0.001, image=names[0], kind="detection", tide="TP", id=2),
        thing("bowl", box, 0.5, image=names[0], kind="detection", tide="ignored", id=3),
        thing("bowl", box, 0.5, image=names[0], kind="detection", tide=None, id=4),
        thing("cup", box, image=names[2], kind="object", tide=None, id=9),
        thing("cup", box, image="elsewhere", kind="object", tide=None, id=9),
    ]
    found = image_records(rows, data, [names[1], names[0], "elsewhere"])
    sides = [1.0, 2.1, 30.0, 31.0]
    assert found == {
        names[1]: {"width": 40, "height": 32, "truth": [], "found": []},
        names[0]: {
            "width": 40, "height": 32, "truth": [[*sides, "cup", 0.123, 7], [*sides, "cup", None, 8]],
            "found": [[*sides, "bowl", 0.988, "kept"], [*sides, "bowl", scenes.FAINT, "new"],
                      [*sides, "bowl", 0.5, "kept"], [*sides, "bowl", 0.5, "kept"]],
        },
    }  # fmt: skip


def test_what_has_its_class_in_its_place_on_the_other_side_is_kept():
    """IoU one half or more; what lies so on the inserted box and continues nothing is its own."""
    square, half = (0, 0, 20, 20), (0, 0, 20, 10)
    before = [thing("cup", square, 0.91239), thing("cup", (50, 0, 60, 10)), thing("bowl", square)]
    after = [thing("cup", half), thing("cup", (50, 0, 60, 4.9)), thing("bed", square), thing("bed", (80, 80, 99, 99)),
             thing("vase", (80, 80, 90, 90))]  # fmt: skip
    found = paired(before, after, (80, 80, 100, 100))
    assert [(box[4], *box[5:]) for box in found["before"]] == [
        ("cup", 0.912, "kept"), ("cup", 0.5, "lost"), ("bowl", 0.5, "lost")
    ]  # fmt: skip
    assert [box[6] for box in found["after"]] == ["kept", "new", "new", "own", "new"]
    assert found["after"][0][:4] == [0, 0, 20, 10]
    assert [box[6] for box in paired([], after[3:], None)["after"]] == ["new", "new"]
    assert [box[6] for box in paired(after, after, (0, 0, 20, 20))["after"]] == ["kept"] * 5


class Stage:
    """Scenes by their keys: a white square put into the photo. ``asked`` are the keys whose pictures were made."""

    def __init__(self, data, known, broken=()):
        self.data, self.known, self.broken, self.asked = data, known, broken, []

    def load(self, keys=None):
        pass

    def scene(self, key):
        return {"image": self.known[key]} if key in self.known else None

    def pictures(self, key):
        self.asked.append(key)
        if key in self.broken:
            raise BadImage("it is gone.")
        photo = next(sample.image for sample in self.data if sample.id == self.known[key])
        edited = photo.copy()
        edited[10:20, 10:16] = 255
        return photo, edited


def rows_of(names, outcome="missed", study="fuzz"):
    return [{"study": study, "outcome": outcome, "image": name, "scene": f"{study}/{name}"} for name in names]


def test_every_scene_is_drawn_once_with_the_photo_and_the_patch_that_differs():
    data = photos(4)
    names = [sample.id for sample in data]
    stage = Stage(data, {f"fuzz/{name}": name for name in names[:3]}, broken=[f"fuzz/{names[2]}"])
    rows = [*rows_of(names), *rows_of(names[:1]), *rows_of(names[3:], "found", "score")]
    records, album = image_records([], data, names), Album(1_000_000)
    made = draw_scenes(rows, records, data, {"fuzz": stage}, album)
    assert list(made) == [f"fuzz/{name}" for name in names[:3]], "of the fourth nothing is known"
    assert stage.asked == list(made), "each is made once"
    assert [made[key].get("patch", [None])[1:] for key in made] == [[8.0, 8.0, 11.0, 15.0]] * 2 + [[]]
    assert len({record["picture"] for record in records.values()}) == 4
    assert len(album.pictures) == 6
    assert {records[name]["picture"] for name in names} < set(album.pictures)


def test_what_was_found_brings_no_photo_and_an_album_that_is_full_no_picture(monkeypatch):
    data = photos(3)
    names = [sample.id for sample in data]
    known = {f"fuzz/{name}": name for name in names}
    records = image_records([], data, names)
    draw_scenes(rows_of(names, "found", "score"), records, data, {}, Album(1_000_000))
    assert not any("picture" in record for record in records.values())
    stage, records = Stage(data, known), image_records([], data, names)
    made = draw_scenes(rows_of(names), records, data, {"fuzz": stage}, Album(0))
    assert list(made) == list(known)
    assert not stage.asked
    assert not any("picture" in record for record in records.values())
    monkeypatch.setattr(scenes, "EDITS", 2)
    stage, records = Stage(data, known), image_records([], data, names)
    made = draw_scenes(rows_of(names), records, data, {"fuzz": stage}, Album(1_000_000))
    assert len(stage.asked) == 2 == sum("patch" in scene for scene in made.values())
    assert all(record["picture"] for record in records.values()), "photos are not edits"


class Gone:
    """Pixels that were there once; ``asked`` counts the attempts."""

    def __init__(self):
        self.asked = 0

    def read(self):
        self.asked += 1
        raise BadImage("it is gone.")

    def key(self):
        return "gone"

    def measure(self):
        raise BadImage("it is gone.")


def test_a_photo_that_cannot_be_read_is_none_and_is_not_asked_for_again():
    source, whole = Gone(), photos(1)
    samples = [
        Sample("gone", source, whole[0].truth, 40, 32),
        Sample("unknown", source, whole[0].truth, 0, 0, measure=source.measure),
        whole[0],
    ]
    data = Dataset("made", ["cup"], 3, samples.__getitem__, fingerprint="made")
    records, album = image_records([], data, [sample.id for sample in samples]), Album(1_000_000)
    assert list(records) == ["gone", whole[0].id]
    take_photos(["gone", "gone", "unknown", whole[0].id], records, data, album)
    assert source.asked == 1
    assert [record["picture"] for record in records.values()] == [None, *album.pictures]


@pytest.fixture(scope="module")
def looked_at(tmp_path_factory):
    """Detect and score runs of an image with two cups, of which one is found, and a wrong bowl."""
    image = np.zeros((40, 60, 3), np.uint8)
    data = from_pairs([(image, {"boxes": [[0, 0, 20, 20], [30, 0, 50, 20]], "labels": [0, 0]})], ["cup", "bowl"])
    answer = ([[0, 0, 20, 20], [30, 25, 50, 40]], [0.75, 0.5], [0, 1])
    detector = md.load_detector(lambda images: [answer] * len(images), names=["cup", "bowl"])
    folder = tmp_path_factory.mktemp("looked")
    detect = md.detect(detector, data, out=folder / "detect")
    return {"detect": detect.directory, "score": md.score(detect, data, out=folder / "score").directory,
            "explain": md.explain(detector, data, out=folder / "explain").directory}  # fmt: skip


@pytest.mark.parametrize(
    ("studies", "objects"),
    [(("detect",), []), (("detect", "explain"), [1.0, None]), (("explain", "detect", "score"), [0.75, None]),
     (("scan",), None)],
)  # fmt: skip
def test_the_run_that_knows_most_says_what_was_detected(looked_at, studies, objects):
    """The score of an object is that of the detection that finds it; explain only knows that there is one."""
    rows = detections({study: looked_at.get(study) for study in studies})
    assert [row["score"] for row in rows if row["kind"] == "object"] == (objects or [])
    found = [(row["label"], row["score"], row["x0"], row["tide"]) for row in rows if row["kind"] == "detection"]
    wrong = None if studies == ("detect",) else "Bkg"
    right = None if studies == ("detect",) else "TP"
    assert found == ([] if objects is None else [("cup", 0.75, 0, right), ("bowl", 0.5, 30, wrong)])


def test_studies_with_edited_pictures_whose_data_is_there_have_a_stage(monkeypatch):
    loaded = []

    def stage(run, data):
        return None if run == "c" else SimpleNamespace(of=(run, data), load=lambda: loaded.append(run))

    monkeypatch.setattr(scenes, "stage_of", stage)
    found = stages({"scan": "a", "fuzz": "b", "score": "c"}, {"fuzz": "photos", "score": "photos"})
    assert {study: each.of for study, each in found.items()} == {"fuzz": ("b", "photos")}
    assert loaded == ["b"]
