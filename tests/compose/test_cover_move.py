"""Covering, moving and mirroring a picture, against pixels moved one by one."""

import numpy as np
import pytest

from misdetect.compose.cover import Covered
from misdetect.compose.move import Flipped, Moved
from misdetect.nouns.picture import Raw
from misdetect.said.errors import BadArray


@pytest.fixture
def picture():
    return Raw(np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8))


@pytest.mark.parametrize("by", [(4, 0), (-4, 0), (0, 3), (0, -3), (5, -2), (0, 0)])
def test_moving_takes_every_pixel_along_and_repeats_the_edge(picture, by):
    moved, old = Moved(picture, by).render(), picture.pixels
    assert moved.shape == old.shape
    for y in range(20):
        for x in range(30):
            source = old[min(max(y - by[1], 0), 19), min(max(x - by[0], 0), 29)]
            assert (moved[y, x] == source).all()


def test_boxes_go_where_the_pixels_go(picture):
    box = np.array([[3.0, 2, 9, 7]])
    x0, y0, x1, y1 = (int(v) for v in box[0])
    for edit in (Moved(picture, (6, 5)), Moved(picture, (-2, -1)), Flipped(picture)):
        a, b, c, d = (int(v) for v in edit.boxes(box, 30, 20)[0])
        there, before = edit.render()[b:d, a:c], picture.pixels[y0:y1, x0:x1]
        assert np.array_equal(there, before[:, ::-1] if isinstance(edit, Flipped) else before)
    assert Moved(picture, (25, 0)).boxes(box, 30, 20).tolist() == [[28, 2, 30, 7]], "cut to the frame"


def test_mirroring_twice_is_nothing(picture):
    assert np.array_equal(Flipped(Raw(Flipped(picture).render())).render(), picture.pixels)


@pytest.mark.parametrize("filling", ["inpaint", "grey"])
def test_covering_changes_the_mask_and_nothing_else(picture, filling):
    mask = np.zeros((20, 30), np.bool_)
    mask[5:12, 8:20] = True
    covered = Covered(picture, mask, filling).render()
    assert np.array_equal(covered[~mask], picture.pixels[~mask])
    assert (covered[mask] != picture.pixels[mask]).any(axis=1).mean() > 0.9
    if filling == "grey":
        assert (covered[mask] == 114).all()


def test_inpainting_a_plain_picture_leaves_it_plain():
    mask = np.zeros((20, 30), np.bool_)
    mask[5:12, 8:20] = True
    plain = np.full((20, 30, 3), 90, np.uint8)
    marked = plain.copy()
    marked[mask] = 200
    assert np.abs(Covered(Raw(marked), mask).render().astype(int) - plain).max() <= 2


def test_keys_tell_edits_apart(picture):
    mask, other = np.zeros((20, 30), np.bool_), np.zeros((20, 30), np.bool_)
    mask[0, 0], other[0, 1] = True, True
    edits = [Covered(picture, mask), Covered(picture, mask, "grey"), Covered(picture, other), Moved(picture, (1, 0))]
    edits += [Moved(picture, (0, 1)), Flipped(picture), picture]
    assert len({edit.key for edit in edits}) == len(edits)
    assert Covered(picture, mask).key == Covered(Raw(picture.pixels), mask.copy()).key


def test_a_mask_of_another_size_is_refused(picture):
    with pytest.raises(BadArray, match="mask of the picture's size"):
        Covered(picture, np.zeros((4, 4), np.bool_)).render()
