"""Data that was shipped is the data that was sent: from files, and from memory; what cannot be read stays so."""

import pickle
from pathlib import Path

import numpy as np
import pytest
from written import cvat

from misdetect.data import load_data
from misdetect.data.shipped import Parcel, has_files, ship
from misdetect.said.errors import BadImage


@pytest.mark.parametrize("form", ["memory", "files"])
def test_shipped_data_is_the_same(tmp_path: Path, form: str) -> None:
    rooms = load_data("rooms:val").limit(3)
    pairs = [(sample.image, sample.truth) for sample in rooms]
    data = load_data(pairs, rooms.names) if form == "memory" else load_data(cvat(rooms, tmp_path))
    assert has_files(data) == (form == "files")
    parcels: list[Parcel] = []
    manifest = pickle.loads(pickle.dumps(ship(data, parcels.append)))  # noqa: S301 (it has just been written)
    there = manifest.open(parcels.__getitem__)
    assert (there.spec, there.names, there.fingerprint, len(there)) == (data.spec, data.names, data.fingerprint, 3)
    for one, other in zip(there, data, strict=True):
        assert (one.id, one.image_id, one.file_name, one.key) == (other.id, other.image_id, other.file_name, other.key)
        assert (one.width, one.height) == (other.width, other.height)
        np.testing.assert_array_equal(one.image, other.image)
        np.testing.assert_array_equal(one.truth.boxes, other.truth.boxes)
        np.testing.assert_array_equal(one.truth.masks.to_array(), other.truth.masks.to_array())


def test_an_image_that_cannot_be_read_travels_as_that(tmp_path: Path) -> None:
    data = load_data(cvat(load_data("rooms:val").limit(2), tmp_path))
    (tmp_path / "images" / data[1].file_name).unlink()
    parcels: list[Parcel] = []
    there = ship(data, parcels.append).open(parcels.__getitem__)
    np.testing.assert_array_equal(there[0].image, data[0].image)
    with pytest.raises(BadImage, match="does not exist"):
        _ = there[1].image
