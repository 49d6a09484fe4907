"""Tiny ONNX graphs whose detections are known, in the layouts of many exporters.

``LAYOUTS`` are functions of no argument that say how the same three objects leave a graph; the images are ignored. Each
is rebuilt from what its exporter documents.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

WIDTH, HEIGHT = 96, 64
NAMES = ("cat", "dog", "cow")
OBJECTS = [  # x0, y0, x1, y1 in pixels of the input, label, score; the stride and cell (row, column) of its candidate
    ((10.0, 12.0, 34.0, 44.0), 1, 0.9, 16, (1, 1)),
    ((50.0, 20.0, 82.0, 52.0), 0, 0.8, 32, (1, 2)),
    ((40.0, 4.0, 56.0, 20.0), 2, 0.6, 8, (1, 6)),
]
BOXES = np.array([box for box, *_ in OBJECTS], np.float32)
LABELS = np.array([label for _, label, *_ in OBJECTS])
SCORES = np.array([score for _, _, score, *_ in OBJECTS], np.float32)
ULTRALYTICS = {
    "author": "Ultralytics",
    "task": "detect",
    "stride": "32",
    "batch": "1",
    "imgsz": f"[{HEIGHT}, {WIDTH}]",
    "names": str(dict(enumerate(NAMES))),
    "args": "{'batch': 1, 'half': False, 'nms': False}",
}
YOLOV5 = {"stride": "32", "names": str(dict(enumerate(NAMES)))}
INSIDE = ULTRALYTICS | {"args": "{'batch': 1, 'nms': True}"}
LOW = 1e-3


@dataclass(frozen=True)
class Export:
    """A graph: ``outputs`` are what it returns. ``sure``: nothing has to be guessed but class names where
    ``metadata`` has none."""

    outputs: dict[str, Any]
    sure: bool = False
    metadata: dict[str, str] = field(default_factory=dict)
    shape: tuple[Any, ...] = (1, 3, HEIGHT, WIDTH)
    dtype: int = TensorProto.FLOAT
    beside: tuple[Any, ...] = ()


def save(path, outputs, *, inputs=(1, 3, 32, 48), dtype=TensorProto.FLOAT, metadata=None, extra=(), opset=17):
    """A graph that ignores its image and returns ``outputs`` (name → array); where its batch is dynamic, as many times
    as there are images."""
    nodes, infos, constants = [], [], {}
    free = isinstance(inputs[0], str)
    if free:
        constants |= {"first": np.array([0]), "behind": np.array([1])}
        nodes += [
            helper.make_node("Shape", ["images"], ["sizes"]),
            helper.make_node("Gather", ["sizes", "first"], ["count"]),
        ]
    for name, value in outputs.items():
        value = np.asarray(value)
        shape = list(value.shape)
        kind = helper.np_dtype_to_tensor_dtype(value.dtype)
        if free and shape and shape[0] == 1:
            constants |= {f"{name}.one": value, f"{name}.rest": np.array(shape[1:], np.int64)}
            nodes += [
                helper.make_node("Concat", ["count", f"{name}.rest"], [f"{name}.shape"], axis=0),
                helper.make_node("Expand", [f"{name}.one", f"{name}.shape"], [name]),
            ]
            shape[0] = inputs[0]
        else:
            nodes.append(helper.make_node("Constant", [], [name], value=numpy_helper.from_array(value)))
        infos.append(helper.make_tensor_value_info(name, kind, shape))
    images = [helper.make_tensor_value_info("images", dtype, inputs), *extra]
    initial = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    write(path, helper.make_graph(nodes, "g", images, infos, initial), metadata, opset)


def write(path, graph, metadata=None, opset=17):
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8 if opset < 20 else 10)
    for key, value in (metadata or {}).items():
        entry = model.metadata_props.add()
        entry.key, entry.value = key, value
    onnx.save(model, str(path))


def centred(boxes):
    return np.concatenate([(boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2]], axis=1)


def logit(values):
    values = np.asarray(values, np.float64)
    return np.log(values / (1 - values)).astype(np.float32)


def grid(stride):
    """Rows and columns of cells."""
    return -(-HEIGHT // stride), -(-WIDTH // stride)


def level(stride):
    """One level's candidates ``[h, w, 5 + C]``: box (centre and size, pixels), objectness, classes."""
    rows, columns = grid(stride)
    table = np.full((rows, columns, 5 + len(NAMES)), LOW, np.float32)
    y, x = np.mgrid[:rows, :columns]
    table[..., 0], table[..., 1] = (x + 0.5) * stride, (y + 0.5) * stride
    table[..., 2:4] = stride * 1.5
    for box, label, score, its_stride, (row, column) in OBJECTS:
        if its_stride == stride:
            table[row, column, :4] = centred(np.array([box]))[0]
            table[row, column, 4] = np.sqrt(score)
            table[row, column, 5 + label] = np.sqrt(score)
    return table


