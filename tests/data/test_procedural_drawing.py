"""Laws of the drawing beneath rooms and bikes: every short cut draws what the long way draws, and no byte changes
unless ``VERSION`` does."""

from math import pi

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from misdetect.data.bikes import BIKES, load_bikes
from misdetect.data.procedural.bikes.surroundings import draw_background
from misdetect.data.procedural.draw.camera import Block, Board, Camera, Frame, Stage
from misdetect.data.procedural.draw.canvas import Canvas
from misdetect.data.procedural.draw.dice import Dice
from misdetect.data.procedural.draw.pen import Pen
from misdetect.data.procedural.rooms.scene import compose, draw
from misdetect.data.rooms import ROOMS, load_rooms
from misdetect.nouns.picture import digest
from misdetect.nouns.spec import Spec

RECORDED_WITH = "5.0.0"
PINS = {
    ("rooms", 2): {
        ("train", 3): "4fae691dd19ea418828c3601758bbe6a",
        ("val", 0): "2ad2dedb9ace8b9ac48170839f1e1a13",
        ("val", 12): "0002316d1f27a8f6f9464247b0b81446",
        ("test", 7): "9d69cc567d9383a74eb8c0fdf264ab95",
    },
    ("bikes", 2): {
        ("train", 2): "9a894827d1021be0befecef34c2e92eb",
        ("val", 0): "624db8c9c453d22bdd5bec3a12c6d0db",
        ("test", 5): "223964f990f00eab0010fc2b7fd20bf2",
    },
}
"""Digests of image and truth by data set and ``VERSION``, then by split and index."""


@pytest.mark.parametrize(("kind", "load"), [(ROOMS, load_rooms), (BIKES, load_bikes)], ids=["rooms", "bikes"])
def test_no_byte_of_an_image_changes_without_a_new_version(kind, load):
    pins = PINS.get((kind.name, kind.version))
    assert pins is not None, f"{kind.name} has a new VERSION: record the digests of its images here."
    if cv2.__version__ != RECORDED_WITH:
        pytest.skip(
            f"recorded with OpenCV {RECORDED_WITH}; another version may round otherwise, here {cv2.__version__}"
        )
    if "*AVX2" not in cv2.getCPUFeaturesLine().split() or not cv2.ipp.useIPP():
        pytest.skip("recorded with OpenCV's AVX2 and IPP code; its other code rounds a few pixels otherwise")
    found = {}
    for split, index in pins:
        sample = load(Spec.parse(f"{kind.name}:{split}"))[index]
        t = sample.truth
        found[split, index] = digest(sample.image, t.boxes, t.labels, t.ids, t.areas, t.states, t.masks.to_array())
    assert found == pins, f"Images of {kind.name} have changed: raise its VERSION, or restore them."


coordinate = st.floats(-1.2, 1.2)
cameras = st.builds(Camera, st.floats(0.8, 1.2), st.floats(0.2, 0.5), st.floats(1.0, 1.9))


def on_stage(camera, size=64):
    return Stage(Canvas(size), camera)


@given(cameras, coordinate, st.floats(-1, 3), st.floats(-1, 9))
def test_a_spot_is_a_projected_point(camera, x, y, z):
    assert camera.spot(x, y, z) == pytest.approx(camera.project(np.array([x, y, z])).tolist(), rel=1e-12)


@given(
    cameras,
    st.lists(st.tuples(coordinate, coordinate), min_size=3, max_size=9),
    st.floats(0.05, 6),
    st.floats(-pi, pi),
    st.booleans(),
    st.booleans(),
)
def test_a_board_draws_where_its_points_are_projected(camera, points, z, yaw, flip, turned):
    """Also where a board reaches behind the camera."""
    lens, points_alone = on_stage(camera), on_stage(camera)

    def board(stage):
        if turned:
            return Frame(stage, 0.3, 0.8, z, yaw, 0.9).board(0.1, 0.2, 0.0, flip=flip)
        return Board.facing(stage, 0.3, 0.8, z, size=0.9, flip=flip)

    lens.canvas.start(3)
    Pen(lens.canvas, board(lens)).fill(points, (10, 20, 30))
    points_alone.canvas.start(3)
    points_alone.canvas.flat(board(points_alone).at(points), (10, 20, 30))
    assert np.array_equal(lens.canvas.pixels, points_alone.canvas.pixels)


