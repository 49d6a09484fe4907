"""Pictures of attacked images: which are shown, and that pixels stay as they are."""

import attack_toys
import cv2
import numpy as np
import pytest
from drawn_parts import GAP, TOP, part, shown
from written_runs import written

import misdetect as md
from misdetect.data.memory import from_pairs
from misdetect.drawing import figures
from misdetect.drawing.larger import LEAST
from misdetect.studies.attack import figures as attack
from misdetect.studies.attack.rows import png
from misdetect.studies.attack.settings import AttackSettings
from misdetect.studies.conditions import SCHEMA


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
