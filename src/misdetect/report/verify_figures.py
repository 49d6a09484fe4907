"""Figures of paper 2: states of parts (Fig. 3), the prior as ellipses (Fig. 4), a bar per part (Fig. 5), and a strip of
a hallucination under each edit. Lines (Fig. 6, F_vv) are ``figures.curve``. Nothing here reads a run."""

from collections.abc import Mapping, Sequence
from typing import Any

import cv2
import numpy as np

from misdetect.boxes import Floats
from misdetect.picture import Pixels
from misdetect.report.figures import colour, enlarged, frame, stacked, titled

_FONT, _BLACK = cv2.FONT_HERSHEY_SIMPLEX, (20, 20, 20)
_SHADES = {
    "intact": (30, 150, 70), "damaged": (230, 160, 30), "absent": (200, 50, 50), "occluded": (120, 120, 120),
}  # fmt: skip
LIKELY, HALLUCINATED = (30, 150, 70), (230, 40, 40)
_ROW, _NAMES = 18, 150


def _canvas(height: int, width: int) -> Pixels:
    return np.full((height, width, 3), 255, dtype=np.uint8)


def _put(canvas: Pixels, text: str, x: int, y: int, paint: tuple[int, int, int] = _BLACK) -> None:
    cv2.putText(canvas, text, (x, y), _FONT, 0.42, paint, 1, cv2.LINE_AA)


def states(by_part: Mapping[str, Mapping[str, int]], width: int = 640) -> Pixels:
    """Fig. 3: the shares of the states of each part, those that are there most often first; the first bar is of all."""
    names = sorted({state for counts in by_part.values() for state in counts}, key=lambda s: (s not in _SHADES, s))
    names.sort(key=list(_SHADES).index) if set(names) <= set(_SHADES) else None
    every = {state: sum(counts.get(state, 0) for counts in by_part.values()) for state in names}
    first = names[0] if names else ""
    ranked = sorted(by_part, key=lambda part: -by_part[part].get(first, 0) / max(sum(by_part[part].values()), 1))
    canvas = _canvas(_ROW * (len(ranked) + 1) + 40, width)
    for i, state in enumerate(names):
        x = _NAMES + 110 * i
        cv2.rectangle(canvas, (x, 8), (x + 12, 20), _shade(state, i), -1)
        _put(canvas, state, x + 17, 19)
    for row, (part, counts) in enumerate([("all", every), *((part, by_part[part]) for part in ranked)]):
        top, left, total = 30 + _ROW * row, float(_NAMES), max(sum(counts.values()), 1)
        _put(canvas, part, 6, top + 12)
        for i, state in enumerate(names):
            wide = (width - _NAMES - 10) * counts.get(state, 0) / total
            cv2.rectangle(canvas, (round(left), top), (round(left + wide), top + 14), _shade(state, i), -1)
            left += wide
    return canvas


def _shade(state: str, index: int) -> tuple[int, int, int]:
    return _SHADES.get(state, colour(index))


def ellipses(boxes: Sequence[tuple[str, Floats]], title: str, size: int = 420) -> Pixels:
    """Fig. 4: an ellipse for each named mean box (shares of the image)."""
    canvas = _canvas(size, size)
    for i, (name, box) in enumerate(boxes):
        x0, y0, x1, y1 = (float(v) * size for v in box)
        centre = round((x0 + x1) / 2), round((y0 + y1) / 2)
        cv2.ellipse(canvas, centre, (round((x1 - x0) / 2), round((y1 - y0) / 2)), 0, 0, 360, colour(i), 2, cv2.LINE_AA)
        cv2.putText(canvas, name, (centre[0] - 20, centre[1]), _FONT, 0.32, _BLACK, 1, cv2.LINE_AA)
    return titled(canvas, title)


def outlines(boxes: Floats, labels: Sequence[int], title: str, size: int = 420) -> Pixels:
    """``boxes`` ``[N, 4]`` (shares of the image), thin, in the colours of their ``labels``."""
    canvas = _canvas(size, size)
    for box, label in zip(boxes * size, labels, strict=True):
        frame(canvas, box, colour(label), 1)
    return titled(canvas, title)


def bars(values: Mapping[str, Sequence[float | None]], runs: Sequence[str], title: str, width: int = 720) -> Pixels:
    """Fig. 5: for each name a bar per run, in 0..1, the largest of the first run first."""
    ranked = sorted(values, key=lambda name: -(values[name][0] or 0))
    thick = max(4, 14 // len(runs))
    step = thick * len(runs) + 6
    canvas = _canvas(step * len(ranked) + 36 + 16 * len(runs), width)
    room = width - _NAMES - 50
    for i, run in enumerate(runs):
        cv2.rectangle(canvas, (_NAMES, 6 + 16 * i), (_NAMES + 12, 17 + 16 * i), colour(i), -1)
        _put(canvas, run, _NAMES + 17, 16 + 16 * i)
    top = 16 + 16 * len(runs)
    for row, name in enumerate(ranked):
        _put(canvas, name, 6, top + step * row + step // 2 + 3)
        for i, value in enumerate(values[name]):
            y, end = top + step * row + thick * i, _NAMES + round(room * (value or 0))
            cv2.rectangle(canvas, (_NAMES, y), (end, y + thick - 1), colour(i), -1)
            if len(runs) == 1 and value is not None:
                _put(canvas, f"{value:.2f}", end + 4, y + thick - 2)
    for tick in (0, 0.25, 0.5, 0.75, 1):
        x = _NAMES + round(room * tick)
        cv2.line(canvas, (x, top - 4), (x, canvas.shape[0] - 18), (215, 215, 215), 1)
        _put(canvas, f"{tick:g}", x - 8, canvas.shape[0] - 4)
    return titled(canvas, title)


def strip(views: Sequence[tuple[str, Pixels, Floats | None, Floats | None, float | None]], title: str) -> Pixels:
    """Views of one hallucination side by side: name, image, likely box (green), hallucinated box (red; its place where
    everything moved) and the score that is left there."""
    shown = []
    for name, image, likely, box, score in views:
        big, factor = enlarged(image, 230)
        for place, paint in ((likely, LIKELY), (box, HALLUCINATED)):
            if place is not None:
                frame(big, np.asarray(place) * factor, paint, 2)
        shown.append(titled(big, f"{name} {'-' if score is None else format(score, '.2f')}"))
    return titled(stacked(shown, sideways=True), title)


def causes(shares: Mapping[str, Mapping[str, Any]], width: int = 420) -> Pixels:
    """A bar for each cause with its interval."""
    canvas = _canvas(34 * len(shares) + 10, width)
    room = width - 190
    for i, (name, each) in enumerate(shares.items()):
        top = 8 + 34 * i
        _put(canvas, f"{name} ({each['count']})", 6, top + 16)
        if each["share"] is None:
            continue
        low, high = each["interval"]
        cv2.rectangle(canvas, (130, top), (130 + round(room * each["share"]), top + 22), colour(i), -1)
        cv2.line(canvas, (130 + round(room * low), top + 11), (130 + round(room * high), top + 11), _BLACK, 2)
        _put(canvas, f"{100 * each['share']:.0f} %", 136 + round(room * max(high, each["share"])), top + 16)
    return canvas
