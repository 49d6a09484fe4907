"""Pictures of what is behind the cells of a confusion matrix: which are shown, and what lies where."""

import numpy as np
import pytest
import verify_toys
from drawn_parts import TOP, shown

import misdetect as md
from misdetect.data.dataset import Dataset, Sample
from misdetect.data.memory import from_pairs
from misdetect.drawing import figures
from misdetect.nouns.detections import Truth
from misdetect.said.errors import BadImage
from misdetect.studies.confusion import figures as confusion


class Broken:
    """Pixels of a file that cannot be read any more."""

    def read(self):
        raise BadImage("it is gone.")

    def key(self):
        return "broken"


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
