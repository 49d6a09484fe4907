"""LabelMe, CVAT and Open Images: what was written is read, and every way of being wrong is one sentence."""

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageDraw
from written import bounds, cvat, labelme, open_images, png

from misdetect.data import load_data
from misdetect.data.check import inspect
from misdetect.data.dataset import Dataset
from misdetect.nouns.detections import Truth
from misdetect.said.errors import BadData, BadImage, MisdetectError


@pytest.fixture(scope="module")
def rooms() -> Dataset:
    return load_data("rooms:val").limit(4)


def assert_same(read: Dataset, data: Dataset, *, masks: bool, exact: bool = True) -> None:
    """Images, classes, boxes, crowd and masks of ``read`` are those of ``data``; by name where numbers may differ."""
    assert len(read) == len(data)
    for one, other in zip(read, data, strict=True):
        assert (one.width, one.height) == (other.width, other.height)
        np.testing.assert_array_equal(one.image, other.image)
        assert [read.names[i] for i in one.truth.labels] == [data.names[i] for i in other.truth.labels]
        np.testing.assert_array_equal(one.truth.crowd, other.truth.crowd)
        if not masks:
            np.testing.assert_allclose(one.truth.boxes, other.truth.boxes, rtol=0, atol=0 if exact else 1e-9)
            continue
        np.testing.assert_array_equal(one.truth.masks.to_array(), other.truth.masks.to_array())
        around = [bounds(mask) for mask in other.truth.masks]
        np.testing.assert_array_equal(one.truth.boxes, np.add(around, [0, 0, 1, 1]))
        np.testing.assert_array_equal(one.truth.areas, other.truth.masks.to_array().sum(axis=(1, 2)))


@pytest.mark.parametrize("masks", [True, False])
@pytest.mark.parametrize("embedded", [True, False])
def test_labelme_gives_back_what_was_written(rooms: Dataset, tmp_path: Path, embedded: bool, masks: bool) -> None:
    read = load_data(labelme(rooms, tmp_path, embedded=embedded, masks=masks))
    assert_same(read, rooms, masks=masks)
    document = inspect(read, masks=True)
    assert (document["objects"], document["warnings"]) == (sum(len(sample.truth) for sample in rooms), [])


@pytest.mark.parametrize("masks", [True, False])
def test_cvat_gives_back_what_was_written(rooms: Dataset, tmp_path: Path, masks: bool) -> None:
    read = load_data(cvat(rooms, tmp_path, masks=masks))
    assert read.names == rooms.names  # the labels of the task, also those that no shape has
    assert_same(read, rooms, masks=masks)


def test_open_images_gives_back_what_was_written(rooms: Dataset, tmp_path: Path) -> None:
    read = load_data(open_images(rooms, tmp_path))
    assert read.names == rooms.names
    assert_same(read, rooms, masks=False, exact=False)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 1),
            st.booleans(),
            st.tuples(*[st.integers(0, 30)] * 2),
            st.tuples(*[st.integers(3, 20)] * 2),
        ),
        min_size=1,
        max_size=5,
    )
)
def test_boxes_and_crowds_survive_every_format(
    tmp_path_factory: pytest.TempPathFactory, objects: list[tuple[int, bool, tuple[int, int], tuple[int, int]]]
) -> None:
    boxes = [[x, y, x + w, y + h] for _, _, (x, y), (w, h) in objects]
    truth = Truth(boxes, [label for label, *_ in objects], crowd=[crowd for _, crowd, *_ in objects])
    data = load_data([(np.zeros((52, 60, 3), dtype=np.uint8), truth)], names=["cup", "tea pot"])
    folder = tmp_path_factory.mktemp("law")
    assert_same(load_data(cvat(data, folder / "cvat", masks=False)), data, masks=False)
    assert_same(load_data(open_images(data, folder / "open")), data, masks=False, exact=False)
    plain = load_data(labelme(data, folder / "labelme", masks=False))  # LabelMe has no crowds
    np.testing.assert_array_equal(plain[0].truth.boxes, data[0].truth.boxes)


# --- what is particular to LabelMe


