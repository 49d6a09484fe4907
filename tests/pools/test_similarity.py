"""Similarity: Hamming distances of ImageHash, the likest object found again, ties and exclusions."""

import pickle
import sys
from pathlib import Path

import imagehash
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from PIL import Image

from misdetect.data import load_data
from misdetect.data.cutouts import Cutout
from misdetect.data.dataset import Sample
from misdetect.nouns.detections import Truth
from misdetect.nouns.picture import digest
from misdetect.pools.pool import Pool, build_pool
from misdetect.pools.refine import Refinement
from misdetect.pools.similarity import Similarity, average_hash, cosine_distances, crops, hash_distances, opaque
from misdetect.said.errors import BadSpec, DetectorFailed

COCO66 = Path(__file__).parents[2] / "../shared/fixtures/coco66/instances.json"
needs_photos = pytest.mark.skipif(not COCO66.exists(), reason="needs the photos of ../shared/fixtures/coco66")


def photo(height=60, width=80, seed=0):
    coarse = np.random.default_rng(seed).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    return np.asarray(Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC))


def thing(pixels, label="cat", sample="", mask=None):
    alpha = np.full((*pixels.shape[:2], 1), 255, dtype=np.uint8) if mask is None else mask[:, :, None] * np.uint8(255)
    return Cutout(np.concatenate([pixels * (alpha > 0), alpha], axis=2), label, sample=sample)


class Drawn:
    def __init__(self, pixels):
        self.pixels = pixels

    def read(self):
        return self.pixels

    def key(self):
        return digest(self.pixels)


def sample_of(id, pixels):
    return Sample(id, Drawn(pixels), Truth.empty(), pixels.shape[1], pixels.shape[0])


bits = hnp.arrays(bool, 64)


@given(ours=st.lists(bits, min_size=1, max_size=5), theirs=bits)
def test_the_distance_to_one_hash_is_imagehashs_hamming_distance(ours, theirs):
    expected = [imagehash.ImageHash(o.reshape(8, 8)) - imagehash.ImageHash(theirs.reshape(8, 8)) for o in ours]
    assert hash_distances(ours, theirs).tolist() == expected


@given(ours=bits, theirs=st.lists(bits, min_size=1, max_size=6))
def test_the_distance_to_a_mean_is_the_mean_of_the_distances(ours, theirs):
    """What a mean of hashes read as whole numbers could not give."""
    each = [np.count_nonzero(ours != other) for other in theirs]
    assert hash_distances([ours], np.mean(theirs, axis=0))[0] == pytest.approx(np.mean(each))


def test_hashes_are_imagehashs_of_the_same_pixels():
    image = photo()
    similarity = Similarity(Pool([thing(image)]))
    expected = imagehash.average_hash(Image.fromarray(image)).hash.ravel()
    assert average_hash(image).tolist() == expected.tolist()
    assert similarity.matrix[0].tolist() == expected.astype(float).tolist()
    box = (10.2, 5.9, 40.1, 33)  # grown to whole pixels
    cropped = imagehash.average_hash(Image.fromarray(image).crop((10, 5, 41, 33))).hash.ravel()
    assert similarity.describe(image, [box])[0].tolist() == cropped.astype(float).tolist()


@given(
    box=st.tuples(*[st.floats(-30, 110)] * 4).map(
        lambda b: (min(b[0], b[2]), min(b[1], b[3]), max(b[::2]), max(b[1::2]))
    )
)
def test_every_box_has_a_crop_inside_the_image(box):
    (crop,) = crops(photo(), [box])
    assert crop.shape[0] >= 1
    assert crop.shape[1] >= 1


@given(mask=hnp.arrays(bool, st.tuples(st.integers(1, 9), st.integers(1, 9))).filter(np.any))
def test_a_transparent_pixel_takes_the_colour_of_a_nearest_one(mask):
    """Each pixel has a colour of its own, so the filled image tells where each came from; naive search as oracle."""
    height, width = mask.shape
    pixels = np.zeros((height, width, 3), dtype=np.uint8)
    pixels[:, :, 0], pixels[:, :, 1] = np.mgrid[:height, :width]
    pixels[:, :, 2] = 1
    filled = opaque(thing(pixels, mask=mask))
    places = np.argwhere(mask)
    for y, x in np.ndindex(height, width):
        distances = np.hypot(*(places - (y, x)).T)
        from_y, from_x = filled[y, x, :2].astype(int)
        assert mask[from_y, from_x]
        assert filled[y, x, 2] == 1
        # OpenCV's distances to pixels are good to a few percent
        assert np.hypot(from_y - y, from_x - x) <= 1.05 * distances.min() + 1e-9


def test_the_likest_of_the_class_is_nearest_and_the_earlier_of_equals():
    image = photo()
    boxes = [(0, 0, 40, 40), (30, 20, 80, 60)]
    exact = image[0:40, 0:40]
    pool = Pool(
        [
            thing(photo(seed=1)),
            thing(exact, "dog"),
            thing(255 - exact),
            thing(exact),
            thing(photo(seed=2)),
            thing(exact),
        ]
    )
    similarity = Similarity(pool)
    assert similarity.nearest("cat", image, boxes[:1]) == 3
    assert similarity.nearest("dog", image, boxes) == 1
    assert similarity.nearest("Cat", image, boxes[:1]) == 3  # classes join by name, however it is written
    assert similarity.nearest("bird", image, boxes) is None
    order = similarity.ranked("cat", image, boxes[:1])
    assert sorted(order) == [0, 2, 3, 4, 5]
    assert order[:2] == [3, 5]
    assert order[-1] == 2  # each cell of the negative disagrees
    assert similarity.ranked("cat", image, []) == [0, 2, 3, 4, 5]


