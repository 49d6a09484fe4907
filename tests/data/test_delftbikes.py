"""DelftBikes JSON: parts by name, all four states, boxes of missing parts, and sizes that cannot be relied on."""

import json
from pathlib import Path

import pytest
from PIL import Image

from misdetect.data import load_data
from misdetect.data.procedural.bikes.parts import PARTS


def part(state: str, *box: float) -> dict[str, object]:
    return {
        "object_state": state,
        "absolute_bounding_box": dict(zip(("left", "top", "width", "height"), box, strict=True)),
    }


def write(folder: Path, document: object) -> str:
    (folder / "train.json").write_text(json.dumps(document))
    return f"delftbikes:{folder / 'train.json'}"


BIKES = {
    "b.jpg": {"parts": {"steer": part("absent", 1, 2, 30, 40), "bell": part("intact", 5, 6, 7, 8)}},
    "a.jpg": {
        "image": {"channels": 3, "height": 100, "width": 200},
        "parts": {"lock": part("damaged", 10, 20, 30, 40), "saddle": part("occluded", 0, 0, 9, 9)},
    },
}


def test_parts_are_keyed_by_name_and_missing_ones_keep_their_box(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    for name in BIKES:
        Image.new("RGB", (80, 60)).save(tmp_path / "images" / name)
    dataset = load_data(write(tmp_path, BIKES))
    assert dataset.names == PARTS
    assert list(PARTS) == sorted(PARTS)
    assert len(PARTS) == 22
    first, second = dataset
    assert [PARTS[i] for i in first.truth.labels] == ["bell", "steer"]
    assert first.truth.states == ("intact", "absent")
    assert first.truth.boxes.tolist() == [[5, 6, 12, 14], [1, 2, 31, 42]]
    assert second.truth.states == ("damaged", "occluded")
    assert (second.width, second.height) == (80, 60)  # the file's own size, not the declared one
    assert second.image.shape == (60, 80, 3)


def test_order_of_parts_in_the_file_does_not_matter(tmp_path: Path) -> None:
    turned = {name: record | {"parts": dict(reversed(record["parts"].items()))} for name, record in BIKES.items()}
    (tmp_path / "other").mkdir()
    one, two = (
        load_data(write(tmp_path, {"a.jpg": BIKES["a.jpg"]})),
        load_data(write(tmp_path / "other", {"a.jpg": turned["a.jpg"]})),
    )
    assert one[0].truth == two[0].truth


def test_declared_size_serves_where_there_is_no_image(tmp_path: Path) -> None:
    sample = load_data(write(tmp_path, {"a.jpg": BIKES["a.jpg"]}))[0]
    assert (sample.width, sample.height, len(sample.truth)) == (200, 100, 2)


def test_other_parts_need_the_option(tmp_path: Path) -> None:
    spec = write(tmp_path, {"a.jpg": BIKES["a.jpg"] | {"parts": {"wing": part("intact", 1, 2, 3, 4)}}})
    assert load_data(f"{spec},parts=any").names == ("wing",)
    with pytest.raises(ValueError, match="parts=any"):
        load_data(spec)