def labelme_file(folder: Path, *shapes: dict[str, Any], **fields: Any) -> str:
    document = {"shapes": list(shapes), "imagePath": "a.png", "imageHeight": 40, "imageWidth": 50, **fields}
    (folder / "a.json").write_text(json.dumps(document))
    (folder / "a.png").write_bytes(png(np.zeros((40, 50, 3), dtype=np.uint8)))
    return f"labelme:{folder}"


def shape(kind: str | None, *points: list[float], **fields: Any) -> dict[str, Any]:
    return {"label": "dog", "points": list(points), "shape_type": kind, **fields}


TRIANGLE = ([4.0, 4.0], [24.0, 4.0], [4.0, 14.0])


def test_polygons_are_masks_with_their_box_and_area(tmp_path: Path) -> None:
    truth = load_data(labelme_file(tmp_path, shape(None, *TRIANGLE)))[0].truth
    assert truth.boxes.tolist() == [[4, 4, 24, 14]]
    assert truth.areas.tolist() == [100]
    drawn = Image.new("1", (50, 40))
    ImageDraw.Draw(drawn).polygon([tuple(point) for point in TRIANGLE], fill=1)
    assert (truth.masks[0] ^ np.asarray(drawn)).sum() <= 35  # rules for the edge differ, by its pixels at most


def test_shapes_of_one_group_are_one_object(tmp_path: Path) -> None:
    far = [[p[0] + 20, p[1] + 20] for p in TRIANGLE]
    spec = labelme_file(
        tmp_path,
        shape("polygon", *TRIANGLE, group_id=3),
        shape("rectangle", [0, 0], [5, 5]),
        shape("polygon", *far, group_id=3),
    )
    truth = load_data(spec)[0].truth
    assert truth.boxes.tolist() == [[4, 4, 44, 34], [0, 0, 5, 5]]
    assert truth.areas.tolist() == [200, 25]
    assert [truth.masks.has(i) for i in range(2)] == [True, False]


def test_a_circle_has_its_box_and_nearly_its_area(tmp_path: Path) -> None:
    truth = load_data(labelme_file(tmp_path, shape("circle", [20, 20], [30, 20])))[0].truth
    np.testing.assert_allclose(truth.boxes, [[10, 10, 30, 30]], atol=1e-9)
    np.testing.assert_allclose(truth.areas, np.pi * 100, rtol=0.01)


def test_shapes_without_area_are_left_out_and_counted(tmp_path: Path) -> None:
    spec = labelme_file(
        tmp_path, shape("point", [3, 3]), shape("rectangle", [1, 1], [9, 9]), shape("line", [1, 1], [2, 2])
    )
    data = load_data(spec)
    assert len(data[0].truth) == 1
    assert [(w.kind, w.count) for w in data.warnings] == [("shape-without-area", 2)]


def test_images_elsewhere_are_found_by_their_file_name(tmp_path: Path) -> None:
    (tmp_path / "json").mkdir()
    labelme_file(tmp_path / "json", shape("rectangle", [1, 1], [9, 9]), imagePath="..\\photos\\a.png")
    (tmp_path / "json" / "a.png").rename(tmp_path / "a.png")
    assert load_data(f"labelme:{tmp_path / 'json'},images={tmp_path}")[0].image.shape == (40, 50, 3)
    with pytest.raises(BadImage, match="images="):
        load_data(f"labelme:{tmp_path / 'json'}")


def test_the_export_of_embedded_images_reads_back(rooms: Dataset, tmp_path: Path) -> None:
    from misdetect.data.export import export_coco

    read = load_data(labelme(rooms, tmp_path / "labelme", embedded=True))
    export_coco(read, tmp_path / "coco")
    again = load_data(f"coco:{tmp_path / 'coco' / 'instances.json'}")
    assert_same(again, read, masks=True)


# --- what is particular to CVAT


def cvat_file(folder: Path, body: str, meta: str = "") -> str:
    (folder / "a.png").write_bytes(png(np.zeros((40, 50, 3), dtype=np.uint8)))
    image = f'<image id="0" name="a.png" width="50" height="40">{body}</image>'
    (folder / "all.xml").write_text(f"<annotations>{meta}{image}</annotations>")
    return f"cvat:{folder / 'all.xml'}"


