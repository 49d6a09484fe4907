"""``onnx:`` on real networks (AP by pycocotools), on tiny graphs made here, and on everything a user gets wrong."""

import contextlib
import io
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_graphs import save, write

from misdetect.detectors import load_detector
from misdetect.detectors.names import COCO_IDS
from misdetect.nouns.detections import Detections
from misdetect.nouns.protocols import Detector, level
from misdetect.said.errors import BadSpec, BadWeights, MissingExtra

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "../shared/fixtures"
needs_fixtures = pytest.mark.skipif(not FIXTURES.is_dir(), reason="../shared/fixtures is absent")
YOLOX = f"onnx:{FIXTURES}/models/yolox_nano.onnx,decoder=yolox,names=coco"
FASTEST = (
    f"onnx:{FIXTURES}/models/fastestdet.onnx,decoder=python:{ROOT}/examples/fastestdet.py:decode,size=352,"
    "resize=stretch,colour=bgr,scale=1/255,names=coco,score=0.05"
)


# --- real networks ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def coco66():
    coco = pytest.importorskip("pycocotools.coco")
    with contextlib.redirect_stdout(io.StringIO()):
        truth = coco.COCO(str(FIXTURES / "coco66/instances.json"))
    folder = FIXTURES / "coco66/images"
    return truth, {i: cv2.imread(str(folder / image["file_name"]))[..., ::-1].copy() for i, image in truth.imgs.items()}


def average_precision(detector, coco66):
    """AP and AP50 by pycocotools."""
    from pycocotools.cocoeval import COCOeval

    truth, images = coco66
    records = []
    for image_id, image in images.items():
        records += detector.detect([image])[0].to_coco(image_id, COCO_IDS)
    with contextlib.redirect_stdout(io.StringIO()):
        evaluation = COCOeval(truth, truth.loadRes(records), "bbox")
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return evaluation.stats[:2]


@pytest.mark.heavy
@needs_fixtures
def test_yolox_nano_reaches_its_ap(coco66):
    ap, ap50 = average_precision(load_detector(f"{YOLOX},score=0.01,nms=0.6"), coco66)
    assert ap >= 0.305
    assert ap50 >= 0.48


@pytest.mark.heavy
@needs_fixtures
def test_fastestdet_reaches_its_ap_through_the_decoder_in_examples(coco66):
    ap, _ = average_precision(load_detector(FASTEST), coco66)
    assert ap >= 0.185


@pytest.mark.heavy
@needs_fixtures
def test_a_wrong_channel_order_costs_ap(coco66):
    """The stated preprocessing is what is done: RGB for a BGR network must be visibly worse."""
    ap, _ = average_precision(load_detector(f"{YOLOX},colour=rgb"), coco66)
    assert ap < 0.29


@needs_fixtures
def test_detections_stay_inside_the_image_and_under_the_caps(coco66):
    detector = load_detector(f"{YOLOX},score=0.2,max=5")
    for image in list(coco66[1].values())[:10]:
        (found,) = detector.detect([image])
        assert len(found) <= 5
        assert (found.scores >= 0.2).all()
        assert (np.diff(found.scores) <= 0).all()
        assert found.boxes.min(initial=0) >= 0
        assert (found.boxes <= [*image.shape[1::-1], *image.shape[1::-1]]).all()


@needs_fixtures
def test_what_a_detector_says_of_itself():
    detector = load_detector(f"{YOLOX},score=0.25")
    assert isinstance(detector, Detector)
    assert level(detector) == "Detector"
    assert detector.batch_size == 1
    assert detector.spec == f"{YOLOX},score=0.25"
    assert detector.settings["score"] == 0.25
    assert detector.settings["preset"] == "yolox"
    assert detector.settings["preprocess"]["colour"] == "bgr"
    same, other = load_detector(f"{YOLOX},score=0.25"), load_detector(f"{YOLOX},score=0.25,nms=0.5")
    assert same.fingerprint == detector.fingerprint != other.fingerprint


# --- tiny graphs -----------------------------------------------------------------------------------------------------


