"""A data set in a FiftyOne database, written by the library itself. Skipped where fiftyone, or its database, is not."""

from typing import Any

import numpy as np
import pytest
from written import bounds, png

from misdetect.data import load_data
from misdetect.data.check import inspect
from misdetect.data.dataset import Dataset
from misdetect.said.errors import BadData, BadSpec

pytestmark = pytest.mark.heavy
fo: Any = pytest.importorskip("fiftyone")


@pytest.fixture(scope="module")
def rooms() -> Dataset:
    return load_data("rooms:val").limit(3)


@pytest.fixture(scope="module")
def stored(rooms: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """``rooms`` in the database: masks in one field, boxes with crowds in another, polylines in a third."""
    folder = tmp_path_factory.mktemp("photos")
    try:
        data = fo.Dataset("misdetect-test", overwrite=True)
    except Exception as error:
        pytest.skip(f"the database of fiftyone does not start here: {error}")
    for sample in rooms:
        (folder / f"{sample.id}.png").write_bytes(png(sample.image))
        row = fo.Sample(filepath=str(folder / f"{sample.id}.png"))
        size = np.array([sample.width, sample.height] * 2)
        row["ground_truth"] = fo.Detections(
            detections=[
                fo.Detection(label=rooms.names[label], bounding_box=box, mask=part)
                for label, (box, part) in zip(sample.truth.labels, map(_cropped, sample.truth.masks), strict=True)
            ]
        )
        row["boxes"] = fo.Detections(
            detections=[
                fo.Detection(label=rooms.names[label], bounding_box=(_xywh(box) / size).tolist(), iscrowd=i % 2)
                for i, (label, box) in enumerate(zip(sample.truth.labels, sample.truth.boxes, strict=True))
            ]
        )
        row["outlines"] = fo.Polylines(
            polylines=[fo.Polyline(label="cup", points=[[(0.25, 0.25), (0.5, 0.25), (0.25, 0.5)]], closed=True)]
        )
        data.add_sample(row)
    yield data
    data.delete()


def _xywh(box: np.ndarray) -> np.ndarray:
    return np.concatenate([box[:2], box[2:] - box[:2]])


def _cropped(mask: np.ndarray) -> tuple[list[float], np.ndarray]:
    left, top, right, bottom = bounds(mask)
    height, width = mask.shape
    box = [left / width, top / height, (right + 1 - left) / width, (bottom + 1 - top) / height]
    return box, mask[top : bottom + 1, left : right + 1]


@pytest.mark.parametrize("measured", [False, True])
def test_detections_with_masks(stored: Any, rooms: Dataset, measured: bool) -> None:
    if measured:
        stored.compute_metadata()
    read = load_data("fiftyone:misdetect-test,field=ground_truth")
    for one, other in zip(read, rooms, strict=True):
        np.testing.assert_array_equal(one.image, other.image)
        np.testing.assert_array_equal(one.truth.masks.to_array(), other.truth.masks.to_array())
        assert [read.names[i] for i in one.truth.labels] == [rooms.names[i] for i in other.truth.labels]
    assert inspect(read, masks=True)["warnings"] == []


def test_boxes_and_crowds(stored: Any, rooms: Dataset) -> None:
    read = load_data("fiftyone:misdetect-test,field=boxes")
    for one, other in zip(read, rooms, strict=True):
        np.testing.assert_allclose(one.truth.boxes, other.truth.boxes, atol=1e-9)
        assert one.truth.crowd.tolist() == [bool(i % 2) for i in range(len(other.truth))]
        assert one.truth.masks is None


def test_polylines(stored: Any) -> None:
    truth = load_data("fiftyone:misdetect-test,field=outlines")[0].truth
    np.testing.assert_allclose(truth.boxes, [[32, 32, 64, 64]])
    np.testing.assert_allclose(truth.areas, [512])
    assert abs(int(truth.masks[0].sum()) - 512) <= 32


def test_several_fields_have_to_be_chosen_from(stored: Any) -> None:
    with pytest.raises(BadSpec, match="boxes"):
        load_data("fiftyone:misdetect-test,field=nothing")


def test_a_name_that_is_not_there(stored: Any) -> None:
    with pytest.raises(BadData, match="no-such-data") as caught:
        load_data("fiftyone:no-such-data")
    assert "\n" not in str(caught.value)
