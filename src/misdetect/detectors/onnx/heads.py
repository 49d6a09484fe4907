"""A network's heads before anything joins or decodes them: one output per level, or per level and part.

Three codings of a box cover the families: ``offsets`` from a cell and log sizes (YOLOX), multiples of ``anchors``
(YOLOv5, YOLOv7), and ``distances`` from a cell's middle to the four sides, often as a distribution over bins (YOLOv8,
YOLO11, NanoDet, PicoDet). Which output is which is read from the shapes, once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from misdetect.detectors.outputs import Array, Frame, PerImage, Readout, choose, refuse_nan, sigmoid
from misdetect.nouns.boxes import Floats, cxcywh_to_xyxy
from misdetect.said.errors import BadSpec

Coding = Literal["offsets", "anchors", "distances"]
STRIDES = (4, 8, 16, 32, 64, 128)
ANCHORS = {
    "yolov5": (10, 13, 16, 30, 33, 23, 30, 61, 62, 45, 59, 119, 116, 90, 156, 198, 373, 326),
    "yolov7": (12, 16, 19, 36, 40, 28, 36, 75, 76, 55, 72, 146, 142, 110, 192, 243, 459, 401),
}
"""Widths and heights of the three anchors of strides 8, 16 and 32, in pixels, as the networks for COCO have them."""

_BINNED = (32, 64, 68)
"""Columns of four distributions: 8 bins (NanoDet, PicoDet), 16 (YOLOv8, YOLO11), 17 (PP-YOLOE)."""


def cells_of(width: int, height: int, stride: int) -> tuple[int, int]:
    """Rows and columns of cells; what is left over at the border gets a cell too."""
    return -(-height // stride), -(-width // stride)


class Place(NamedTuple):
    """Where an output belongs: the ``strides`` of its levels (one, unless it joins all), and how rows of candidates
    with ``columns`` numbers are made of it: a ``shape`` (without the batch axis), then the ``order`` of its axes."""

    strides: tuple[int, ...]
    shape: tuple[int, ...]
    order: tuple[int, ...]
    columns: int

    def rows(self, output: Array) -> Array:
        """``output`` of one image (batch axis 1) as ``[N, columns]``, a view where possible."""
        found = output.reshape(self.shape).transpose(self.order).reshape(-1, self.columns)
        return found.astype(np.float32, copy=False)


def places(shape: tuple[int, ...], width: int, height: int, strides: Sequence[int], anchors: int = 1) -> list[Place]:
    """The ways in which an output of ``shape`` (with the batch axis) can be one level's cells, or all levels'.

    Candidates are ordered by anchor, then row, then column.
    """
    found: list[Place] = []
    size = shape[1:]
    for stride in STRIDES:
        grid = cells_of(width, height, stride)
        if len(size) == 3 and size[1:] == grid and size[0] % anchors == 0:
            columns = size[0] // anchors
            found.append(Place((stride,), (anchors, columns, *grid), (0, 2, 3, 1), columns))
        if len(size) == 3 and size[:2] == grid and size[2] % anchors == 0:
            columns = size[2] // anchors
            found.append(Place((stride,), (*grid, anchors, columns), (2, 0, 1, 3), columns))
        if len(size) == 4 and size[1:3] == grid and size[0] == anchors:
            found.append(Place((stride,), size, (0, 1, 2, 3), size[3]))
        if len(size) == 2:
            found += _flat(size, grid[0] * grid[1], (stride,))
    if len(size) == 2:
        total = sum(rows * columns for rows, columns in (cells_of(width, height, stride) for stride in strides))
        found += _flat(size, total, tuple(strides))
    return found


def _flat(size: tuple[int, ...], cells: int, strides: tuple[int, ...]) -> list[Place]:
    found = [Place(strides, size, (0, 1), size[1])] if size[0] == cells else []
    return found + ([Place(strides, size, (1, 0), size[0])] if size[1] == cells else [])


@dataclass(frozen=True)
class Level:
    """The outputs of one level: ``parts`` are (output, place, columns of it) of boxes, classes and maybe objectness."""

    strides: tuple[int, ...]
    parts: dict[str, tuple[int, Place, slice]]


def levels_of(
    frame: Frame, coding: Coding, strides: Sequence[int], anchors: int = 1, classes_first: bool = False
) -> list[Level]:
    """What each output of ``frame.shapes`` is, level by level; empty where the shapes are no heads of ``coding``."""
    by_stride: dict[tuple[int, ...], list[tuple[int, Place]]] = {}
    for index, shape in enumerate(frame.shapes):
        where = places(shape, frame.width, frame.height, strides, anchors)
        if not where:
            return []
        place = next((p for p in where if _whole(coding, p.columns, frame.classes)), where[0])
        by_stride.setdefault(place.strides, []).append((index, place))
    levels = []
    for level_strides in sorted(by_stride):
        parts = _parts(by_stride[level_strides], coding, frame.classes, classes_first)
        if parts is None:
            return []
        levels.append(Level(level_strides, parts))
    return levels


def _whole(coding: Coding, columns: int, classes: int) -> bool:
    """Whether so many columns are all that a candidate has."""
    if coding == "distances":
        return columns - classes in _BINNED
    return columns == 5 + classes


def _parts(
    outputs: list[tuple[int, Place]], coding: Coding, classes: int, classes_first: bool
) -> dict[str, tuple[int, Place, slice]] | None:
    """The parts of one level by their numbers of columns; where two have the same, the order is boxes, objectness,
    classes. ``None`` where they do not fit."""
    if len(outputs) == 1:
        (index, place) = outputs[0]
        if not _whole(coding, place.columns, classes):
            return None
        box = place.columns - classes if coding == "distances" else 4
        spans = {"boxes": slice(0, box), "classes": slice(place.columns - classes, place.columns)}
        if classes_first:
            spans = {"boxes": slice(classes, place.columns), "classes": slice(0, classes)}
        if coding != "distances":
            spans["objectness"] = slice(4, 5)
        return {name: (index, place, span) for name, span in spans.items()}
    left = list(outputs)
    parts: dict[str, tuple[int, Place, slice]] = {}
    wanted = {"boxes": (4, *_BINNED)} if coding == "distances" else {"boxes": (4,), "objectness": (1,)}
    for name, columns in (wanted | {"classes": (classes,)}).items():
        chosen = next((each for each in left if each[1].columns in columns), None)
        if chosen is None:
            return None
        left.remove(chosen)
        parts[name] = (*chosen, slice(None))
    # Rockchip's exports add the sum of the class scores of each cell, to skip cells by
    sums = coding == "distances" and parts["boxes"][1].columns in _BINNED
    return parts if all(sums and place.columns == 1 for _, place in left) else None


class Heads(PerImage):
    """Heads as they leave the network. ``activated``: scores have had their sigmoid (and with anchors, boxes theirs);
    ``middle`` is where in its cell a candidate sits, from 0 (top left) to 1; ``anchors`` are ``[levels, A, 2]``."""

    def __init__(
        self,
        frame: Frame,
        levels: Sequence[Level],
        coding: Coding,
        *,
        activated: bool,
        middle: float = 0.5,
        anchors: Floats | None = None,
    ) -> None:
        self.frame, self.levels, self.coding, self.activated = frame, levels, coding, activated
        if anchors is not None and len(anchors) != len(levels):
            raise BadSpec(
                f"{frame.spec!r}: the graph has heads of {len(levels)} levels, but anchors= are of {len(anchors)}."
            )
        self.grids = [
            _grid(
                frame, level.strides, 0.0 if coding != "distances" else middle, None if anchors is None else anchors[i]
            )
            for i, level in enumerate(levels)
        ]

    def decode(self, outputs: Sequence[Array]) -> Readout:
        found = [self._level(outputs, level, grid) for level, grid in zip(self.levels, self.grids, strict=True)]
        boxes, scores, labels = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return Readout(boxes, scores, labels)

    def _level(self, outputs: Sequence[Array], level: Level, grid: "Grid") -> Readout:
        parts = {name: place.rows(outputs[i])[:, span] for name, (i, place, span) in level.parts.items()}
        classes, objectness = parts["classes"], None
        if "objectness" in parts:
            objectness = self._probability(parts["objectness"][:, 0])
            refuse_nan(self.frame, objectness)
            alive = np.flatnonzero(objectness >= self.frame.score)
        else:
            best = classes.max(axis=1)
            refuse_nan(self.frame, best)
            alive = np.flatnonzero(self._probability(best) >= self.frame.score)
        scores = self._probability(classes[alive])
        if objectness is not None:
            scores = scores * objectness[alive, None]
        chosen, labels, best = choose(self.frame, scores)
        alive = alive[chosen]
        return Readout(self._boxes(parts["boxes"][alive], grid, alive), best, labels)

    def _probability(self, values: Array) -> Array:
        return values if self.activated else sigmoid(values)

    def _boxes(self, values: Array, grid: "Grid", rows: Array) -> Floats:
        cells, steps = grid.cells[rows], grid.steps[rows]
        if self.coding == "distances":
            sides = _expected(values) * steps
            centres = cells * steps
            return np.concatenate([centres - sides[:, :2], centres + sides[:, 2:]], axis=1)
        if self.coding == "anchors":
            assert grid.anchors is not None
            share = self._probability(values)
            centres, sizes = (share[:, :2] * 2 - 0.5 + cells) * steps, (share[:, 2:] * 2) ** 2 * grid.anchors[rows]
        else:
            with np.errstate(over="ignore"):
                centres, sizes = (values[:, :2] + cells) * steps, np.exp(values[:, 2:]) * steps
        return cxcywh_to_xyxy(np.concatenate([centres, sizes], axis=1).astype(np.float32, copy=False))


def _expected(values: Array) -> Array:
    """Distances ``[K, 4]`` in cells: as they are, or the means of four distributions over bins, given by logits."""
    bins = values.shape[1] // 4
    if bins == 1:
        return values
    logits = values.reshape(-1, 4, bins)
    weights = np.exp(logits - logits.max(axis=2, keepdims=True))
    means: Array = (weights * np.arange(bins, dtype=np.float32)).sum(axis=2) / weights.sum(axis=2)
    return means


class Grid(NamedTuple):
    """Of all candidates of an output: ``cells`` ``[N, 2]`` (x, y), ``steps`` ``[N, 1]`` pixels, ``anchors``
    ``[N, 2]`` pixels or ``None``."""

    cells: Floats
    steps: Floats
    anchors: Floats | None


def _grid(frame: Frame, strides: Sequence[int], middle: float, anchors: Floats | None) -> Grid:
    cells, steps = [], []
    for stride in strides:
        rows, columns = cells_of(frame.width, frame.height, stride)
        y, x = np.mgrid[:rows, :columns]
        cells.append(np.stack([x.ravel(), y.ravel()], axis=1).astype(np.float32) + np.float32(middle))
        steps.append(np.full((rows * columns, 1), stride, np.float32))
    points, sizes = np.concatenate(cells), np.concatenate(steps)
    if anchors is None:
        return Grid(points, sizes, None)
    return Grid(
        np.tile(points, (len(anchors), 1)),
        np.tile(sizes, (len(anchors), 1)),
        np.repeat(anchors, len(points), axis=0).astype(np.float32),
    )
