"""Charts of an attack: bars in groups with their intervals, the ladder's rungs, and a small confusion matrix.

Pixels drawn with OpenCV, as ``figures``; nothing here reads a run.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import cv2
import numpy as np

from misdetect.picture import Pixels
from misdetect.report.figures import colour, heat_colours

_FONT, _BLACK, _GREY = cv2.FONT_HERSHEY_SIMPLEX, (20, 20, 20), (215, 215, 215)
Value = tuple[float | None, Sequence[float] | None]
"""A number in 0..1 and its interval."""


def grouped_bars(groups: Mapping[str, Mapping[str, Value]], title: str, *, height: int = 300) -> Pixels:
    """A group of bars for each of ``groups``, a bar for each of its entries, from 0 to 1, with whiskers."""
    names = list(dict.fromkeys(name for group in groups.values() for name in group))
    bar, gap, left, top, bottom = 30, 26, 44, 44, height - 30
    sizes = [max(bar * len(group), _wide(name)) for name, group in groups.items()]
    width = max(
        left + sum(sizes) + gap * (len(groups) + 1), left + _wide(title), left + sum(_wide(n) + 34 for n in names)
    )
    canvas = np.full((height, width, 3), 255, dtype=np.uint8)
    for tick in (0, 0.25, 0.5, 0.75, 1):
        y = round(bottom - tick * (bottom - top))
        cv2.line(canvas, (left, y), (width - 6, y), _GREY, 1)
        _put(canvas, f"{tick:g}", (8, y + 4))
    x = left + gap
    for (name, group), size in zip(groups.items(), sizes, strict=True):
        for i, (entry, (value, ends)) in enumerate(group.items()):
            if value is None:
                continue
            paint, at = colour(names.index(entry)), x + bar * i
            cv2.rectangle(canvas, (at, round(bottom - value * (bottom - top))), (at + bar - 6, bottom), paint, -1)
            if ends is not None:
                _whisker(canvas, at + (bar - 6) // 2, [round(bottom - end * (bottom - top)) for end in ends])
            peak = max(value, *(ends or ()))
            _put(canvas, f"{value:.2f}".lstrip("0"), (at, round(bottom - peak * (bottom - top)) - 4), 0.36)
        _put(canvas, name, (x, bottom + 18))
        x += size + gap
    _put(canvas, title, (8, 16))
    if len(names) > 1:
        x = left
        for i, name in enumerate(names):
            cv2.rectangle(canvas, (x, 24), (x + 10, 34), colour(i), -1)
            _put(canvas, name, (x + 14, 34))
            x += _wide(name) + 30
    return canvas


def _whisker(canvas: Pixels, x: int, ends: Sequence[int]) -> None:
    low, high = max(ends), min(ends)
    cv2.line(canvas, (x, low), (x, high), _BLACK, 1)
    for y in (low, high):
        cv2.line(canvas, (x - 3, y), (x + 3, y), _BLACK, 1)


def steps(ladder: Mapping[str, Any], *, width: int = 720) -> Pixels:
    """The ladder: a line per rung with its success and interval; a rung that is broken in red, with what it means."""
    rungs = ladder["rungs"]
    left, line = 110, 26
    canvas = np.full((52 + line * len(rungs), width, 3), 255, dtype=np.uint8)
    _put(
        canvas, f"share of objects lost, loss {ladder['loss']}, {ladder['images']} images: {ladder['verdict']}", (8, 16)
    )
    right = width - 190
    for tick in (0, 0.25, 0.5, 0.75, 1):
        x = round(left + tick * (right - left))
        cv2.line(canvas, (x, 28), (x, canvas.shape[0] - 20), _GREY, 1)
        _put(canvas, f"{100 * tick:.0f} %", (x - 10, canvas.shape[0] - 6), 0.36)
    for i, rung in enumerate(rungs):
        y = 42 + line * i
        paint = colour(1) if rung["holds"] else colour(0)
        _put(canvas, rung["name"], (8, y + 4))
        if rung["success"] is None:
            continue
        low, high = (round(left + end * (right - left)) for end in rung["interval"])
        at = round(left + rung["success"] * (right - left))
        cv2.line(canvas, (low, y), (high, y), paint, 2)
        cv2.circle(canvas, (at, y), 5, paint, -1, cv2.LINE_AA)
        _put(canvas, f"{100 * rung['success']:.0f} %  {rung['means'] or ''}", (max(high, at) + 10, y + 4))
    return canvas


def matrix(found: Mapping[str, Any]) -> Pixels:
    """A confusion matrix, true classes down and predicted ones across, each row's confidence as shares of it; the last
    row and column are the background. Beneath it the objects without any detection."""
    confidence = np.array(found["confidence"], dtype=np.float64)
    labels = found["labels"]
    cell = max(9, min(22, 300 // len(labels)))
    sums = confidence.sum(axis=1, keepdims=True)
    shares = np.divide(confidence, sums, out=np.zeros_like(confidence), where=sums > 0)
    shares[sums[:, 0] <= 0] = np.nan
    picture = np.repeat(np.repeat(heat_colours(shares, 0, 1), cell, axis=0), cell, axis=1)
    left = max(_wide(name, 0.36) for name in labels) + 10
    canvas = np.full((picture.shape[0] + 40, left + picture.shape[1] + 8, 3), 255, dtype=np.uint8)
    canvas[: picture.shape[0], left : left + picture.shape[1]] = picture
    for i, name in enumerate(labels):
        _put(canvas, name, (4, cell * i + cell // 2 + 4), 0.36)
    edge = cell * (len(labels) - 1)
    cv2.line(canvas, (left, edge), (left + picture.shape[1], edge), (255, 255, 255), 1)
    cv2.line(canvas, (left + edge, 0), (left + edge, picture.shape[0]), (255, 255, 255), 1)
    went = found["objects"]
    _put(
        canvas,
        f"objects {went['objects']}: right {went['right']}, confused {went['confused']},",
        (4, picture.shape[0] + 14),
        0.38,
    )
    _put(canvas, f"called background {went['sunk']}, no box {went['missed']}", (4, picture.shape[0] + 30), 0.38)
    return canvas


def _put(canvas: Pixels, text: str, at: tuple[int, int], size: float = 0.42) -> None:
    cv2.putText(canvas, text, at, _FONT, size, _BLACK, 1, cv2.LINE_AA)


def _wide(text: str, size: float = 0.42) -> int:
    return int(cv2.getTextSize(text, _FONT, size, 1)[0][0])
