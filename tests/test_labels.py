"""Classes are joined by name, whatever their order, case and separators."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from misdetect.nouns.labels import ALIASES, Joined, join_labels, joining, known_classes, one_name, told
from misdetect.said.errors import BadSpec

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


def test_well_known_other_names_join_what_spelling_leaves_over():
    detector, data = ["Motorbike", "aeroplane", "cat", "tvmonitor"], ["airplane", "motorcycle", "cat", "zebra"]
    assert join_labels(detector, data, "d", "t").tolist() == [1, 0, 2, -1]
    found = joining(detector, data)
    assert found["aliases"] == [["Motorbike", "motorcycle"], ["aeroplane", "airplane"]]
    assert found["joined"] == 3
    assert [each["name"] for each in found["only_detector"]] == ["tvmonitor"]
    assert [each["name"] for each in found["only_data"]] == ["zebra"]


def test_a_name_of_its_own_is_never_taken_for_another():
    # data that tells a sofa from a couch keeps both apart, whichever of them the detector has
    assert join_labels(["sofa", "couch"], ["couch", "sofa"], "d", "t").tolist() == [1, 0]
    assert join_labels(["sofa"], ["couch", "sofa"], "d", "t").tolist() == [1]
    assert join_labels(["sofa", "couch"], ["couch"], "d", "t").tolist() == [-1, 0]
    assert known_classes(["sofa", "couch"], ["couch", "sofa", "tv"]).tolist() == [True, True, False]


def test_what_is_left_over_is_listed_both_ways_with_the_nearest():
    found = joining(["traffic lights", "cat"], ["traffic light", "cat", "moon"])
    assert found["only_detector"] == [{"name": "traffic lights", "nearest": ["traffic light"]}]
    assert found["only_data"][0] == {"name": "traffic light", "nearest": ["traffic lights"]}
    assert found["only_data"][1] == {"name": "moon", "nearest": []}
    said = " ".join(told(found))
    assert "2 classes of the data" in said
    assert "traffic light (traffic lights?), moon" in said
    assert "1 class of the detector that the data does not have" in said
    assert told(joining(["cat"], ["cat"])) == []


@given(st.lists(st.sampled_from([name for names in ALIASES for name in names]), unique=True, max_size=12))
def test_every_name_has_at_most_one_partner(names):
    half = len(names) // 2
    joined = Joined.loosely(names[:half], names[half:])
    partners = [label for label in joined.to_data.tolist() if label >= 0]
    assert all(
        one_name(names[i]) == one_name(names[half + label]) for i, label in enumerate(joined.to_data) if label >= 0
    )
    assert set(partners) == {i for i, label in enumerate(joined.to_detector.tolist()) if label >= 0}
