"""ONNX files as strangers send them: of another task, cut off, hostile, or with more inputs than the image."""

import warnings

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from onnx_graphs import BOXES, HEIGHT, LABELS, LAYOUTS, NAMES, SCORES, ULTRALYTICS, V8, WIDTH, info, save, shares, write

from misdetect.detectors import load_detector
from misdetect.detectors.catalogue import parse_spec
from misdetect.detectors.onnx.detector import look_into
from misdetect.said.errors import BadSpec, BadWeights

IMAGE = np.full((HEIGHT, WIDTH, 3), 90, np.uint8)


# --- another kind of network -----------------------------------------------------------------------------------------

OTHERS = {
    "the task segment": ({"output0": V8.T[None]}, {"metadata": ULTRALYTICS | {"task": "segment"}}, "task 'segment'"),
    "the task pose": ({"output0": V8.T[None]}, {"metadata": ULTRALYTICS | {"task": "pose"}}, "task 'pose'"),
    "a classifier": (
        {"probs": np.zeros((1, 1000), np.float32)},
        {},
        r"whole image \(probs \[1, 1000\]\), as a classifier",
    ),
    "a segmentation": (
        {"masks": np.zeros((1, 21, HEIGHT, WIDTH), np.float32)},
        {},
        r"maps of the image \(masks \[1, 21, 64, 96\]\)",
    ),
    "instances with masks": (
        {"output0": np.zeros((1, 4 + 80 + 32, 126), np.float32), "output1": np.zeros((1, 32, 16, 24), np.float32)},
        {},
        r"maps for masks beside its boxes \(output0 \[1, 116, 126\], output1 \[1, 32, 16, 24\]\)",
    ),
    "unknown outputs": (
        {"a": np.zeros((1, 2, 3, 4, 5), np.float32), "b": np.zeros((1, 9), np.float32)},
        {},
        r"no decoder reads these outputs: a \[1, 2, 3, 4, 5\], b \[1, 9\]",
    ),
    "words": ({"y": V8.T[None]}, {"inputs": (1, 128), "dtype": TensorProto.INT64}, r"images int64\[1, 128\]"),
    "a grey image": ({"y": V8.T[None]}, {"inputs": (1, 1, 64, 96)}, r"3 channels. Got images float32\[1, 1, 64, 96\]"),
    "a grey image of any width": (
        {"y": V8.T[None]},
        {"inputs": (1, 1, 64, "w")},
        r"3 channels. Got images float32\[1, 1, 64, \?\]",
    ),
    "two images": (
        {"y": V8.T[None]},
        {"extra": [info("right", TensorProto.FLOAT, [1, 3, 64, 96])]},
        "the graph also wants 'right'",
    ),
}


@pytest.mark.parametrize("what", OTHERS)
def test_another_kind_of_network_is_named(tmp_path, what):
    outputs, more, says = OTHERS[what]
    save(tmp_path / "m.onnx", outputs, **{"inputs": (1, 3, HEIGHT, WIDTH)} | more)
    (tmp_path / "names.txt").write_text("\n".join(NAMES))
    for look in (load_detector, lambda file: look_into(parse_spec(file))):
        with pytest.raises(BadSpec, match=says) as refused:
            look(f"{tmp_path}/m.onnx")
        assert str(refused.value).endswith(".")
        assert "\n" not in str(refused.value)


def one_size(path, metadata):
    """Any size, says the graph, and any number of images; one of 96 x 64 is all that it takes."""
    nodes = [
        helper.make_node("Reshape", ["images", "shape"], ["x"]),
        helper.make_node("ReduceMean", ["x"], ["mean"], axes=[1, 2, 3], keepdims=0),
        helper.make_node("Mul", ["mean", "none"], ["nothing"]),
        helper.make_node("Add", ["table", "nothing"], ["output0"]),
    ]
    constants = {
        "shape": np.array([1, 3, HEIGHT, WIDTH]),
        "none": np.zeros(1, np.float32),
        "table": V8.T[None].astype(np.float32),
    }
    images = [info("images", TensorProto.FLOAT, ["b", 3, "h", "w"])]
    outputs = [info("output0", TensorProto.FLOAT, ["b", 7, 126])]
    tensors = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    write(path, helper.make_graph(nodes, "g", images, outputs, tensors), metadata)


