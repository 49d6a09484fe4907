"""VOC XML: pixel origin, splits, difficult objects, and masks by object number."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from misdetect.data import load_data

OBJECT = """<object><name>{name}</name><difficult>{difficult}</difficult><bndbox>
<xmin>{box[0]}</xmin><ymin>{box[1]}</ymin><xmax>{box[2]}</xmax><ymax>{box[3]}</ymax></bndbox></object>"""


def annotate(folder: Path, stem: str, *objects: tuple[str, tuple[float, ...], int], size: str | None = None) -> None:
    body = "".join(OBJECT.format(name=name, box=box, difficult=hard) for name, box, hard in objects)
    size = "<size><width>50</width><height>40</height><depth>3</depth></size>" if size is None else size
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{stem}.xml").write_text(f"<annotation><filename>{stem}.png</filename>{size}{body}</annotation>")


@pytest.fixture
def devkit(tmp_path: Path) -> Path:
    annotate(tmp_path / "Annotations", "000002", ("dog", (1, 1, 50, 40), 0), ("cat", (11, 21, 20, 30), 1))
    annotate(tmp_path / "Annotations", "000001", ("cat", (5, 5, 5, 5), 0))
    (tmp_path / "JPEGImages").mkdir()
    rng = np.random.default_rng(0)
    for stem in ("000001", "000002"):
        pixels = rng.integers(0, 256, (40, 50, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / "JPEGImages" / f"{stem}.png")
    (tmp_path / "ImageSets" / "Main").mkdir(parents=True)
    (tmp_path / "ImageSets" / "Main" / "val.txt").write_text("000002  1\n")
    return tmp_path


def test_pixels_count_from_one_and_include_the_last(devkit: Path) -> None:
    dataset = load_data(f"voc:{devkit}")
    assert dataset.names == ("cat", "dog")
    assert [sample.image_id for sample in dataset] == [1, 2]
    assert dataset[0].truth.boxes.tolist() == [[4, 4, 5, 5]]  # one pixel
    assert dataset[1].truth.boxes.tolist() == [[0, 0, 50, 40], [10, 20, 20, 30]]  # the whole image
    assert dataset[1].image.shape == (40, 50, 3)


def test_a_box_at_zero_means_the_tool_counted_from_zero(tmp_path: Path) -> None:
    annotate(tmp_path, "a", ("dog", (0, 3, 10, 20), 0))
    dataset = load_data(f"voc:{tmp_path}")
    assert dataset[0].truth.boxes.tolist() == [[0, 3, 10, 20]]
    assert [w.kind for w in dataset.warnings] == ["zero-based-boxes"]
    assert load_data(f"voc:{tmp_path},origin=1")[0].truth.boxes.tolist() == [[-1, 2, 10, 20]]


def test_difficult_objects_are_crowd_kept_or_dropped(devkit: Path) -> None:
    assert load_data(f"voc:{devkit}")[1].truth.crowd.tolist() == [False, True]
    assert load_data(f"voc:{devkit},difficult=keep")[1].truth.crowd.tolist() == [False, False]
    assert load_data(f"voc:{devkit},difficult=drop")[1].truth.labels.tolist() == [1]


def test_split_lists_the_images(devkit: Path) -> None:
    dataset = load_data(f"voc:{devkit},split=val")
    assert [sample.id for sample in dataset] == ["000002"]


def test_masks_are_numbered_as_the_objects(devkit: Path) -> None:
    numbers = np.zeros((40, 50), dtype=np.uint8)
    numbers[:15] = 1
    numbers[20:30, 10:20] = 2
    numbers[15] = 255  # VOC's border
    (devkit / "SegmentationObject").mkdir()
    image = Image.fromarray(numbers, mode="P")
    image.putpalette([i for i in range(256) for _ in range(3)])
    image.save(devkit / "SegmentationObject" / "000002.png")
    dataset = load_data(f"voc:{devkit}")
    np.testing.assert_array_equal(dataset[1].truth.masks.to_array(), [numbers == 1, numbers == 2])
    assert not dataset[0].truth.masks.has(0)


def test_size_that_is_not_declared_comes_from_the_header(devkit: Path) -> None:
    annotate(devkit / "Annotations", "000001", ("cat", (5, 5, 9, 9), 0), size="")
    assert (load_data(f"voc:{devkit}")[0].width, load_data(f"voc:{devkit}")[0].height) == (50, 40)