BOX = '<box label="dog" xtl="10" ytl="12" xbr="30" ybr="22"{}>{}</box>'


def test_a_turned_box_becomes_the_box_around_it_and_a_mask(tmp_path: Path) -> None:
    truth = load_data(cvat_file(tmp_path, BOX.format(' rotation="90"', "")))[0].truth
    np.testing.assert_allclose(truth.boxes, [[15, 7, 25, 27]], atol=1e-9)
    np.testing.assert_allclose(truth.areas, [200])
    assert abs(int(truth.masks[0].sum()) - 200) <= 30


def test_a_quarter_turn_is_clockwise_as_one_sees_it(tmp_path: Path) -> None:
    ellipse = '<ellipse label="dog" cx="25" cy="20" rx="12" ry="4" rotation="{}"/>'
    mask = load_data(cvat_file(tmp_path, ellipse.format(45)))[0].truth.masks[0]
    on, off = [mask[27, 32], mask[13, 18]], [mask[13, 32], mask[27, 18]]
    assert (on, off) == ([True, True], [False, False])  # the long axis falls to the right: rows count downwards


def test_states_are_an_attribute(tmp_path: Path) -> None:
    state = '<attribute name="condition">damaged</attribute>'
    spec = cvat_file(tmp_path, BOX.format("", state))
    assert load_data(spec)[0].truth.states is None
    assert load_data(f"{spec},state=condition")[0].truth.states == ("damaged",)


# --- what is particular to Open Images


def csv_file(
    folder: Path, *rows: str, head: str = "ImageID,LabelName,XMin,XMax,YMin,YMax,IsGroupOf,IsDepiction"
) -> str:
    for name in ("a", "b"):
        (folder / f"{name}.png").write_bytes(png(np.zeros((40, 50, 3), dtype=np.uint8)))
    (folder / "boxes.csv").write_text("\n".join([head, *rows]) + "\n")
    return f"openimages:{folder / 'boxes.csv'}"


def test_images_that_only_one_side_has_are_left_out_and_counted(tmp_path: Path) -> None:
    data = load_data(csv_file(tmp_path, "a,/m/1,.1,.5,.2,.6,0,0", "elsewhere,/m/1,.1,.5,.2,.6,0,0"))
    assert [sample.id for sample in data] == ["a.png"]
    np.testing.assert_allclose(data[0].truth.boxes, [[5, 8, 25, 24]])
    kinds = {w.kind: w.count for w in data.warnings}
    assert kinds == {"unknown-image": 1, "image-without-rows": 1, "no-class-names": 1}


def test_depictions_are_kept_ignored_or_dropped(tmp_path: Path) -> None:
    spec = csv_file(tmp_path, "a,/m/1,.1,.5,.2,.6,0,1", "a,/m/1,.1,.5,.2,.6,1,0")
    crowds = {how: load_data(f"{spec},depictions={how}")[0].truth.crowd.tolist() for how in ("keep", "ignore", "drop")}
    assert crowds == {"keep": [False, True], "ignore": [True, True], "drop": [True]}


# --- what is wrong

Make = Callable[[Path], str]


def labelme_with(*shapes: Any, **fields: Any) -> Make:
    return lambda folder: labelme_file(folder, *shapes, **fields)


def with_text(name: str, text: str, spec: str) -> Make:
    def make(folder: Path) -> str:
        (folder / name).write_text(text)
        return spec.format(folder)

    return make


def with_csv(*rows: str, **fields: str) -> Make:
    return lambda folder: csv_file(folder, *rows, **fields)


def with_cvat(body: str, meta: str = "") -> Make:
    return lambda folder: cvat_file(folder, body, meta)


