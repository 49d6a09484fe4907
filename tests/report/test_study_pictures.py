"""Pictures of single cases, drawn from runs of toys: which cases are shown, in which order, and what lies where."""

from types import SimpleNamespace

import attack_toys
import cv2
import numpy as np
import pytest
import verify_toys
from explain_runs import write
from written_runs import written

import misdetect as md
from misdetect.data.dataset import Dataset, Sample
from misdetect.data.memory import from_pairs
from misdetect.drawing import figures
from misdetect.drawing.larger import LEAST
from misdetect.engine.store import Run
from misdetect.metrics.confusion import confusion
from misdetect.nouns.detections import Detections, Truth
from misdetect.nouns.picture import Raw
from misdetect.said.errors import BadImage
from misdetect.studies.attack import figures as attack
from misdetect.studies.attack.rows import SCHEMA, png
from misdetect.studies.attack.settings import AttackSettings
from misdetect.studies.explain import figures as explain
from misdetect.studies.fuzz import figures as fuzz
from misdetect.studies.fuzz.rows import Classes
from misdetect.studies.verify import figures as verify

TOP, GAP = 22, 6
"""Pixels of a line of text, and between pictures."""


class Broken:
    """Pixels of a file that cannot be read any more."""

    def read(self):
        raise BadImage("it is gone.")

    def key(self):
        return "broken"


def part(image, number, wide, lines=1):
    """The picture at place ``number`` of those that stand side by side, without the text above it."""
    return image[lines * TOP :, number * (wide + GAP) : number * (wide + GAP) + wide].astype(int)


def shown(path):
    return cv2.imread(str(path))[:, :, ::-1]


# fuzz


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


# attack


@pytest.fixture(scope="module")
def attacked(tmp_path_factory):
    out = tmp_path_factory.mktemp("attack") / "run"
    run = md.attack(attack_toys.Tiles(), attack_toys.data(4), eps=20, steps=6, score=0.5, transfer="none", ladder=0,
                    out=out)  # fmt: skip
    return run, {path.name: path for path in attack.draw(run.directory, run.data, 2)}


def test_the_images_on_which_an_attack_loses_most_are_drawn(attacked):
    run, files = attacked
    lost = {name: {} for name in ("cls", "loc")}
    for row in run.rows().to_pylist():
        if row["kind"] == "object" and row["condition"] in lost:
            counts = lost[row["condition"]]
            counts[row["image"]] = counts.get(row["image"], 0) + (row["right"] and not row["found"])
    for name, counts in lost.items():
        worst = sorted((image for image, count in counts.items() if count), key=lambda image: (-counts[image], image))
        assert attack._worst(run.directory, name, 2) == worst[:2]
        wanted = [f"{name}-{i:02d}.png" for i in range(min(2, len(worst)))]
        assert sorted(file for file in files if file.startswith(name)) == wanted
    assert {"attacks.png", "confusion.png"} <= set(files)
    assert not {"ladder.png", "distance.png"} & set(files)
    assert attack.draw(run.directory, run.data, 0) == []