@given(
    cameras,
    st.tuples(coordinate, st.floats(0, 1.5), st.floats(1.5, 6)),
    st.floats(-pi, pi),
    st.tuples(*[st.floats(0.05, 1.2)] * 3),
    st.tuples(*[st.floats(-0.4, 0.4)] * 3),
    st.sampled_from([0.6, 1.0, 1.4]),
)
def test_the_faces_of_a_cuboid_cover_the_hull_of_its_corners(camera, place, yaw, size, middle, scale):
    """The painted faces together are the silhouette, up to a pixel at its edge, unless the eye is inside."""
    stage, hull = on_stage(camera), on_stage(camera)
    frame = Frame(stage, *place, yaw, scale)
    signs = np.array([[a, b, c] for a in (-0.5, 0.5) for b in (-0.5, 0.5) for c in (-0.5, 0.5)])
    local = np.array(middle) + signs * np.array(size)
    if frame.world(local)[:, 2].min() < 0.2:
        return
    stage.canvas.start(1)
    frame.blocks([Block(middle, size, (90, 120, 150), "wood")])
    hull.canvas.start(1)
    hull.canvas.flat(cv2.convexHull(frame.at(local).astype(np.float32))[:, 0], (1, 1, 1))
    painted, outline = (s.canvas.pixels[..., 3] for s in (stage, hull))
    around = np.ones((5, 5), np.uint8)
    assert (painted <= cv2.dilate(outline, around)).all()
    assert (painted >= cv2.erode(outline, around)).all()


@given(
    st.lists(st.lists(st.tuples(coordinate, coordinate), min_size=2, max_size=6), min_size=1, max_size=6),
    st.floats(0, 0.2),
)
def test_an_owner_owns_what_it_has_drawn_and_is_counted_where_it_drew(shapes, width):
    canvas = Canvas(48)
    canvas.start(7)
    for k, shape in enumerate(shapes):
        if k % 2 or len(shape) < 3:
            canvas.stroke(shape, width, (1, 2, 3))
        else:
            canvas.fill(shape, (1, 2, 3), relief="sphere", texture="grain", slope=(0.1, 0.2))
    mask, left, top = canvas.owned()
    everywhere = canvas.owners() == 7
    assert np.array_equal(everywhere[top : top + mask.shape[0], left : left + mask.shape[1]], mask)
    assert mask.sum() == everywhere.sum()


@pytest.mark.heavy
@pytest.mark.parametrize("size", [32, 128, 200])
def test_what_walls_hide_of_a_floor_does_not_show(size, monkeypatch):
    """Drawing the whole floor with care, as if no wall would hide any of it, changes no pixel."""
    quick = [draw(compose(Dice.seeded(1, 1, 0, index)), size).image for index in range(40)]
    whole = Canvas.surface
    monkeypatch.setattr(Canvas, "surface", lambda *args, visible=None: whole(*args))
    for index, image in enumerate(quick):
        assert np.array_equal(draw(compose(Dice.seeded(1, 1, 0, index)), size).image, image)


@pytest.mark.parametrize("size", [32, 131, 160])
def test_a_background_leaves_nothing_of_what_was_there(size):
    """Absent parts are drawn before it and must not show; where a wall hides the sky, none is drawn."""
    for index in range(60):
        canvas = Canvas(size)
        canvas.pixels[..., 3] = 255
        draw_background(canvas, Dice.seeded(5, index))
        assert not canvas.pixels[..., 3].any()
