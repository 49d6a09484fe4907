"""Data of the ``datasets`` library, written by the library itself: in its own folders, as Parquet and as images."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_drawing_tools import assert_same
from written import png

from misdetect.data import load_data
from misdetect.data.dataset import Dataset
from misdetect.said.errors import BadData, BadSpec, MissingExtra

pytestmark = pytest.mark.heavy


@pytest.fixture(scope="module")
def rooms() -> Dataset:
    return load_data("rooms:val").limit(4)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Any:
    datasets = pytest.importorskip("datasets")
    before = datasets.config.HF_DATASETS_CACHE
    datasets.config.HF_DATASETS_CACHE = tmp_path_factory.mktemp("cache")
    datasets.disable_progress_bars()
    yield datasets
    datasets.config.HF_DATASETS_CACHE = before


def rows(data: Dataset, form: str = "xywh") -> dict[str, list[Any]]:
    """The columns of ``data`` in the layout of the library's object detection data."""
    objects = []
    for sample in data:
        x0, y0, x1, y1 = sample.truth.boxes.T
        boxes = {"xywh": [x0, y0, x1 - x0, y1 - y0], "xyxy": [x0, y0, x1, y1]}[form]
        objects.append({"bbox": np.stack(boxes, axis=1).tolist(), "category": sample.truth.labels.tolist()})
    images = [{"bytes": png(sample.image), "path": f"{sample.id}.png"} for sample in data]
    return {"image_id": [sample.image_id for sample in data], "image": images, "objects": objects}


def made(library: Any, data: Dataset, columns: dict[str, list[Any]] | None = None, **fields: Any) -> Any:
    names = library.List(library.ClassLabel(names=list(data.names)))
    objects = {"bbox": library.List(library.List(library.Value("float64"), length=4)), "category": names, **fields}
    about = {"image_id": library.Value("int64"), "image": library.Image(), "objects": objects}
    return library.Dataset.from_dict(columns or rows(data), features=library.Features(about))


def test_a_folder_of_save_to_disk(library: Any, rooms: Dataset, tmp_path: Path) -> None:
    made(library, rooms).save_to_disk(tmp_path / "rooms")
    read = load_data(f"hfdata:{tmp_path / 'rooms'}")
    assert (read.names, read.warnings) == (rooms.names, ())
    assert [sample.image_id for sample in read] == [sample.image_id for sample in rooms]
    assert_same(read, rooms, masks=False, exact=False)
    assert load_data(f"hfdata:{tmp_path / 'rooms'}").fingerprint == read.fingerprint


def test_a_chosen_part_keeps_its_order(library: Any, rooms: Dataset, tmp_path: Path) -> None:
    """Rows that were chosen by index are stored as indices beside the whole table, or not: both read alike."""
    made(library, rooms).select([2, 0]).save_to_disk(tmp_path / "two")
    assert_same(load_data(f"hfdata:{tmp_path / 'two'}"), rooms.subset([2, 0]), masks=False, exact=False)


def test_splits(library: Any, rooms: Dataset, tmp_path: Path) -> None:
    one, two = made(library, rooms.limit(1)), made(library, rooms.limit(2))
    library.DatasetDict({"train": one, "validation": two}).save_to_disk(tmp_path / "both")
    assert len(load_data(f"hfdata:{tmp_path / 'both'}")) == 2
    assert len(load_data(f"hfdata:{tmp_path / 'both'},split=train")) == 1
    with pytest.raises(BadSpec, match="train, validation"):
        load_data(f"hfdata:{tmp_path / 'both'},split=test")


def test_parquet_files(library: Any, rooms: Dataset, tmp_path: Path) -> None:
    made(library, rooms).to_parquet(tmp_path / "part.parquet")
    assert_same(load_data(f"hfdata:{tmp_path}"), rooms, masks=False, exact=False)


def test_images_beside_their_metadata(library: Any, rooms: Dataset, tmp_path: Path) -> None:
    lines = []
    for sample, objects in zip(rooms, rows(rooms)["objects"], strict=True):
        (tmp_path / f"{sample.id}.png").write_bytes(png(sample.image))
        named = {**objects, "category": [rooms.names[i] for i in objects["category"]]}
        lines.append(json.dumps({"file_name": f"{sample.id}.png", "objects": named}))
    (tmp_path / "metadata.jsonl").write_text("\n".join(lines))
    read = load_data(f"hfdata:{tmp_path}")
    by_name = {sample.file_name: i for i, sample in enumerate(read)}
    order = [by_name[f"{sample.id}.png"] for sample in rooms]
    assert_same(read.subset(order), rooms, masks=False, exact=False)


