"""From a network's raw outputs to boxes: YOLOX, YOLOv5, YOLOv8/11, NanoDet, DETR, graphs with suppression inside
(``suppressed``), heads that nothing has joined (``heads``), and one's own.

A decoder sees the outputs for one image (batch axis 1) and returns boxes in pixels of the network's input, scores and
labels, already above the score threshold. It neither suppresses, caps, nor goes back to the original image. All are
lean: float32, grids computed once, and only the candidates that pass the threshold are decoded.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from misdetect.detectors.onnx.heads import ANCHORS, Coding, Heads, levels_of
from misdetect.detectors.onnx.suppressed import GraphWithNms
from misdetect.detectors.outputs import (
    CORNERS,
    SHARES,
    Array,
    Decoder,
    Frame,
    PerImage,
    Readout,
    box_scale,
    choose,
    output_roles,
    refuse_nan,
    refuse_shares,
    sigmoid,
    single,
)
from misdetect.nouns.boxes import Floats, as_boxes, cxcywh_to_xyxy
from misdetect.nouns.spec import Spec
from misdetect.nouns.user_code import resolve
from misdetect.said.errors import BadArray, BadSpec, DetectorFailed, MisdetectError

__all__ = [
    *("DECODERS", "DECODER_OPTIONS", "Kind", "decoder_kind"),
    *("BoxesAndScores", "ClassChannels", "GraphWithNms", "Objectness", "Queries", "UserDecoder"),
]


class InUnits(PerImage):
    """A decoder of boxes that are pixels where nobody says so: an error as long as none shows that they can be."""

    in_doubt: bool

    def check_units(self, boxes: Array) -> None:
        """Look at ``boxes`` of all candidates of an image."""
        if self.in_doubt:
            refuse_shares(self.frame, boxes)
            self.in_doubt = not boxes.max(initial=0) > SHARES


class Objectness(InUnits):
    """``[1, N, 5 + C]``: cx, cy, w, h, objectness, class scores (sigmoids); the score is objectness × class.

    With ``strides`` the boxes are YOLOX's: offsets from grid cells, log sizes. Without, as YOLOv5 exports them, they
    are in ``units`` of the network's input: pixels, or shares of it; see ``InUnits``.
    """

    def __init__(
        self, frame: Frame, decoder: str, strides: Sequence[int] = (), activation: str = "none", units: str = ""
    ) -> None:
        self.frame, self.decoder, self.activated = frame, decoder, activation == "none"
        self.size, self.in_doubt = box_scale(frame, units), not (units or strides)
        self.grid = _grid(frame, strides) if strides else None

    def decode(self, outputs: Sequence[Array]) -> Readout:
        cells = None if self.grid is None else len(self.grid[0])
        rows = single(self.frame, outputs, self.decoder, cells, 5 + self.frame.classes)
        if not self.activated:
            rows = np.concatenate([rows[:, :4], sigmoid(rows[:, 4:])], axis=1)
        self.check_units(rows[:, :4])
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
        return Readout(cxcywh_to_xyxy(boxes) * self.size, best, labels)


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


class ClassChannels(InUnits):
    """``[1, 4 + C, N]`` as YOLOv8 and YOLO11 export it: a box, class scores, no objectness. The box is cx, cy, w, h in
    pixels of the network's input, unless ``boxes`` and ``units`` say otherwise."""

    def __init__(
        self, frame: Frame, decoder: str, activation: str = "none", boxes: str = "cxcywh", units: str = ""
    ) -> None:
        self.frame, self.decoder, self.activated = frame, decoder, activation == "none"
        self.format, self.size, self.in_doubt = boxes, box_scale(frame, units), not units

    def decode(self, outputs: Sequence[Array]) -> Readout:
        channels = single(self.frame, outputs, self.decoder, 4 + self.frame.classes, None)
        self.check_units(channels[:4])
        if not self.activated:
            channels = np.concatenate([channels[:4], sigmoid(channels[4:])])
        best = channels[4:].max(axis=0)
        refuse_nan(self.frame, best)
        alive = np.flatnonzero(best >= self.frame.score)
        candidates = channels[:, alive].T
        chosen, labels, scores = choose(self.frame, candidates[:, 4:])
        boxes = np.ascontiguousarray(candidates[chosen, :4])
        return Readout(CORNERS[self.format](boxes) * self.size, scores, labels)


