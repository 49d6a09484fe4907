"""``Dataset``: views behave as the sequences they are views of."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from misdetect.data import load_data
from misdetect.data.dataset import Dataset, Sample
from misdetect.nouns.detections import Truth
from misdetect.nouns.picture import Pixels


class Blank:
    def read(self) -> Pixels:
        return np.zeros((2, 2, 3), dtype=np.uint8)

    def key(self) -> str:
        return "blank"


def of(count: int) -> Dataset:
    return Dataset(
        "made:",
        ("a",),
        count,
        lambda i: Sample(str(i), Blank(), Truth.empty(), 2, 2),
        fingerprint="f",
        category_ids=[7],
    )


@given(count=st.integers(0, 9), cut=st.slices(9), again=st.slices(9))
def test_views_of_views_are_slices_of_slices(count: int, cut: slice, again: slice) -> None:
    expected = [str(i) for i in range(count)]
    view = of(count)[cut][again]
    assert [sample.id for sample in view] == expected[cut][again]
    assert len(view) == len(expected[cut][again])
    assert (view.names, view.category_ids, view.fingerprint) == (("a",), (7,), "f")


@given(count=st.integers(1, 9), index=st.integers(-12, 12))
def test_an_index_is_a_lists_index(count: int, index: int) -> None:
    if -count <= index < count:
        assert of(count)[index].id == str(list(range(count))[index])
    else:
        with pytest.raises(IndexError, match=f"no image {index}"):
            of(count)[index]


def test_a_data_set_is_its_own_spec() -> None:
    dataset = of(3)
    assert load_data(dataset) is dataset
    assert dataset.limit(None) is dataset is dataset.limit(3)
    assert [sample.id for sample in dataset.limit(2)] == ["0", "1"]
