"""The pictures behind the rows of an attack: detections before and after, and the picture that was kept."""

import numpy as np
from written_runs import thing, written

from misdetect.data.memory import from_pairs
from misdetect.studies.attack import evidence
from misdetect.studies.attack.evidence import AttackStage
from misdetect.studies.attack.rows import png
from misdetect.studies.attack.settings import AttackSettings
from misdetect.studies.conditions import SCHEMA as ATTACK


def test_an_images_own_name_may_have_slashes():
    assert evidence._attacked("attack/train/i0.png/cls") == ("train/i0.png", "cls")


def photos(count=3, side=32):
    """Images that differ, named by their places."""
    generator = np.random.default_rng(0)
    pixels = generator.integers(0, 256, (count, side, side + 8, 3)).astype(np.uint8)
    return from_pairs([(image, {"boxes": [], "labels": []}) for image in pixels], ["cup"])


def states(boxes):
    return [(box[4], box[5], box[6]) for box in boxes]


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