def save_brightness(path, batch="batch"):
    """A YOLOv8-shaped graph whose only box's score is the image's mean value: [B, 3, 32, 48] → [B, 5, 1]."""
    nodes = [
        helper.make_node("ReduceMean", ["images"], ["mean"], axes=[1, 2, 3], keepdims=1),
        helper.make_node("Reshape", ["mean", "shape"], ["score"]),
        helper.make_node("Mul", ["score", "zero"], ["nothing"]),
        helper.make_node("Add", ["nothing", "box"], ["boxes"]),
        helper.make_node("Concat", ["boxes", "score"], ["output0"], axis=1),
    ]
    constants = {
        "shape": np.array([-1, 1, 1]),
        "zero": np.float32(0),
        "box": np.array([[[24], [16], [8], [4]]], np.float32),
    }
    write(
        path,
        helper.make_graph(
            nodes,
            "g",
            [helper.make_tensor_value_info("images", TensorProto.FLOAT, [batch, 3, 32, 48])],
            [helper.make_tensor_value_info("output0", TensorProto.FLOAT, [batch, 5, 1])],
            [numpy_helper.from_array(value, name) for name, value in constants.items()],
        ),
    )


NAMES = {"names": "{0: 'cat', 1: 'dog'}"}
IMAGE = np.zeros((64, 96, 3), np.uint8)  # twice the size of the tiny graphs' input
STATED = "resize=stretch,colour=rgb,scale=1/255"


def only(detector):
    (found,) = detector.detect([IMAGE])
    assert isinstance(found, Detections)
    return [
        (detector.names[label], round(float(s), 4), *b)
        for b, s, label in zip(found.boxes.round(3).tolist(), found.scores, found.labels, strict=True)
    ]


def test_yolov8_with_names_from_the_export(tmp_path):
    raw = np.array([[[10, 10.5, 30], [10, 10, 20], [4, 4, 6], [8, 8, 2], [0.9, 0.8, 0], [0, 0, 0.7]]], np.float32)
    save(tmp_path / "m.onnx", {"output0": raw}, metadata=NAMES)
    found = only(load_detector(f"onnx:{tmp_path}/m.onnx,decoder=yolov8"))
    assert found == [("cat", 0.9, 16, 12, 24, 28), ("dog", 0.7, 54, 38, 66, 42)]


def test_agnostic_suppression_ignores_labels(tmp_path):
    raw = np.array([[[10, 10], [10, 10], [4, 4], [8, 8], [0.9, 0], [0, 0.7]]], np.float32)
    save(tmp_path / "m.onnx", {"output0": raw}, metadata=NAMES)
    assert len(only(load_detector(f"onnx:{tmp_path}/m.onnx,decoder=yolo11"))) == 2
    assert len(only(load_detector(f"onnx:{tmp_path}/m.onnx,decoder=yolo11,agnostic=yes"))) == 1


def test_detr_graph(tmp_path):
    logits = np.log(np.array([[[0.8, 0.1, 0.1], [0.05, 0.05, 0.9]]], np.float32))
    boxes = np.array([[[0.5, 0.5, 0.5, 0.5], [0.1, 0.1, 0.1, 0.1]]], np.float32)
    save(tmp_path / "m.onnx", {"logits": logits, "pred_boxes": boxes}, metadata=NAMES)
    assert only(load_detector(f"onnx:{tmp_path}/m.onnx,decoder=detr,score=0.5")) == [("cat", 0.8, 24, 16, 72, 48)]


def test_the_preprocessing_of_a_graph_with_nms_is_assumed_unless_it_is_stated(tmp_path):
    table = np.array([[[1, 2, 11, 12, 0.9, 1], [0, 0, 0, 0, 0, 0]]], np.float32)
    save(tmp_path / "m.onnx", {"output": table}, metadata=NAMES)
    assumed = load_detector(f"onnx:{tmp_path}/m.onnx,decoder=nms")
    assert "assumed preset=ultralytics" in assumed.assumed
    with pytest.raises(BadSpec, match="states pad"):
        load_detector(f"onnx:{tmp_path}/m.onnx,decoder=nms,resize=letterbox,colour=rgb,scale=1")
    for how in (STATED, "preset=ultralytics"):
        stated = load_detector(f"onnx:{tmp_path}/m.onnx,decoder=nms,{how}")
        assert not hasattr(stated, "assumed")
        assert only(stated) == [("dog", 0.9, 2, 4, 22, 24)]
    assert only(assumed) == [("dog", 0.9, 2, 4, 22, 24)]


