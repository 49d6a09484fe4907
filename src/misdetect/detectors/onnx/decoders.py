"""From a network's raw outputs to boxes: YOLOX, YOLOv5, YOLOv8/11, DETR, graphs with suppression inside, and one's own.

A decoder sees the outputs for one image (batch axis 1) and returns boxes in pixels of the network's input, scores and
labels, already above the score threshold. It neither suppresses, caps, nor goes back to the original image. All are
lean: float32, grids computed once, and only the candidates that pass the threshold are decoded.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from misdetect.boxes import Floats, as_boxes, cxcywh_to_xyxy, xywh_to_xyxy
from misdetect.detectors.outputs import (
    Array,
    Decoder,
    Frame,
    PerImage,
    Readout,
    choose,
    output_roles,
    refuse_nan,
    single,
)
from misdetect.errors import BadArray, BadSpec, DetectorFailed, MisdetectError
from misdetect.spec import Spec
from misdetect.user_code import resolve


def sigmoid(values: Array) -> Array:
    """1 / (1 + exp(-x)), without overflow, in the type it is given."""
    result: Array = 0.5 * (1 + np.tanh(0.5 * values))
    return result


class Objectness(PerImage):
    """``[1, N, 5 + C]``: cx, cy, w, h, objectness, class scores (sigmoids); the score is objectness × class.

    With ``strides`` the boxes are YOLOX's: offsets from grid cells, log sizes. Without, as YOLOv5 exports them, they
    are pixels of the network's input.
    """

    def __init__(self, frame: Frame, decoder: str, strides: Sequence[int] = (), activation: str = "none") -> None:
        self.frame, self.decoder, self.activated = frame, decoder, activation == "none"
        self.grid = _grid(frame, strides) if strides else None

    def decode(self, outputs: Sequence[Array]) -> Readout:
        cells = None if self.grid is None else len(self.grid[0])
        rows = single(self.frame, outputs, self.decoder, cells, 5 + self.frame.classes)
        if not self.activated:
            rows = np.concatenate([rows[:, :4], sigmoid(rows[:, 4:])], axis=1)
        objectness = rows[:, 4].copy()  # one pass over the scattered column instead of three
        refuse_nan(self.frame, objectness)
        # A class score is at most 1, so objectness alone already rules out nearly every candidate.
        alive = np.flatnonzero(objectness >= self.frame.score)
        scores = rows[alive, 5:]
        scores *= objectness[alive, None]
        chosen, labels, best = choose(self.frame, scores)
        alive = alive[chosen]
        boxes = rows[alive, :4]
        if self.grid is not None:
            corners, steps = self.grid
            boxes[:, :2] += corners[alive]
            with np.errstate(over="ignore"):
                np.exp(boxes[:, 2:], out=boxes[:, 2:])
            boxes *= steps[alive]
        return Readout(cxcywh_to_xyxy(boxes), best, labels)


def _grid(frame: Frame, strides: Sequence[int]) -> tuple[Floats, Floats]:
    """Cell coordinates ``[N, 2]`` (x, y) and strides ``[N, 1]`` of all levels, row by row as YOLOX flattens them."""
    cells, steps = [], []
    for stride in strides:
        if stride < 1:
            raise BadSpec(f"{frame.spec!r}: expected strides above 0. Got {stride}.")
        columns, rows = frame.width // stride, frame.height // stride
        y, x = np.mgrid[:rows, :columns]
        cells.append(np.stack([x.ravel(), y.ravel()], axis=1))
        steps.append(np.full((rows * columns, 1), stride))
    return np.concatenate(cells).astype(np.float32), np.concatenate(steps).astype(np.float32)


class ClassChannels(PerImage):
    """``[1, 4 + C, N]`` as YOLOv8 and YOLO11 export it: cx, cy, w, h in network pixels, class scores, no objectness."""

    def __init__(self, frame: Frame, decoder: str, activation: str = "none") -> None:
        self.frame, self.decoder, self.activated = frame, decoder, activation == "none"

    def decode(self, outputs: Sequence[Array]) -> Readout:
        channels = single(self.frame, outputs, self.decoder, 4 + self.frame.classes, None)
        if not self.activated:
            channels = np.concatenate([channels[:4], sigmoid(channels[4:])])
        best = channels[4:].max(axis=0)
        refuse_nan(self.frame, best)
        alive = np.flatnonzero(best >= self.frame.score)
        candidates = channels[:, alive].T
        chosen, labels, scores = choose(self.frame, candidates[:, 4:])
        return Readout(cxcywh_to_xyxy(np.ascontiguousarray(candidates[chosen, :4])), scores, labels)


class Queries(PerImage):
    """DETR's pair of outputs: logits ``[1, Q, C + 1]`` (softmax, last is "no object") or ``[1, Q, C]`` (sigmoid), and
    boxes ``[1, Q, 4]`` cx, cy, w, h as shares of the image. With a sigmoid every (query, class) pair counts.
    """

    def __init__(self, frame: Frame, decoder: str, activation: str, stated: str) -> None:
        self.frame, self.decoder, self.softmax = frame, decoder, activation == "softmax"
        roles = output_roles(frame, stated, ("logits", "boxes"))
        self.logits, self.boxes = roles["logits"], roles["boxes"]

    def decode(self, outputs: Sequence[Array]) -> Readout:
        logits, boxes = outputs[self.logits], outputs[self.boxes]
        columns = self.frame.classes + self.softmax
        if logits.ndim != 3 or logits.shape[2] != columns or boxes.shape != (*logits.shape[:2], 4):
            kind = "softmax over the classes and 'no object'" if self.softmax else "sigmoid"
            raise BadSpec(
                f"{self.frame.spec!r}: with {self.frame.classes} names, decoder={self.decoder} ({kind}) expects "
                f"logits [1, Q, {columns}] and boxes [1, Q, 4]. Got {list(logits.shape)} and {list(boxes.shape)}: "
                f"check names= (names=coco91 where labels are COCO ids) and activation=."
            )
        values = logits[0].astype(np.float32, copy=False)
        refuse_nan(self.frame, values)
        if self.softmax:
            weights = np.exp(values - values.max(axis=1, keepdims=True))
            query, labels, scores = choose(self.frame, (weights / weights.sum(axis=1, keepdims=True))[:, :-1])
        else:
            with np.errstate(over="ignore", divide="ignore"):
                query, labels = np.nonzero(values >= np.log(self.frame.score / (1 - np.float64(self.frame.score))))
                scores = 1 / (1 + np.exp(-values[query, labels]))
        size = np.array([self.frame.width, self.frame.height] * 2, np.float32)
        return Readout(cxcywh_to_xyxy(boxes[0].astype(np.float32, copy=False)[query] * size), scores, labels)


_TABLES = {6: "x0,y0,x1,y1,score,class", 7: "batch,x0,y0,x1,y1,class,score"}
_COLUMNS = ("batch", "x0", "y0", "x1", "y1", "score", "class", "-")


class GraphWithNms:
    """A graph that suppresses by itself: one table, or boxes, scores and labels (and maybe their count) apart.

    ``columns`` names a table's columns, ``stated`` the order of separate outputs; ``boxes`` is how four numbers make a
    box, ``units`` whether they are pixels of the network's input or shares of it; labels start at ``labels_from``.
    """

    def __init__(
        self, frame: Frame, columns: str, stated: str, boxes: str = "xyxy", units: str = "pixels", labels_from: int = 0
    ) -> None:
        self.frame, self.columns, self.format, self.labels_from = frame, columns, boxes, labels_from
        self.size = np.array([frame.width, frame.height] * 2, np.float32) if units == "shares" else np.float32(1)
        self.roles: dict[str, int] = {}
        if len(frame.outputs) > 1:
            self.roles = output_roles(frame, stated, ("boxes", "labels"), ("scores", "count"))

    def split(self, outputs: Sequence[Array], count: int) -> list[list[Array]]:
        first = outputs[self.roles.get("boxes", 0)]
        if first.ndim >= 3 and first.shape[0] == count:
            return [[output[i : i + 1] if output.ndim else output for output in outputs] for i in range(count)]
        if not self.roles and first.ndim >= 2 and "batch" in self._layout(first):
            table = first.reshape(-1, first.shape[-1])
            batch = table[:, self._layout(first).index("batch")]
            return [[table[batch == i]] for i in range(count)]
        if count != 1:
            raise BadSpec(
                f"{self.frame.spec!r}: output {list(first.shape)} does not say whose image a box is in; give batch=1."
            )
        return [list(outputs)]

    def decode(self, outputs: Sequence[Array]) -> Readout:
        boxes, scores, labels = self._parts(outputs) if self.roles else self._table(outputs[0])
        refuse_nan(self.frame, scores)
        if len(scores) and (scores.max() > 1.001 or scores.min() < -0.001):
            raise BadSpec(
                f"{self.frame.spec!r}: the graph's scores reach {scores[np.abs(scores).argmax()]:g}, so another "
                f"column or output holds them; state columns= (now {self.columns or 'by width'}) or outputs=."
            )
        keep = scores >= self.frame.score
        boxes, scores, labels = boxes[keep].astype(np.float32), scores[keep], labels[keep] - self.labels_from
        whole = labels.astype(np.int64)
        if len(labels) and (not np.array_equal(whole, labels) or whole.min() < 0 or whole.max() >= self.frame.classes):
            wrong = labels[(whole != labels) | (whole < 0) | (whole >= self.frame.classes)][0]
            raise DetectorFailed(
                f"{self.frame.spec!r}: the graph gives label {wrong:g}, but there are {self.frame.classes} names; "
                f"check names=, labels-from= and columns=."
            )
        return Readout(self._corners(boxes) * self.size, np.clip(scores, 0, 1), whole)

    def _layout(self, table: Array) -> list[str]:
        text = self.columns or _TABLES.get(table.shape[-1] if table.ndim else 0, "")
        layout = [column.strip() for column in text.split(",")]
        if table.ndim < 2 or len(layout) != table.shape[-1] or not {*_COLUMNS[1:-1]} <= {*layout} <= {*_COLUMNS}:
            raise BadSpec(
                f"{self.frame.spec!r}: decoder=nms reads a table such as [N, 6] ({_TABLES[6]}) or [N, 7] "
                f"({_TABLES[7]}). Got {self.frame.outputs[0]} {list(table.shape)}: state columns= with "
                f"{', '.join(_COLUMNS)}."
            )
        return layout

    def _table(self, table: Array) -> tuple[Array, Array, Array]:
        layout = self._layout(table)
        rows = table.reshape(-1, table.shape[-1])
        corners = rows[:, [layout.index(c) for c in ("x0", "y0", "x1", "y1")]]
        return corners, rows[:, layout.index("score")], rows[:, layout.index("class")]

    def _parts(self, outputs: Sequence[Array]) -> tuple[Array, Array, Array]:
        found = {role: outputs[i] for role, i in self.roles.items()}
        boxes, labels = found["boxes"], found["labels"].reshape(-1)
        width = boxes.shape[-1] if boxes.ndim else 0
        boxes = boxes.reshape(-1, max(width, 1))
        scores = found["scores"].reshape(-1) if "scores" in found else boxes[:, -1]
        if width != (4 if "scores" in found else 5) or not len(boxes) == len(scores) == len(labels):
            shapes = ", ".join(f"{role} {list(o.shape)}" for role, o in found.items())
            raise BadSpec(f"{self.frame.spec!r}: expected boxes [N, 4], scores [N] and labels [N]. Got {shapes}.")
        count = int(found["count"].reshape(-1)[0]) if "count" in found and found["count"].size else len(boxes)
        return boxes[:count, :4], scores[:count], labels[:count]

    def _corners(self, boxes: Floats) -> Floats:
        if self.format == "yxyx":
            return boxes[:, [1, 0, 3, 2]]
        convert = {"xywh": xywh_to_xyxy, "cxcywh": cxcywh_to_xyxy}.get(self.format)
        return boxes if convert is None else convert(boxes)


class UserDecoder(PerImage):
    """``function(outputs, size)``: the arrays of one image (batch axis 1) and the input's (width, height).

    It returns ``boxes`` ``[K, 4]`` xyxy in network pixels and either ``scores`` ``[K]`` and ``labels`` ``[K]`` or class
    scores ``[K, C]``; the threshold, suppression and cap are applied afterwards.
    """

    def __init__(self, frame: Frame, function: Callable[..., Any]) -> None:
        self.frame, self.function = frame, function

    def decode(self, outputs: Sequence[Array]) -> Readout:
        try:
            result = self.function(list(outputs), (self.frame.width, self.frame.height))
        except MisdetectError:
            raise
        except Exception as error:
            text = " ".join(str(error).split())
            raise DetectorFailed(f"{self.frame.spec!r}: the decoder raised {type(error).__name__}: {text}") from error
        try:
            return self._checked(*result)
        except (BadArray, TypeError, ValueError, IndexError) as error:
            raise DetectorFailed(
                f"{self.frame.spec!r}: expected the decoder to return boxes [K, 4], scores [K] and labels [K], or "
                f"boxes and scores [K, {self.frame.classes}]; {error}"
            ) from error

    def _checked(self, boxes: Any, scores: Any, labels: Any = None) -> Readout:
        boxes, scores = as_boxes(boxes, what="the decoder's boxes"), np.asarray(scores)
        refuse_nan(self.frame, scores)
        if labels is None:
            if scores.shape != (len(boxes), self.frame.classes):
                raise BadArray(f"Got {len(boxes)} boxes and scores {list(scores.shape)}.")
            rows, labels, scores = choose(self.frame, scores)
            return Readout(boxes[rows], scores, labels)
        labels = np.asarray(labels)
        if not scores.shape == labels.shape == (len(boxes),):
            raise BadArray(f"Got {len(boxes)} boxes, scores {list(scores.shape)} and labels {list(labels.shape)}.")
        keep = scores >= self.frame.score
        whole = labels[keep].astype(np.int64)
        if len(whole) and (
            not np.array_equal(whole, labels[keep]) or whole.min() < 0 or whole.max() >= self.frame.classes
        ):
            raise BadArray(f"Got labels that are not indices of the {self.frame.classes} names.")
        return Readout(boxes[keep], scores[keep], whole)


@dataclass(frozen=True)
class Kind:
    """A decoder by name: what it reads, the preprocessing ``preset`` of its family (if one), its default ``nms``."""

    reads: str
    preset: str | None
    nms: float
    build: Callable[[Frame, Spec], Decoder]


def _yolox(frame: Frame, spec: Spec) -> Decoder:
    text = spec.take("strides", "8,16,32")
    try:
        strides = [int(stride) for stride in text.split(",")]
    except ValueError:
        raise BadSpec(f"{spec.text!r}: strides={text} should be whole numbers such as 8,16,32.") from None
    return Objectness(frame, "yolox", strides, _activation(spec))


def _yolov5(frame: Frame, spec: Spec) -> Decoder:
    return Objectness(frame, "yolov5", (), _activation(spec))


def _channels(name: str) -> Callable[[Frame, Spec], Decoder]:
    return lambda frame, spec: ClassChannels(frame, name, _activation(spec))


def _activation(spec: Spec) -> str:
    """Most exports end with a sigmoid; ``activation=sigmoid`` is for those that do not."""
    return spec.take("activation", "none", choices=("none", "sigmoid"))


def _queries(name: str, activation: str) -> Callable[[Frame, Spec], Decoder]:
    def build(frame: Frame, spec: Spec) -> Decoder:
        chosen = spec.take("activation", activation, choices=("softmax", "sigmoid"))
        return Queries(frame, name, chosen, spec.take("outputs", ""))

    return build


def _nms(frame: Frame, spec: Spec) -> Decoder:
    return GraphWithNms(
        frame,
        spec.take("columns", ""),
        spec.take("outputs", ""),
        spec.take("boxes", "xyxy", choices=("xyxy", "yxyx", "xywh", "cxcywh")),
        spec.take("units", "pixels", choices=("pixels", "shares")),
        spec.take("labels_from", 0),
    )


DECODERS: dict[str, Kind] = {
    "yolox": Kind("[1, N, 5+C], grid offsets and log sizes", "yolox", 0.6, _yolox),
    "yolov5": Kind("[1, N, 5+C], decoded, with objectness", "ultralytics", 0.6, _yolov5),
    "yolov8": Kind("[1, 4+C, N], no objectness", "ultralytics", 0.6, _channels("yolov8")),
    "yolo11": Kind("[1, 4+C, N], no objectness", "ultralytics", 0.6, _channels("yolo11")),
    "detr": Kind("logits [1, Q, C+1] (softmax) and boxes [1, Q, 4]", "detr", 1.0, _queries("detr", "softmax")),
    "rtdetr": Kind("logits [1, Q, C] (sigmoid) and boxes [1, Q, 4]", "rtdetr", 1.0, _queries("rtdetr", "sigmoid")),
    "nms": Kind("[N, 6], [N, 7], or boxes, scores, labels", None, 1.0, _nms),
}
"""``nms=1`` means no suppression: DETR and graphs with suppression inside need none."""

DECODER_OPTIONS = ("strides", "activation", "outputs", "columns", "boxes", "units", "labels_from")
"""The spec's options that a decoder reads."""

_USER = "python:"


def decoder_kind(name: str, spec: Spec) -> tuple[Kind, str]:
    """The decoder that ``decoder=name`` means, and a hash of its code where it is the user's own (else "")."""
    if name.startswith(_USER):
        function, source = resolve(name.removeprefix(_USER), spec.text)
        return Kind("the user's own", None, 0.6, lambda frame, _: UserDecoder(frame, function)), source
    if name not in DECODERS:
        known = ", ".join((*DECODERS, "python:MODULE:FUNCTION"))
        found = f"{name!r}" if name else "none"
        raise BadSpec(f"{spec.text!r}: expected decoder= to be one of {known}. Got {found}.")
    return DECODERS[name], ""