@pytest.mark.parametrize("options", ["", ",decoder=yolov8,size=640"])
def test_a_graph_that_does_not_run_on_such_an_image_is_bad_input(tmp_path, options):
    one_size(tmp_path / "m.onnx", {"names": str(dict(enumerate(NAMES)))})
    with pytest.raises(BadSpec, match="ONNX Runtime failed") as refused:
        load_detector(f"{tmp_path}/m.onnx{options}")
    assert options or "tried with an image of 640x640; size= states another." in str(refused.value)
    found = look_into(parse_spec(f"{tmp_path}/m.onnx,size={WIDTH}x{HEIGHT}")).findings
    assert {f.option: f.value for f in found}["batch"] == "1"


@pytest.mark.parametrize("task", ["segment", "pose"])
def test_a_decoder_does_not_make_a_detector_of_another_task(tmp_path, task):
    save(tmp_path / "m.onnx", {"output0": V8.T[None]}, inputs=(1, 3, 64, 96), metadata=ULTRALYTICS | {"task": task})
    with pytest.raises(BadSpec, match=f"task '{task}'"):
        load_detector(f"onnx:{tmp_path}/m.onnx,decoder=yolov8")


@pytest.mark.parametrize("layout", ["yolov8 without metadata", "yolox", "detr", "boxes and scores (YOLO-NAS)"])
def test_names_of_another_number_are_named_with_what_the_outputs_show(tmp_path, layout):
    save(tmp_path / "m.onnx", LAYOUTS[layout]().outputs, inputs=(1, 3, HEIGHT, WIDTH))
    with pytest.raises(BadSpec, match=r"there are 80 names, but the outputs show .*3.* classes .*check names="):
        load_detector(f"{tmp_path}/m.onnx,names=coco")


# --- files that are none ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_file_that_was_cut_off_says_how_much_there_is(tmp_path, share):
    save(tmp_path / "whole.onnx", {"output0": V8.T[None]}, inputs=(1, 3, HEIGHT, WIDTH), metadata=ULTRALYTICS)
    data = (tmp_path / "whole.onnx").read_bytes()
    (tmp_path / "m.onnx").write_bytes(data[: int(len(data) * share)])
    with pytest.raises(
        BadWeights, match=rf"m\.onnx cannot be loaded as an ONNX graph: its {int(len(data) * share)} bytes"
    ):
        load_detector(f"{tmp_path}/m.onnx")


@pytest.mark.parametrize(
    ("content", "says"), [(b"", "is empty"), (b"milk, eggs\n", "is text"), (b"\0\0\0\0TFL3", "Lite file")]
)
def test_a_file_that_is_none_says_what_it_is(tmp_path, content, says):
    (tmp_path / "m.onnx").write_bytes(content)
    with pytest.raises(
        BadWeights, match=f"m.onnx cannot be loaded as an ONNX graph: its {len(content)} bytes .*{says}"
    ):
        load_detector(f"{tmp_path}/m.onnx")


def test_a_pointer_of_git_lfs_is_called_that(tmp_path):
    (tmp_path / "m.onnx").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
    with pytest.raises(BadWeights, match="git lfs pull"):
        load_detector(f"{tmp_path}/m.onnx")


def test_a_custom_operator_is_named(tmp_path):
    graph = helper.make_graph(
        [helper.make_node("Mine", ["images"], ["output0"], domain="com.example")],
        "g",
        [info("images", TensorProto.FLOAT, [1, 3, 8, 8])],
        [info("output0", TensorProto.FLOAT, [1, 6, 3])],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.example", 1)], ir_version=8
    )
    onnx.save(model, tmp_path / "m.onnx")
    with pytest.raises(BadWeights, match=r"uses the operator com.example:Mine, which ONNX Runtime does not have"):
        load_detector(f"{tmp_path}/m.onnx")


# --- tensors in other files ------------------------------------------------------------------------------------------


