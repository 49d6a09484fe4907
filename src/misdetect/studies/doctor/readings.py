"""What a detector's numbers may mean: other readings of the boxes, labels and scores that it returned.

A reading is a function of arrays and costs no question. Boxes have a format (which four numbers), units (of what) and
sometimes an offset; the list holds the mistakes people make, the plainest first, since of readings that explain the
answers equally well the first is believed. ``code`` is the line that makes it right.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from misdetect.compose.resend import Side, four
from misdetect.detectors.names import COCO, COCO_IDS
from misdetect.detectors.outputs import sigmoid
from misdetect.nouns.boxes import Floats, Ints, cxcywh_to_xyxy, match, nms, xywh_to_xyxy

SIZES: tuple[int, ...] = (
    *(128, 192, 224, 256, 300, 320, 352, 384, 416, 448, 480, 512, 544, 576, 608, 640, 672, 704, 736, 768, 800, 832),
    *(896, 960, 1024, 1088, 1152, 1216, 1280, 1333, 1536),
)
"""Input sizes in use, pixels: boxes may have been left in those of the network."""


@dataclass(frozen=True)
class BoxReading:
    """``read(boxes, width, height)``: corners in pixels of an image of that size (or one size per box), from the four
    numbers ``[N, 4]``."""

    name: str
    change: str
    code: str
    read: Callable[[Floats, Side, Side], Floats]


_FORMATS: tuple[tuple[str, str, str, Callable[[Floats], Floats]], ...] = (
    ("xyxy", "", "", lambda b: b),
    (
        "xywh",
        "boxes are x, y, width, height",
        "boxes = np.concatenate([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], axis=1)",
        xywh_to_xyxy,
    ),
    (
        "cxcywh",
        "boxes are centre, width, height",
        "boxes = np.concatenate([boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2], axis=1)",
        cxcywh_to_xyxy,
    ),
    ("yxyx", "boxes have y before x", "boxes = boxes[:, [1, 0, 3, 2]]", lambda b: b[:, [1, 0, 3, 2]]),
    ("xxyy", "boxes are x0, x1, y0, y1", "boxes = boxes[:, [0, 2, 1, 3]]", lambda b: b[:, [0, 2, 1, 3]]),
    (
        "yxhw",
        "boxes are y, x, height, width",
        "boxes = np.concatenate([boxes[:, [1, 0]], boxes[:, [1, 0]] + boxes[:, [3, 2]]], axis=1)",
        lambda b: xywh_to_xyxy(b[:, [1, 0, 3, 2]]),
    ),
)


@dataclass(frozen=True)
class _Units:
    """``scale(width, height)`` is what the numbers are multiplied with, after ``offset(width, height)`` was taken
    off."""

    name: str
    change: str
    code: str
    scale: Callable[[Any, Any], tuple[Any, Any]] = lambda width, height: (1.0, 1.0)
    offset: Callable[[Any, Any], tuple[Any, Any]] = lambda width, height: (0.0, 0.0)


def _border(width: Any, height: Any) -> tuple[Any, Any]:
    """Pixels of the image's own scale that a centred letterbox of a square adds at the left and at the top."""
    side = np.maximum(width, height)
    return (side - width) / 2, (side - height) / 2


_UNITS: tuple[_Units, ...] = (
    _Units("pixels", "", ""),
    _Units(
        "shares",
        "boxes are shares of the image, 0..1",
        "boxes = boxes * [width, height, width, height]",
        lambda w, h: (w, h),
    ),
    _Units(
        "offset",
        "boxes are shifted by the letterbox's border",
        "boxes = boxes - [left, top, left, top]  # the letterbox's border, at the image's scale",
        offset=_border,
    ),
    _Units(
        "over-offset",
        "the letterbox's border is taken off boxes that have none",
        "boxes = boxes + [left, top, left, top]  # or pad at the right and bottom only, as is undone now",
        offset=lambda w, h: (-_border(w, h)[0], -_border(w, h)[1]),
    ),
    _Units(
        "letterbox-as-stretch",
        "boxes of a centred letterbox are scaled back as if the image had been stretched",
        "boxes = (boxes_in_network - [left, top, left, top]) / ratio  # one ratio for both sides",
        lambda w, h: (np.maximum(w, h) / w, np.maximum(w, h) / h),
        lambda w, h: (_border(w, h)[0] * w / np.maximum(w, h), _border(w, h)[1] * h / np.maximum(w, h)),
    ),
    _Units(
        "corner-as-stretch",
        "boxes of a letterbox are scaled back as if the image had been stretched",
        "boxes = boxes_in_network / ratio  # one ratio for both sides: min(size / width, size / height)",
        lambda w, h: (np.maximum(w, h) / w, np.maximum(w, h) / h),
    ),
    _Units(
        "stretch-as-letterbox",
        "boxes of a stretched image are scaled back as if it had been letterboxed",
        "boxes = boxes_in_network * [width / size, height / size] * 2",
        lambda w, h: (w / np.maximum(w, h), h / np.maximum(w, h)),
    ),
    _Units(
        "width-for-height",
        "boxes are scaled with width and height exchanged",
        "height, width = image.shape[:2]  # in this order",
        lambda w, h: (w / h, h / w),
    ),
    _Units(
        "thousandths",
        "boxes are thousandths of the image",
        "boxes = boxes / 1000 * [width, height, width, height]",
        lambda w, h: (w / 1000, h / 1000),
    ),
)


