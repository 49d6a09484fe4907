"""Pictures with something on them: what is drawn where, and in which colour."""

import cv2
import numpy as np
import pytest

from misdetect.drawing import figures


def grey(height, width, shade=100):
    return np.full((height, width, 3), shade, np.uint8)


@pytest.mark.parametrize(
    ("height", "width", "least", "factor"),
    [(100, 200, 320, 3), (200, 100, 320, 3), (320, 400, 320, 1), (700, 900, 320, 1)],
)
def test_small_pictures_are_enlarged_by_a_whole_factor(height, width, least, factor):
    large, by = figures.enlarged(grey(height, width), least)
    assert (large.shape[:2], by) == ((factor * height, factor * width), factor)


def test_a_box_is_drawn_where_it_is_in_the_colour_of_its_class():
    image = grey(100, 120)
    drawn = figures.with_boxes(image, np.array([[20.0, 30, 60, 70], [70, 40, 110, 90]]), ["", ""], [1, 9])
    assert (image == 100).all(), "the photo itself is left alone"
    for x, y, label in ((20, 50, 1), (60, 50, 1), (40, 30, 1), (40, 70, 1), (70, 60, 9), (90, 90, 9)):
        assert tuple(drawn[y, x].tolist()) == figures.colour(label)
    assert (drawn[35:65, 25:55] == 100).all()
    assert figures.colour(9) == figures.colour(2) != figures.colour(1), "seven colours, then again"


@pytest.mark.parametrize(("x", "y"), [(10.0, 40.0), (10.0, 2.0), (105.0, 40.0)])
def test_a_caption_stands_above_its_box_or_inside_it_and_within_the_picture(x, y):
    drawn = figures.with_boxes(grey(100, 120), np.array([[x, y, x + 10, y + 50]]), ["cup 0.5"], [0])
    (width, height), _ = cv2.getTextSize("cup 0.5", cv2.FONT_HERSHEY_SIMPLEX, 0.42, 1)
    painted = (drawn == figures.colour(0)).all(axis=2)
    top = int(y) - height - 5 if y > height + 5 else int(y)
    left = min(int(x), 120 - width - 4)
    assert painted[top, left : left + width + 4].all()
    assert painted[top : top + height + 5, left].all()
    assert (drawn[top : top + height + 5, left : left + width + 4] > 240).all(axis=2).sum() > 20, "letters in white"
    assert not painted[: max(top - 2, 0)].any()


def test_captions_of_boxes_that_lie_together_do_not_cover_each_other():
    boxes = np.array([[20.0, 40, 90, 90], [22, 42, 95, 95], [24, 38, 99, 97]])
    captions = ["cup 0.5", "book 0.6", "cat 0.7"]
    drawn = figures.with_boxes(grey(140, 160), boxes, captions, [0, 1, 2])
    for caption, label in zip(captions, range(3), strict=True):
        (width, height), _ = cv2.getTextSize(caption, cv2.FONT_HERSHEY_SIMPLEX, 0.42, 1)
        painted = (drawn == figures.colour(label)).all(axis=2).astype(np.float32)
        most = cv2.boxFilter(painted, -1, (width + 4, height + 5), normalize=False).max()
        assert most > 0.5 * (width + 4) * (height + 5), "the rest are letters"


@pytest.mark.parametrize("sideways", [False, True])
def test_pictures_are_stacked_centred_on_white_with_gaps(sideways):
    small, large = grey(20, 10), grey(30, 51, 50)
    made = figures.stacked([small, large], sideways=sideways, gap=4)
    if sideways:
        assert made.shape == (30, 10 + 4 + 51 + 4, 3)
        assert (made[5:25, :10] == 100).all()
        assert (made[:, 14:65] == 50).all()
    else:
        assert made.shape == (20 + 4 + 30 + 4, 51, 3)
        assert (made[:20, 20:30] == 100).all()
        assert (made[24:54] == 50).all()
    assert (made == 255).all(axis=2).sum() == made.shape[0] * made.shape[1] - 20 * 10 - 30 * 51