def test_the_size_input_of_rt_detr_exports_is_the_network_s(tmp_path):
    """The graph scales its box by the size it is given, so a wrong size would show."""
    nodes = [
        helper.make_node("Cast", ["orig_target_sizes"], ["size"], to=TensorProto.FLOAT),
        helper.make_node("Concat", ["size", "size"], ["whole"], axis=1),
        helper.make_node("Mul", ["whole", "share"], ["flat"]),
        helper.make_node("Unsqueeze", ["flat", "axis"], ["boxes"]),
        helper.make_node("Identity", ["one"], ["scores"]),
        helper.make_node("Identity", ["label"], ["labels"]),
    ]
    constants = {
        "share": np.array([[0.25, 0.25, 0.5, 0.5]], np.float32),
        "axis": np.array([1]),
        "one": np.array([[0.6]], np.float32),
        "label": np.array([[1]]),
    }
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "g",
        [info("images", TensorProto.FLOAT, [1, 3, 32, 48]), info("orig_target_sizes", TensorProto.INT64, [1, 2])],
        [
            info("boxes", TensorProto.FLOAT, [1, 1, 4]),
            info("scores", TensorProto.FLOAT, [1, 1]),
            info("labels", TensorProto.INT64, [1, 1]),
        ],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    write(tmp_path / "m.onnx", graph, NAMES)
    detector = load_detector(f"onnx:{tmp_path}/m.onnx,decoder=nms,preset=rtdetr")
    assert only(detector) == [("dog", 0.6, 24, 16, 48, 32)]