def without_objectness(table):
    """``[..., 4 + C]``: a box and what objectness times class is."""
    return np.concatenate([table[..., :4], table[..., 4:5] * table[..., 5:]], axis=-1)


def dense(strides=(8, 16, 32)):
    return np.concatenate([level(stride).reshape(-1, 5 + len(NAMES)) for stride in strides])


def shares(values):
    scaled = values.copy()
    scaled[..., :4] /= [WIDTH, HEIGHT, WIDTH, HEIGHT]
    return scaled


def offsets(stride):
    """YOLOX's coding of a level."""
    table = level(stride)
    rows, columns = grid(stride)
    y, x = np.mgrid[:rows, :columns]
    coded = table.copy()
    coded[..., 0], coded[..., 1] = table[..., 0] / stride - x, table[..., 1] / stride - y
    coded[..., 2:4] = np.log(table[..., 2:4] / stride)
    return coded


def distributed(stride, bins, middle=0.5):
    """Distances to the four sides as logits over ``bins``, ``[h, w, 4 * bins]``: all weight on the two nearest bins."""
    table = level(stride)
    rows, columns = grid(stride)
    y, x = np.mgrid[:rows, :columns]
    centre = np.stack([x + middle, y + middle], axis=-1)
    low, high = (table[..., :2] - table[..., 2:4] / 2) / stride, (table[..., :2] + table[..., 2:4] / 2) / stride
    sides = np.concatenate([centre - low, high - centre], axis=-1)
    below = np.clip(np.floor(sides), 0, bins - 2).astype(int)
    weights = np.full((rows, columns, 4, bins), 1e-9)
    np.put_along_axis(weights, below[..., None], np.clip(1 - (sides - below), 1e-9, 1)[..., None], axis=3)
    np.put_along_axis(weights, below[..., None] + 1, np.clip(sides - below, 1e-9, 1)[..., None], axis=3)
    return np.log(weights).reshape(rows, columns, 4 * bins).astype(np.float32)


ANCHORS = np.array([[10, 13, 16, 30, 33, 23], [30, 61, 62, 45, 59, 119], [116, 90, 156, 198, 373, 326]], float).reshape(
    3, 3, 2
)


def anchored(index, stride):
    """YOLOv5's coding of a level ``[3, h, w, 5 + C]``, logits; the objects are the first anchor's."""
    table = level(stride).astype(np.float64)
    rows, columns = grid(stride)
    y, x = np.mgrid[:rows, :columns]
    coded = np.zeros((3, rows, columns, 5 + len(NAMES)))
    for anchor in range(3):
        coded[anchor, ..., 0] = (table[..., 0] / stride - x + 0.5) / 2
        coded[anchor, ..., 1] = (table[..., 1] / stride - y + 0.5) / 2
        coded[anchor, ..., 2:4] = np.sqrt(table[..., 2:4] / ANCHORS[index, anchor]) / 2
        coded[anchor, ..., 4:] = table[..., 4:] if anchor == 0 else LOW
    return logit(np.clip(coded, 1e-6, 1 - 1e-6))


def first(values):
    """Channels before rows and columns, with a batch axis."""
    return np.ascontiguousarray(np.moveaxis(values, -1, 0))[None].astype(np.float32)


def flat(values):
    return values.reshape(1, -1, values.shape[-1]).astype(np.float32)


def table_of(*columns):
    """``[K, len(columns)]`` of the objects: names of columns as in ``columns=``."""
    parts = dict(zip(("x0", "y0", "x1", "y1"), BOXES.T, strict=True)) | {"score": SCORES, "class": LABELS}
    return np.stack([parts.get(name, np.zeros(3)) for name in columns], axis=1).astype(np.float32)