def test_colours_go_from_dark_violet_to_yellow_and_grey_is_not_known():
    low, middle, high, below, above, unknown = figures.heat_colours(
        np.array([2.0, 3.0, 4.0, -9.0, 9.0, np.nan]), 2.0, 4.0
    ).astype(int)
    assert low[2] > low[1]
    assert high[0] > 200 < high[1]
    assert high[2] < 100
    assert middle[1] > max(middle[0], 100)
    assert (below.tolist(), above.tolist(), unknown.tolist()) == (low.tolist(), high.tolist(), [128, 128, 128])
    assert figures.heat_colours(np.array([[1.0]]), 1.0, 1.0).shape == (1, 1, 3)


def test_a_map_has_its_squares_where_the_positions_are():
    """Black photo: half of it in grey is 96, and squares hide it to 72 %."""
    image = np.zeros((320, 400, 3), np.uint8)
    places, values = np.array([[100, 80], [300, 200]]), np.array([0.0, 1.0])
    made = figures.heat_map(image, places, values, 20, title="t", box=[10, 20, 50, 60]).astype(int)
    top = 22
    assert made.shape == (top + 320 + 10 + 18, 400, 3)
    colours = figures.heat_colours(values, 0.0, 1.0).astype(int)
    for (x, y), paint in zip(places.tolist(), colours, strict=True):
        expected = np.rint(0.72 * paint + 0.28 * 96)
        for dx, dy in ((0, 0), (-10, -10), (9, 9)):
            assert np.abs(made[top + y + dy, x + dx] - expected).max() <= 1
        for dx, dy in ((-11, 0), (10, 0), (0, -11), (0, 10)):
            assert made[top + y + dy, x + dx].tolist() == [96, 96, 96]
    red = [230, 40, 40]
    assert made[top + 40, 10].tolist() == made[top + 20, 30].tolist() == made[top + 60, 50].tolist() == red
    scale = made[top + 320 : top + 330]
    assert scale[0, 0].tolist() == scale[-1, 0].tolist() == colours[0].tolist()
    assert scale[5, -1].tolist() == colours[1].tolist()
    assert made[top + 330 :, :20].min() < 100 > made[top + 330 :, -20:].min(), "both ends of the scale are named"


def test_a_map_of_a_small_picture_is_enlarged_with_its_squares_and_its_box():
    """Three times as large: 320 pixels are about three times 100."""
    image = np.zeros((100, 120, 3), np.uint8)
    made = figures.heat_map(image, np.array([[60, 50]]), np.array([1.0]), 10, box=[20, 30, 40, 60]).astype(int)[22:]
    assert made.shape[:2] == (3 * 100 + 10 + 18, 3 * 120)
    other = (made[:300] != 96).any(axis=2) & (made[:300] != [230, 40, 40]).any(axis=2)
    rows, columns = np.flatnonzero(other.any(axis=1)), np.flatnonzero(other.any(axis=0))
    assert (rows[0], rows[-1], columns[0], columns[-1]) == (135, 164, 165, 194), "30 pixels around its middle"
    assert made[120, 60].tolist() == made[180, 90].tolist() == made[90, 120].tolist() == [230, 40, 40]


def test_a_dashed_frame_has_gaps_as_long_as_its_dashes():
    """Lines are two pixels wide or three, and end round: a dash of 20 is some longer than its gap."""
    image = grey(120, 160)
    figures.dashed(image, np.array([20.0, 30, 140, 100]), (255, 0, 0), dash=20)
    red = (image == (255, 0, 0)).all(axis=2)
    for y in (30, 100):
        assert red[y, 20:41].all()
        assert not red[y, 44:57].any()
        assert red[y, 60:81].all()
        assert red[y, 100:121].all()
    for x in (20, 140):
        assert red[30:51, x].all()
        assert not red[54:67, x].any()
        assert red[70:91, x].all()
        assert not red[103:, x].any()
    assert not red[:28].any()
    assert not red[:, :18].any()
    assert not red[34:96, 24:136].any(), "nothing inside"


def test_a_picture_is_written_as_it_is(tmp_path):
    image = np.random.default_rng(0).integers(0, 256, (9, 7, 3), dtype=np.uint8)
    path = figures.save_png(tmp_path / "a" / "b.png", image)
    assert np.array_equal(cv2.imread(str(path))[:, :, ::-1], image)
