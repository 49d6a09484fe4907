"""One row per kind of bad input: the error's or warning's kind, and that its sentence names file and record."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from misdetect.data import load_data
from misdetect.said.errors import BadArray, BadData, BadImage, BadSpec, MisdetectError

Document = dict[str, Any]
Change = Callable[[Document], object]


def good() -> Document:
    """Twelve plausible boxes in two images."""
    rng = np.random.default_rng(3)
    boxes = [
        [*rng.uniform(200, 500, 2).round(1).tolist(), *rng.uniform(20, 90, 2).round(1).tolist()] for _ in range(12)
    ]
    return {
        "images": [{"id": i, "file_name": f"{i}.jpg", "width": 640, "height": 600} for i in (1, 2)],
        "categories": [{"id": 5, "name": "dog"}],
        "annotations": [
            {"id": 100 + i, "image_id": 1 + i % 2, "category_id": 5, "bbox": box} for i, box in enumerate(boxes)
        ],
    }


def write(folder: Path, document: object) -> str:
    path = folder / "instances.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return f"coco:{path}"


def boxes(change: Callable[[list[float]], list[float]], rows: slice = slice(None)) -> Change:
    def apply(document: Document) -> None:
        for record in document["annotations"][rows]:
            record["bbox"] = change(record["bbox"])

    return apply


def record(row: int, **fields: object) -> Change:
    return lambda document: document["annotations"][row].update(fields)


def image(row: int, **fields: object) -> Change:
    return lambda document: document["images"][row].update(fields)


ERRORS: dict[str, tuple[Change, str, str]] = {
    "corners": (boxes(lambda b: [b[0], b[1], b[0] + b[2], b[1] + b[3]]), "corners-for-sizes", "x0, y0, x1, y1"),
    "fractions": (boxes(lambda b: [b[0] / 640, b[1] / 600, b[2] / 640, b[3] / 600]), "relative-coordinates", "id 100"),
    "resized images": (boxes(lambda b: [3 * x for x in b]), "boxes-outside", "resized"),
    "nan": (record(3, bbox=[1, math.nan, 3, 4]), "not-finite", "id 103"),
    "infinity": (record(3, bbox=[1, 1e999, 3, 4]), "not-finite", "id 103"),
    "huge integer": (record(3, bbox=[1, 10**400, 3, 4]), "not-finite", "id 103"),
    "negative size": (record(4, bbox=[100, 100, -5, 20]), "negative-size", "id 104"),
    "box of three": (record(2, bbox=[1, 2, 3]), "bad-record", "id 102"),
    "box of strings": (record(2, bbox=["1", "2", "3", "4"]), "bad-record", "id 102"),
    "box missing": (
        lambda d: d["annotations"][2].pop("bbox"),
        "bad-record",
        "'bbox' should be four numbers. Got nothing",
    ),
    "unknown category": (record(5, category_id=6), "unknown-category", "id 105.*category 6"),
    "category missing": (lambda d: d["annotations"][2].pop("category_id"), "bad-record", "category_id"),
    "category a list": (record(2, category_id=[5]), "bad-record", "category_id"),
    "same image id": (image(1, id=1), "duplicate-id", "image id 1"),
    "same category id": (lambda d: d["categories"].append({"id": 5, "name": "cat"}), "duplicate-id", "category id 5"),
    "unnamed category": (lambda d: d["categories"][0].pop("name"), "bad-record", "categories, id 5: 'name'"),
    "crowd of two": (record(1, iscrowd=2), "bad-record", "iscrowd"),
    "area nan": (record(1, area=math.nan), "not-finite", "record 1"),
    "area huge": (record(1, area=10**400), "not-finite", "area"),
    "area text": (record(1, area="big"), "bad-record", "id 101: 'area'"),
    "image size": (image(0, width=-3), "bad-record", "images, id 1: 'width'"),
    "image size huge": (image(0, height=10**30), "bad-record", "images, id 1: 'height'"),
    "image name up": (image(1, file_name="../../etc/passwd"), "image-outside", "id 2.*passwd"),
    "image name absolute": (image(1, file_name="/etc/passwd"), "image-outside", "id 2.*passwd"),
    "image name missing": (lambda d: d["images"][1].pop("file_name"), "image-outside", "id 2: expected a file name"),
    "mask a word": (record(1, segmentation="outline"), "bad-mask", "id 101"),
    "mask nan": (record(1, segmentation=[[1, 2, 3, math.nan, 5, 6]]), "not-finite", "id 101"),
    "mask without counts": (record(1, segmentation={"size": [600, 640]}), "bad-mask", "id 101"),
    "images missing": (lambda d: d.pop("images"), "malformed", "'images'"),
    "images an object": (lambda d: d.update(images={}), "malformed", "'images'"),
    "a record that is none": (lambda d: d["annotations"].insert(1, 7), "bad-record", "record 1 of 'annotations'"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_each_error_is_named_with_file_and_record(tmp_path: Path, name: str) -> None:
    change, kind, sentence = ERRORS[name]
    assert load_data(write(tmp_path, good())).warnings == ()  # without the fault, nothing is wrong
    document = good()
    change(document)
    with pytest.raises(BadData, match=sentence) as caught:
        load_data(write(tmp_path, document))
    assert caught.value.kind == kind
    assert "instances.json" in str(caught.value)
    assert "\n" not in str(caught.value)


WARNINGS: dict[str, tuple[Change, str, int, int]] = {
    "same annotation id": (record(3, id=100), "duplicate-annotation-id", 1, 12),
    "no image of that id": (record(3, image_id=99), "unknown-image", 1, 11),
    "wholly outside": (record(3, bbox=[700, 10, 5, 5]), "box-outside", 1, 11),
    "over the edge": (record(3, bbox=[600, 10, 42.5, 5]), "box-over-edge", 1, 12),
    "no area": (record(3, bbox=[60, 10, 0, 5]), "box-without-area", 1, 12),
    "a slip of the mouse": (record(3, bbox=[60, 10, 1, 2]), "box-tiny", 1, 12),
    "ids are words": (record(3, id="x"), "annotation-id-not-a-number", 12, 12),
}


@pytest.mark.parametrize("name", WARNINGS)
def test_each_warning_counts_and_leaves_the_data_usable(tmp_path: Path, name: str) -> None:
    change, kind, count, kept = WARNINGS[name]
    document = good()
    change(document)
    dataset = load_data(write(tmp_path, document))
    assert [(w.kind, w.count) for w in dataset.warnings] == [(kind, count)]
    assert "instances.json" in dataset.warnings[0].example
    ids = np.concatenate([sample.truth.ids for sample in dataset])
    assert len(ids) == len(set(ids.tolist())) == kept


def test_a_box_less_than_a_pixel_over_the_edge_is_rounding(tmp_path: Path) -> None:
    document = good()
    record(3, bbox=[600, 10, 40.9, 5])(document)
    dataset = load_data(write(tmp_path, document))
    assert dataset.warnings == ()
    assert dataset[1].truth.boxes[1].tolist() == [600, 10, 640.9, 15]  # kept as it is, as other tools do


TEXTS = {
    "nothing": "",
    "no json": "{images: }",
    "a list": "[]",
    "a number": "1e5",
    "deep": '{"images":' + "[" * 100_000 + "]" * 100_000 + "}",
    "endless digits": '{"images": [' + "9" * 10_000 + "]}",
    "binary": "\x00\x01\x02",
}


@pytest.mark.parametrize("name", TEXTS)
def test_what_is_no_coco_file_is_malformed(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadData, match=r"instances\.json") as caught:
        load_data(write(tmp_path, TEXTS[name]))
    assert caught.value.kind == "malformed"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(
    value=json_values,
    place=st.sampled_from(
        [
            (part, key)
            for part, keys in {
                "images": ("id", "file_name", "width", "height"),
                "categories": ("id", "name"),
                "annotations": ("id", "image_id", "category_id", "bbox", "area", "iscrowd", "segmentation", "state"),
            }.items()
            for key in keys
        ]
    ),
)
def test_any_value_anywhere_is_read_or_refused_in_a_sentence(
    tmp_path_factory: pytest.TempPathFactory, value: object, place: tuple[str, str]
) -> None:
    document = good()
    document[place[0]][0][place[1]] = value
    try:
        samples = list(load_data(write(tmp_path_factory.getbasetemp(), document)))
        shapes = {(m.shape, (s.height, s.width)) for s in samples for m in s.truth.masks or ()}
    except MisdetectError:
        return
    assert all(np.isfinite(sample.truth.boxes).all() for sample in samples)
    assert all(mask == size for mask, size in shapes)


MASKS: dict[str, object] = {
    "run lengths of another size": {"size": [60_000, 64_000], "counts": "0"},
    "run lengths of a huge size": {"size": [2**40, 2**40], "counts": [0, 2**50]},
    "too many pixels": {"size": [600, 640], "counts": [0, 10**6]},
    "negative run": {"size": [600, 640], "counts": [5, -5]},
    "run of words": {"size": [600, 640], "counts": ["a"]},
    "junk counts": {"size": [600, 640], "counts": "éé"},
    "polygon to the moon": [[0, 0, 1e12, 0, 1e12, 1e12]],
    "polygon of odd length": [[1, 2, 3, 4, 5, 6, 7]],
    "polygon with commas": "RAW[[1,,2,3,4,5,6]]",
    "polygon with two points": "RAW[[1.2.3,4,5,6,7,8]]",
}


@pytest.mark.parametrize("name", MASKS)
def test_bad_masks_are_refused_when_looked_at_and_cost_no_memory(tmp_path: Path, name: str) -> None:
    document = good()
    document["annotations"][0]["segmentation"] = MASKS[name]
    text = json.dumps(document)
    if isinstance(MASKS[name], str):
        text = text.replace(json.dumps(MASKS[name]), str(MASKS[name])[3:])
    truth = load_data(write(tmp_path, text))[0].truth
    with pytest.raises((BadData, BadArray)):
        truth.masks[0].sum()


def voc(body: str) -> Callable[[Path], str]:
    def build(folder: Path) -> str:
        (folder / "a.xml").write_text(body)
        return f"voc:{folder}"

    return build


def voc_box(
    *corners: object, size: str = "<size><width>640</width><height>480</height></size>"
) -> Callable[[Path], str]:
    names = ("xmin", "ymin", "xmax", "ymax")
    box = "".join(f"<{n}>{c}</{n}>" for n, c in zip(names, corners, strict=True))
    return voc(f"<annotation>{size}<object><name>dog</name><bndbox>{box}</bndbox></object></annotation>")


def yolo(labels: str, yaml: str = "names: [cat, dog]\nval: images\n") -> Callable[[Path], str]:
    def build(folder: Path) -> str:
        (folder / "images").mkdir()
        (folder / "labels").mkdir()
        (folder / "images" / "a.jpg").touch()
        (folder / "labels" / "a.txt").write_text(labels)
        (folder / "data.yaml").write_text(yaml)
        return f"yolo:{folder / 'data.yaml'}"

    return build


def bikes(document: object) -> Callable[[Path], str]:
    def build(folder: Path) -> str:
        (folder / "bikes.json").write_text(json.dumps(document))
        return f"delftbikes:{folder / 'bikes.json'}"

    return build


def bell(state: object = "intact", box: object = None, name: str = "a.jpg") -> Callable[[Path], str]:
    box = {"left": 10, "top": 20, "width": 30, "height": 40} if box is None else box
    return bikes({name: {"parts": {"bell": {"object_state": state, "absolute_bounding_box": box}}}})


BOMB = '<!DOCTYPE a [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;&a;">]><annotation><filename>&b;</filename></annotation>'

OTHERS: dict[str, tuple[Callable[[Path], str], str, str]] = {
    "voc entity bomb": (voc(BOMB), "malformed", "a.xml declares a document type"),
    "voc no xml": (voc("<annotation>"), "malformed", "a.xml is not valid XML"),
    "voc deep": (voc("<a>" * 5000 + "</a>" * 5000), "malformed", "a.xml is nested too deeply"),
    "voc name up": (voc("<annotation><filename>../x.jpg</filename></annotation>"), "image-outside", "a.xml.*x.jpg"),
    "voc word": (voc_box(1, "two", 3, 4), "bad-record", "a.xml: object 0: <ymin>"),
    "voc nan": (voc_box(1, "nan", 3, 4), "not-finite", "a.xml: object 0"),
    "voc sizes for corners": (voc_box(300, 200, 50, 60), "negative-size", "a.xml: object 0"),
    "voc fractions": (voc_box(0.1, 0.2, 0.5, 0.6), "relative-coordinates", "a.xml: object 0"),
    "voc nameless": (voc("<annotation><object/></annotation>"), "bad-record", "a.xml: object 0 has no <name>"),
    "voc empty": (lambda folder: f"voc:{folder}", "malformed", "no .xml file"),
    "yolo pixels": (yolo("0 100 120 30 40"), "absolute-coordinates", "a.txt, line 1.*pixels"),
    "yolo corners": (yolo("0 .6 .6 .9 .95\n0 .7 .1 .9 .3"), "corners-for-sizes", "a.txt, line 2"),
    "yolo class": (yolo("0 .5 .5 .1 .1\n2 .5 .5 .1 .1"), "unknown-category", "a.txt, line 2: class 2"),
    "yolo negative": (yolo("0 .5 .5 -.1 .1"), "negative-size", "a.txt, line 1"),
    "yolo nan": (yolo("0 .5 nan .1 .1"), "not-finite", "a.txt, line 1"),
    "yolo word": (yolo("dog .5 .5 .1 .1"), "bad-record", "a.txt, line 1"),
    "yolo score": (yolo("0 .5 .5 .1 .1 .9"), "bad-record", "a.txt, line 1.*score"),
    "yolo class nan": (yolo("nan .5 .5 .1 .1"), "bad-record", "a.txt, line 1"),
    "yolo no names": (yolo("", "val: images"), "malformed", "data.yaml: 'names'"),
    "yolo names gap": (yolo("", "val: images\nnames: {0: a, 2: b}"), "malformed", "data.yaml: 'names'.*gap"),
    "yolo count": (yolo("", "val: images\nnames: [a]\nnc: 2"), "malformed", "data.yaml: 'nc'"),
    "yolo object": (yolo("", "!!python/object/apply:os.system ['true']"), "malformed", "data.yaml is not valid yaml"),
    "yolo aliases": (yolo("", "a: &a [x, x]\nnames: [*a, *a]\nval: images"), "malformed", "aliases"),
    "yolo no split": (yolo("", "names: [a]\ntrain: images"), "malformed", "it has: train"),
    "yolo no folder": (yolo("", "names: [a]\nval: pictures"), "malformed", "neither a folder"),
    "bikes state": (bell("rusty"), "unknown-state", "bikes.json: image 'a.jpg', part 'bell'.*'rusty'"),
    "bikes box": (bell(box=[1, 2, 3, 4]), "bad-record", "part 'bell'.*left, top, width, height"),
    "bikes nan": (bell(box={"left": 1, "top": math.nan, "width": 3, "height": 4}), "not-finite", "part 'bell'"),
    "bikes negative": (bell(box={"left": 1, "top": 2, "width": -3, "height": 4}), "negative-size", "part 'bell'"),
    "bikes name up": (bell(name="../a.jpg"), "image-outside", "bikes.json"),
    "bikes part": (bikes({"a.jpg": {"parts": {"wing": {"object_state": "intact", "absolute_bounding_box":
        {"left": 1, "top": 2, "width": 3, "height": 4}}}}}), "unknown-category", "'wing'"),
    "bikes list": (bikes([1]), "malformed", "bikes.json"),
    "folder missing": (lambda folder: f"folder:{folder / 'none'}", "malformed", "not a folder"),
    "folder empty": (lambda folder: f"folder:{folder}", "malformed", "holds no image"),
    "coco missing": (lambda folder: f"coco:{folder / 'none.json'}", "malformed", "does not exist"),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_other_formats_name_their_faults_too(tmp_path: Path, name: str) -> None:
    build, kind, sentence = OTHERS[name]
    with pytest.raises(BadData, match=sentence) as caught:
        load_data(build(tmp_path))
    assert caught.value.kind == kind


def test_a_list_of_images_may_not_leave_the_data(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    spec = yolo("", "names: [a]\nval: val.txt\n")(tmp_path / "data")
    (tmp_path / "data" / "val.txt").write_text("images/a.jpg\n../secret.jpg\n")
    with pytest.raises(BadImage, match="leaves the folder") as caught:
        load_data(spec)
    assert caught.value.kind == "image-outside"


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        (
            "zip:a",
            "none of bikes, coco, cvat, delftbikes, fiftyone, folder, hfdata, labelme, labelstudio, openimages, rooms, "
            "voc, yolo",
        ),
        ("coco", "no such file or folder, and it is no data spec"),
        ("coco:a.json,image=b", "unknown option 'image'"),
        ("yolo:a.yaml,split=dev", "split=dev"),
    ],
)
def test_bad_specs_say_what_exists(spec: str, sentence: str) -> None:
    with pytest.raises(BadSpec, match=sentence):
        load_data(spec)
