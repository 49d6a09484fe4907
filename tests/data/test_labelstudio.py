"""Label Studio's exports: shapes in percent, turned about their corner, and brushed masks, by arithmetic done here."""

import json

import numpy as np
import pytest
from PIL import Image

from misdetect.data import load_data
from misdetect.data.faults import BadMask, BadRecord, Malformed

WIDTH, HEIGHT = 200, 100


def shape(kind, value, **more):
    sized = {"original_width": WIDTH, "original_height": HEIGHT, "type": kind, "from_name": "label"}
    return {**sized, "value": {**value, kind: ["cat"]}, **more}


def bits(number, width):
    return f"{number:0{width}b}"


def brushed(mask):
    """Run lengths of the RGBA image of ``mask``, written from the format's description: a run of one width only."""
    values = np.repeat(np.where(mask, 255, 0).astype(np.uint8).reshape(-1), 4)
    text = bits(len(values), 32) + bits(7, 5) + "".join(bits(w - 1, 4) for w in (3, 4, 8, 16))
    at = 0
    while at < len(values):
        end = at + 1
        while end < len(values) and values[end] == values[at] and end - at < 1 << 16:
            end += 1
        text += "1" + bits(3, 2) + bits(end - at - 1, 16) + bits(int(values[at]), 8)
        at = end
    text += "0" * (-len(text) % 8)
    return [int(text[i : i + 8], 2) for i in range(0, len(text), 8)]


@pytest.fixture
def written(tmp_path):
    def write(*results, name="photo.png", image="/data/upload/1/0a1b2c3d-photo.png", **task):
        Image.new("RGB", (WIDTH, HEIGHT)).save(tmp_path / name)
        tasks = [{"id": 7, "data": {"image": image}, "annotations": [{"result": list(results)}], **task}]
        (tmp_path / "export.json").write_text(json.dumps(tasks))
        return load_data(str(tmp_path / "export.json"))

    return write


RECTANGLE = {"x": 50.0, "y": 10.0, "width": 20.0, "height": 30.0, "rotation": 0}


def test_a_rectangle_is_in_percent_and_its_image_is_found_without_the_digits_of_the_upload(written):
    data = written(shape("rectanglelabels", RECTANGLE))
    assert data.spec.startswith("labelstudio:")
    (sample,) = data
    assert sample.file_name == "photo.png"
    assert sample.image.shape == (HEIGHT, WIDTH, 3)
    assert data.names == ("cat",)
    np.testing.assert_allclose(sample.truth.boxes, [[100, 10, 140, 40]])


def test_a_quarter_turn_is_about_the_first_corner(written):
    data = written(shape("rectanglelabels", RECTANGLE | {"rotation": 90}))
    np.testing.assert_allclose(data[0].truth.boxes, [[70, 10, 100, 50]], atol=1e-9)


def test_a_polygon_and_an_ellipse_have_masks(written):
    polygon = shape("polygonlabels", {"points": [[10, 10], [20, 10], [20, 30]]})
    round_ = shape("ellipselabels", {"x": 50, "y": 50, "radiusX": 10, "radiusY": 10, "rotation": 90})
    truth = written(polygon, round_)[0].truth
    np.testing.assert_allclose(truth.boxes[0], [20, 10, 40, 30])
    np.testing.assert_allclose(truth.boxes[1], [90, 30, 110, 70], atol=0.1)
    assert truth.masks[0].sum() == pytest.approx(200, abs=15)


def test_a_brushed_mask_is_what_was_brushed(written):
    mask = np.random.default_rng(0).random((HEIGHT, WIDTH)) > 0.9
    mask[:5], mask[90:] = False, False
    truth = written(shape("brushlabels", {"format": "rle", "rle": brushed(mask)}))[0].truth
    np.testing.assert_array_equal(truth.masks[0], mask)
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    np.testing.assert_array_equal(truth.boxes[0], [columns[0], rows[0], columns[-1] + 1, rows[-1] + 1])


def test_the_ground_truth_counts_else_the_last_that_was_not_cancelled(written):
    results = [[shape("rectanglelabels", RECTANGLE | {"x": x})] for x in (0.0, 10.0, 20.0)]
    last = [{"result": results[0]}, {"result": results[1]}, {"result": results[2], "was_cancelled": True}]
    data = written(annotations=last)
    assert data[0].truth.boxes[0][0] == 20
    assert [each.kind for each in data.warnings] == ["several-annotations"]
    data = written(annotations=[{"result": results[0], "ground_truth": True}, *last[1:]])
    assert data[0].truth.boxes[0][0] == 0


def test_the_short_form_is_read(tmp_path):
    Image.new("RGB", (WIDTH, HEIGHT)).save(tmp_path / "a.png")
    value = RECTANGLE | {"rectanglelabels": ["cat"], "original_width": WIDTH, "original_height": HEIGHT}
    tasks = [{"id": 1, "image": "/data/local-files/?d=photos/a.png", "label": [value]}]
    (tmp_path / "min.json").write_text(json.dumps(tasks))
    np.testing.assert_allclose(load_data(str(tmp_path / "min.json"))[0].truth.boxes, [[100, 10, 140, 40]])


def test_tasks_that_nobody_annotated_are_left_out_and_empty_ones_are_not(written, tmp_path):
    data = written(shape("rectanglelabels", RECTANGLE))
    tasks = json.loads((tmp_path / "export.json").read_text())
    more = [tasks[0] | {"annotations": []}, tasks[0] | {"annotations": [{"result": []}]}]
    (tmp_path / "export.json").write_text(json.dumps(tasks + more))
    data = load_data(str(tmp_path / "export.json"))
    assert [len(sample.truth) for sample in data] == [1, 0]
    assert data.warnings[0].kind == "unlabelled"


@pytest.mark.parametrize(
    ("value", "kind", "error"),
    [
        ({"x": "1"}, "rectanglelabels", BadRecord),
        ({"points": [[1, 2]]}, "polygonlabels", BadRecord),
        ({"rle": [0, 0]}, "brushlabels", BadMask),
        ({"rle": [1, 2, 300]}, "brushlabels", BadMask),
        ({"rle": [0, 1, 56, 128, 57, 23, 127, 255]}, "brushlabels", BadMask),
    ],
)
def test_what_is_wrong_is_named(written, value, kind, error):
    with pytest.raises(error, match="task 7"):
        written(shape(kind, value))


def test_an_object_is_no_export(tmp_path):
    (tmp_path / "x.json").write_text("{}")
    with pytest.raises(Malformed, match="list of tasks"):
        load_data(f"labelstudio:{tmp_path / 'x.json'}")
