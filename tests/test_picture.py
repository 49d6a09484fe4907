"""Keys name pixels: equal keys mean equal pixels, and nothing can change behind a key."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from misdetect.nouns.picture import Picture, Raw, check_pixels, digest
from misdetect.said.errors import BadArray

atom = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
value = st.recursive(atom, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=6)


def exact(value):
    """``value`` with its types, so that 1, 1.0 and True are three things and 0.0 is not -0.0."""
    return (type(value), [exact(v) for v in value] if isinstance(value, tuple) else repr(value))


@given(st.lists(value, max_size=4), st.lists(value, max_size=4))
def test_digests_are_equal_only_for_equal_parts(a, b):
    assert (digest(*a) == digest(*b)) == ([exact(v) for v in a] == [exact(v) for v in b])


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (("ab", "c"), ("a", "bc")),
        (("a", ""), ("a",)),
        (("a",), (b"'a'",)),
        ((("a", "b"),), ("a", "b")),
        (((), "a"), (("a",),)),
        ((1,), ("1",)),
        ((np.zeros((2, 3), np.uint8),), (np.zeros((3, 2), np.uint8),)),
        ((np.zeros(4, np.uint8),), (np.zeros(1, np.float32),)),
        ((np.zeros(4, np.uint8),), (bytes(4),)),
        # repr() of a long array leaves out its middle: these two look the same
        (((np.arange(5000),),), ((np.where(np.arange(5000) == 2500, 0, np.arange(5000)),),)),
    ],
)
def test_boundaries_types_and_shapes_matter(a, b):
    assert digest(*a) != digest(*b)


def test_what_is_the_same_hashes_the_same():
    table = np.arange(12).reshape(3, 4)
    assert digest(table.T) == digest(np.ascontiguousarray(table.T))
    assert digest([1, "a"]) == digest((1, "a"))
    assert digest(np.float64(0.5), np.int64(3)) == digest(0.5, 3)
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1}) != digest({"a": 2, "b": 1})


def test_digests_are_the_same_in_another_process():
    code = "from misdetect.nouns.picture import digest; print(digest('a', 1.5, b'x', None, {'k': (1, 2)}))"
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert there.stdout.strip() == digest("a", 1.5, b"x", None, {"k": (1, 2)})


@pytest.mark.parametrize("part", [{1, 2}, object(), np.array([object()]), [object()]])
def test_what_has_no_stable_form_is_refused(part):
    with pytest.raises(TypeError, match="to hash"):
        digest(part)


@given(arrays(np.uint8, array_shapes(min_dims=2, max_dims=2, max_side=4).map(lambda s: (*s, 3))))
def test_a_raw_picture_is_its_pixels(pixels):
    picture = Raw(pixels)
    assert isinstance(picture, Picture)
    np.testing.assert_array_equal(picture.render(), pixels)
    assert picture.key == Raw(pixels.copy()).key
    changed = pixels.copy()
    changed[0, 0, 0] ^= 1
    assert Raw(changed).key != picture.key


def test_pixels_cannot_change_behind_the_key():
    mine = np.zeros((2, 2, 3), np.uint8)
    picture = Raw(mine)
    mine[:] = 255
    assert mine.flags.writeable
    assert not picture.render().any()
    with pytest.raises(ValueError, match="read-only"):
        picture.render()[:] = 1


@pytest.mark.parametrize(
    ("image", "says"),
    [
        (np.zeros((2, 2, 3)), "float64"),
        (np.zeros((2, 2), np.uint8), r"\[2, 2\]"),
        (np.zeros((3, 2, 2), np.uint8), r"\[3, 2, 2\]"),
        (np.zeros((2, 2, 4), np.uint8), r"\[2, 2, 4\]"),
        ([[0]], "list"),
    ],
)
def test_what_is_no_image_is_refused(image, says):
    with pytest.raises(BadArray, match=says):
        check_pixels(image)
