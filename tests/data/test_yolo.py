"""YOLO data: fractions to pixels, polygons, and the many ways in which a data.yaml names its images."""

from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from misdetect.data import load_data
from misdetect.nouns.boxes import xyxy_to_xywh

LABELS = "1 0.5 0.5 0.2 0.4\n\n0 0.25 0.25 0.75 0.25 0.75 0.75 0.25 0.75\n"


def photo(path: Path, size: tuple[int, int] = (200, 100)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size).save(path)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Images with labels in the usual places; the yaml is written by each test."""
    for stem in ("7", "12"):
        photo(tmp_path / "images" / "val" / f"{stem}.png")
    (tmp_path / "labels" / "val").mkdir(parents=True)
    (tmp_path / "labels" / "val" / "7.txt").write_text(LABELS)
    return tmp_path


def spec(folder: Path, **settings: object) -> str:
    path = folder / "data.yaml"
    path.write_text(yaml.safe_dump({"names": ["cat", "dog"], "val": "images/val"} | settings))
    return f"yolo:{path}"


def test_boxes_and_polygons_become_pixels(data: Path) -> None:
    dataset = load_data(spec(data))
    assert [sample.image_id for sample in dataset] == [12, 7]
    empty, full = dataset
    assert len(empty.truth) == 0
    np.testing.assert_allclose(full.truth.boxes, [[80, 30, 120, 70], [50, 25, 150, 75]])
    np.testing.assert_allclose(full.truth.areas, [1600, 5000])
    assert [dataset.names[i] for i in full.truth.labels] == ["dog", "cat"]
    expected = np.zeros((100, 200), dtype=bool)
    expected[25:75, 50:150] = True
    np.testing.assert_array_equal(full.truth.masks[1], expected)
    assert not full.truth.masks.has(0)
    assert [(w.kind, w.count) for w in dataset.warnings] == [("no-label-file", 1)]


@pytest.mark.parametrize(
    "settings",
    [
        {"names": {0: "cat", 1: "dog"}},
        {"nc": 2},
        {"path": "."},
        {"path": "/nowhere/at/all"},
        {"val": ["images/val"]},
        {"val": "../images/val"},  # as Roboflow writes it
        {"val": "val.txt"},
        {"val": "lists/below.txt"},
    ],
    ids=str,
)
def test_every_way_to_name_the_images(data: Path, settings: dict[str, object]) -> None:
    (data / "val.txt").write_text("./images/val/12.png\nimages/val/7.png\n")
    (data / "lists").mkdir()
    (data / "lists" / "below.txt").write_text("images/val/12.png\nimages/val/7.png\n")
    (inner := data / "inner").mkdir()
    assert inner.is_dir()
    dataset = load_data(spec(data, **settings))
    assert [(Path(s.file_name).name, len(s.truth)) for s in dataset] == [("12.png", 0), ("7.png", 2)]
    assert dataset.names == ("cat", "dog")
    assert dataset[1].image.shape == (100, 200, 3)


def test_path_may_be_absolute_and_elsewhere(data: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("yaml")
    assert len(load_data(spec(elsewhere, path=str(data)))[1].truth) == 2


def test_a_path_that_is_not_here_is_told(data: Path) -> None:
    told = [each.kind for each in load_data(spec(data, path="/nowhere/at/all")).warnings]
    assert ("no-such-path" in told, "no-such-path" in [e.kind for e in load_data(spec(data)).warnings]) == (True, False)


def test_labels_lie_beside_images_where_no_folder_is_called_images(tmp_path: Path) -> None:
    photo(tmp_path / "photos" / "a.png")
    (tmp_path / "photos" / "a.txt").write_text("0 .5 .5 1 1")
    assert load_data(spec(tmp_path, val="photos"))[0].truth.boxes.tolist() == [[0, 0, 200, 100]]


def test_pose_labels_give_their_boxes(data: Path) -> None:
    (data / "labels" / "val" / "7.txt").write_text("1 0.5 0.5 0.2 0.4 0.5 0.5 0.6 0.6\n")
    truth = load_data(spec(data, kpt_shape=[2, 2]))[1].truth
    np.testing.assert_allclose(truth.boxes, [[80, 30, 120, 70]])
    assert truth.masks is None


side = st.integers(1, 400)


@given(width=side, height=side, values=st.tuples(*[st.floats(0.01, 0.49)] * 2, *[st.floats(0.02, 0.5)] * 2))
def test_fractions_of_any_image_come_back(
    tmp_path_factory: pytest.TempPathFactory, width: int, height: int, values: tuple[float, ...]
) -> None:
    folder = tmp_path_factory.mktemp("law")
    photo(folder / "images" / "a.png", (width, height))
    (folder / "labels").mkdir()
    centre = [0.5 + (values[0] - 0.25) / 2, 0.5 + (values[1] - 0.25) / 2, values[2], values[3]]
    (folder / "labels" / "a.txt").write_text("0 " + " ".join(map(repr, centre)))
    x, y, w, h = xyxy_to_xywh(load_data(spec(folder, val="images"))[0].truth.boxes)[0]
    np.testing.assert_allclose([(x + w / 2) / width, (y + h / 2) / height, w / width, h / height], centre, atol=1e-9)