def save_outside(path, location):
    """A YOLOv8 graph whose table is in the file ``location``."""
    table = V8.T[None].astype(np.float32)
    tensor = TensorProto(name="table", data_type=TensorProto.FLOAT, dims=table.shape)
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", "0"), ("length", str(table.nbytes))):
        entry = tensor.external_data.add()
        entry.key, entry.value = key, value
    graph = helper.make_graph(
        [helper.make_node("Identity", ["table"], ["output0"])],
        "g",
        [info("images", TensorProto.FLOAT, [1, 3, HEIGHT, WIDTH])],
        [info("output0", TensorProto.FLOAT, table.shape)],
        [tensor],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    for key, value in ULTRALYTICS.items():
        entry = model.metadata_props.add()
        entry.key, entry.value = key, value
    path.write_bytes(model.SerializeToString())
    return table


@pytest.mark.unix
@pytest.mark.parametrize("how", ["above", "absolute", "link"])
def test_tensors_outside_of_the_folder_are_not_read(tmp_path, how):
    folder = tmp_path / "model"
    folder.mkdir()
    secret = tmp_path / "secret.bin"
    (folder / "link.bin").symlink_to(secret)
    location = {"above": "../secret.bin", "absolute": str(secret), "link": "link.bin"}[how]
    save_outside(folder / "m.onnx", location).tofile(secret)
    with pytest.raises(BadWeights, match=r"outside of its folder: such a file is not read\."):
        load_detector(f"{folder}/m.onnx")


def test_tensors_beside_the_file_are_part_of_its_fingerprint(tmp_path):
    table = save_outside(tmp_path / "m.onnx", "weights.bin")
    table.tofile(tmp_path / "weights.bin")
    detector = load_detector(f"{tmp_path}/m.onnx")
    assert len(detector.detect([IMAGE])[0]) == len(BOXES)
    before = detector.fingerprint
    del detector
    (table * np.float32(0.9)).tofile(tmp_path / "weights.bin")
    assert load_detector(f"{tmp_path}/m.onnx").fingerprint != before


# --- metadata --------------------------------------------------------------------------------------------------------

HOSTILE = ["[99999999999, 640]", "[-1, 5]", "[64, 96, 3]", "(" * 900, "9" * 990, "{'a': 1}", "[1.5, 2]", "True", "é"]


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("key", ["imgsz", "stride", "args", "end2end"])
def test_metadata_that_makes_no_sense_is_not_there(tmp_path, key, text):
    save(tmp_path / "m.onnx", {"output0": V8.T[None]}, inputs=(1, 3, HEIGHT, WIDTH), metadata=ULTRALYTICS | {key: text})
    detector = load_detector(f"{tmp_path}/m.onnx")
    assert detector.detect([IMAGE])[0].labels.tolist() == [1, 0, 2]
    save(tmp_path / "n.onnx", {"output0": V8.T[None]}, inputs=(1, 3, "h", "w"), metadata=ULTRALYTICS | {"imgsz": text})
    assert load_detector(f"{tmp_path}/n.onnx,size={WIDTH}x{HEIGHT}").detect([IMAGE])[0].labels.tolist() == [1, 0, 2]
    assert load_detector(f"{tmp_path}/n.onnx").assumed.startswith("assumed size=640x640, as is usual")


def test_a_size_that_the_stride_does_not_divide_is_refused(tmp_path):
    save(tmp_path / "m.onnx", {"output0": V8.T[None]}, inputs=(1, 3, "h", "w"), metadata=ULTRALYTICS)
    with pytest.raises(BadSpec, match=r"multiples of 32, the file's stride. Got 100x64\."):
        load_detector(f"{tmp_path}/m.onnx,decoder=yolov8,size=100x64")
    one_size(tmp_path / "n.onnx", ULTRALYTICS)  # whose runtime would fail in words of its own
    with pytest.raises(BadSpec, match=r"multiples of 32, the file's stride. Got 100x64\."):
        load_detector(f"{tmp_path}/n.onnx,size=100x64")
    assert load_detector(f"{tmp_path}/m.onnx,decoder=yolov8,size=128x64").settings["preprocess"]["width"] == 128


def test_names_without_end_are_refused(tmp_path):
    metadata = ULTRALYTICS | {"names": str(["a" * 20] * 100_000)}
    save(tmp_path / "m.onnx", {"output0": V8.T[None]}, inputs=(1, 3, HEIGHT, WIDTH), metadata=metadata)
    with pytest.raises(BadSpec, match=r"have 2400000 characters; give names=FILE\."):
        load_detector(f"{tmp_path}/m.onnx")


# --- inputs beside the image -----------------------------------------------------------------------------------------

SECOND = {  # how a graph makes the box [W/4, H/4, W/2, H/2] of what it is told, as four factors of (first, second)
    "image_shape": ("yxyx", [0.25, 0.25, 0.5, 0.5]),
    "im_shape": ("yxyx", [0.25, 0.25, 0.5, 0.5]),
    "orig_target_sizes": ("xyxy", [0.25, 0.25, 0.5, 0.5]),
    "scale_factor": ("xyxy", [24.0, 16.0, 48.0, 32.0]),
}


@pytest.mark.parametrize("name", SECOND)
@pytest.mark.parametrize("kind", [TensorProto.FLOAT, TensorProto.INT64])
def test_what_is_asked_beside_the_image_is_the_network_s_size(tmp_path, name, kind):
    form, factors = SECOND[name]
    nodes = [
        helper.make_node("Cast", [name], ["pair"], to=TensorProto.FLOAT),
        helper.make_node("Concat", ["pair", "pair"], ["four"], axis=1),
        helper.make_node("Mul", ["four", "factors"], ["flat"]),
        helper.make_node("Unsqueeze", ["flat", "axis"], ["boxes"]),
        helper.make_node("Identity", ["one"], ["scores"]),
        helper.make_node("Identity", ["label"], ["labels"]),
    ]
    constants = {
        "factors": np.array([factors], np.float32),
        "axis": np.array([1]),
        "one": np.array([[0.6]], np.float32),
        "label": np.array([[1]]),
    }
    graph = helper.make_graph(
        nodes,
        "g",
        [info(name, kind, [1, 2]), info("images", TensorProto.FLOAT, [1, 3, HEIGHT, WIDTH])],  # the image comes last
        [
            info("boxes", TensorProto.FLOAT, [1, 1, 4]),
            info("scores", TensorProto.FLOAT, [1, 1]),
            info("labels", TensorProto.INT64, [1, 1]),
        ],
        [numpy_helper.from_array(value, key) for key, value in constants.items()],
    )
    write(tmp_path / "m.onnx", graph, {"names": str(list(NAMES))})
    detector = load_detector(f"onnx:{tmp_path}/m.onnx,decoder=nms,preset=rtdetr,boxes={form}")
    (found,) = detector.detect([np.zeros((2 * HEIGHT, 2 * WIDTH, 3), np.uint8)])
    assert found.boxes.tolist() == [[48, 32, 96, 64]]


# --- what a first look cannot show -----------------------------------------------------------------------------------


def save_shy(path):
    """Its detections (shares of the image) have a score only where the image is bright."""
    nodes = [
        helper.make_node("ReduceMax", ["images"], ["most"], axes=[0, 1, 2, 3], keepdims=0),
        helper.make_node("ReduceMin", ["images"], ["least"], axes=[0, 1, 2, 3], keepdims=0),
        helper.make_node("Mul", ["most", "least"], ["light"]),  # noise has some black pixel, and scores nothing
        helper.make_node("Mul", ["all", "light"], ["scores"]),
        helper.make_node("Identity", ["place"], ["boxes"]),
        helper.make_node("Identity", ["label"], ["labels"]),
    ]
    constants = {"all": SCORES[None], "place": shares(BOXES)[None], "label": LABELS[None]}
    graph = helper.make_graph(
        nodes,
        "g",
        [info("images", TensorProto.FLOAT, [1, 3, HEIGHT, WIDTH])],
        [
            info("boxes", TensorProto.FLOAT, [1, 3, 4]),
            info("scores", TensorProto.FLOAT, [1, 3]),
            info("labels", TensorProto.INT64, [1, 3]),
        ],
        [numpy_helper.from_array(value, key) for key, value in constants.items()],
    )
    write(path, graph, {"names": str(list(NAMES))})


def test_boxes_that_turn_out_to_be_shares_are_an_error_and_not_an_ap_of_0(tmp_path):
    save_shy(tmp_path / "m.onnx")
    spec = f"onnx:{tmp_path}/m.onnx,decoder=nms,preset=rtdetr"
    with pytest.raises(BadSpec, match=r"reach 0\.854, so they are shares .* give units=shares"):
        load_detector(spec).detect([np.full_like(IMAGE, 255)])
    (found,) = load_detector(f"{spec},units=shares").detect([np.full_like(IMAGE, 255)])
    np.testing.assert_allclose(found.boxes, BOXES[np.argsort(-SCORES)], atol=1e-3)
    assert load_detector(f"{spec},units=pixels").detect([np.full_like(IMAGE, 255)])[0].boxes.max() < 1, "as stated"


# --- PyTorch's exporter ----------------------------------------------------------------------------------------------


class Net(torch.nn.Module):
    """YOLOv8's outputs from a convolution per level; ``layout`` is how they leave it."""

    def __init__(self, layout):
        super().__init__()
        torch.manual_seed(3)
        self.layout = layout
        self.levels = torch.nn.ModuleList(torch.nn.Conv2d(3, 4 + len(NAMES), s, s) for s in (8, 16, 32))

    def forward(self, x):
        if self.layout == "nhwc":
            x = x.permute(0, 3, 1, 2)
        heads = []
        for conv, stride in zip(self.levels, (8, 16, 32), strict=True):
            y = conv(x) * 4
            rows, columns = torch.meshgrid(
                torch.arange(y.shape[2], device=x.device), torch.arange(y.shape[3], device=x.device), indexing="ij"
            )
            cells = torch.stack([columns, rows])[None] + 0.5
            boxes = torch.cat([cells * stride + y[:, :2] * 0, stride * (1 + y[:, 2:4].sigmoid())], 1)
            heads.append(torch.cat([boxes, y[:, 4:].sigmoid()], 1).flatten(2))
        joined = torch.cat(heads, 2)
        if self.layout == "apart":
            half = joined[:, 2:4] / 2
            corners = torch.cat([joined[:, :2] - half, joined[:, :2] + half], 1)
            return corners.transpose(1, 2), joined[:, 4:]
        if self.layout == "shares":
            size = torch.tensor([x.shape[3], x.shape[2]] * 2 + [1] * len(NAMES)).float()
            return joined / size[None, :, None]
        return joined.transpose(1, 2) if self.layout == "transposed" else joined


def export(path, layout):
    shape = (1, HEIGHT, WIDTH, 3) if layout == "nhwc" else (1, 3, HEIGHT, WIDTH)
    axes = {"images": {0: "batch", 2: "height", 3: "width"}, "output0": {0: "batch", 2: "cells"}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            Net(layout).eval(),
            (torch.zeros(shape),),
            str(path),
            opset_version=17,
            dynamo=False,
            input_names=["images"],
            output_names=["boxes", "scores"] if layout == "apart" else ["output0"],
            dynamic_axes=axes if layout == "dynamic" else None,
        )
    model = onnx.load(path)
    for key, value in ULTRALYTICS.items():
        entry = model.metadata_props.add()
        entry.key, entry.value = key, value
    onnx.save(model, path)


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    path = tmp_path_factory.mktemp("plain") / "m.onnx"
    export(path, "plain")
    return load_detector(f"{path},score=0.6")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("layout", ["nhwc", "shares", "transposed", "dynamic", "apart"])
def test_one_network_exported_in_other_ways_finds_the_same(tmp_path, plain, layout):
    export(tmp_path / "m.onnx", layout)
    detector = load_detector(f"{tmp_path}/m.onnx,score=0.6")
    random = np.random.default_rng(0)
    images = [random.integers(0, 256, (50 + 9 * i, 90, 3), dtype=np.uint8) for i in range(5)]
    found = 0
    for mine, theirs in zip(detector.detect(images), plain.detect(images), strict=True):
        assert mine.labels.tolist() == theirs.labels.tolist()
        np.testing.assert_allclose(mine.scores, theirs.scores, atol=1e-5)
        np.testing.assert_allclose(mine.boxes, theirs.boxes, atol=1e-3)
        found += len(mine)
    assert found > 5
    assert detector.fingerprint != plain.fingerprint
    assert load_detector(f"{tmp_path}/m.onnx,score=0.6").fingerprint == detector.fingerprint


@pytest.mark.sampled(3)
@pytest.mark.parametrize("layout", ["shares", "transposed", "apart"])
def test_a_white_box_reads_the_same_layouts(tmp_path, layout):
    export(tmp_path / "m.onnx", layout)
    closed, white = (
        load_detector(f"{tmp_path}/m.onnx,score=0.6,level={how}") for how in ("detector", "differentiable")
    )
    random = np.random.default_rng(1)
    images = [random.integers(0, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8) for _ in range(3)]
    found = 0
    for theirs, mine in zip(closed.detect(images), white.detect(images), strict=True):
        np.testing.assert_allclose(mine.boxes, theirs.boxes, atol=1e-3)
        assert mine.labels.tolist() == theirs.labels.tolist()
        found += len(mine)
    assert found > 3
