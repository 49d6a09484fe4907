"""Graphs of newer operator sets as white boxes: written in an older one, they compute what ONNX Runtime does."""

import warnings

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, version_converter
from onnx_graphs import ULTRALYTICS, info, write

from misdetect.detectors import load_detector
from misdetect.detectors.onnx.opset import KNOWN, CannotLower, lower, opset_of
from misdetect.nouns.detections import Truth
from misdetect.nouns.protocols import level
from misdetect.said.errors import LevelTooLow

SIDE, CLASSES = 64, 3


class Tiny(torch.nn.Module):
    """What YOLO's graphs are made of, smaller: ``[1, 4 + C, 64]``."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.stem, self.norm = torch.nn.Conv2d(3, 8, 3, 4, 1), torch.nn.BatchNorm2d(8)
        self.head = torch.nn.Conv2d(8, 4 + CLASSES, 3, 2, 1)

    def forward(self, x):
        y = torch.nn.functional.silu(self.norm(self.stem(x)))
        y = torch.nn.functional.max_pool2d(y, 5, 1, 2) + y - y.mean(dim=(2, 3), keepdim=True)
        y = torch.nn.functional.interpolate(torch.nn.functional.avg_pool2d(y, 2), scale_factor=2.0, mode="nearest")
        left, right = y.chunk(2, 1)
        boxes, scores = self.head(torch.cat([right, left], 1)).flatten(2).split([4, CLASSES], 1)
        return torch.cat([boxes.sigmoid() * SIDE, scores.sigmoid()], 1)


@pytest.fixture(
    scope="module", params=[pytest.param(18, marks=pytest.mark.heavy), 22, pytest.param(23, marks=pytest.mark.heavy)]
)
def exported(request, tmp_path_factory):
    """The file that PyTorch's exporter writes, brought to a newer opset, with Ultralytics' metadata."""
    path = tmp_path_factory.mktemp("opset") / "tiny.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            Tiny().eval(),
            (torch.zeros(1, 3, SIDE, SIDE),),
            str(path),
            opset_version=KNOWN,
            dynamo=False,
            input_names=["images"],
            output_names=["output0"],
        )
    model = version_converter.convert_version(onnx.load(path), request.param)
    assert opset_of(model) == request.param
    for key, value in (ULTRALYTICS | {"imgsz": f"[{SIDE}, {SIDE}]"}).items():
        entry = model.metadata_props.add()
        entry.key, entry.value = key, value
    onnx.save(model, path)
    return path


def test_a_newer_graph_is_a_white_box_with_the_same_detections(exported):
    closed, white = load_detector(f"{exported},score=0.3"), load_detector(f"{exported},score=0.3,level=differentiable")
    assert level(white) == "Differentiable"
    random = np.random.default_rng(0)
    images = [random.integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8) for _ in range(3)]
    found = 0
    for theirs, mine in zip(closed.detect(images), white.detect(images), strict=True):
        np.testing.assert_allclose(mine.boxes, theirs.boxes, atol=1e-2)
        np.testing.assert_allclose(mine.scores, theirs.scores, atol=1e-4)
        found += len(mine)
    assert found > 3
    _, (slope,) = white.gradient([images[0].astype(np.float32)], [Truth([[4.0, 4, 40, 40]], [1])], "all")
    assert np.abs(slope).max() > 0


def test_what_the_older_set_does_not_have_is_named(tmp_path):
    graph = helper.make_graph(
        [
            helper.make_node("ReduceMean", ["images"], ["mean"], keepdims=1),
            helper.make_node("Gelu", ["mean"], ["soft"]),
            helper.make_node("Mul", ["soft", "zero"], ["nothing"]),
            helper.make_node("Add", ["nothing", "rows"], ["output0"]),
        ],
        "g",
        [info("images", TensorProto.FLOAT, [1, 3, 32, 48])],
        [info("output0", TensorProto.FLOAT, [1, 7, 30])],
        [
            onnx.numpy_helper.from_array(np.zeros((1, 1, 1), np.float32), "zero"),
            onnx.numpy_helper.from_array(np.ones((1, 7, 30), np.float32), "rows"),
        ],
    )
    graph.node[2].input[0] = "flat"
    graph.node.insert(2, helper.make_node("Reshape", ["soft", "shape"], ["flat"]))
    graph.initializer.append(onnx.numpy_helper.from_array(np.array([1, 1, 1]), "shape"))
    write(tmp_path / "m.onnx", graph, ULTRALYTICS, opset=22)
    detector = load_detector(f"{tmp_path}/m.onnx")
    with pytest.raises(LevelTooLow, match=r"Gelu of opset 22 is not in opset 17.*still runs as a Detector") as refused:
        detector.white_box()
    assert str(refused.value).endswith(".")


def one_node(op, inputs, **attributes):
    graph = helper.make_graph(
        [helper.make_node(op, inputs, ["y"], **attributes)],
        "g",
        [info(name, TensorProto.FLOAT, None) for name in inputs],
        [info("y", TensorProto.FLOAT, None)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)])


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (one_node("Resize", ["x", "", "s"], antialias=1), "Resize of opset 22 has antialias"),
        (one_node("Pad", ["x", "p", "", "a"]), "Pad of opset 22 has 4 inputs"),
        (one_node("ReduceMax", ["x", "unknown"]), "ReduceMax of opset 22 has 2 inputs"),
    ],
)
def test_what_only_newer_operators_do_is_not_dropped(model, says):
    with pytest.raises(CannotLower, match=says):
        lower(model)
    assert opset_of(model) == 22


def test_an_option_that_is_left_as_it_was_is_dropped():
    model = one_node("Resize", ["x", "", "s"], antialias=0, mode="nearest")
    lower(model)
    assert opset_of(model) == KNOWN
    assert [each.name for each in model.graph.node[0].attribute] == ["mode"]
