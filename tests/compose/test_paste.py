"""A paste is what a loop over pixels says it is, and its key says exactly what its pixels are."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from misdetect.compose.fade import Faded
from misdetect.compose.paste import Paste
from misdetect.data.cutouts import Cutout
from misdetect.nouns.picture import Raw
from misdetect.said.errors import BadArray

seeds = st.integers(0, 2**32 - 1)
places = st.tuples(st.integers(-12, 14), st.integers(-12, 14))


def scene(seed: int) -> tuple[Raw, Cutout]:
    """A random picture and a random cutout, alpha 0 or 255."""
    rng = np.random.default_rng(seed)
    picture = Raw(rng.integers(0, 256, (*rng.integers(1, 11, 2), 3), dtype=np.uint8))
    rgba = rng.integers(0, 256, (*rng.integers(1, 9, 2), 4), dtype=np.uint8)
    rgba[:, :, 3] = np.where(rng.random(rgba.shape[:2]) < 0.6, 255, 0)
    return picture, Cutout(rgba, "thing")


def pasted_slowly(image: np.ndarray, rgba: np.ndarray, at: tuple[int, int]) -> np.ndarray:
    result = image.copy()
    for row in range(rgba.shape[0]):
        for column in range(rgba.shape[1]):
            x, y = at[0] + column, at[1] + row
            if 0 <= x < image.shape[1] and 0 <= y < image.shape[0] and rgba[row, column, 3] >= 128:
                result[y, x] = rgba[row, column, :3]
    return result


@given(seeds, places)
def test_a_paste_is_what_a_loop_over_pixels_gives(seed, at):
    """Inside, partly outside on any side, and wholly outside."""
    picture, cutout = scene(seed)
    before = picture.render().copy()
    paste = Paste(picture, cutout, at)
    np.testing.assert_array_equal(paste.render(), pasted_slowly(before, cutout.rgba, at))
    np.testing.assert_array_equal(picture.render(), before)
    width, height = cutout.size
    assert paste.box == (at[0], at[1], at[0] + width, at[1] + height)


@given(seeds, places, st.sampled_from([0.0, 0.25, 0.7, 1.0]), st.lists(st.integers(0, 10), min_size=4, max_size=4))
def test_a_part_is_what_the_whole_shows_there(seed, at, opacity, sides):
    picture, cutout = scene(seed)
    whole = picture.render().astype(float)
    x0, y0, x1, y1 = (min(v, whole.shape[1 - k % 2]) for k, v in enumerate(sides))
    box = min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1)
    mixed = np.rint(opacity * pasted_slowly(picture.render(), cutout.rgba, at) + (1 - opacity) * whole)
    for edit, expected in [
        (Paste(picture, cutout, at), pasted_slowly(picture.render(), cutout.rgba, at)),
        (Faded(Paste(picture, cutout, at), opacity), mixed),
    ]:
        np.testing.assert_array_equal(edit.render(), expected)
        np.testing.assert_array_equal(edit.part(box), expected[box[1] : box[3], box[0] : box[2]])


@given(seeds, places, places)
def test_a_paste_on_a_paste_lies_on_top(seed, first, second):
    picture, cutout = scene(seed)
    other = scene(seed + 1)[1]
    stack = Paste(Paste(picture, cutout, first), other, second)
    below = pasted_slowly(picture.render(), cutout.rgba, first)
    np.testing.assert_array_equal(stack.render(), pasted_slowly(below, other.rgba, second))


@given(st.lists(st.tuples(st.integers(0, 2), places, st.sampled_from([None, (3, 3), (5, 2), "own"])), max_size=30))
def test_equal_keys_mean_equal_pixels(descriptions):
    drawn: dict[str, bytes] = {}
    for seed, at, size in descriptions:
        picture, cutout = scene(seed)
        paste = Paste(picture, cutout, at, cutout.size if size == "own" else size)
        pixels = repr(paste.render().shape).encode() + paste.render().tobytes()
        assert drawn.setdefault(paste.key, pixels) == pixels
        again = Paste(Raw(picture.render().copy()), Cutout(cutout.rgba.copy(), "thing"), at, paste.size)
        assert again.key == paste.key


def test_numpy_numbers_describe_the_same_paste():
    picture, cutout = scene(0)
    assert Paste(picture, cutout, (np.int64(1), 2)).key == Paste(picture, cutout, (1, 2)).key
    assert Paste(picture, cutout, [1, 2], list(cutout.size)).key == Paste(picture, cutout, (1, 2)).key


@given(seeds, st.integers(1, 40), st.integers(1, 40))
def test_a_resized_object_keeps_its_colour_to_the_edge(seed, width, height):
    """One colour on transparent black: whatever the size, each pixel is the object's colour or the picture's."""
    rng = np.random.default_rng(seed)
    rgba = np.zeros((9, 9, 4), dtype=np.uint8)
    rgba[rng.random((9, 9)) < 0.5] = (200, 120, 40, 255)
    rgba[4, 4] = (200, 120, 40, 255)
    picture = Raw(np.full((40, 40, 3), 7, dtype=np.uint8))
    colours = {tuple(c) for c in Paste(picture, Cutout(rgba, "x"), (0, 0), (width, height)).render().reshape(-1, 3)}
    assert colours <= {(7, 7, 7), (200, 120, 40)}


def test_a_resized_rectangle_covers_its_box():
    rgba = np.full((4, 4, 4), 255, dtype=np.uint8)
    picture = Raw(np.zeros((30, 30, 3), dtype=np.uint8))
    paste = Paste(picture, Cutout(rgba, "x"), (3, 5), (10, 20))
    x0, y0, x1, y1 = paste.box
    assert (x0, y0, x1, y1) == (3, 5, 13, 25)
    expected = np.zeros((30, 30, 3), dtype=np.uint8)
    expected[y0:y1, x0:x1] = 255
    np.testing.assert_array_equal(paste.render(), expected)


@pytest.mark.parametrize(
    ("at", "size", "says"),
    [
        ((0.5, 1), None, "whole numbers"),
        ((1, 2, 3), None, "whole numbers"),
        ((0, 0), (0, 3), "at least 1x1 pixels. Got 0x3"),
        ((0, 0), (3,), "Got 3"),
        ((0, 0), (2.5, 3), "whole numbers"),
    ],
)
def test_a_paste_that_cannot_be_drawn_is_refused_when_described(at, size, says):
    with pytest.raises(BadArray, match=says):
        Paste(*scene(0), at, size)


def test_a_cutout_leaves_the_callers_array_alone():
    mine = np.full((2, 2, 4), 255, dtype=np.uint8)
    cutout = Cutout(mine, "x")
    key = cutout.key
    mine[:] = 0
    assert cutout.rgba.all()
    assert Cutout(cutout.rgba, "x").key == key
    with pytest.raises(ValueError, match="read-only"):
        cutout.rgba[:] = 1
