"""What a page draws for its rows: boxes before and after with what became of each, and the pictures of scenes."""

from types import SimpleNamespace

import numpy as np
import pytest
from written_runs import position, write, written

import misdetect as md
from misdetect.data.dataset import Dataset, Sample
from misdetect.data.memory import from_pairs
from misdetect.nouns.boxes import SIDES
from misdetect.report import scenes
from misdetect.report.album import Album
from misdetect.report.scenes import detections, draw_scenes, image_records, stages, take_photos
from misdetect.said.errors import BadImage
from misdetect.studies.attack.evidence import AttackStage
from misdetect.studies.attack.rows import SCHEMA as ATTACK
from misdetect.studies.attack.rows import png
from misdetect.studies.attack.settings import AttackSettings
from misdetect.studies.fuzz.evidence import FuzzStage
from misdetect.studies.fuzz.rows import SCHEMA as FUZZ
from misdetect.studies.fuzz.settings import FuzzSettings
from misdetect.studies.scan.evidence import ScanStage


def thing(label, box, score=0.5, **more):
    return {"label": label, "score": score, **dict(zip(SIDES, box, strict=True)), **more}


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
    found = scenes._paired(before, after, (80, 80, 100, 100))
    assert [(box[4], *box[5:]) for box in found["before"]] == [
        ("cup", 0.912, "kept"), ("cup", 0.5, "lost"), ("bowl", 0.5, "lost")
    ]  # fmt: skip
    assert [box[6] for box in found["after"]] == ["kept", "new", "new", "own", "new"]
    assert found["after"][0][:4] == [0, 0, 20, 10]
    assert [box[6] for box in scenes._paired([], after[3:], None)["after"]] == ["new", "new"]
    assert [box[6] for box in scenes._paired(after, after, (0, 0, 20, 20))["after"]] == ["kept"] * 5


@pytest.mark.parametrize(
    ("key", "place"),
    [("scan/7/12,34", (7, 12, 34, "object")), ("scan/7/12,34/null", (7, 12, 34, "null"))],
)
def test_a_key_is_a_position_under_a_condition(key, place):
    assert scenes._position(key) == place


def test_an_images_own_name_may_have_slashes():
    assert scenes._attacked("attack/train/i0.png/cls") == ("train/i0.png", "cls")


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
        position(8, 16, new, objects, pair=7), position(8, 16, [], objects[:1], pair=7, condition="null"),
        position(4, 4, [], [], pair=7), position(8, 16, [], [], pair=3, background="i3"),
    ]  # fmt: skip
    pictures = []
    pair = SimpleNamespace(
        cutout=SimpleNamespace(size=(20, 30)), background=SimpleNamespace(image="photo"),
        picture=lambda *asked: pictures.append(asked) or SimpleNamespace(render=lambda: "edited"),
    )  # fmt: skip
    study = SimpleNamespace(open_pair=lambda number: pair, how=SimpleNamespace(seed=5))
    monkeypatch.setattr(scenes, "rebuild_scan", lambda run, data: study)
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
    assert states(stage.scene("scan/7/8,16/null")["before"]) == [("cup", 0.912, "kept")]
    assert stage.scene("scan/3/8,16")["image"] == "i3"
    assert stage.pictures("scan/7/8,16/null") == ("photo", "edited")
    assert pictures == [("null", 8, 16, 5)]
    stage.load(["scan/7/4,4", "scan/3/8,16/null"])
    assert [stage.scene(f"scan/{key}") is not None for key in ("7/8,16", "7/4,4", "3/8,16")] == [False, True, True]


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
    monkeypatch.setattr(scenes, "rebuild_fuzz", lambda run, data: SimpleNamespace(bench=bench))
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


def test_an_attacked_image_has_its_detections_and_the_picture_that_was_kept(tmp_path):
    data = photos(2)
    first, second = (sample.id for sample in data)
    here, there = (0, 0, 20, 20), (10, 12, 30, 32)
    kept = 255 - data[0].image

    def found(image, condition, label, box, score=0.5, variant="vanilla"):
        return thing(label, box, score, kind="detection", image=image, condition=condition, variant=variant)

    rows = [
        found(first, "clean", "cup", here), found(first, "clean", "bowl", there, 0.3), found(first, "cls", "cup", here),
        found(first, "cls", "bed", there), found(first, "cls", "bowl", there, 0.29), found(second, "cls", "cup", there),
        found(first, "cls", "bowl", there, 0.9, "r_all"),
        {"kind": "image", "image": first, "condition": "cls", "png": png(kept)},
        {"kind": "image", "image": first, "condition": "loc", "png": None},
    ]  # fmt: skip
    stage = AttackStage(written(tmp_path / "run", "attack", AttackSettings(score=0.3), ATTACK, rows), data)
    stage.load()
    scene = stage.scene(f"attack/{first}/cls")
    assert scene["image"] == first
    assert states(scene["before"]) == [("cup", 0.5, "kept"), ("bowl", 0.3, "lost")]
    assert states(scene["after"]) == [("cup", 0.5, "kept"), ("bed", 0.5, "new")]
    photo, edited = stage.pictures(f"attack/{first}/cls")
    assert np.array_equal(photo, data[0].image)
    assert np.array_equal(edited, kept)
    assert stage.pictures(f"attack/{first}/loc") is None
    assert stage.pictures(f"attack/{second}/cls") is None
    stage.load([f"attack/{second}/cls"])
    assert stage.scene(f"attack/{first}/cls")["after"] == []
    assert states(stage.scene(f"attack/{second}/cls")["after"]) == [("cup", 0.5, "new")]


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
    stage = lambda run, data: SimpleNamespace(of=(run, data), load=lambda: loaded.append(run))  # noqa: E731
    monkeypatch.setattr(scenes, "stage_of", stage)
    found = stages({"scan": "a", "fuzz": "b", "score": "c"}, {"fuzz": "photos", "score": "photos"})
    assert {study: each.of for study, each in found.items()} == {"fuzz": ("b", "photos")}
    assert loaded == ["b"]