def test_corners_need_to_be_said(library: Any, rooms: Dataset, tmp_path: Path) -> None:
    made(library, rooms, rows(rooms, "xyxy")).save_to_disk(tmp_path / "rooms")
    with pytest.raises(BadData, match="boxes=xyxy") as caught:
        load_data(f"hfdata:{tmp_path / 'rooms'}")
    assert caught.value.kind == "corners-for-sizes"
    assert_same(load_data(f"hfdata:{tmp_path / 'rooms'},boxes=xyxy"), rooms, masks=False)


def test_bare_numbers_are_named_by_a_file(library: Any, rooms: Dataset, tmp_path: Path) -> None:
    library.Dataset.from_dict(rows(rooms)).cast_column("image", library.Image()).save_to_disk(tmp_path / "rooms")
    read = load_data(f"hfdata:{tmp_path / 'rooms'}")
    assert [w.kind for w in read.warnings] == ["no-class-names"]
    assert set(read.names) == {str(label) for sample in rooms for label in sample.truth.labels}
    (tmp_path / "names.json").write_text(json.dumps({number: rooms.names[int(number)] for number in read.names}))
    assert_same(
        load_data(f"hfdata:{tmp_path / 'rooms'},labels={tmp_path / 'names.json'}"), rooms, masks=False, exact=False
    )


def test_an_image_outside_the_folder_is_refused(library: Any, rooms: Dataset, tmp_path: Path) -> None:
    outside = tmp_path / "secret.png"
    outside.write_bytes(png(rooms[0].image))
    table = made(library, rooms.limit(1)).with_format("arrow")[:]
    image = pa.array([{"bytes": None, "path": str(outside)}], type=table.schema.field("image").type)
    (tmp_path / "data").mkdir()
    pq.write_table(table.set_column(1, table.schema.field("image"), image), tmp_path / "data" / "part.parquet")
    with pytest.raises(BadData, match="leads out"):
        _ = load_data(f"hfdata:{tmp_path / 'data'}")[0].image


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no objects": ({"image": [None]}, "objects"),
    "no classes": ({"image": [None], "objects": [{"bbox": [[1.0, 2.0, 3.0, 4.0]]}]}, "category"),
    "three numbers": ({"image": [None], "objects": [{"bbox": [[1.0, 2.0, 3.0]], "category": ["a"]}]}, "four numbers"),
    "words": ({"image": [None], "objects": [{"bbox": [["1", "2", "3", "4"]], "category": ["a"]}]}, "four numbers"),
    "another number": (
        {"image": [None], "objects": [{"bbox": [[1.0, 2.0, 3.0, 4.0]], "category": ["a", "b"]}]},
        "1 'bbox' but 2 'category'",
    ),
    "no class": ({"image": [None], "objects": [{"bbox": [[1.0, 2.0, 3.0, 4.0]], "category": [None]}]}, "none of the 0"),
    "no image": ({"image": [None], "objects": [{"bbox": [[1.0, 2.0, 3.0, 4.0]], "category": ["a"]}]}, "neither"),
    "a negative size": (
        {"image": [None], "objects": [{"bbox": [[1.0, 2.0, -3.0, 4.0]], "category": ["a"]}]},
        "neither",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_other_layouts_are_one_sentence(library: Any, tmp_path: Path, what: str) -> None:
    columns, says = WRONG[what]
    library.Dataset.from_dict(columns).save_to_disk(tmp_path / "odd")
    with pytest.raises(BadData, match=says) as caught:
        load_data(f"hfdata:{tmp_path / 'odd'}")
    assert "\n" not in str(caught.value)


def test_what_is_no_such_folder(library: Any, tmp_path: Path) -> None:
    for spec, says in ((f"hfdata:{tmp_path}", "save_to_disk"), (f"hfdata:{tmp_path / 'none'}", "does not exist")):
        with pytest.raises(BadData, match=says):
            load_data(spec)
    (tmp_path / "state.json").write_text("{}")
    with pytest.raises(BadData, match="cannot be opened"):
        load_data(f"hfdata:{tmp_path}")


def test_an_id_that_cannot_be_fetched(library: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr(library.config, "HF_HUB_OFFLINE", True)
    with pytest.raises(BadData, match="nobody/nothing cannot be opened") as caught:
        load_data("hfdata:nobody/nothing")
    assert "\n" not in str(caught.value)


def test_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingExtra, match="needs the 'hfdata' extra: pip install"):
        load_data("hfdata:anything")
    monkeypatch.setitem(sys.modules, "fiftyone", None)
    with pytest.raises(MissingExtra, match="needs the 'fiftyone' extra: pip install"):
        load_data("fiftyone:anything")
