"""A detector in a few ONNX nodes, and pictures that it reads perfectly: cells of one colour on a dark ground.

The graph takes the mean colour of each of sixteen cells; the strongest colour is the class, its strength the score.
"""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import misdetect as md
from misdetect.nouns.detections import Truth

NAMES = ("red", "green", "blue")
SIDE, CELL = 64, 16
CORNERS = np.array([[x, y, x + CELL, y + CELL] for y in range(0, SIDE, CELL) for x in range(0, SIDE, CELL)], np.float32)


def pictures(count=24):
    """Pairs of picture and truth; one to five cells are lit, with different strengths."""
    pairs = []
    for seed in range(count):
        rng = np.random.default_rng(seed)
        image = rng.integers(0, 12, (SIDE, SIDE, 3)).astype(np.uint8)
        cells = rng.choice(16, rng.integers(1, 6), replace=False)
        labels = rng.integers(0, 3, len(cells))
        for cell, label in zip(cells, labels, strict=True):
            x, y = CORNERS[cell][:2].astype(int)
            image[y : y + CELL, x : x + CELL, label] = rng.integers(150, 240)
        pairs.append((image, Truth(CORNERS[cells], labels)))
    return md.load_data(pairs, NAMES)


def _constant(name, value):
    return numpy_helper.from_array(np.asarray(value), name)


def _save(path, nodes, constants, outputs):
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, SIDE, SIDE])
    told = [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs.items()]
    graph = helper.make_graph(nodes, "cells", [image], told, initializer=constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
    (path.parent / "names.txt").write_text("\n".join(NAMES))
    return f"onnx:{path},names={path.parent / 'names.txt'}"


_POOL = [
    helper.make_node("AveragePool", ["image"], ["means"], kernel_shape=[CELL, CELL], strides=[CELL, CELL]),
    helper.make_node("Reshape", ["means", "flat"], ["strength"]),
]


def channels(path, *, logits=False):
    """As YOLOv8 exports it, ``[1, 4 + C, N]``, wanting RGB in 0..1; with ``logits`` before the sigmoid."""
    centre = (CORNERS[:, :2] + CORNERS[:, 2:]).T / 2
    boxes = np.concatenate([centre, np.full((2, 16), CELL)]).astype(np.float32)[None]
    nodes, last = list(_POOL), "strength"
    constants = [_constant("flat", np.array([1, 3, 16])), _constant("boxes", boxes)]
    if logits:
        limits = {"one": 1, "low": 0.01, "high": 0.99}
        constants += [_constant(name, np.float32(value)) for name, value in limits.items()]
        nodes += [
            helper.make_node("Clip", ["strength", "low", "high"], ["p"]),
            helper.make_node("Sub", ["one", "p"], ["rest"]),
            helper.make_node("Div", ["p", "rest"], ["odds"]),
            helper.make_node("Log", ["odds"], ["logits"]),
        ]
        last = "logits"
    nodes.append(helper.make_node("Concat", ["boxes", last], ["output"], axis=1))
    return _save(path, nodes, constants, {"output": TensorProto.FLOAT}) + ",decoder=yolov8"


def finished(path, boxes=CORNERS, labels_from=0):
    """A graph that reports ``boxes`` ``[16, 4]`` with scores and labels by itself, wanting RGB in 0..1."""
    nodes = [
        *_POOL,
        helper.make_node("ReduceMax", ["strength"], ["scores"], axes=[1], keepdims=0),
        helper.make_node("ArgMax", ["strength"], ["best"], axis=1, keepdims=0),
        helper.make_node("Add", ["best", "first"], ["labels"]),
        helper.make_node("Identity", ["places"], ["boxes"]),
    ]
    constants = [
        _constant("flat", np.array([1, 3, 16])),
        _constant("places", boxes.astype(np.float32)[None]),
        _constant("first", np.array(labels_from, np.int64)),
    ]
    kinds = {"boxes": TensorProto.FLOAT, "scores": TensorProto.FLOAT, "labels": TensorProto.INT64}
    return _save(path, nodes, constants, kinds) + ",decoder=nms,resize=stretch,colour=rgb,scale=1/255,score=0.1"


def xywh():
    """The cells as x, y, width, height."""
    return np.concatenate([CORNERS[:, :2], CORNERS[:, 2:] - CORNERS[:, :2]], axis=1)


def shares():
    """The cells as shares of the input."""
    return CORNERS / SIDE
