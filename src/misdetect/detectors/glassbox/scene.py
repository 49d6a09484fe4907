"""What is really in a picture: the truth of a sample, and of a sample with something laid over it.

The glass box reads its objects here. A layer hides what it covers (an object of which too little stays visible is
gone) and may add an object of its own. Boxes of half-hidden objects stay as annotated: the perfect detector sees
through partial occlusion.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from misdetect.compose.paste import Paste
from misdetect.data.cutouts import Cutout
from misdetect.data.dataset import Sample
from misdetect.nouns.boxes import Bools, Floats, Ints, gaps
from misdetect.nouns.detections import PRESENT
from misdetect.nouns.picture import Pixels

"""States of parts that are there (paper 2); parts in any other state are missing."""
_WHITES = 16


@dataclass(frozen=True, eq=False)
class Rows:
    """Columns of equal length."""

    def take(self, rows: Ints | Bools) -> Self:
        """Those at ``rows``."""
        return type(self)(*(column[rows] for column in vars(self).values()))

    def join(self, other: Self) -> Self:
        """These and then those of ``other``."""
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return type(self)(*(np.concatenate(pair) for pair in pairs))


@dataclass(frozen=True, eq=False)
class Things(Rows):
    """``N`` objects of a picture: ``boxes`` ``[N, 4]``, ``labels``, ``ids``, ``areas`` (square pixels); ``places``
    the row in the image's annotation, or behind its end for pasted ones; ``tokens`` the names that dice are thrown
    by; ``pasted``."""

    boxes: Floats
    labels: Ints
    ids: Ints
    areas: Floats
    places: Ints
    tokens: NDArray[np.object_]
    pasted: Bools

    def __len__(self) -> int:
        return len(self.boxes)


@dataclass(frozen=True, eq=False)
class Scene:
    """A picture's truth: objects ``present``, parts that are ``absent`` (with their likely boxes), boxes ``[M, 4]`` of
    ``intruders`` (what an edit put there), and ``shunned`` boxes of crowds. ``key`` names the unedited image, and all
    dice of its objects are thrown by it, so an edit elsewhere changes nothing."""

    key: str
    width: int
    height: int
    present: Things
    absent: Things
    intruders: Floats
    shunned: Floats
    places: int
    """rows in the annotation: where the places of pasted objects begin"""


@dataclass(frozen=True, eq=False)
class Layer:
    """Pixels laid over an image: ``mask`` ``[h, w]`` with its corner at ``left``, ``top``, inside the image. ``label``
    is the object's class, -1 where it is none; ``intrudes`` says whether the neighbours may be disturbed by it."""

    mask: Bools
    left: int
    top: int
    label: int
    token: str
    intrudes: bool

    @property
    def box(self) -> tuple[int, int, int, int]:
        """x0, y0, x1, y1 in pixels; tight, since masks are cropped."""
        return self.left, self.top, self.left + self.mask.shape[1], self.top + self.mask.shape[0]


def scene_of(sample: Sample) -> Scene:
    """The truth of an unedited sample: without crowds, and of parts with states only those that are present."""
    truth = sample.truth
    assert truth.ids is not None
    assert truth.crowd is not None
    assert truth.areas is not None
    places = np.arange(len(truth))
    tokens = np.array([str(i) for i in truth.ids.tolist()], dtype=object)
    things = Things(
        truth.boxes, truth.labels, truth.ids, truth.areas, places, tokens, np.zeros(len(truth), dtype=np.bool_)
    )
    there = np.ones(len(truth), np.bool_) if truth.states is None else np.isin(np.array(truth.states, str), PRESENT)
    return Scene(
        key=sample.id,
        width=sample.width,
        height=sample.height,
        present=things.take(~truth.crowd & there),
        absent=things.take(~truth.crowd & ~there),
        intruders=np.zeros((0, 4)),
        shunned=truth.boxes[truth.crowd],
        places=len(truth),
    )


