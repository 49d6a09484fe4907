"""Naturalness: OpenCV's own histograms, the part computed anew equal to the whole, and the paper's two ends."""

from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from misdetect.compose.naturalness import Naturalness, hog, naturalness
from misdetect.compose.paste import Paste, lay
from misdetect.data import load_data
from misdetect.data.cutouts import cutouts
from misdetect.nouns.picture import Raw
from misdetect.said.errors import BadArray

COCO66 = Path(__file__).parents[2] / "../shared/fixtures/coco66/instances.json"
needs_photos = pytest.mark.skipif(not COCO66.exists(), reason="needs the photos of ../shared/fixtures/coco66")
OPENCV = Path(__file__).with_name("opencv_hog.npz")
"""Images, ``NAME``, and what OpenCV 4.12's HOGDescriptor says of them as BGR, ``NAME_hog``, blocks by row."""


def opencv_hog(image):
    """The descriptor of OpenCV itself, where it still has one (up to 4.x); blocks by row and column."""
    height, width = image.shape[:2]
    descriptor = cv2.HOGDescriptor((width, height), (16, 16), (8, 8), (8, 8), 9)
    flat = descriptor.compute(np.ascontiguousarray(image[:, :, ::-1]))
    return flat.reshape(width // 8 - 1, height // 8 - 1, 36).transpose(1, 0, 2)


@pytest.mark.parametrize("name", ["room", "noise", "grey"])
def test_histograms_are_those_of_opencv(name):
    with np.load(OPENCV) as stored:
        image, expected = stored[name], stored[f"{name}_hog"]
    np.testing.assert_allclose(hog(image), expected, atol=1e-6)


@needs_photos
@pytest.mark.skipif(not hasattr(cv2, "HOGDescriptor"), reason="OpenCV 5 has no HOGDescriptor")
def test_histograms_of_photos_are_those_of_the_opencv_that_is_here():
    for sample in load_data(f"coco:{COCO66}")[:4]:
        image = sample.image[: sample.height // 8 * 8, : sample.width // 8 * 8]
        np.testing.assert_allclose(hog(image), opencv_hog(image), atol=1e-6)


def test_an_upright_edge_votes_for_the_horizontal_gradient_only():
    """By hand: a step in x has its gradient at angle 0, half way between the last orientation and the first."""
    image = np.zeros((16, 16, 3), dtype=np.uint8)
    image[:, 8:] = 255
    by_orientation = hog(image).reshape(4, 9).sum(axis=0)
    assert by_orientation[[0, 8]] == pytest.approx([by_orientation[0]] * 2)
    assert by_orientation[0] > 0.9
    assert not by_orientation[1:8].any()


def noise(height, width, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


@given(
    size=st.tuples(st.integers(1, 70), st.integers(1, 70)),
    corner=st.tuples(st.integers(-20, 75), st.integers(-20, 75)),
    extent=st.tuples(st.integers(0, 40), st.integers(0, 40)),
    smooth=st.booleans(),
)
def test_what_is_computed_anew_is_all_that_changed(size, corner, extent, smooth):
    """At every place, over every edge, also in images that no block fits into: as if computed in full."""
    background = noise(*size)
    if smooth:
        background = cv2.GaussianBlur(background, (0, 0), 3)
    (x0, y0), (x1, y1) = corner, (corner[0] + extent[0], corner[1] + extent[1])
    edited = background.copy()
    changed = edited[max(y0, 0) : max(y1, 0), max(x0, 0) : max(x1, 0)]
    changed[...] = noise(*changed.shape[:2], seed=1)
    fresh = naturalness(edited, background)
    patch = edited[max(y0, 0) : max(y1, 0), max(x0, 0) : max(x1, 0)]
    at = max(x0, 0), max(y0, 0)
    for keep in (True, False):
        natural = Naturalness(Raw(background), keep)
        assert natural.of(patch, at) == pytest.approx(fresh, abs=1e-6)
        assert (natural.nbytes > 0) == keep
    assert 0 <= fresh <= 1


@given(seed=st.integers(0, 99))
def test_it_is_the_intersection_as_a_share_of_the_backgrounds(seed):
    background, edited = noise(40, 33, seed), cv2.GaussianBlur(noise(40, 33, seed + 1), (0, 0), 1 + seed % 3)
    one, other = hog(edited).astype(float), hog(background).astype(float)
    assert naturalness(edited, background) == pytest.approx(np.minimum(one, other).sum() / other.sum(), abs=1e-6)


@pytest.mark.parametrize("shape", [(1, 1), (5, 200), (15, 15), (16, 16), (17, 31), (100, 120)])
def test_an_unchanged_image_is_wholly_natural(shape):
    background = noise(*shape)
    assert naturalness(background, background) == 1
    assert Naturalness(Raw(background)).of(background[:5, :5]) == 1
    assert Naturalness(Raw(background)).of(background[7:9, 7:7], (7, 7)) == 1


def test_a_patch_that_sticks_out_counts_where_it_is_inside():
    background, patch = noise(60, 50), noise(30, 30, seed=1)
    for x, y in [(-10, -10), (40, 45), (-10, 45), (200, 3)]:
        edited = background.copy()
        lay(edited, patch, (x, y))
        assert Naturalness(Raw(background)).of(patch, (x, y)) == pytest.approx(naturalness(edited, background))


def test_a_background_without_gradients_has_nothing_to_share():
    flat = np.full((32, 32, 3), 99, dtype=np.uint8)
    assert naturalness(flat, flat) == 1
    assert naturalness(np.full_like(flat, 7), flat) == 1  # another flat one: no gradient here, none there
    edited = flat.copy()
    edited[10:20, 10:20] = 200
    assert naturalness(edited, flat) == 0
    assert naturalness(flat, edited) == 0


def test_an_edit_of_another_size_is_refused():
    with pytest.raises(BadArray, match=r"\[32, 40\]. Got \[40, 32\]"):
        naturalness(noise(40, 32), noise(32, 40))


@needs_photos
def test_inserted_objects_are_natural_and_other_photos_are_not():
    """Paper 4, Table 4: 98 to 99 % with an inserted object. Two photos: "below 50 %" there, about 66 % here."""
    data = load_data(f"coco:{COCO66}")
    objects = [cutout for cutout in cutouts(data[:20], min_area=2000) if max(cutout.size) < 150][:12]
    photos = [sample.image for sample in data[20:32]]
    inserted, others = [], []
    for photo, thing, other in zip(photos, objects, photos[1:] + photos[:1], strict=True):
        paste = Paste(Raw(photo), thing, (photo.shape[1] // 3, photo.shape[0] // 3))
        inserted.append(Naturalness(Raw(photo)).of(paste.part(paste.box), paste.at))
        height, width = (min(a, b) for a, b in zip(photo.shape[:2], other.shape[:2], strict=True))
        others.append(naturalness(other[:height, :width], photo[:height, :width]))
    assert 0.96 < np.mean(inserted) < 1
    assert 0.5 < np.mean(others) < 0.75
    assert min(inserted) > max(others) + 0.1