def test_an_attack_is_shown_with_the_change_around_grey_as_large_as_it_can_be(attacked):
    run, files = attacked
    made = shown(files["cls-00.png"]).astype(int)
    factor = LEAST // attack_toys.SIDE
    wide = attack_toys.SIDE * factor
    assert made.shape == (TOP + wide, 3 * (wide + GAP), 3)
    image = attack._worst(run.directory, "cls", 1)[0]
    (kept,) = [row["png"] for row in run.rows().to_pylist() if row["png"] and row["image"] == image
               and row["condition"] == "cls"]  # fmt: skip
    adversarial = cv2.imdecode(np.frombuffer(kept, np.uint8), cv2.IMREAD_COLOR)[:, :, ::-1].astype(int)
    sample = next(each for each in run.data if each.id == image)
    change = adversarial - sample.image.astype(int)
    wanted = 128 + 127 / np.abs(change).max() * change
    middle = part(made, 1, wide)
    assert np.abs(middle[factor // 2 :: factor, factor // 2 :: factor] - wanted).max() <= 1
    assert (middle[:factor, :factor] == middle[0, 0]).all(), "each pixel is a square"
    clean, after = part(made, 0, wide), part(made, 2, wide)
    plain = {tuple(figures.colour(i)) for i in (0, 1)} | {(255, 255, 255)}
    both = [(y, x) for y in range(4, wide, 16) for x in range(4, wide, 16)
            if not {tuple(clean[y, x]), tuple(after[y, x])} & plain]  # fmt: skip
    assert len(both) > 200
    off = [np.abs(after[y, x] - clean[y, x] - change[y // factor, x // factor]).max() for y, x in both]
    assert np.mean(np.array(off) <= 1) > 0.9, "the rest are letters"


def around_an_attack(folder, photo, after):
    """The three pictures of an attack that made ``after`` of ``photo``."""
    data = from_pairs([(photo, {"boxes": [], "labels": []})], ["cup"])
    row = {"kind": "image", "image": data[0].id, "condition": "cls", "png": png(after)}
    how = AttackSettings()
    made = attack._before_and_after(written(folder, "attack", how, SCHEMA, [row]), data[0], "cls", how)
    return [part(made, i, LEAST) for i in range(3)]


def test_pixels_of_an_attack_stay_as_they_are_and_none_is_amplified_beyond_its_range(tmp_path):
    """On a picture large enough to be shown as it is, with changes of one at most."""
    photo = np.zeros((LEAST, LEAST, 3), np.uint8)
    photo[:, 100:] = 255
    after = photo.copy()
    after[:, :10], after[:, -10:] = 1, 254
    shown_before, change, shown_after = around_an_attack(tmp_path / "run", photo, after)
    assert np.array_equal(shown_before, photo)
    assert np.array_equal(shown_after, after)
    assert change[5, [0, 50, 200, LEAST - 1], 0].tolist() == [255, 128, 128, 1]


def test_where_a_small_picture_is_smoothed_a_change_does_not_leave_the_range(tmp_path):
    photo = np.full((48, 48, 3), 255, np.uint8)
    photo[:, :24] = 200
    _, change, after = around_an_attack(tmp_path / "run", photo, np.full_like(photo, 255))
    half = LEAST // 2
    assert after[:, :half].min() > 240
    assert np.abs(change[:, :half] - 255).max() <= 1
    assert (change[:, half:] == 128).all()


# verify


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


# explain


def test_misses_are_shown_by_mechanism_one_of_each_image_first(tmp_path, monkeypatch):
    """Objects of one image differ in size only; the largest of each image come first."""
    fates = [["proposal", "proposal", None], ["proposal"], ["background", "proposal"], [None]]
    run = Run.open(write(tmp_path / "run", fates))
    samples = [SimpleNamespace(id=f"i{i}", image=np.full((60, 60, 3), 9, np.uint8)) for i in range(4)]
    told = []
    monkeypatch.setattr(explain, "evidence", lambda image, row: told.append((row["image"], row["id"])) or image)
    made = explain.draw(run, samples, 3)
    assert [path.name for path in made] == ["mechanisms.png", "proposal.png", "background.png"]
    assert told == [("i0", 0), ("i1", 0), ("i2", 1), ("i2", 0)]
    assert explain.draw(run, samples, 0) == []


def test_a_comparison_of_misses_is_drawn_where_a_run_missed_something(tmp_path, monkeypatch):
    runs = [{"name": name, "objects": 4, "missed": missed, "miss_rate": missed / 4, "mechanisms": {"proposal": missed},
             "intervals": {"miss_rate": None, "shares": None, "rates": None}}
            for name, missed in (("a", 0), ("b", 1))]  # fmt: skip
    monkeypatch.setattr(explain, "distributions", lambda rows: ("shares", [row["run"] for row in rows]))
    monkeypatch.setattr(explain, "whiskers", lambda mechanisms: ("rates", mechanisms))
    monkeypatch.setattr(explain.charts, "save", lambda path, figure: (path, *figure))
    monkeypatch.setattr(explain, "comparison_page", lambda document, rows, path: (path, len(rows)))
    assert explain.draw_comparison({"runs": runs, "mechanisms": "all"}, tmp_path) == [
        (tmp_path / "shares.png", "shares", ["a", "b"]), (tmp_path / "rates.png", "rates", "all"),
        (tmp_path / "compare.html", 2),
    ]  # fmt: skip
    assert explain.draw_comparison({"runs": runs[:1], "mechanisms": "all"}, tmp_path) == []


# confusion


@pytest.mark.parametrize(("classes", "detailed"), [(16, True), (17, False)])
def test_of_many_classes_no_cell_has_its_ious_and_the_worst_cells_have_photos(tmp_path, monkeypatch, classes, detailed):
    """Three false cups (one of them in an image that cannot be read) and a missed bowl: the larger cell comes first."""
    names = ("cup", "bowl", *(f"c{i}" for i in range(2, classes)))
    far = [40.0, 40, 60, 60]

    def photos(*sources):
        truths = [Truth(verify_toys.BOXES[:1], [1]), Truth.empty(), Truth.empty()]
        made = [Sample(f"p{i}", each, truths[i], 64, 64, file_name=f"{i}.png") for i, each in enumerate(sources)]
        return Dataset("toys", names, 3, lambda i: made[i], fingerprint="toys")

    noise = [verify_toys.Noise(i) for i in range(3)]
    data = photos(*noise)
    answers = [([far], [score], [0]) for score in (0.5, 0.6, 0.75)]
    run = md.confusion(verify_toys.Told(answers, names=names), data, cache=False, out=tmp_path / "run")
    left, titles = photos(*noise[:2], Broken()), []
    for name in ("matrix_figure", "top_figure", "iou_figure"):
        monkeypatch.setattr(confusion, name, lambda document: None)
    monkeypatch.setattr(confusion.charts, "save", lambda path, figure: path)
    monkeypatch.setattr(confusion, "titled", lambda image, words: titles.append(words) or figures.titled(image, words))
    made = confusion.draw(run.directory, left, 2)
    assert [path.name for path in made] == [
        "confusion.png", *["confusion-iou.png"] * detailed, "cell-1-background-cup.png", "cell-2-bowl-missed.png"
    ]  # fmt: skip
    assert titles == [
        "cup 0.60, IoU 0.00", "1.png", "cup 0.50, IoU 0.00", "0.png", "background -> cup: 3, the worst first",
        "missed", "0.png", "bowl -> missed: 1, the worst first",
    ]  # fmt: skip
    high, wide, _ = shown(made[-2]).shape
    assert wide > 400 > high, "side by side"
    assert len(confusion.draw(run.directory, left, 1)) == len(made) - 1


@pytest.mark.parametrize(
    ("entry", "boxes"),
    [
        ({"box": [60, 40, 100, 80]}, [([60, 40, 100, 80], 2)]),
        ({"box": [150, 100, 200, 150]}, [([150, 100, 200, 150], 2)]),
        ({"detection": 1, "object_box": [60, 40, 100, 80], "box": [70, 45, 120, 95], "label": "cup", "score": 0.5,
          "iou": 0.25}, [([60, 40, 100, 80], 2), ([70, 45, 120, 95], 0)]),
        ({"detection": 1, "object_box": None, "box": [5, 5, 15, 15], "label": "cup", "score": 0.5, "iou": 0.0},
         [([5, 5, 15, 15], 0)]),
    ],
)  # fmt: skip
def test_a_confusion_is_cut_out_with_the_object_green_and_the_detection_red(entry, boxes):
    """Two fifths of what is shown lie around it, 12 pixels at least; the image ends it."""
    image = np.full((150, 200, 3), 255, np.uint8)
    data = from_pairs([(image, {"boxes": [], "labels": []})], ["cup"])
    made = confusion._photo(data, {"a": 0}, {"image": "a", "file": "a.png", **entry}).astype(int)
    every = np.array([box for box, _ in boxes], dtype=float)
    low, high = every[:, :2].min(axis=0), every[:, 2:].max(axis=0)
    around = np.maximum(0.4 * (high - low), 12)
    x0, y0 = np.maximum(np.floor(low - around), 0).astype(int)
    x1, y1 = np.minimum(np.ceil(high + around), [200, 150]).astype(int)
    factor = max(1, round(200 / min(x1 - x0, y1 - y0)))
    wide = made.shape[1]
    assert made.shape[0] == 2 * TOP + factor * (y1 - y0) + 1
    aside = (wide - factor * (x1 - x0)) // 2
    for box, number in boxes[::-1]:
        painted = np.argwhere((made[2 * TOP :] == figures.colour(number)).all(axis=2))
        left, top = factor * (box[0] - x0) + aside, factor * (box[1] - y0)
        assert painted.min(axis=0) == pytest.approx([top, left], abs=2)
        end = [factor * (box[3] - y0), factor * (box[2] - x0) + aside]
        assert painted.max(axis=0) == pytest.approx(end, abs=2)


@pytest.mark.parametrize("box", [[240, 40, 280, 80], [-80, 40, -40, 80], [60, 190, 100, 220]])
def test_a_missed_object_beyond_the_image_has_no_picture(box):
    data = from_pairs([(np.zeros((150, 200, 3), np.uint8), {"boxes": [], "labels": []})], ["cup"])
    assert confusion._photo(data, {"a": 0}, {"image": "a", "file": "a.png", "box": box}) is None
