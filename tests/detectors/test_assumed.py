"""What a spec leaves out is assumed, and tried on annotated images: a network whose convention is planted finds red and
blue squares only where it is given the values that it wants."""

from pathlib import Path

import numpy as np
import pytest
from exported_models import KEPT
from onnx import TensorProto, helper, numpy_helper
from onnx_graphs import info, save, write

import misdetect as md
from misdetect import load_data, load_detector
from misdetect.data.opened import Opened
from misdetect.detectors import trial
from misdetect.detectors.catalogue import parse_spec, recognised
from misdetect.detectors.family import Family
from misdetect.detectors.names import COCO
from misdetect.registry import DETECTORS, registered
from misdetect.said.errors import BadPlugin, BadSpec

WIDTH, HEIGHT, STEP = 96, 64, 16
ROWS, COLUMNS = HEIGHT // STEP, WIDTH // STEP
CELLS = ROWS * COLUMNS
NAMES = ("red", "blue")
CONVENTIONS = {
    "rgb 0..1": (0, 2, 0.5, 30.0, "preset=ultralytics"),
    "bgr 0..1": (2, 0, 0.5, 30.0, "resize=letterbox,colour=bgr,scale=1/255,pad=114"),
    "bgr 0..255": (2, 0, 127.0, 0.1, "resize=letterbox,colour=bgr,scale=1,pad=114"),
    "rgb -1..1": (0, 2, 0.0, 300.0, "resize=letterbox,colour=rgb,scale=1/127.5,mean=1,pad=114"),
}
"""Which channels show red and blue, from which mean of a cell on, how steeply; and the options that say so."""


def centres():
    y, x = np.mgrid[:ROWS, :COLUMNS]
    return np.stack([x.ravel(), y.ravel()], 1).astype(np.float32) * STEP + STEP / 2


def network(path, convention, parts=False):
    """A graph of one candidate per cell, as YOLOv8 has them; or of boxes, scores and ``labels`` from 1 on."""
    red, blue, least, gain, _ = CONVENTIONS[convention]
    boxes = np.concatenate([centres(), np.full((CELLS, 2), STEP, np.float32)], 1)
    corners = np.concatenate([centres() - STEP / 2, centres() + STEP / 2], 1)
    constants = {
        "channels": np.array([red, blue]),
        "least": np.float32(least),
        "gain": np.float32(gain),
        "flat": np.array([1, 2, CELLS]),
        "cells": boxes.T[None],
        "boxes_twice": np.concatenate([corners] * 2)[None],
        "labels_1": np.repeat([1, 2], CELLS)[None],
        "row": np.array([1, 2 * CELLS]),
    }
    nodes = [
        helper.make_node("AveragePool", ["images"], ["means"], kernel_shape=[STEP, STEP], strides=[STEP, STEP]),
        helper.make_node("Gather", ["means", "channels"], ["two"], axis=1),
        helper.make_node("Sub", ["two", "least"], ["above"]),
        helper.make_node("Mul", ["above", "gain"], ["steep"]),
        helper.make_node("Sigmoid", ["steep"], ["sure"]),
        helper.make_node("Reshape", ["sure", "flat"], ["by_class"]),
    ]
    outputs = [info("output0", TensorProto.FLOAT, [1, 6, CELLS])]
    nodes += [helper.make_node("Concat", ["cells", "by_class"], ["output0"], axis=1)]
    if parts:
        nodes[-1:] = [
            helper.make_node("Reshape", ["by_class", "row"], ["scores"]),
            helper.make_node("Identity", ["boxes_twice"], ["boxes"]),
            helper.make_node("Identity", ["labels_1"], ["labels"]),
        ]
        outputs = [
            info("boxes", TensorProto.FLOAT, [1, 2 * CELLS, 4]),
            info("labels", TensorProto.INT64, [1, 2 * CELLS]),
            info("scores", TensorProto.FLOAT, [1, 2 * CELLS]),
        ]
    graph = helper.make_graph(
        nodes,
        "g",
        [info("images", TensorProto.FLOAT, [1, 3, HEIGHT, WIDTH])],
        outputs,
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    write(path, graph)
    return str(path)


def photos(count=10, names=NAMES, annotated=True):
    """Dim images with red and blue squares, and what is in them."""
    random, pairs = np.random.default_rng(5), []
    for _ in range(count):
        image = np.full((HEIGHT, WIDTH, 3), 60, np.uint8)
        cells = random.permutation(CELLS)[:5]
        labels = random.integers(0, 2, 5)
        corners = (centres()[cells] - STEP / 2).astype(int)
        for (x, y), label in zip(corners.tolist(), labels.tolist(), strict=True):
            image[y : y + STEP, x : x + STEP] = (230, 40, 50) if label == 0 else (50, 40, 230)
        boxes = np.concatenate([corners, corners + STEP], 1).astype(np.float32)
        kept = slice(None) if annotated else slice(0)
        pairs.append((image, {"boxes": boxes[kept], "labels": labels[kept]}))
    return load_data(pairs, names)


@pytest.fixture(scope="module")
def data():
    return photos()


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """However slow the machine is, all images are looked at."""
    monkeypatch.setattr(trial, "_SECONDS", float("inf"))


# --- the path of a model is a spec -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "scheme"),
    [
        ("a.onnx", "onnx"),
        ("A.ONNX", "onnx"),
        ("C:\\models\\a.tflite", "tflite"),
        ("a.torchscript", "torchscript"),
        ("a.pt", "ultralytics"),
        ("a.pth", "yolox"),
        ("a.py", "python"),
        ("a.json", None),
        ("a.xml", None),
    ],
)
def test_what_a_file_is_called_says_its_family(path, scheme):
    assert recognised(path) == scheme


