"""COCO reading against pycocotools: every annotation of a real file, and the laws of the lazy reader."""

import contextlib
import io
import json
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from pycocotools.coco import COCO

from misdetect.data import load_data
from misdetect.data.coco_json import POLYGONS, read_coco
from misdetect.nouns.masks import Masks

COCO66 = Path(__file__).parents[2] / "../shared/fixtures/coco66/instances.json"
needs_coco66 = pytest.mark.skipif(not COCO66.exists(), reason="needs ../shared/fixtures/coco66")


def write(folder: Path, document: object, name: str = "instances.json") -> str:
    path = folder / name
    path.write_text(json.dumps(document))
    return f"coco:{path}"


def document(**changes: object) -> dict[str, object]:
    """Two images, two classes, three boxes: the smallest file on which order and joins can go wrong."""
    return {
        "images": [
            {"id": 7, "file_name": "b.jpg", "width": 100, "height": 80},
            {"id": 3, "file_name": "a.jpg", "width": 60, "height": 50},
        ],
        "categories": [{"id": 18, "name": "dog"}, {"id": 1, "name": "person"}],
        "annotations": [
            {"id": 30, "image_id": 3, "category_id": 1, "bbox": [5, 6, 20, 30]},
            {"id": 10, "image_id": 7, "category_id": 18, "bbox": [50.5, 40, 30, 20.25]},
            {"id": 20, "image_id": 3, "category_id": 18, "bbox": [30, 10, 10, 10]},
        ],
        **changes,
    }


@pytest.fixture(scope="module")
def oracle() -> COCO:
    with contextlib.redirect_stdout(io.StringIO()):
        return COCO(str(COCO66))


@needs_coco66
def test_every_annotation_agrees_with_pycocotools(oracle: COCO) -> None:
    dataset = load_data(f"coco:{COCO66}")
    assert [sample.image_id for sample in dataset] == list(oracle.imgs)
    seen = 0
    for sample in dataset:
        expected = oracle.imgToAnns[sample.image_id]
        truth = sample.truth
        assert truth.ids.tolist() == [record["id"] for record in expected]
        for i, record in enumerate(expected):
            x, y, w, h = record["bbox"]
            np.testing.assert_array_equal(truth.boxes[i], [x, y, x + w, y + h])
            assert truth.areas[i] == record["area"]
            assert truth.crowd[i] == record["iscrowd"]
            assert dataset.names[truth.labels[i]] == oracle.cats[record["category_id"]]["name"]
            assert dataset.category_ids[truth.labels[i]] == record["category_id"]
            np.testing.assert_array_equal(truth.masks[i], oracle.annToMask(record))
            seen += 1
    assert seen == len(oracle.anns) == 560
    assert dataset.warnings == ()


@needs_coco66
def test_opening_and_reading_truth_touches_no_image(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("an image was opened")

    monkeypatch.setattr(Image, "open", refuse)
    dataset = load_data(f"coco:{COCO66}")
    assert sum(len(sample.truth) for sample in dataset) == 560
    with pytest.raises(AssertionError, match="an image was opened"):
        dataset[0].image.sum()


@needs_coco66
def test_lifting_polygons_out_loses_nothing() -> None:
    lifted, polygons, data = read_coco(COCO66)
    for record in lifted["annotations"]:
        number = record.pop(POLYGONS, None)
        if number is not None:
            record["segmentation"] = polygons[number]
    assert lifted == json.loads(data)
    assert len(polygons) == 552  # all but the crowd regions


nested = st.recursive(
    st.none()
    | st.integers(-9, 9)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text('"\\[]:, segmnta1', max_size=9),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["segmentation", '"segmentation"', "x\\"]), inner, max_size=3)
    ),
    max_leaves=20,
)


