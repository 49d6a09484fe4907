"""The letterbox: round trips of boxes, where pixels land, and values against a slow per-pixel version."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from misdetect.detectors.preprocess import PRESETS, Preprocess, place
from misdetect.said.errors import BadArray

RESIZES = ("letterbox", "letterbox-topleft", "stretch")
side = st.integers(1, 1500)
coordinate = st.floats(-50, 1600, allow_nan=False)


@settings(deadline=None)
@given(side, side, side, side, st.sampled_from(RESIZES), st.lists(st.tuples(*[coordinate] * 4), max_size=5))
def test_to_the_network_and_back_is_the_identity(width, height, to_width, to_height, resize, boxes):
    placement = place(width, height, to_width, to_height, resize)
    array = np.array(boxes, dtype=np.float64).reshape(-1, 4)
    np.testing.assert_allclose(placement.to_original(placement.to_network(array)), array, atol=1e-6, rtol=1e-9)


@settings(deadline=None)
@given(side, side, side, side, st.sampled_from(RESIZES))
def test_the_whole_image_is_the_whole_placement_and_lies_on_the_canvas(width, height, to_width, to_height, resize):
    placement = place(width, height, to_width, to_height, resize)
    whole = placement.to_network(np.array([[0.0, 0.0, width, height]]))[0]
    left, top = placement.left, placement.top
    np.testing.assert_allclose(whole, [left, top, left + placement.width, top + placement.height], atol=1e-6)
    assert left >= 0
    assert top >= 0
    assert left + placement.width <= to_width
    assert top + placement.height <= to_height
    if resize != "stretch":  # a letterbox touches two opposite sides, to the pixel that rounding may cost
        assert placement.width >= to_width - 1 or placement.height >= to_height - 1


def test_a_letterbox_keeps_proportions_and_centres():
    placement = place(640, 480, 416, 416, "letterbox")
    assert (placement.width, placement.height, placement.left, placement.top) == (416, 312, 0, 52)
    placement = place(640, 480, 416, 416, "letterbox-topleft")
    assert (placement.width, placement.height, placement.left, placement.top) == (416, 312, 0, 0)


@pytest.mark.parametrize("width", range(300, 1100, 7))
def test_the_long_side_fills_the_canvas_whatever_the_rounding(width):
    assert place(width, 200, 416, 416, "letterbox-topleft").width == 416


@pytest.mark.parametrize("resize", RESIZES)
@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("colour", ["rgb", "bgr"])
def test_values_are_those_of_the_formula(resize, layout, colour):
    """Same size in and out along the long side, so nothing is resampled and each value can be computed by hand."""
    image = np.random.default_rng(0).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    size = (8, 6) if resize == "stretch" else (8, 8)
    mean, std = (0.1, 0.2, 0.3), (0.5, 0.6, 0.7)
    stage = Preprocess(*size, resize, colour, 1 / 255, mean, std, layout, pad=114)
    tensor, placement = stage.apply(image)
    planes = tensor if layout == "nchw" else tensor.transpose(2, 0, 1)
    assert tensor.shape == stage.shape
    assert tensor.dtype == np.float32
    for channel in range(3):
        for y in range(size[1]):
            for x in range(size[0]):
                row, column = y - placement.top, x - placement.left
                inside = 0 <= row < 6 and 0 <= column < 8
                pixel = float(image[row, column, "rgb".index(colour[channel])]) if inside else 114
                expected = (pixel / 255 - mean[channel]) / std[channel]
                assert planes[channel, y, x] == pytest.approx(expected, abs=1e-5)


def test_a_reused_buffer_holds_nothing_of_the_image_before():
    stage = Preprocess(64, 64, **PRESETS["ultralytics"])
    rng = np.random.default_rng(1)
    wide, tall = (rng.integers(0, 256, shape, dtype=np.uint8) for shape in ((20, 60, 3), (60, 20, 3)))
    buffer = stage.buffer(1)
    stage.apply(wide, buffer[0])
    stage.apply(tall, buffer[0])
    np.testing.assert_array_equal(buffer[0], stage.apply(tall)[0])


def test_a_marked_corner_is_found_where_the_placement_says():
    image = np.zeros((300, 500, 3), np.uint8)
    image[100:200, 300:400] = 255
    for resize in RESIZES:
        tensor, placement = Preprocess(160, 224, resize, "rgb", 1.0, pad=0).apply(image)
        rows, columns = np.nonzero(tensor[0] > 127)
        seen = np.array([[columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]], float)
        np.testing.assert_allclose(placement.to_original(seen), [[300, 100, 400, 200]], atol=3)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"resize": "crop"}, "letterbox"),
        ({"colour": "grey"}, "rgb"),
        ({"width": 0}, "0x"),
        ({"std": (1.0, 0.0, 1.0)}, "std above 0"),
        ({"scale": float("nan")}, "finite"),
        ({"dtype": "uint8"}, "uint8"),
    ],
)
def test_nonsense_is_refused(changes, says):
    good = {"width": 8, "height": 8, "resize": "stretch", "colour": "rgb", "scale": 1 / 255}
    with pytest.raises(BadArray, match=says):
        Preprocess(**good | changes)


@pytest.mark.parametrize("image", [np.zeros((4, 4), np.uint8), np.zeros((4, 4, 3)), np.zeros((0, 4, 3), np.uint8), "x"])
def test_what_is_no_image_is_refused(image):
    with pytest.raises(BadArray):
        Preprocess(8, 8, "stretch", "rgb", 1.0).apply(image)