@pytest.mark.parametrize(
    ("files", "scheme"),
    [
        (["saved_model.pb"], "savedmodel"),
        (["config.json", "model.safetensors"], "hf"),
        (["a.xml", "a.bin"], "openvino"),
        (["a.xml"], None),
        (["photo.jpg"], None),
    ],
)
def test_what_is_in_a_folder_says_its_family(files, scheme, tmp_path):
    for name in files:
        (tmp_path / name).touch()
    assert recognised(str(tmp_path)) == scheme


def test_xml_is_a_network_where_it_says_so(tmp_path):
    (tmp_path / "a.xml").write_text('<?xml version="1.0"?><net name="n"></net>')
    (tmp_path / "b.xml").write_text('<?xml version="1.0"?><annotations></annotations>')
    assert [recognised(str(tmp_path / name)) for name in ("a.xml", "b.xml")] == ["openvino", None]


class Claimed:
    """An entry point of a package that recognises what it likes."""

    def __init__(self, recognises):
        self.family, self.own, self.name = Family("theirs", "Detector", "x", "x:y", recognises=recognises), False, "x"

    def load(self, kind):
        return self.family

    def broken(self, why):
        return BadPlugin(why)


def test_families_of_other_packages_recognise_paths_too(monkeypatch):
    known = dict(registered(DETECTORS))
    theirs = {"camera": Claimed(lambda path: path.suffix in (".cam", ".onnx"))}
    monkeypatch.setattr("misdetect.detectors.catalogue.registered", lambda group: known | theirs)
    assert parse_spec("hall.cam,score=0.5").text == "camera:hall.cam,score=0.5"
    assert recognised("a.onnx") == "onnx"  # those that are listed first go first
    theirs["camera"] = Claimed(lambda path: 1 / 0)
    with pytest.raises(BadPlugin, match="it cannot tell whether it recognises a path"):
        recognised("hall.cam")


# --- what is assumed -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_annotated_images_show_the_convention_that_was_planted(convention, data, tmp_path):
    file = network(tmp_path / "m.onnx", convention)
    found = load_detector(file, data=Opened(data))
    names = tmp_path / "names.txt"
    names.write_text("\n".join(NAMES))
    right = load_detector(f"onnx:{file},decoder=yolov8,names={names},{CONVENTIONS[convention][-1]}")
    assert found.names == right.names
    images = [data[i].image for i in range(3)]
    for own, other in zip(found.detect(images), right.detect(images), strict=True):
        assert len(own) >= 5
        np.testing.assert_array_equal(own.labels, other.labels)
        np.testing.assert_allclose(own.scores, other.scores, atol=1e-4)
    assert "40 of 40 annotated objects found on 8 images" in found.assumed
    assert found.assumed.endswith(f"The whole spec: {found.spec}")
    again = load_detector(found.spec, NAMES)
    assert again.fingerprint == found.fingerprint