@given(value=nested, indent=st.sampled_from([None, 1]))
def test_lifting_is_the_identity_on_any_json(
    tmp_path_factory: pytest.TempPathFactory, value: object, indent: int | None
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.json"
    path.write_text(json.dumps({"top": value}, indent=indent))
    lifted, polygons, _ = read_coco(path)

    def restore(node: object) -> object:
        if isinstance(node, dict):
            number = node.pop(POLYGONS, None)
            node = {key: restore(inner) for key, inner in node.items()}
            return node if number is None else node | {"segmentation": polygons[number]}
        return [restore(inner) for inner in node] if isinstance(node, list) else node

    assert restore(lifted) == {"top": value}


def test_box_only_file_without_id_area_or_crowd_loads(tmp_path: Path) -> None:
    records = [{k: v for k, v in r.items() if k != "id"} for r in document()["annotations"]]
    dataset = load_data(write(tmp_path, document(annotations=records)))
    first, second = dataset
    assert (first.id, first.image_id, first.truth.masks) == ("b.jpg", 7, None)
    assert second.truth.boxes.tolist() == [[5, 6, 25, 36], [30, 10, 40, 20]]
    assert second.truth.areas.tolist() == [600, 100]
    assert [dataset.names[i] for i in second.truth.labels] == ["person", "dog"]
    assert [w.kind for w in dataset.warnings] == ["annotation-id-not-a-number"]


def test_annotations_join_images_by_id_and_keep_their_ids(tmp_path: Path) -> None:
    first, second = load_data(write(tmp_path, document()))
    assert first.truth.ids.tolist() == [10]
    assert second.truth.ids.tolist() == [30, 20]


def test_run_lengths_polygons_and_a_flat_polygon_give_one_mask(tmp_path: Path) -> None:
    square = [10, 10, 30, 10, 30, 30, 10, 30]
    expected = np.zeros((50, 60), dtype=bool)
    expected[10:30, 10:30] = True
    rle = Masks.from_array(expected[None]).rle(0)
    counts = [len(list(run)) for _, run in groupby(expected.T.ravel())]  # down the columns; starts outside the object
    forms = [[square], square, rle, {"size": [50, 60], "counts": counts}]
    base = {"image_id": 3, "category_id": 1, "bbox": [10, 10, 20, 20]}
    records = [base | {"id": i, "segmentation": form} for i, form in enumerate(forms, 1)] + [base | {"id": 9}]
    truth = load_data(write(tmp_path, document(annotations=records)))[1].truth
    for i in range(4):
        np.testing.assert_array_equal(truth.masks[i], expected)
    assert [truth.masks.has(i) for i in range(5)] == [True] * 4 + [False]


@pytest.mark.parametrize("folder", ["images", ".", "val2017", "../val2017", "../images/val2017", "../images"])
def test_image_folder_is_found_where_people_put_it(tmp_path: Path, folder: str) -> None:
    annotations = tmp_path / "annotations"
    annotations.mkdir()
    spec = write(annotations, document(), "instances_val2017.json")
    place = annotations / folder
    place.mkdir(exist_ok=True, parents=True)
    Image.new("RGB", (100, 80), (1, 2, 3)).save(place / "b.jpg")
    assert load_data(spec)[0].image.shape == (80, 100, 3)


def test_size_that_is_not_declared_comes_from_the_header(tmp_path: Path) -> None:
    images = [{"id": 7, "file_name": "b.png"}]
    records = [{"id": 1, "image_id": 7, "category_id": 1, "bbox": [1, 2, 3, 4]}]
    Image.new("RGB", (33, 21)).save(tmp_path / "b.png")
    dataset = load_data(write(tmp_path, document(images=images, annotations=records)))
    assert (dataset[0].width, dataset[0].height) == (33, 21)
    assert dataset.warnings[0].kind == "no-image-size"


def test_fingerprint_follows_the_content_not_the_place(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    one, two = write(tmp_path, document()), write(tmp_path / "elsewhere", document())
    changed = write(tmp_path, document(categories=[{"id": 18, "name": "cat"}, {"id": 1, "name": "person"}]), "c.json")
    assert load_data(one).fingerprint == load_data(two).fingerprint != load_data(changed).fingerprint


def test_two_categories_of_one_name_become_one_class(tmp_path: Path) -> None:
    categories = [{"id": 18, "name": "dog"}, {"id": 1, "name": "dog"}]
    dataset = load_data(write(tmp_path, document(categories=categories)))
    assert dataset.names == ("dog",)
    assert dataset.category_ids == (18,)
    assert dataset[1].truth.labels.tolist() == [0, 0]
    assert dataset.warnings[0].kind == "duplicate-category-name"