def info(name, kind, shape):
    return helper.make_tensor_value_info(name, kind, shape)


def padded(values, rows):
    out = np.zeros((1, rows, *values.shape[1:]), values.dtype)
    out[0, : len(values)] = values
    return out


V8 = without_objectness(dense())
PER_LEVEL = (8, 16, 32)
USUAL = ("x0", "y0", "x1", "y1", "score", "class")


def _detr(softmax):
    probabilities = np.full((20, len(NAMES) + softmax), LOW)
    probabilities[np.arange(3), LABELS] = SCORES
    if softmax:
        probabilities[:, -1] = 1 - probabilities[:, :-1].sum(axis=1)
        logits = np.log(probabilities).astype(np.float32)
    else:
        logits = logit(probabilities)
    boxes = np.full((20, 4), 0.5, np.float32)
    boxes[:3] = shares(centred(BOXES))
    return logits[None], boxes[None]


def _zoo_yolov3():
    boxes = np.zeros((1, 30, 4), np.float32)
    boxes[0, :3] = BOXES[:, [1, 0, 3, 2]]
    boxes[0, 3:] = [1, 2, 30, 40]
    scores = np.full((1, len(NAMES), 30), LOW, np.float32)
    scores[0, LABELS, np.arange(3)] = SCORES
    chosen = np.stack([np.zeros(3), LABELS, np.arange(3)], axis=1).astype(np.int32)
    return {"layer/ExpandDims_1:0": boxes, "layer/ExpandDims_3:0": scores, "layer/concat_2:0": chosen[None]}


