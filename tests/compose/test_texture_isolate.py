"""The control's texture and the views of Fig. 3, against what they are meant to leave and to change."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from misdetect.compose.isolate import Isolate
from misdetect.compose.paste import Paste
from misdetect.compose.texture import elsewhere, texture
from misdetect.data.cutouts import Cutout
from misdetect.nouns.picture import Raw
from misdetect.said.errors import BadArray

PIXELS = np.random.default_rng(0).integers(1, 256, (40, 60, 3), dtype=np.uint8)
BACKGROUND = Raw(PIXELS)


def disc(width, height):
    rgba = np.zeros((height, width, 4), np.uint8)
    y, x = np.mgrid[:height, :width]
    inside = ((x - width / 2 + 0.5) / width) ** 2 + ((y - height / 2 + 0.5) / height) ** 2 <= 0.25
    rgba[inside] = [200, 10, 10, 255]
    return Cutout(rgba, "cat")


def test_texture_has_the_shape_of_the_object_and_the_pixels_of_the_background():
    shape = disc(12, 9)
    made = texture(BACKGROUND, shape, (30, 20))
    assert made.label == "", "it is no object, and says so"
    assert np.array_equal(made.mask, shape.mask)
    assert np.array_equal(made.rgba[shape.mask][:, :3], PIXELS[20:29, 30:42][shape.mask])
    assert (made.rgba[~shape.mask] == 0).all()
    drawn = Paste(BACKGROUND, made, (3, 4)).render()
    assert np.array_equal(drawn[4:13, 3:15][shape.mask], PIXELS[20:29, 30:42][shape.mask])
    with pytest.raises(BadArray, match="inside the 60x40 image"):
        texture(BACKGROUND, shape, (50, 20))


def test_texture_keys_tell_places_shapes_and_pictures_apart():
    made = [
        texture(BACKGROUND, disc(12, 9), (30, 20)),
        texture(BACKGROUND, disc(12, 9), (31, 20)),
        texture(BACKGROUND, disc(12, 10), (30, 20)),
        texture(Raw(PIXELS[::-1]), disc(12, 9), (30, 20)),
    ]
    assert len({cutout.key for cutout in made}) == 4
    assert made[0].key == texture(BACKGROUND, disc(12, 9), (30, 20)).key


@given(st.integers(1, 60), st.integers(1, 40), st.data())
def test_elsewhere_is_inside_and_apart_wherever_there_is_room(width, height, data):
    x, y = data.draw(st.integers(0, 60 - width)), data.draw(st.integers(0, 40 - height))
    generator = np.random.default_rng(data.draw(st.integers(0, 99)))
    u, v = elsewhere(60, 40, (x, y, x + width, y + height), generator)
    assert 0 <= u <= 60 - width
    assert 0 <= v <= 40 - height
    if 3 * width <= 60 or 3 * height <= 40:  # then there is room on one side, wherever the box lies
        assert abs(u - x) >= width or abs(v - y) >= height


MASK = np.zeros((40, 60), bool)
MASK[10:20, 15:25] = True
BOX = (10, 8, 30, 25)
WITHIN = np.zeros((40, 60), bool)
WITHIN[8:25, 10:30] = True


@pytest.mark.parametrize("outside", ["keep", "zero", "noise"])
@pytest.mark.parametrize("inside", ["keep", "zero"])
def test_isolate_changes_what_it_says_and_nothing_else(outside, inside):
    drawn = Isolate(BACKGROUND, BOX, MASK, outside, inside).render()
    assert np.array_equal(drawn[MASK], PIXELS[MASK]), "the object stays"
    rest = WITHIN & ~MASK
    assert (drawn[rest] == (PIXELS[rest] if inside == "keep" else 0)).all()
    if outside == "noise":
        assert abs(drawn[~WITHIN].mean() - 127.5) < 5
        assert (drawn[~WITHIN] != PIXELS[~WITHIN]).mean() > 0.9
    else:
        assert (drawn[~WITHIN] == (PIXELS[~WITHIN] if outside == "keep" else 0)).all()


def test_isolate_keys():
    views = [
        Isolate(BACKGROUND, BOX, MASK, outside, inside, seed)
        for outside in ("keep", "zero", "noise")
        for inside in ("keep", "zero")
        for seed in (0, 1)
    ]
    assert len({view.key for view in views}) == 4 + 4, "the seed matters only where there is noise"
    assert Isolate(BACKGROUND, BOX, ~MASK, "zero", "zero").key != Isolate(BACKGROUND, BOX, MASK, "zero", "zero").key