def test_where_labels_start_is_shown_by_the_objects(data, tmp_path):
    file = network(tmp_path / "m.onnx", "rgb 0..1", parts=True)
    found = load_detector(file, data=Opened(data))
    assert found.settings["labels_from"] == "1"
    assert "labels-from=1" in found.spec
    (seen,) = found.detect([data[0].image])
    best = seen.labels[np.argsort(-seen.scores)[:5]]
    assert sorted(best.tolist()) == sorted(data[0].truth.labels.tolist())


def test_what_the_spec_states_stays(data, tmp_path):
    file = network(tmp_path / "m.onnx", "bgr 0..255")
    found = load_detector(f"{file},colour=rgb", data=Opened(data))
    assert (found.preprocess.colour, found.preprocess.scale) == ("rgb", 1.0)
    assert "0 of 40 annotated objects found on 8 images, but 40 with any class" in found.assumed


def test_without_annotations_the_usual_is_taken_and_not_called_confirmed(tmp_path):
    file = network(tmp_path / "m.onnx", "bgr 0..255")
    found = load_detector(file, data=Opened(photos(annotated=False)))
    assert found.settings["preset"] == "ultralytics"
    assert "as is usual; nothing annotated was there to try it on" in found.assumed
    assert load_detector(file, NAMES).assumed.startswith("assumed preset=ultralytics, as is usual")
    with pytest.raises(BadSpec, match=r"decoder=yolov8,names=FILE': the file carries no class names"):
        load_detector(file)


def test_the_order_of_names_is_shown_by_the_objects(tmp_path):
    """COCO's classes by another order: the data's names are as many, but the network means COCO's."""
    labels = np.random.default_rng(3).integers(0, 80, CELLS)
    table = np.full((1, 84, 5 * CELLS), 1e-3, np.float32)
    table[0, :4] = np.tile(np.concatenate([centres(), np.full((CELLS, 2), STEP, np.float32)], 1).T, 5)
    table[0, 4 + labels, np.arange(CELLS)] = 0.9
    save(tmp_path / "m.onnx", {"output0": table}, inputs=(1, 3, HEIGHT, WIDTH))
    names = tuple(sorted(COCO))
    corners = np.concatenate([centres() - STEP / 2, centres() + STEP / 2], 1)
    here = np.array([names.index(COCO[label]) for label in labels])
    truth = {"boxes": corners, "labels": here}
    pairs = [(np.full((HEIGHT, WIDTH, 3), 60 + i, np.uint8), truth) for i in range(3)]
    found = load_detector(f"{tmp_path}/m.onnx", data=load_data(pairs, names))
    assert found.names == COCO
    assert found.spec == f"onnx:{tmp_path}/m.onnx,decoder=yolov8,names=coco"
    assert f"assumed decoder=yolov8, names=coco and preset=ultralytics: {3 * CELLS} of {3 * CELLS}" in found.assumed


def test_a_network_that_finds_nothing_is_said_to(data, tmp_path):
    table = np.zeros((1, 6, CELLS), np.float32)
    table[:, :4] = 20
    save(tmp_path / "m.onnx", {"output0": table}, inputs=(1, 3, HEIGHT, WIDTH))
    with pytest.raises(BadSpec, match=r"m.onnx,decoder=yolov8.*no reading of it finds a box on 3 annotated images"):
        load_detector(f"{tmp_path}/m.onnx", data=Opened(data))
    table[:, 4:] = 0.9  # boxes, but never where an object is
    table[:, :2] = 2
    save(tmp_path / "n.onnx", {"output0": table}, inputs=(1, 3, HEIGHT, WIDTH))
    assumed = load_detector(f"{tmp_path}/n.onnx", data=Opened(data)).assumed
    assert "as is usual, but none of 40 annotated objects is found on 8 images" in assumed