MASK = '<mask label="dog" rle="{}" left="{}" top="2" width="4" height="3"/>'
BOMB = '<!DOCTYPE a [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><annotations>&b;</annotations>'
WRONG: dict[str, tuple[Make, str, str]] = {
    "labelme: no folder": (lambda f: f"labelme:{f / 'none'}", "malformed", "not a folder"),
    "labelme: nothing in it": (lambda f: f"labelme:{f}", "malformed", "no .json"),
    "labelme: not JSON": (with_text("a.json", "{", "labelme:{}"), "malformed", "a.json"),
    "labelme: COCO": (with_text("a.json", '{"images": []}', "labelme:{}"), "malformed", "shapes"),
    "labelme: a shape that is none": (labelme_with(7), "bad-record", "shape 0"),
    "labelme: no label": (labelme_with(shape("rectangle", [1, 1], [2, 2], label=None)), "bad-record", "label"),
    "labelme: two points": (labelme_with(shape("polygon", [1, 1], [2, 2])), "bad-record", "three points"),
    "labelme: words": (labelme_with(shape("rectangle", ["1", "1"], [2, 2])), "bad-record", "points"),
    "labelme: NaN": (labelme_with(shape("rectangle", [float("nan"), 1.0], [2, 2])), "not-finite", "shape 0"),
    "labelme: a kind": (labelme_with(shape("spline", [1, 1], [2, 2])), "bad-record", "spline"),
    "labelme: no size": (labelme_with(imageWidth=-3), "bad-record", "imageWidth"),
    "labelme: no image": (labelme_with(imagePath=None), "bad-record", "imagePath"),
    "labelme: another folder": (labelme_with(imagePath="../../etc/passwd"), "image-outside", "images="),
    "labelme: an absolute path": (labelme_with(imagePath="/etc/passwd"), "image-outside", "images="),
    "labelme: mask of words": (labelme_with(shape("mask", [1, 1], [2, 2], mask="?")), "bad-mask", "shape 0"),
    "labelme: mask of another size": (
        labelme_with(shape("mask", [1, 1], [2, 2], mask=base64.b64encode(png(np.zeros((9, 9), np.uint8))).decode())),
        "bad-mask",
        "size of its rectangle",
    ),
    "labelme: fractions": (labelme_with(shape("rectangle", [0.1, 0.1], [0.5, 0.6])), "relative-coordinates", "pixels"),
    "cvat: no file": (lambda f: f"cvat:{f / 'none.xml'}", "malformed", "does not exist"),
    "cvat: a bomb": (with_text("a.xml", BOMB, "cvat:{}/a.xml"), "malformed", "document type"),
    "cvat: VOC": (with_text("a.xml", "<annotation/>", "cvat:{}/a.xml"), "malformed", "CVAT for images"),
    "cvat: a video": (
        with_text("a.xml", "<annotations><track/></annotations>", "cvat:{}/a.xml"),
        "malformed",
        "tracks",
    ),
    "cvat: deep": (with_text("a.xml", "<annotations>" + "<a>" * 999, "cvat:{}/a.xml"), "malformed", "deeply"),
    "cvat: no label": (with_cvat('<box xtl="1"/>'), "bad-record", "no label"),
    "cvat: a word": (with_cvat('<box label="dog" xtl="one" ytl="1" xbr="2" ybr="3"/>'), "bad-record", "xtl"),
    "cvat: NaN": (with_cvat('<box label="dog" xtl="nan" ytl="1" xbr="2" ybr="3"/>'), "not-finite", "shape 0"),
    "cvat: swapped": (with_cvat('<box label="dog" xtl="9" ytl="1" xbr="2" ybr="3"/>'), "negative-size", "swapped"),
    "cvat: two points": (with_cvat('<polygon label="dog" points="1,1;2,2"/>'), "bad-record", "points"),
    "cvat: absurd points": (with_cvat('<polygon label="dog" points="1,1;2,1e300;1e300,3"/>'), "not-finite", "beyond"),
    "cvat: unknown kind": (with_cvat('<blob label="dog"/>'), "bad-record", "blob"),
    "cvat: unknown label": (
        with_cvat(BOX.format("", ""), "<meta><task><labels><label><name>cat</name></label></labels></task></meta>"),
        "unknown-category",
        "'dog'",
    ),
    "cvat: no state": (lambda f: cvat_file(f, BOX.format("", "")) + ",state=condition", "bad-record", "condition"),
    "cvat: runs of words": (with_cvat(MASK.format("a, b", 1)), "bad-mask", "run lengths"),
    "cvat: runs that do not add up": (with_cvat(MASK.format("3, 4", 1)), "bad-mask", "7 pixels"),
    "cvat: endless runs": (with_cvat(MASK.format("999999999, 999999999", 1)), "bad-mask", "pixels"),
    "cvat: NaN place": (with_cvat(MASK.format("3, 9", "nan")), "bad-record", "left"),
    "cvat: another folder": (
        with_text("a.xml", '<annotations><image name="../a.png"/></annotations>', "cvat:{}/a.xml"),
        "image-outside",
        "image 0",
    ),
    "open images: no file": (lambda f: f"openimages:{f / 'none.csv'}", "malformed", "none.csv"),
    "open images: other columns": (with_csv("a,1", head="ImageID,Box"), "malformed", "LabelName"),
    "open images: a word": (with_csv("a,/m/1,one,.5,.2,.6,0,0"), "malformed", "one"),
    "open images: nothing": (with_csv("a,/m/1,,.5,.2,.6,0,0"), "bad-record", "line 2"),
    "open images: no image": (with_csv(",/m/1,.1,.5,.2,.6,0,0"), "bad-record", "ImageID"),
    "open images: short row": (with_csv("a,/m/1,.1"), "malformed", "boxes.csv"),
    "open images: pixels": (with_csv("a,/m/1,10,50,20,60,0,0"), "absolute-coordinates", "line 2"),
    "open images: swapped": (with_csv("a,/m/1,.5,.1,.2,.6,0,0"), "negative-size", "line 2"),
    "open images: no rows": (with_csv(), "malformed", "holds no boxes"),
    "open images: other images": (with_csv("z,/m/1,.1,.5,.2,.6,0,0"), "malformed", "images="),
    "open images: unknown class": (
        lambda f: with_text("names.csv", "/m/2,Dog\n", csv_file(f, "a,/m/1,.1,.5,.2,.6,0,0") + ",classes={}/names.csv")(
            f
        ),
        "unknown-category",
        "/m/1",
    ),
    "open images: names of three": (
        lambda f: with_text("names.csv", "a,b,c\n", csv_file(f, "a,/m/1,.1,.5,.2,.6,0,0") + ",classes={}/names.csv")(f),
        "malformed",
        "names.csv",
    ),
    "open images: a binary file": (with_text("a.csv", "\0\1\2" * 99, "openimages:{}/a.csv"), "malformed", "a.csv"),
}