def test_the_pixel_mask_of_detr_exports_says_that_all_pixels_are_real(tmp_path):
    """The graph's score is the mean of the mask it is given."""
    info = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Cast", ["pixel_mask"], ["mask"], to=TensorProto.FLOAT),
        helper.make_node("ReduceMean", ["mask"], ["mean"], axes=[1, 2], keepdims=1),
        helper.make_node("Mul", ["mean", "column"], ["logits"]),
        helper.make_node("Identity", ["box"], ["pred_boxes"]),
    ]
    constants = {"column": np.array([[[2, 0]]], np.float32), "box": np.array([[[0.5, 0.5, 0.5, 0.5]]], np.float32)}
    graph = helper.make_graph(
        nodes,
        "g",
        [info("pixel_values", TensorProto.FLOAT, [1, 3, 32, 48]), info("pixel_mask", TensorProto.INT64, [1, "h", "w"])],
        [info("logits", TensorProto.FLOAT, [1, 1, 2]), info("pred_boxes", TensorProto.FLOAT, [1, 1, 4])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    write(tmp_path / "m.onnx", graph, NAMES)
    detector = load_detector(f"onnx:{tmp_path}/m.onnx,decoder=detr,activation=sigmoid,score=0.6")
    assert only(detector) == [("cat", round(float(1 / (1 + np.exp(-2))), 4), 24, 16, 72, 48)]


@pytest.mark.parametrize(
    ("batch", "option", "size"), [("batch", "", 8), ("batch", ",batch=3", 3), (4, "", 4), (1, "", 1)]
)
def test_a_batch_gives_what_single_images_give(tmp_path, batch, option, size):
    save_brightness(tmp_path / "m.onnx", batch)
    (tmp_path / "names.txt").write_text("light\n")
    detector = load_detector(f"onnx:{tmp_path}/m.onnx,decoder=yolov8,names={tmp_path}/names.txt,pad=0{option}")
    assert detector.batch_size == size
    images = [np.full((32, 48, 3), value, np.uint8) for value in range(30, 250, 20)]
    found = detector.detect(images)
    assert [round(float(f.scores[0] * 255)) for f in found] == list(range(30, 250, 20))
    assert detector.detect([]) == []


def test_uint8_and_channels_last_are_read_from_the_graph(tmp_path):
    table = np.array([[1, 2, 11, 12, 0.9, 1]], np.float32)
    save(tmp_path / "m.onnx", {"output": table}, inputs=(1, 32, 48, 3), dtype=TensorProto.UINT8, metadata=NAMES)
    detector = load_detector(f"onnx:{tmp_path}/m.onnx,decoder=nms,resize=stretch,colour=rgb,scale=1")
    assert (detector.settings["preprocess"]["layout"], detector.settings["preprocess"]["dtype"]) == ("nhwc", "uint8")
    assert len(only(detector)) == 1
    with pytest.raises(BadSpec, match="uint8"):
        load_detector(f"onnx:{tmp_path}/m.onnx,decoder=nms,{STATED}")


def test_a_flat_table_and_a_free_batch_are_refused_before_the_run(tmp_path):
    save(tmp_path / "m.onnx", {"output": np.zeros((4, 6), np.float32)}, inputs=("n", 3, 32, 48), metadata=NAMES)
    with pytest.raises(BadSpec, match="give batch=1"):
        load_detector(f"onnx:{tmp_path}/m.onnx,decoder=nms,{STATED}")
    assert only(load_detector(f"onnx:{tmp_path}/m.onnx,decoder=nms,{STATED},batch=1")) == []


def test_an_output_without_a_batch_axis_is_read_where_images_are_run_one_by_one(tmp_path):
    table = np.zeros((4, 7), np.float32)
    table[1] = 12, 8, 12, 6, 0.9, 0.8, 0.1  # cx, cy, w, h, objectness, two classes
    with_axis, without = ({"output": each} for each in (table[None], table))
    save(tmp_path / "with.onnx", with_axis, inputs=(1, 3, 32, 48), metadata=NAMES)
    save(tmp_path / "without.onnx", without, inputs=("n", 3, 32, 48), metadata=NAMES)
    expected = only(load_detector(f"onnx:{tmp_path}/with.onnx,decoder=yolov5"))
    assert len(expected) == 1
    assert only(load_detector(f"onnx:{tmp_path}/without.onnx,decoder=yolov5,batch=1")) == expected


# --- what a user gets wrong ------------------------------------------------------------------------------------------

RAW = np.zeros((1, 6, 3), np.float32)
BAD_SPECS = [
    ({}, "decoder=yolo99", "'yolo99'"),
    ({}, "decoder=yolov8,names=coco", r"80 names .* \[1, 84, N\]. Got output0 \[1, 6, 3\]"),
    ({}, "decoder=yolov8,names=/no/such/file", "neither 'coco'"),
    ({"metadata": {}}, "decoder=yolov8", "give names=FILE"),
    ({"metadata": {"names": "__import__('os').system('x')"}}, "decoder=yolov8", "neither JSON nor a Python literal"),
    ({"metadata": {"names": "{0: 'a', 2: 'b'}"}}, "decoder=yolov8", "numbers 0 to 1"),
    ({"metadata": {"names": "[" * 5000}}, "decoder=yolov8", "neither JSON nor a Python literal"),
    ({}, "decoder=yolov8,colur=rgb", "unknown option 'colur'"),
    ({}, "decoder=yolov8,colour=grey", "rgb, bgr"),
    ({}, "decoder=yolov8,size=640", "graph's input is 48x32"),
    ({}, "decoder=yolov8,size=big", "WIDTHxHEIGHT"),
    ({}, "decoder=yolov8,scale=1/0", "scale=1/0"),
    ({}, "decoder=yolov8,scale=1/", "scale=1/ should be a number such as"),
    ({}, "decoder=yolov8,mean=1,2", "3 numbers"),
    ({}, "decoder=yolov8,std=0", "std above 0"),
    ({}, "decoder=yolov8,layout=nhwc", "layout=nhwc"),
    ({}, "decoder=yolov8,score=1.5", "between 0 and 1"),
    ({}, "decoder=yolov8,score=nan", "between 0 and 1"),
    ({}, "decoder=yolov8,max=0", "at least 1"),
    ({}, "decoder=yolov8,batch=4", "takes 1 images at a time"),
    ({}, "decoder=yolox,strides=a", "strides=a"),
    ({}, "decoder=yolov8,preset=mine", "preset=mine"),
    ({}, "decoder=yolov8,device=cuda", "device=cuda"),
    ({"inputs": (1, 3, 32)}, "decoder=yolov8", r"an image as input, such as .* Got images float32\[1, 3, 32\]"),
    ({"inputs": (1, 1, 32, 32)}, "decoder=yolov8", "3 channels"),
    ({"dtype": TensorProto.INT32}, "decoder=yolov8", r"of float32, float16, uint8. Got images int32\[1, 3, 32, 48\]"),
    (
        {"extra": [helper.make_tensor_value_info("shape", TensorProto.FLOAT, [2])]},
        "decoder=yolov8",
        "also wants 'shape'",
    ),
]


@pytest.mark.parametrize(("changes", "options", "says"), BAD_SPECS, ids=[f"{o}-{s}"[:60] for _, o, s in BAD_SPECS])
def test_a_bad_spec_is_one_sentence(tmp_path, changes, options, says):
    save(tmp_path / "m.onnx", {"output0": RAW}, **{"metadata": NAMES} | changes)
    with pytest.raises(BadSpec, match=says) as caught:
        load_detector(f"onnx:{tmp_path}/m.onnx{',' if options else ''}{options}")
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith((".", "?"))


@pytest.mark.parametrize("content", [b"", b"not a graph", b"\x08\x07" * 50, b"\x80\x04."])
def test_a_file_that_is_no_graph_is_refused(tmp_path, content):
    (tmp_path / "m.onnx").write_bytes(content)
    with pytest.raises(BadWeights, match=r"m\.onnx cannot be loaded as an ONNX graph"):
        load_detector(f"onnx:{tmp_path}/m.onnx,decoder=yolov8,names=coco")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(BadSpec, match="no file"):
        load_detector(f"onnx:{tmp_path}/none.onnx,decoder=yolov8")


def test_custom_operators_are_not_loaded(tmp_path):
    graph = helper.make_graph(
        [helper.make_node("Mine", ["images"], ["output0"], domain="com.example")],
        "g",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("output0", TensorProto.FLOAT, [1, 6, 3])],
    )
    write(tmp_path / "m.onnx", graph)
    with pytest.raises(BadWeights, match="cannot be loaded"):
        load_detector(f"onnx:{tmp_path}/m.onnx,decoder=yolov8,names=coco")


@pytest.mark.parametrize(("text", "value"), [("0.5", 0.5), ("1/127.5", 1 / 127.5), ("2.5 / 5", 0.5), ("1e-2", 0.01)])
def test_numbers_are_decimals_or_fractions_of_them(tmp_path, text, value):
    save(tmp_path / "m.onnx", {"output0": RAW}, metadata=NAMES)
    detector = load_detector(f"onnx:{tmp_path}/m.onnx,decoder=yolov8,resize=stretch,colour=rgb,scale={text}")
    assert detector.settings["preprocess"]["scale"] == pytest.approx(value)


def test_a_box_turned_inside_out_is_refused(tmp_path):
    save(tmp_path / "m.onnx", {"output": np.array([[11, 12, 1, 2, 0.9, 1]], np.float32)}, metadata=NAMES)
    with pytest.raises(BadSpec, match="x0 <= x1"):
        load_detector(f"onnx:{tmp_path}/m.onnx,decoder=nms,{STATED}")


def test_without_onnx_runtime_the_extra_is_named(tmp_path, monkeypatch):
    save(tmp_path / "m.onnx", {"output0": RAW}, metadata=NAMES)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingExtra, match="needs the 'onnx' extra: pip install"):
        load_detector(f"onnx:{tmp_path}/m.onnx,decoder=yolov8")


def test_the_user_s_decoder_is_part_of_the_fingerprint(tmp_path):
    save(tmp_path / "m.onnx", {"output0": RAW}, metadata=NAMES)
    prints = []
    for i, value in enumerate(("0", "0.5")):
        (tmp_path / f"d{i}.py").write_text(f"def decode(outputs, size):\n    return [[0, 0, 9, 9]], [{value}], [0]\n")
        spec = f"onnx:{tmp_path}/m.onnx,decoder=python:{tmp_path}/d{i}.py:decode,{STATED}"
        prints.append(load_detector(spec).fingerprint)
    assert prints[0] != prints[1]
