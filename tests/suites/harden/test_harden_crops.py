"""Objects cut out of their images: the pixels that slicing by hand gives, one label each, cut once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from misdetect.data import load_data
from misdetect.said.errors import BadData
from misdetect.suites.harden.crops import object_crops, window

NAMES = ("red", "green")
NOISE = np.random.default_rng(2).integers(0, 256, (3, 60, 90, 3), dtype=np.uint8)
"""Every pixel another: a crop one pixel off is not the crop."""
BOXES = ([[40, 20, 48, 32], [0, 0, 8, 8]], [[82, 50, 90, 60]], [[30, 10, 55, 30], [10.4, 20.2, 34.8, 41.6]])
LABELS = (["green", "red"], ["red"], ["green", "green"])


def data(**more):
    pairs = [
        (image, {"boxes": boxes, "labels": labels, **{key: values[i] for key, values in more.items()}})
        for i, (image, boxes, labels) in enumerate(zip(NOISE, BOXES, LABELS, strict=True))
    ]
    return load_data(pairs, names=["green", "red"])


def test_small_objects_are_cut_out_as_they_are(tmp_path):
    """Up to 12 pixels and 30 percent are 16, which is the side here: nothing is resized."""
    crops = object_crops(data(), NAMES, tmp_path, side=16, most=3)
    assert np.array_equal(crops.pixels[0], NOISE[0, 18:34, 36:52])  # 16 around (44, 26)
    assert np.array_equal(crops.pixels[1], NOISE[0, 0:16, 0:16])  # (4, 4) is too near to the corner
    assert np.array_equal(crops.pixels[2], NOISE[1, 44:60, 74:90])


def test_large_objects_are_averaged_down(tmp_path):
    """Of 25 x 20 pixels and 30 percent are 32 around (42.5, 20), moved into the image: squares of two by two."""
    crop = object_crops(data(), NAMES, tmp_path, side=16).pixels[3].astype(float)
    square = NOISE[2, 4:36, 26:58].astype(float)
    expected = np.mean([square[dy::2, dx::2] for dx in (0, 1) for dy in (0, 1)], axis=0)
    assert np.abs(crop - expected).max() <= 1


def test_each_has_one_label_by_name_around_all_of_it(tmp_path):
    crops = object_crops(data(), NAMES, tmp_path, side=32)
    assert (crops.names, len(crops)) == (NAMES, 5)
    assert crops.labels.tolist() == [1, 0, 0, 1, 1]
    for i in range(5):
        boxes, labels = crops.truth(i)
        assert boxes.tolist() == [[0, 0, 32, 32]]
        assert labels.tolist() == [crops.labels[i]]


def test_what_the_detector_shall_not_find_is_left_out(tmp_path):
    crowd = ([True, False], [False], [False, False])
    states = (("intact", "absent"), ("damaged",), ("intact", "occluded"))
    crops = object_crops(data(crowd=crowd, states=states), NAMES, tmp_path, side=16)
    assert crops.labels.tolist() == [0, 1]
    with pytest.raises(BadData, match="no objects of the detector's classes to cut out"):
        object_crops(data(crowd=([True, True], [True], [True, True])), NAMES, tmp_path / "none", side=16)
    assert not list((tmp_path / "none").iterdir())


def test_they_are_cut_once(tmp_path, monkeypatch):
    first = object_crops(data(), NAMES, tmp_path, side=16)
    monkeypatch.setattr("misdetect.suites.harden.crops._cut", lambda *_: pytest.fail("cut a second time"))
    again = object_crops(data(), NAMES, tmp_path, side=16)
    assert np.array_equal(first.pixels, again.pixels)
    assert first.fingerprint == again.fingerprint


def test_fingerprints_tell_them_apart(tmp_path):
    made = [
        object_crops(data(), NAMES, tmp_path, side=16),
        object_crops(data(), NAMES, tmp_path, side=32),
        object_crops(data(), NAMES, tmp_path, side=16, most=2),
        object_crops(data(), NAMES, tmp_path, side=16, flip=False),
        object_crops(data(), NAMES[::-1], tmp_path, side=16),
        object_crops(data().limit(2), NAMES, tmp_path, side=16),
    ]
    assert len({each.fingerprint for each in made}) == len(made)
    assert [len(each) for each in made] == [5, 5, 2, 5, 5, 3]


@given(
    st.integers(1, 200), st.integers(1, 200), *(st.floats(0, 200) for _ in range(2)), *(st.floats(0, 90) for _ in "wh")
)
def test_windows_are_squares_inside_the_image_around_the_object(width, height, x, y, w, h):
    box = np.array([x, y, x + w, y + h])
    x0, y0, x1, y1 = window(box, width, height)
    assert 0 <= x0 < x1 <= width
    assert 0 <= y0 < y1 <= height
    side = max(16, 1.3 * max(w, h))
    for length, cut in ((width, x1 - x0), (height, y1 - y0)):
        assert abs(cut - min(side, length)) <= 0.5
    inside = box[2] <= width and box[3] <= height
    if inside and side < min(width, height):  # then nothing of the object is cut off
        assert x0 - 1 <= box[0]
        assert y0 - 1 <= box[1]
        assert box[2] <= x1 + 1
        assert box[3] <= y1 + 1