def test_an_objects_own_photo_is_known_by_its_id_or_its_content():
    image = photo()
    here, copied = sample_of("here", image), sample_of("elsewhere", image)
    same = thing(image, sample="here")
    pool = Pool([same, thing(image, sample="another"), thing(image)], [copied.key, copied.key, "other pixels"])
    similarity = Similarity(pool)
    boxes = [(0, 0, 80, 60)]
    assert similarity.nearest("cat", image, boxes) == 0
    assert similarity.ranked("cat", image, boxes, exclude=here) == [2]
    assert similarity.ranked("cat", image, boxes, exclude=copied) == [2]
    assert similarity.ranked("cat", image, boxes, exclude=sample_of("here", photo(seed=5))) == [1, 2]
    assert similarity.ranked("cat", image, boxes, exclude=sample_of("new", photo(seed=5))) == [0, 1, 2]


@needs_photos
def test_objects_are_found_again_by_their_boxes_in_their_photos():
    """The choice for transparent pixels, judged by what it is for: chance would find one in ten at best."""
    data = load_data(f"coco:{COCO66}")[:30]
    pool = build_pool(data, refinement=Refinement(keep=1, component=1, border=0, solidity=0, min_side=24))
    similarity = Similarity(pool)
    photos = {sample.id: sample.image for sample in data}
    first = []
    for i, cutout in enumerate(pool):
        if len(pool.of(cutout.label)) >= 10:
            (x, y), (width, height) = cutout.at, cutout.size
            first.append(similarity.nearest(cutout.label, photos[cutout.sample], [(x, y, x + width, y + height)]) == i)
    assert len(first) >= 30
    assert np.mean(first) > 0.7


# Embeddings.

MODULE = '''
import numpy as np

def colour(crops):
    """The mean colour, which is blind to what a hash sees."""
    return np.array([crop.reshape(-1, 3).mean(axis=0) for crop in crops])

def shapeless(crops):
    return np.zeros(3)

def broken(crops):
    raise RuntimeError("out of luck")

def lost(crops):
    return np.full((len(crops), 2), np.nan)
'''


@pytest.fixture
def module(tmp_path):
    (tmp_path / "mine.py").write_text(MODULE)
    return f"python:{tmp_path / 'mine.py'}"


def plain(colour):
    return thing(np.full((20, 20, 3), colour, dtype=np.uint8))


def test_a_users_embedding_decides(module):
    red, dark_red, blue = (200, 10, 10), (100, 5, 5), (10, 10, 200)
    image = np.zeros((20, 40, 3), dtype=np.uint8)
    image[:, :20], image[:, 20:] = red, (180, 30, 30)
    similarity = Similarity(Pool([plain(blue), plain(dark_red), plain((10, 200, 10))]), f"{module}:colour")
    assert similarity.nearest("cat", image, [(0, 0, 20, 20), (20, 0, 40, 20)]) == 1  # cosine: brightness is no matter
    assert similarity.settings["similarity"] == "embedding"
    assert len(similarity.settings["code"]) == 32
    for name in [name for name in sys.modules if name.startswith("misdetect_user_mine")]:
        del sys.modules[name]  # as in another process
    sent = pickle.loads(pickle.dumps(similarity))  # noqa: S301
    assert sent.ranked("cat", image, [(0, 0, 20, 20)]) == similarity.ranked("cat", image, [(0, 0, 20, 20)])


@given(
    vectors=hnp.arrays(float, (4, 3), elements=st.floats(-9, 9)),
    mean=hnp.arrays(float, 3, elements=st.floats(-9, 9)),
    scale=st.floats(0.1, 50),
)
def test_cosine_distances_do_not_depend_on_length(vectors, mean, scale):
    found = cosine_distances(vectors, mean)
    assert ((found >= -1e-9) & (found <= 2 + 1e-9)).all()
    if np.linalg.norm(mean) > 1e-3 and (np.linalg.norm(vectors, axis=1) > 1e-3).all():
        np.testing.assert_allclose(cosine_distances(vectors * scale, mean), found, atol=1e-9)
        assert cosine_distances([mean], mean)[0] == pytest.approx(0, abs=1e-9)
        assert cosine_distances([-mean], mean)[0] == pytest.approx(2)
    assert cosine_distances([[0, 0, 0]], mean)[0] == 1


@pytest.mark.parametrize(
    ("name", "error", "says"),
    [
        ("shapeless", DetectorFailed, r"shape \[1, D\]"),
        ("broken", DetectorFailed, "RuntimeError: out of luck"),
        ("lost", DetectorFailed, "not finite"),
        ("absent", BadSpec, "has no 'absent'"),
    ],
)
def test_a_bad_embedding_is_named(module, name, error, says):
    with pytest.raises(error, match=says):
        Similarity(Pool([plain((1, 2, 3))]), f"{module}:{name}").nearest("cat", photo(), [(0, 0, 9, 9)])


def test_an_embedding_is_python():
    with pytest.raises(BadSpec, match="python:module:function"):
        Similarity(Pool([plain((1, 2, 3))]), "onnx:model.onnx")