def test_the_names_of_the_data_are_written_where_a_file_holds_them(tmp_path):
    from PIL import Image

    made = photos(4)
    for part in ("images", "labels"):
        (tmp_path / part / "val").mkdir(parents=True)
    for i in range(len(made)):
        Image.fromarray(made[i].image).save(tmp_path / "images" / "val" / f"{i}.png")
        lines = []
        for box, label in zip(made[i].truth.boxes, made[i].truth.labels, strict=True):
            x, y = (box[:2] + box[2:]) / 2 / (WIDTH, HEIGHT)
            lines.append(f"{label} {x} {y} {STEP / WIDTH} {STEP / HEIGHT}")
        (tmp_path / "labels" / "val" / f"{i}.txt").write_text("\n".join(lines))
    listed = tmp_path / "data.yaml"
    listed.write_text(f"path: {tmp_path}\nval: images/val\nnames: [red, blue]\n")
    file = network(tmp_path / "m.onnx", "rgb 0..1")
    found = load_detector(file, data=Opened(f"yolo:{listed},split=val"))
    assert found.spec == f"onnx:{file},decoder=yolov8,names={listed}"
    assert load_detector(found.spec).names == NAMES


# --- it travels ------------------------------------------------------------------------------------------------------


def test_a_run_says_what_was_assumed_and_goes_on_with_it(data, tmp_path, monkeypatch):
    file = network(tmp_path / "m.onnx", "bgr 0..255")
    run = md.detect(file, data, out=tmp_path / "run")
    about = run.directory.about
    assert run.outcome.notes[0].startswith("assumed ")
    assert run.document["settings"]["detector"]["assumed"] == run.outcome.notes[0]
    assert about["detector_settings"]["given"] == file
    assert run.document["detector"] == about["identity"]["detector"]["spec"] != f"onnx:{file}"

    def once(guess, data):
        raise AssertionError("it was tried before")

    monkeypatch.setattr(trial, "confirmed", once)
    again = md.detect(file, data, out=tmp_path / "run")
    assert again.document == run.document
    assert again.outcome.notes[0] == run.outcome.notes[0]


def test_a_case_is_asked_again_by_the_spec_that_was_assumed(data, tmp_path):
    run = md.detect(network(tmp_path / "m.onnx", "bgr 0..255"), data, out=tmp_path / "run")
    case = run.rows().to_pylist()[0]["case"]
    assert run.replay(case)["reproduced"]


# --- real networks ---------------------------------------------------------------------------------------------------

FIXTURES = Path(__file__).parents[3] / "shared" / "fixtures"
REAL = {
    "yolox_nano.onnx": "decoder=yolox,names=coco",
    "picodet_s.onnx": "decoder=nms,columns=class,score,x0,y0,x1,y1,outputs=table,count,names=coco,preset=detr,batch=1",
}


@pytest.mark.heavy
@pytest.mark.parametrize("name", REAL)
def test_a_real_network_is_read_as_its_authors_meant(name):
    file, annotations = FIXTURES / "models" / name, FIXTURES / "coco66" / "instances.json"
    if not file.is_file() or not annotations.is_file():
        pytest.skip(f"{file} is not there")
    data = Opened(f"coco:{annotations}")
    found, right = load_detector(str(file), data=data), load_detector(f"onnx:{file},{REAL[name]}")
    images = [data.data[i].image for i in range(3)]
    for own, other in zip(found.detect(images), right.detect(images), strict=True):
        assert len(own) > 0
        np.testing.assert_array_equal(own.labels, other.labels)
        np.testing.assert_allclose(own.boxes, other.boxes, atol=0.01)


def test_a_quantised_input_says_what_values_it_holds():
    found = load_detector(f"{KEPT}/suppressed.tflite")
    assert (found.settings["preprocess"]["scale"], found.settings["preprocess"]["mean"]) == (1 / 127.5, [1.0] * 3)