@pytest.mark.parametrize("what", WRONG)
def test_bad_files_are_one_sentence_of_their_kind(tmp_path: Path, what: str) -> None:
    make, kind, says = WRONG[what]
    with pytest.raises(BadData) as caught:
        inspect(load_data(make(tmp_path)), masks=True)
    assert caught.value.kind == kind
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@given(st.binary(max_size=200), st.sampled_from(["labelme:{}", "cvat:{}/a.json", "openimages:{}/a.json"]))
def test_no_bytes_are_more_than_bad_input(tmp_path_factory: pytest.TempPathFactory, content: bytes, spec: str) -> None:
    folder = tmp_path_factory.mktemp("bytes")
    (folder / "a.json").write_bytes(content)
    with pytest.raises(MisdetectError):
        load_data(spec.format(folder))


def test_a_mask_outside_its_image_is_bad_when_looked_at(tmp_path: Path) -> None:
    data = load_data(cvat_file(tmp_path, MASK.format("3, 9", 48)))
    assert [row["kind"] for row in inspect(data, masks=True)["warnings"]] == ["bad-mask", "box-over-edge"]


def test_an_embedded_image_that_is_none_is_bad_when_read(tmp_path: Path) -> None:
    data = load_data(labelme_file(tmp_path, imageData="????"))
    with pytest.raises(BadImage, match=r"a\.json"):
        _ = data[0].image