class BoxesAndScores(InUnits):
    """Boxes ``[1, N, 4]`` and class scores ``[1, N, C]`` or ``[1, C, N]`` apart, before suppression, as YOLO-NAS and
    PP-YOLOE export them: x0, y0, x1, y1 in pixels of the network's input, unless ``boxes`` and ``units`` say otherwise.
    """

    def __init__(self, frame: Frame, activation: str, stated: str, boxes: str = "xyxy", units: str = "") -> None:
        self.frame, self.activated, self.format = frame, activation == "none", boxes
        self.size, self.in_doubt = box_scale(frame, units), not units
        roles = output_roles(frame, stated, ("boxes", "scores"))
        self.boxes, self.scores = roles["boxes"], roles["scores"]

    def decode(self, outputs: Sequence[Array]) -> Readout:
        boxes, scores = outputs[self.boxes].reshape(-1, 4), outputs[self.scores]
        classes = self.frame.classes
        if scores.ndim == 3 and scores.shape[1:] == (classes, len(boxes)) != (len(boxes), classes):
            scores = scores.swapaxes(1, 2)
        if scores.ndim != 3 or scores.shape[1:] != (len(boxes), classes):
            raise BadSpec(
                f"{self.frame.spec!r}: with {classes} names, expected boxes [1, N, 4] and scores [1, N, {classes}]. "
                f"Got {list(outputs[self.boxes].shape)} and {list(outputs[self.scores].shape)}: check names= and "
                f"outputs=."
            )
        self.check_units(boxes)
        values = scores[0].astype(np.float32, copy=False)
        best = values.max(axis=1)
        refuse_nan(self.frame, best)
        alive = np.flatnonzero((best if self.activated else sigmoid(best)) >= self.frame.score)
        candidates = values[alive] if self.activated else sigmoid(values[alive])
        chosen, labels, kept = choose(self.frame, candidates)
        corners = CORNERS[self.format](boxes[alive[chosen]].astype(np.float32, copy=False))
        return Readout(corners * self.size, kept, labels)


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


def _strides(spec: Spec, default: str) -> list[int]:
    text = spec.take("strides", default)
    try:
        strides = [int(stride) for stride in text.split(",")]
    except ValueError:
        raise BadSpec(f"{spec.text!r}: strides={text} should be whole numbers such as 8,16,32.") from None
    if min(strides) < 1:
        raise BadSpec(f"{spec.text!r}: expected strides above 0. Got {min(strides)}.")
    return strides


def _yolox(frame: Frame, spec: Spec) -> Decoder:
    strides, activation = _strides(spec, "8,16,32"), _activation(spec)
    levels = levels_of(frame, "offsets", strides) if _is_split(frame) else []
    if levels:
        return Heads(frame, levels, "offsets", activated=activation == "none")
    return Objectness(frame, "yolox", strides, activation)


def _yolov5(frame: Frame, spec: Spec) -> Decoder:
    sizes, units, activation = _anchors(spec), _units(spec), _activation(spec)
    levels = levels_of(frame, "anchors", (), sizes.shape[1]) if _is_split(frame) else []
    if levels:
        return Heads(frame, levels, "anchors", activated=activation == "none", anchors=sizes)
    return Objectness(frame, "yolov5", (), activation, units)


def _anchors(spec: Spec) -> Floats:
    """``[levels, A, 2]`` pixels: three levels, finest first."""
    text = spec.take("anchors", "yolov5")
    try:
        values = ANCHORS.get(text) or [float(part) for part in text.split(",")]
        return np.array(values, np.float32).reshape(3, -1, 2)
    except ValueError:
        raise BadSpec(
            f"{spec.text!r}: anchors={text:.60} should be {' or '.join(ANCHORS)}, or widths and heights of the anchors "
            f"of three levels, such as 10,13,16,30,…"
        ) from None


