"""Pairs of image and truth as data."""

import numpy as np
import pytest

from misdetect import load_data
from misdetect.nouns.detections import Truth
from misdetect.said.errors import BadArray, BadData

IMAGES = [np.random.default_rng(i).integers(0, 256, (10 + i, 20, 3), dtype=np.uint8) for i in range(3)]
NAMED = [(image, {"boxes": [[1, 1, 5, 5]] * i, "labels": ["dog", "cat"][:i]}) for i, image in enumerate(IMAGES)]


def test_labels_may_be_names():
    data = load_data(NAMED)
    assert data.names == ("cat", "dog")
    assert [sample.truth.labels.tolist() for sample in data] == [[], [1], [1, 0]]
    assert [(s.width, s.height) for s in data] == [(20, 10), (20, 11), (20, 12)]
    assert all(np.array_equal(sample.image, image) for sample, image in zip(data, IMAGES, strict=True))
    assert [i for sample in data for i in sample.truth.ids.tolist()] == [1, 2, 3], "ids differ over the whole data"


def test_names_that_are_not_among_the_given_ones_are_added():
    data = load_data(NAMED, names=["dog", "bird"])
    assert data.names == ("dog", "bird", "cat")
    assert [sample.truth.labels.tolist() for sample in data] == [[], [0], [0, 2]]


def test_labels_may_be_numbers_of_given_names():
    truth = Truth([[0, 0, 3, 3]], [1], ids=[77])
    data = load_data([(IMAGES[0], truth)], names=["a", "b"])
    assert data[0].truth.labels.tolist() == [1]
    with pytest.raises(BadData, match=r"names=\[…\]"):
        load_data([(IMAGES[0], {"boxes": [[0, 0, 3, 3]], "labels": [1]})])
    with pytest.raises(BadData, match="pair 0 has the label 5, but there are only 2 names"):
        load_data([(IMAGES[0], {"boxes": [[0, 0, 3, 3]], "labels": [5]})], names=["a", "b"])


def test_the_fingerprint_is_of_pixels_and_truth():
    again, other = load_data(NAMED), load_data([*NAMED[:2], (IMAGES[0], NAMED[2][1])])
    moved = load_data([*NAMED[:2], (IMAGES[2], {"boxes": [[1, 1, 5, 5], [1, 1, 5, 6]], "labels": ["dog", "cat"]})])
    assert load_data(NAMED).fingerprint == again.fingerprint
    assert len({again.fingerprint, other.fingerprint, moved.fingerprint}) == 3


def test_what_is_no_image_is_refused():
    with pytest.raises(BadArray, match="uint8 RGB"):
        load_data([(np.zeros((4, 4)), {"boxes": [], "labels": []})])


def test_a_view_says_which_part_it_is():
    data = load_data(NAMED)
    assert (data.limit(2).limited_to, data.limit(2).part) == (2, None)
    assert (data.limit(9).limited_to, data.part) == (None, None)
    parts = {data.subset([0, 1]).part, data.subset([1, 0]).part, data.limit(2).subset([0, 1]).part, None}
    assert len(parts) == 4
    assert data.subset([0, 1]).limit(1).part not in parts