@dataclass(eq=False)
class Known:
    """An image of the data that was recognised: its sample, its scene and the object masks looked at so far."""

    index: int
    sample: Sample
    scene: Scene = field(init=False)
    _masks: dict[int, tuple[int, int, Bools]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.scene = scene_of(self.sample)

    def mask(self, place: int) -> tuple[int, int, Bools]:
        """Left, top and cropped mask of the object at row ``place``; its whole box where the data has no mask."""
        if place not in self._masks:
            truth = self.sample.truth
            x0, y0, x1, y1 = truth.boxes[place]
            left, top = max(int(np.floor(x0)), 0), max(int(np.floor(y0)), 0)
            right, bottom = min(int(np.ceil(x1)), self.sample.width), min(int(np.ceil(y1)), self.sample.height)
            mask = np.ones((max(bottom - top, 0), max(right - left, 0)), dtype=np.bool_)
            if truth.masks is not None and truth.masks.has(place):
                exact = truth.masks[place][top:bottom, left:right]
                mask = exact.copy() if exact.any() else mask
            self._masks[place] = left, top, mask
        return self._masks[place]

    def share_within(self, place: int, box: Floats) -> float:
        """Which share of the object at row ``place`` lies in ``box`` ``[4]``."""
        left, top, mask = self.mask(place)
        x0, y0 = (int(v) for v in np.floor(box[:2]))
        x1, y1 = (int(v) for v in np.ceil(box[2:]))
        inner = mask[max(y0 - top, 0) : max(y1 - top, 0), max(x0 - left, 0) : max(x1 - left, 0)]
        return float(np.count_nonzero(inner)) / max(float(np.count_nonzero(mask)), 1.0)


def edit(known: Known, layers: Sequence[Layer], visible: float) -> Scene:
    """The truth of ``known`` under ``layers``, the last on top: objects of which a share below ``visible`` can still
    be seen are gone (and count as absent), and each layer with a label is an object, with ids -1, -2, …"""
    base = known.scene
    if not layers:
        return base
    seen = np.ones(len(base.present), dtype=np.bool_)
    covers = np.array([layer.box for layer in layers], dtype=np.float64)
    touched = (gaps(base.present.boxes, covers) <= 0).any(axis=1)
    for i in np.flatnonzero(touched):
        seen[i] = _share(*known.mask(int(base.present.places[i])), layers) >= visible
    added = [
        (number, layer)
        for number, layer in enumerate(layers)
        if layer.label >= 0 and _share(layer.left, layer.top, layer.mask, layers[number + 1 :]) >= visible
    ]
    pasted = Things(
        boxes=np.array([layer.box for _, layer in added], dtype=np.float64).reshape(-1, 4),
        labels=np.array([layer.label for _, layer in added], dtype=np.int64),
        ids=np.array([-1 - number for number, _ in added], dtype=np.int64),
        areas=np.array([np.count_nonzero(layer.mask) for _, layer in added], dtype=np.float64),
        places=np.array([base.places + number for number, _ in added], dtype=np.int64),
        tokens=np.array([layer.token for _, layer in added], dtype=object),
        pasted=np.ones(len(added), dtype=np.bool_),
    )
    return replace(
        base,
        present=base.present.take(seen).join(pasted),
        absent=base.absent.join(base.present.take(~seen)),
        intruders=np.array([layer.box for layer in layers if layer.intrudes], dtype=np.float64).reshape(-1, 4),
    )


def _share(left: int, top: int, mask: Bools, layers: Sequence[Layer]) -> float:
    """Which share of ``mask`` stays visible under ``layers``."""
    whole = np.count_nonzero(mask)
    if not whole:
        return 0.0
    rest = mask.copy()
    for layer in layers:
        x0, y0, x1, y1 = layer.box
        a, b = max(x0, left), max(y0, top)
        c, d = min(x1, left + mask.shape[1]), min(y1, top + mask.shape[0])
        if a < c and b < d:
            rest[b - top : d - top, a - left : c - left] &= ~layer.mask[b - y0 : d - y0, a - x0 : c - x0]
    return float(np.count_nonzero(rest) / whole)


def share_seen(box: Floats, layers: Sequence[Layer]) -> float:
    """Which share of the pixels in ``box`` ``[4]`` is not under ``layers``."""
    x0, y0 = (int(v) for v in np.floor(box[:2]))
    x1, y1 = (int(v) for v in np.ceil(box[2:]))
    return _share(x0, y0, np.ones((max(y1 - y0, 1), max(x1 - x0, 1)), dtype=np.bool_), layers)


def layer_of(mask: Bools, label: int, token: str, intrudes: bool) -> Layer | None:
    """A ``Layer`` from a mask ``[H, W]`` of the whole image, cropped; ``None`` where it covers nothing."""
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    if not rows.size:
        return None
    left, top = int(columns[0]), int(rows[0])
    return Layer(mask[top : rows[-1] + 1, left : columns[-1] + 1], left, top, label, token, intrudes)


class Whites:
    """Cutouts painted white, so that ``Paste`` itself, drawing one on black, says which pixels it covers: resizing and
    the opacity threshold cannot differ from what is seen. The last few are kept."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Cutout] = OrderedDict()

    def layer(self, paste: Paste, width: int, height: int, label: int) -> Layer | None:
        """What ``paste`` covers of its ``width`` × ``height`` base; a cutout without a label disturbs nobody."""
        key = paste.cutout.key
        if key not in self._kept:
            rgba = paste.cutout.rgba.copy()
            rgba[:, :, :3] = 255
            self._kept[key] = Cutout(rgba, paste.cutout.label)
            while len(self._kept) > _WHITES:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        drawn = Paste(_Black(width, height), self._kept[key], paste.at, paste.size).render()
        return layer_of(drawn[:, :, 0] > 0, label, key, bool(paste.cutout.label))


@dataclass(frozen=True)
class _Black:
    width: int
    height: int

    @property
    def key(self) -> str:
        return f"black {self.width}x{self.height}"

    def render(self) -> Pixels:
        return np.zeros((self.height, self.width, 3), dtype=np.uint8)