LAYOUTS: dict[str, Callable[[], Export]] = {
    "yolov8": lambda: Export({"output0": V8.T[None]}, True, ULTRALYTICS),
    "yolov8 of any size": lambda: Export({"output0": V8.T[None]}, True, ULTRALYTICS, ("b", 3, "h", "w")),
    "yolov8 without metadata": lambda: Export({"output0": V8.T[None]}),
    "yolov8 transposed": lambda: Export({"output0": V8[None]}, True, ULTRALYTICS),
    "yolov8 in shares": lambda: Export({"output0": shares(V8).T[None]}, True, ULTRALYTICS),
    "yolov8 without sigmoid": lambda: Export(
        {"output0": np.c_[V8[:, :4], logit(V8[:, 4:])].T[None]}, True, ULTRALYTICS
    ),
    "yolov8 channels last": lambda: Export({"output0": V8.T[None]}, True, ULTRALYTICS, (1, HEIGHT, WIDTH, 3)),
    "yolov8 joined heads": lambda: Export(
        {f"o{s}": first(np.c_[distributed(s, 16), logit(without_objectness(level(s))[..., 4:])]) for s in PER_LEVEL},
        True,
        ULTRALYTICS,
    ),
    "yolov8 split heads (RKNN)": lambda: Export(
        {
            f"{part}{s}": first(values)
            for s in PER_LEVEL
            for part, values in (
                ("box", distributed(s, 16)),
                ("class", without_objectness(level(s))[..., 4:]),
                ("sum", without_objectness(level(s))[..., 4:].sum(axis=-1, keepdims=True)),
            )
        }
    ),
    "yolov5": lambda: Export(
        {"output0": np.concatenate([dense(), *[np.c_[dense()[:, :4], np.full((126, 4), LOW)]] * 2])[None]}, True, YOLOV5
    ),
    "yolov5 heads": lambda: Export({f"o{s}": anchored(i, s)[None] for i, s in enumerate(PER_LEVEL)}),
    "yolov5 heads as channels": lambda: Export(
        {f"o{s}": np.moveaxis(anchored(i, s), -1, 1).reshape(1, 3 * 8, *grid(s)) for i, s in enumerate(PER_LEVEL)}
    ),
    "yolox": lambda: Export({"output": np.concatenate([flat(offsets(s)) for s in PER_LEVEL], axis=1)}),
    "yolox decoded": lambda: Export({"output": dense()[None]}),
    "yolox heads": lambda: Export({f"o{s}": first(offsets(s)) for s in PER_LEVEL}),
    "yolox split heads": lambda: Export(
        {
            f"{part}{s}": first(offsets(s)[..., span])
            for s in PER_LEVEL
            for part, span in (("class", slice(5, None)), ("box", slice(4)), ("object", slice(4, 5)))
        }
    ),
    "nanodet plus": lambda: Export(
        {
            "output": np.concatenate(
                [flat(np.c_[without_objectness(level(s))[..., 4:], distributed(s, 8, 0.0)]) for s in (8, 16, 32, 64)],
                axis=1,
            )
        }
    ),
    "picodet": lambda: Export(
        {
            f"{part}{s}": flat(values)
            for s in (8, 16, 32, 64)
            for part, values in (("class", without_objectness(level(s))[..., 4:]), ("box", distributed(s, 8)))
        }
    ),
    "boxes and scores (YOLO-NAS)": lambda: Export(
        {"913": np.c_[V8[:, :2] - V8[:, 2:4] / 2, V8[:, :2] + V8[:, 2:4] / 2][None], "904": V8[None, :, 4:]}
    ),
    "boxes and scores (PP-YOLOE)": lambda: Export(
        {"a": np.c_[V8[:, :2] - V8[:, 2:4] / 2, V8[:, :2] + V8[:, 2:4] / 2][None], "b": V8[:, 4:].T[None]}
    ),
    "detr": lambda: Export(dict(zip(("logits", "pred_boxes"), _detr(True), strict=True))),
    "rt-detr without its end": lambda: Export(dict(zip(("logits", "pred_boxes"), _detr(False), strict=True))),
    "rf-detr": lambda: Export(dict(zip(("labels", "dets"), _detr(False), strict=True))),
    "rt-detr of ultralytics": lambda: Export(
        {"output0": np.concatenate([_detr(False)[1], 1 / (1 + np.exp(-_detr(False)[0]))], axis=2)}, True, ULTRALYTICS
    ),
    "ultralytics with nms": lambda: Export({"output0": padded(table_of(*USUAL), 300)}, True, INSIDE),
    "yolov7 with nms": lambda: Export({"output": table_of("batch", *USUAL[:4], "class", "score")}),
    "ssd of openvino": lambda: Export(
        {
            "detection_out": np.concatenate(
                [table_of("batch", "class", "score"), shares(table_of(*USUAL[:4]))], axis=1
            )[None, None]
        }
    ),
    "paddle": lambda: Export(
        {
            "multiclass_nms3_0.tmp_0": table_of("class", "score", *USUAL[:4]),
            "multiclass_nms3_0.tmp_2": np.array([3], np.int32),
        },
        beside=(info("im_shape", TensorProto.FLOAT, [1, 2]), info("scale_factor", TensorProto.FLOAT, [1, 2])),
    ),
    "tensorflow": lambda: Export(
        {
            "detection_boxes": shares(padded(BOXES, 10))[..., [1, 0, 3, 2]],
            "detection_classes": padded(LABELS.astype(np.float32) + 1, 10),
            "detection_scores": padded(SCORES, 10),
            "num_detections": np.array([3], np.float32),
        },
        shape=(1, HEIGHT, WIDTH, 3),
        dtype=TensorProto.UINT8,
    ),
    "efficient nms": lambda: Export(
        {
            "num_dets": np.array([[3]], np.int32),
            "det_boxes": padded(BOXES, 10),
            "det_scores": padded(SCORES, 10),
            "det_classes": padded(LABELS.astype(np.int32), 10),
        }
    ),
    "torchvision": lambda: Export({"2775": BOXES, "2777": LABELS + 1, "2776": SCORES}, shape=(3, HEIGHT, WIDTH)),
    "mmdeploy": lambda: Export({"dets": table_of(*USUAL[:5])[None], "labels": LABELS[None]}),
    "rt-detr and d-fine": lambda: Export(
        {"labels": LABELS[None], "boxes": BOXES[None], "scores": SCORES[None]},
        beside=(info("orig_target_sizes", TensorProto.INT64, [1, 2]),),
    ),
    "yolov3 of the zoo": lambda: Export(_zoo_yolov3(), True, beside=(info("image_shape", TensorProto.FLOAT, [1, 2]),)),
}