def _network(size: int) -> Iterator[_Units]:
    """Boxes in pixels of a square network input of ``size``, by how the image was laid on it."""
    yield _Units(
        f"network-{size}",
        f"boxes are pixels of the network's input, {size} x {size}, to which the image was stretched",
        f"boxes = boxes * [width / {size}, height / {size}, width / {size}, height / {size}]",
        lambda w, h: (w / size, h / size),
    )
    yield _Units(
        f"network-{size}-corner",
        f"boxes are pixels of the network's input, {size} x {size}, on which the image was letterboxed",
        f"boxes = boxes * (max(width, height) / {size})",
        lambda w, h: (np.maximum(w, h) / size, np.maximum(w, h) / size),
    )
    yield _Units(
        f"network-{size}-centre",
        f"boxes are pixels of the network's input, {size} x {size}, on which the image was letterboxed, centred",
        f"boxes = (boxes - [left, top, left, top]) * (max(width, height) / {size})  # left, top: its border",
        lambda w, h: (np.maximum(w, h) / size, np.maximum(w, h) / size),
        lambda w, h: (_border(w, h)[0] * size / np.maximum(w, h), _border(w, h)[1] * size / np.maximum(w, h)),
    )


def _reading(fmt: tuple[str, str, str, Callable[[Floats], Floats]], units: _Units) -> BoxReading:
    name, change, code, corners = fmt

    def read(boxes: Floats, width: Side, height: Side) -> Floats:
        return (corners(boxes) - four(*units.offset(width, height))) * four(*units.scale(width, height))

    return BoxReading(
        f"{name} {units.name}",
        " and ".join(text for text in (change, units.change) if text),
        "; ".join(text for text in (code, units.code) if text),
        read,
    )


def _mirrored(axis: int) -> BoxReading:
    def read(boxes: Floats, width: Side, height: Side) -> Floats:
        result = boxes.copy()
        result[:, [axis, axis + 2]] = np.reshape((width, height)[axis], (-1, 1)) - boxes[:, [axis + 2, axis]]
        return result

    side, far = (("x", "width"), ("y", "height"))[axis]
    change = ("boxes are mirrored, left for right", "boxes count y from the bottom")[axis]
    columns = (axis, axis + 2)
    code = f"boxes[:, [{columns[0]}, {columns[1]}]] = {far} - boxes[:, [{columns[1]}, {columns[0]}]]"
    return BoxReading(f"mirrored {side}", change, code, read)


AS_GIVEN = "xyxy pixels"
BOX_READINGS: dict[str, BoxReading] = {
    reading.name: reading
    for reading in (
        *(_reading(fmt, units) for units in _UNITS for fmt in _FORMATS),
        _mirrored(0),
        _mirrored(1),
        *(_reading(fmt, units) for size in SIZES for units in _network(size) for fmt in _FORMATS),
    )
}
"""All readings of boxes by name, the plainest first."""


@dataclass(frozen=True)
class ScoreReading:
    """``read(scores)`` keeps or turns their order; ``fits(scores)`` says whether it could be meant at all."""

    change: str
    code: str
    read: Callable[[Floats], Floats]
    fits: Callable[[Floats], bool]


