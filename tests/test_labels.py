"""Classes are joined by name, whatever their order, case and separators."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from misdetect.errors import BadSpec
from misdetect.labels import join_labels

NAMES = ["dining table", "Dog", "stop_sign", "t-shirt", "person"]
WRITTEN = ["Dining_Table", "dog", "STOP SIGN", "T Shirt", "person"]


@given(st.permutations(range(5)), st.integers(1, 5))
def test_order_and_spelling_do_not_matter(order, known):
    detector = [WRITTEN[i] for i in order]
    joined = join_labels(detector, NAMES, "d", "t")
    assert joined.tolist() == list(order)
    kept = join_labels(detector, NAMES[:known], "d", "t")
    assert kept.tolist() == [i if i < known else -1 for i in order]


def test_a_name_given_twice_is_the_first():
    assert join_labels(["cat"], ["dog", "cat", "Cat"], "d", "t").tolist() == [1]


def test_nothing_in_common_names_both_sides():
    with pytest.raises(BadSpec, match=r"onnx:a and coco:b .*cat, dog.* the data person"):
        join_labels(["cat", "dog"], ["person"], "onnx:a", "coco:b")


def test_data_or_detector_without_classes_joins_nothing():
    assert join_labels(["cat", "dog"], [], "d", "t").tolist() == [-1, -1]
    assert join_labels([], ["cat"], "d", "t").tolist() == []