def _channels(name: str) -> Callable[[Frame, Spec], Decoder]:
    def build(frame: Frame, spec: Spec) -> Decoder:
        boxes, units = _boxes(spec, "cxcywh"), _units(spec)
        activation, strides = _activation(spec), _strides(spec, "8,16,32")
        levels = levels_of(frame, "distances", strides) if _is_split(frame) else []
        if levels:
            return Heads(frame, levels, "distances", activated=activation == "none")
        return ClassChannels(frame, name, activation, boxes, units)

    return build


def _nanodet(frame: Frame, spec: Spec) -> Decoder:
    strides, activation = _strides(spec, "8,16,32,64"), _activation(spec)
    middle = spec.take("middle", 0.0)
    coding: Coding = "distances"
    levels = levels_of(frame, coding, strides, classes_first=True)
    if not levels:
        shapes = ", ".join(f"{name} {list(s)}" for name, s in zip(frame.outputs, frame.shapes, strict=False))
        raise BadSpec(
            f"{spec.text!r}: with {frame.classes} names and input {frame.width}x{frame.height}, decoder=nanodet "
            f"expects {frame.classes} class scores and 4 × 8 bins for each cell of strides "
            f"{','.join(map(str, strides))}. Got {shapes}: check names=, size= and strides=."
        )
    return Heads(frame, levels, coding, activated=activation == "none", middle=middle)


def _is_split(frame: Frame) -> bool:
    """Whether no output holds all candidates: some exports have the heads beside what was made of them."""
    return bool(frame.shapes) and not any(
        len(shape) == 3 and {4 + frame.classes, 5 + frame.classes} & {*shape[1:]} for shape in frame.shapes
    )


def _activation(spec: Spec) -> str:
    """Most exports end with a sigmoid; ``activation=sigmoid`` is for those that do not."""
    return spec.take("activation", "none", choices=("none", "sigmoid"))


def _boxes(spec: Spec, default: str) -> str:
    return spec.take("boxes", default, choices=tuple(CORNERS))


def _units(spec: Spec) -> str:
    return spec.take("units", "", choices=("pixels", "shares"))


def _queries(name: str, activation: str) -> Callable[[Frame, Spec], Decoder]:
    def build(frame: Frame, spec: Spec) -> Decoder:
        chosen = spec.take("activation", activation, choices=("softmax", "sigmoid"))
        return Queries(frame, name, chosen, spec.take("outputs", ""))

    return build


def _boxes_and_scores(frame: Frame, spec: Spec) -> Decoder:
    return BoxesAndScores(frame, _activation(spec), spec.take("outputs", ""), _boxes(spec, "xyxy"), _units(spec))


def _nms(frame: Frame, spec: Spec) -> Decoder:
    columns, stated = spec.take("columns", ""), spec.take("outputs", "")
    return GraphWithNms(frame, columns, stated, _boxes(spec, "xyxy"), _units(spec), spec.take("labels_from", 0))


DECODERS: dict[str, Kind] = {
    "yolox": Kind("[1, N, 5+C], grid offsets and log sizes", "yolox", 0.6, _yolox),
    "yolov5": Kind("[1, N, 5+C], decoded, with objectness", "ultralytics", 0.6, _yolov5),
    "yolov8": Kind("[1, 4+C, N], no objectness", "ultralytics", 0.6, _channels("yolov8")),
    "yolo11": Kind("[1, 4+C, N], no objectness", "ultralytics", 0.6, _channels("yolo11")),
    "nanodet": Kind("[1, N, C+32], distances as distributions", "nanodet", 0.6, _nanodet),
    "boxes-scores": Kind("boxes [1, N, 4] and scores [1, N, C]", None, 0.6, _boxes_and_scores),
    "detr": Kind("logits [1, Q, C+1] (softmax) and boxes [1, Q, 4]", "detr", 1.0, _queries("detr", "softmax")),
    "rtdetr": Kind("logits [1, Q, C] (sigmoid) and boxes [1, Q, 4]", "rtdetr", 1.0, _queries("rtdetr", "sigmoid")),
    "nms": Kind("[N, 6], [N, 7], or boxes, scores, labels", None, 1.0, _nms),
}
"""``nms=1`` means no suppression: DETR and graphs with suppression inside need none."""

DECODER_OPTIONS = (
    *("strides", "activation", "anchors", "middle", "outputs", "columns", "boxes", "units", "labels_from"),
)
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
