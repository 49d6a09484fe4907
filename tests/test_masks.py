"""Masks decode to what pycocotools decodes, stay compressed and unchanged, and refuse what would not fit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from pycocotools import mask as coco_mask

from misdetect.nouns.masks import Masks
from misdetect.said.errors import BadArray

bitmaps = st.tuples(st.integers(0, 4), st.integers(1, 9), st.integers(1, 9)).flatmap(lambda s: arrays(np.bool_, s))


@given(bitmaps)
def test_run_lengths_are_those_of_pycocotools_and_decode_to_the_same_pixels(bitmap):
    masks = Masks.from_array(bitmap)
    np.testing.assert_array_equal(masks.to_array(), bitmap)
    encoded = [masks.rle(i) for i in range(len(masks))]
    for record, one in zip(encoded, bitmap, strict=True):
        theirs = coco_mask.encode(np.asfortranarray(one.astype(np.uint8)))
        assert record == {"size": list(one.shape), "counts": theirs["counts"].decode()}
    again = Masks(encoded, *bitmap.shape[1:])
    np.testing.assert_array_equal(again.to_array(), bitmap)


@given(st.integers(0, 2**32 - 1))
def test_polygons_are_filled_as_pycocotools_fills_them(seed):
    rng = np.random.default_rng(seed)
    polygons = [rng.uniform(0, 20, 2 * rng.integers(3, 7)).tolist() for _ in range(rng.integers(1, 3))]
    expected = coco_mask.decode(coco_mask.merge(coco_mask.frPyObjects(polygons, 20, 24)))
    np.testing.assert_array_equal(Masks([polygons], 20, 24)[0], expected.astype(bool))


@given(bitmaps, st.data())
def test_selecting_masks_is_selecting_rows(bitmap, data):
    masks = Masks.from_array(bitmap)
    chosen = data.draw(arrays(np.bool_, len(bitmap)))
    np.testing.assert_array_equal(masks[chosen].to_array(), bitmap[chosen])
    np.testing.assert_array_equal(masks[np.flatnonzero(chosen)].to_array(), bitmap[chosen])
    np.testing.assert_array_equal(masks[::-1].to_array(), bitmap[::-1])


def test_neither_giver_nor_taker_can_change_a_mask():
    mine = np.zeros((2, 3, 4), np.bool_)
    for masks in (Masks.from_array(mine), Masks(list(mine), 3, 4), Masks(list(mine.astype(np.uint8)), 3, 4)[1:]):
        assert mine.flags.writeable
        mine[:] = True
        assert not masks[0].any()
        with pytest.raises(ValueError, match="read-only"):
            masks[0][:] = True
        mine[:] = False


def test_a_promise_is_kept_when_it_is_looked_at_and_not_before():
    asked = []
    masks = Masks([lambda: asked.append(1) or np.ones((2, 2), np.uint8), None, []], 2, 2)
    assert [masks.has(i) for i in range(3)] == [True, False, False]
    assert len(masks[1:]) == 2
    assert asked == []
    assert masks[0].dtype == np.bool_
    assert masks[0].all()
    assert not masks[1].any()
    assert not masks[2].any()


@pytest.mark.parametrize(
    ("segment", "says"),
    [
        (np.ones((2, 3), np.bool_), r"\[4, 5\].*\[2, 3\]"),
        ({"size": [5, 4], "counts": "04"}, r"\[4, 5\].*\[5, 4\]"),
        ({"counts": "04"}, "None"),
        ({"size": [4, 5], "counts": [3, 9999]}, "mask"),
        ({"size": [4, 5]}, "mask"),
        ([[1.0, 2.0, 3.0]], "3 numbers"),
        ([[0, 0, 1e9, 0, 0, 1e9]], "1e\\+09"),
        ([[0, 0, float("nan"), 0, 0, 3]], "near its 5x4 image"),
    ],
)
def test_a_segment_that_does_not_fit_is_refused(segment, says):
    with pytest.raises(BadArray, match=says):
        Masks([segment], 4, 5)[0]


def test_a_stack_must_be_a_stack():
    with pytest.raises(BadArray, match=r"\[N, H, W\].*\[2, 3\]"):
        Masks.from_array(np.zeros((2, 3)))


@given(st.text(st.characters(min_codepoint=40, max_codepoint=125), max_size=30))
def test_compressed_run_lengths_of_a_stranger_are_a_mask_or_refused(counts):
    """pycocotools trusts them; here nothing is decoded that does not add up."""
    try:
        mask = Masks([{"size": [6, 7], "counts": counts}], 6, 7)[0]
    except BadArray:
        return
    assert mask.shape == (6, 7)


@given(st.integers(0, 2**32 - 1))
def test_compressed_run_lengths_that_pycocotools_writes_are_read(seed):
    chance = np.random.default_rng(seed)
    expected = chance.random(tuple(chance.integers(1, 40, 2))) < chance.random()
    counts = coco_mask.encode(np.asfortranarray(expected.astype(np.uint8)))["counts"].decode()
    height, width = expected.shape
    np.testing.assert_array_equal(Masks([{"size": [height, width], "counts": counts}], height, width)[0], expected)


@pytest.mark.parametrize(
    "counts", [[0, 43], [-1, 43], [0.5], ["a"], [True], [2**63], [0] * 100, "O", "0O", "P", "o" * 9, "0é", None]
)
def test_run_lengths_that_do_not_add_up_are_refused(counts):
    with pytest.raises(BadArray):
        Masks([{"size": [6, 7], "counts": counts}], 6, 7)[0]


def test_a_mask_of_a_terabyte_is_refused_before_memory_is_reserved():
    side = 2**20
    with pytest.raises(BadArray, match="more than memory is given for"):
        Masks([{"size": [side, side], "counts": [0, side * side]}], side, side)[0]