SCORE_READINGS: dict[str, ScoreReading] = {
    "given": ScoreReading("", "", lambda s: s, lambda s: True),
    "percent": ScoreReading(
        "scores are percent", "scores = scores / 100", lambda s: s / 100, lambda s: bool(s.min() >= 0 and s.max() > 20)
    ),
    "logits": ScoreReading(
        "scores are logits: the sigmoid is missing",
        "scores = 1 / (1 + np.exp(-scores))",
        sigmoid,
        lambda s: bool((s.min() < 0 or s.max() > 1) and s.max() <= 50),
    ),
    "reversed": ScoreReading(
        "scores are highest where nothing is",
        "scores = 1 - scores",
        lambda s: 1 - s,
        lambda s: bool(s.min() >= 0 and s.max() <= 1),
    ),
}

SUPPRESSION = 0.6


def suppressed(image: Ints, boxes: Floats, scores: Floats, labels: Ints) -> Ints:
    """Which detections non-maximum suppression within class and image keeps."""
    group = image * (int(labels.max(initial=0)) + 1) + labels
    return np.sort(nms(boxes, scores, SUPPRESSION, group)[0])


@dataclass(frozen=True)
class LabelReading:
    """``map[label]`` is what the label means, as an index of the detector's names; labels start at ``first``."""

    change: str
    code: str
    map: Ints
    first: int = 0

    def read(self, labels: Ints) -> Ints:
        """What ``labels`` mean; -1 where they mean nothing."""
        at = labels - self.first
        inside = (at >= 0) & (at < len(self.map))
        return np.where(inside, self.map[np.clip(at, 0, max(len(self.map) - 1, 0))], -1)


def label_readings(names: Sequence[str], data_names: Sequence[str]) -> dict[str, LabelReading]:
    """What numbers may mean for a detector of ``names``, on data that knows ``data_names``."""
    count = len(names)
    own = np.arange(count, dtype=np.int64)
    found = {
        "given": LabelReading("", "", own),
        "from-1": LabelReading("labels count from 1", "labels = labels - 1", own, 1),
        "from-minus-1": LabelReading("labels are one too low", "labels = labels + 1", own, -1),
    }
    by_name = sorted(range(count), key=lambda i: names[i])
    if by_name != list(range(count)):
        found["sorted"] = LabelReading(
            "labels number the names in alphabetical order", "names = sorted(names)", np.array(by_name, np.int64)
        )
    places = {name: i for i, name in enumerate(names)}
    by_data = [places.get(name, -1) for name in data_names]
    if count and by_data != list(range(count)) and sum(i >= 0 for i in by_data) > 1:
        found["data"] = LabelReading(
            "labels number the names of the data, not those that are given with them",
            "names = the names of the data, in its order",
            np.array(by_data, np.int64),
        )
    if count == len(COCO):
        ids = np.full(max(COCO_IDS) + 1, -1, np.int64)
        ids[list(COCO_IDS)] = own
        found["coco-ids"] = LabelReading(
            "labels are COCO's category ids, 1..90, not positions among 80 names", "names = COCO91", ids
        )
    return found


def assigned(names: Sequence[str], votes: Floats, least: float = 3.0, share: float = 0.6) -> LabelReading | None:
    """The renaming that ``votes`` ``[C, C]`` speak for (reported label, label of the object in its place), each class
    at most once; ``None`` where they speak for none. Labels with fewer than ``least`` votes, or no clear majority,
    stay."""
    total = votes.sum(axis=1, keepdims=True)
    clear = np.where((votes >= least) & (votes >= share * np.maximum(total, 1e-9)), votes, 0.0)
    rows, columns = match(clear)
    mapped = np.arange(len(names), dtype=np.int64)
    mapped[rows] = columns
    moved = rows[rows != columns]
    if not len(moved):
        return None
    taken = set(mapped[moved].tolist())
    for label in set(range(len(names))) - set(
        rows.tolist()
    ):  # nobody spoke for it: it gives way where its place is taken
        if label in taken:
            mapped[label] = -1
    text = ", ".join(f"{names[i]} is {names[mapped[i]]}" for i in moved[:4]) + (", …" if len(moved) > 4 else "")
    order = ", ".join(f"{i}: {mapped[i]}" for i in moved.tolist())
    return LabelReading(f"labels are permuted: {text}", f"labels = [{{{order}}}.get(i, i) for i in labels]", mapped)
