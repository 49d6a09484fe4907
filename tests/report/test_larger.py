"""Pictures for people: the same scene, larger; what an edit leaves in place is drawn anew, the rest as seen."""

from dataclasses import replace

import cv2
import numpy as np
import pytest

import misdetect as md
from misdetect.compose.cover import Covered
from misdetect.compose.move import Flipped, Moved
from misdetect.compose.paste import Paste, resized
from misdetect.compose.texture import texture
from misdetect.data.cutouts import cut
from misdetect.drawing import figures
from misdetect.drawing.larger import larger, shown
from misdetect.nouns.boxes import iou
from misdetect.nouns.detections import Truth

ROOMS, TIMES = "rooms:val,count=9", 3


@pytest.fixture(scope="module")
def room():
    return md.load_data(ROOMS)[3]


@pytest.fixture(scope="module")
def scene(room):
    return larger(room, TIMES)


def lowered(image):
    """Back to the size that a detector sees, as floats."""
    height, width = image.shape[:2]
    return cv2.resize(image.astype(np.float32), (width // TIMES, height // TIMES), interpolation=cv2.INTER_AREA)


@pytest.mark.parametrize("spec", [ROOMS, "bikes:val,count=9"])
def test_a_drawn_scene_is_the_same_scene_with_the_same_objects(spec):
    for sample in md.load_data(spec)[:4]:
        large = sample.larger(TIMES)
        assert (large.width, large.height) == (TIMES * sample.width, TIMES * sample.height)
        assert large.truth.ids.tolist() == sample.truth.ids.tolist()
        assert large.truth.labels.tolist() == sample.truth.labels.tolist()
        fits = np.diag(iou(large.truth.boxes / TIMES, sample.truth.boxes))
        assert np.median(fits) > 0.9, "thin ends that a small picture lacks make some boxes longer"
        off = np.abs(lowered(large.image) - sample.image).mean()
        other = np.abs(lowered(large.image) - sample.image[:, ::-1]).mean()
        assert off < 0.4 * other, "grey levels; the mirrored scene is another"


def test_a_larger_scene_shows_what_enlarging_cannot(room, scene):
    def sharpness(image):
        return cv2.Laplacian(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), cv2.CV_64F).var()

    assert sharpness(scene) > 2 * sharpness(figures.smooth(room.image, TIMES))


def test_photos_are_enlarged_and_large_ones_left_alone():
    image = np.random.default_rng(0).integers(0, 256, (60, 90, 3), dtype=np.uint8)
    sample = md.load_data([(image, Truth([[1.0, 1, 9, 9]], [0]))], ("cup",))[0]
    assert sample.larger(TIMES) is None
    assert np.array_equal(larger(sample, TIMES), figures.smooth(image, TIMES))
    assert np.array_equal(larger(Flipped(sample), TIMES), figures.smooth(image[:, ::-1], TIMES))
    same, factor = shown(sample, 60)
    assert factor == 1
    assert np.array_equal(same, image)


def test_what_is_moved_or_mirrored_is_so_in_the_larger_scene(room, scene):
    assert np.array_equal(larger(Flipped(room), TIMES), scene[:, ::-1])
    moved = larger(Moved(room, (5, -7)), TIMES)
    assert np.array_equal(moved[: -7 * TIMES, 5 * TIMES :], scene[7 * TIMES :, : -5 * TIMES])


@pytest.mark.parametrize("size", [1.0, 1.4])
def test_an_object_of_a_drawn_scene_is_pasted_larger_and_at_its_place(room, scene, size):
    data = md.load_data(ROOMS)
    source = data[5]
    cutout = cut(source, int(np.argmax(source.truth.areas)), data.names, data=ROOMS)
    cutout = resized(cutout, tuple(round(size * side) for side in cutout.size))
    paste = Paste(room, cutout, (9, 14))
    edited = larger(paste, TIMES)
    x0, y0, x1, y1 = (TIMES * side for side in paste.box)
    outside = np.ones(scene.shape[:2], bool)
    outside[y0:y1, x0:x1] = False
    assert np.array_equal(edited[outside], scene[outside])
    inner = cv2.erode(cutout.mask.astype(np.uint8), np.ones((3, 3), np.uint8)).astype(bool)
    seen = lowered(edited)[14 : 14 + cutout.size[1], 9 : 9 + cutout.size[0]][inner[: 128 - 14, : 128 - 9]]
    expected = paste.render()[14 : 14 + cutout.size[1], 9 : 9 + cutout.size[0]][inner[: 128 - 14, : 128 - 9]]
    assert np.abs(seen - expected).mean() < 20, "the same object, in grey levels"
    assert not np.array_equal(edited[y0:y1, x0:x1], figures.smooth(paste.render(), TIMES)[y0:y1, x0:x1])


@pytest.mark.parametrize(
    "told", [{"data": "memory:"}, {"data": "rooms:nowhere"}, {"sample": "rooms-val-0-000099"}, {"truth": 77}]
)
def test_an_object_that_cannot_be_found_again_is_enlarged(room, told):
    data = md.load_data(ROOMS)
    cutout = replace(cut(data[5], 0, data.names, data=ROOMS), **told)
    paste = Paste(room, cutout, (9, 14))
    inner = cv2.erode(cutout.mask.astype(np.uint8), np.ones((5, 5), np.uint8))
    rows, columns = np.nonzero(inner)
    y, x = TIMES * (14 + rows) + 1, TIMES * (9 + columns) + 1
    seen, enlarged = (each[y, x].astype(int) for each in (larger(paste, TIMES), figures.smooth(paste.render(), TIMES)))
    assert len(rows)
    np.testing.assert_allclose(seen, enlarged, atol=1)


def test_a_control_has_the_pixels_of_the_larger_scene(room, scene):
    data = md.load_data(ROOMS)
    shape = cut(room, int(np.argmin(room.truth.areas)), data.names, data=ROOMS)
    edited = larger(Paste(room, texture(room, shape, (2, 3)), (40, 60)), TIMES)
    changed = (edited != scene).any(axis=2)
    rows, columns = np.nonzero(changed)
    assert changed.any()
    np.testing.assert_array_equal(edited[rows, columns], scene[rows - TIMES * 57, columns - TIMES * 38])


def test_what_only_the_detector_saw_is_shown_as_it_was(room, scene):
    """Inpainting happens at the size that is asked about; around it the scene is drawn anew."""
    mask = np.zeros((room.height, room.width), bool)
    mask[40:70, 50:90] = True
    covered = Covered(room, mask, "grey")
    edited = larger(covered, TIMES)
    enlarged = figures.smooth(covered.render(), TIMES)
    inside = np.s_[44 * TIMES : 66 * TIMES, 54 * TIMES : 86 * TIMES]
    np.testing.assert_allclose(edited[inside].astype(int), enlarged[inside].astype(int), atol=1)
    assert np.array_equal(edited[: 36 * TIMES], scene[: 36 * TIMES])
