"""Photos with something on them: boxes, maps over a grid of positions, strips of pictures; all ``[H, W, 3]``.

Charts are in ``charts``. Nothing here knows of runs or studies.
"""

from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np

from misdetect.kept.files import write_atomically
from misdetect.nouns.boxes import Floats, Ints
from misdetect.nouns.picture import Pixels

_PALETTE = np.array(
    [[230, 60, 60], [40, 120, 220], [30, 150, 70], [230, 140, 20], [150, 60, 190], [0, 150, 160], [200, 60, 130]]
)
_FONT = cv2.FONT_HERSHEY_SIMPLEX
_WHITE, _BLACK, _GREY, _RED = (255, 255, 255), (20, 20, 20), (128, 128, 128), (230, 40, 40)
KEPT = (210, 210, 210)
"""What thin boxes of kept detections are drawn in."""


def colour(label: int) -> tuple[int, int, int]:
    """The colour in which class ``label`` is drawn, always the same."""
    red, green, blue = _PALETTE[label % len(_PALETTE)].tolist()
    return red, green, blue


def times(image: Pixels, least: int) -> int:
    """The whole factor by which the shorter side of ``image`` comes closest to ``least`` pixels; 1 where it is
    longer."""
    return max(1, round(least / int(min(image.shape[:2]))))


def smooth(image: Pixels, factor: int) -> Pixels:
    """``image`` with sides ``factor`` times as long."""
    if factor == 1:
        return image.copy()
    large: Pixels = np.asarray(cv2.resize(image, None, fx=factor, fy=factor, interpolation=cv2.INTER_CUBIC))
    return large


def enlarged(image: Pixels, least: int = 320) -> tuple[Pixels, int]:
    """``image`` blown up by a whole factor to a shorter side of about ``least``, so that small pictures can be
    read, and the factor."""
    factor = times(image, least)
    return smooth(image, factor), factor


def with_boxes(image: Pixels, boxes: Floats, captions: Sequence[str], labels: Sequence[int]) -> Pixels:
    """``image`` with ``boxes`` ``[N, 4]`` (in its pixels), each with its caption and in its class's colour."""
    drawn = np.ascontiguousarray(image.copy())
    corners = [tuple(round(v) for v in box) for box in np.asarray(boxes).tolist()]
    for (x0, y0, x1, y1), label in zip(corners, labels, strict=True):
        cv2.rectangle(drawn, (x0, y0), (x1, y1), colour(label), 2)
    taken: list[tuple[int, int, int, int]] = []
    for box, caption, label in zip(corners, captions, labels, strict=True):
        if caption:
            taken.append(_tag(drawn, caption, box, colour(label), taken))
    return drawn


def cropped(image: Pixels, window: Sequence[int], least: int, boxes: Floats, labels: Sequence[int]) -> Pixels:
    """What of ``image`` is in ``window`` (x0, y0, x1, y1, pixels), ``enlarged`` to ``least``, with ``boxes`` ``[N, 4]``
    (pixels of ``image``), each in its class's colour; a box that goes beyond is drawn along the edge."""
    x0, y0, x1, y1 = window
    big, factor = enlarged(np.ascontiguousarray(image[y0:y1, x0:x1]), least)
    edge = np.clip((boxes - [x0, y0, x0, y0]) * factor, 0, [big.shape[1] - 1, big.shape[0] - 1] * 2)
    return with_boxes(big, edge, [""] * len(boxes), labels)


def frame(image: Pixels, box: Floats, paint: tuple[int, int, int], thickness: int) -> None:
    """Draw ``box`` ``[4]`` (pixels) onto ``image`` itself."""
    x0, y0, x1, y1 = (round(v) for v in np.asarray(box).tolist())
    cv2.rectangle(image, (x0, y0), (x1, y1), paint, thickness)


def dashed(image: Pixels, box: Floats, paint: tuple[int, int, int], dash: int = 6) -> None:
    """Draw ``box`` ``[4]`` (pixels) with dashed lines onto ``image`` itself."""
    x0, y0, x1, y1 = (round(v) for v in np.asarray(box).tolist())
    for x in range(x0, x1, 2 * dash):
        for y in (y0, y1):
            cv2.line(image, (x, y), (min(x + dash, x1), y), paint, 2)
    for y in range(y0, y1, 2 * dash):
        for x in (x0, x1):
            cv2.line(image, (x, y), (x, min(y + dash, y1)), paint, 2)


def _tag(
    image: Pixels,
    text: str,
    box: tuple[int, ...],
    paint: tuple[int, int, int],
    taken: Sequence[tuple[int, int, int, int]],
) -> tuple[int, int, int, int]:
    """Write ``text`` at the ``box`` it belongs to: above it, else where it covers least of what is ``taken``; returns
    the place (x0, y0, x1, y1)."""
    (wide, high), _ = cv2.getTextSize(text, _FONT, 0.42, 1)
    wide, high, (x0, y0, x1, y1) = wide + 4, high + 5, box
    most_x, most_y = max(image.shape[1] - wide, 0), max(image.shape[0] - high, 0)
    tops = [y0 - high if y0 >= high else y0, y0, y1 - high, y1, (y0 + y1 - high) // 2]
    places = [(min(max(x, 0), most_x), min(max(y, 0), most_y)) for y in tops for x in (x0, x1 - wide)]
    left, top = min(places, key=lambda at: sum(_shared((*at, at[0] + wide, at[1] + high), other) for other in taken))
    place = left, top, left + wide, top + high
    cv2.rectangle(image, place[:2], place[2:], paint, -1)
    cv2.putText(image, text, (left + 2, top + high - 4), _FONT, 0.42, _WHITE, 1, cv2.LINE_AA)
    return place


def write(image: Pixels, text: str, at: tuple[int, int], size: float = 0.42) -> None:
    """Write ``text`` in black onto ``image`` itself; its lower left corner is ``at`` (x, y)."""
    cv2.putText(image, text, at, _FONT, size, _BLACK, 1, cv2.LINE_AA)


def _shared(one: Sequence[int], other: Sequence[int]) -> int:
    """Pixels that two places have in common."""
    wide, high = (min(one[i + 2], other[i + 2]) - max(one[i], other[i]) + 1 for i in (0, 1))
    return max(wide, 0) * max(high, 0)


def titled(image: Pixels, title: str) -> Pixels:
    """``image`` under a line of text."""
    bar = np.full((22, image.shape[1], 3), 255, dtype=np.uint8)
    write(bar, title, (4, 15), 0.45)
    return np.concatenate([bar, image])


def stacked(images: Sequence[Pixels], *, sideways: bool = False, gap: int = 6) -> Pixels:
    """``images`` under each other (or side by side) on white, each centred as it is."""
    across = 0 if sideways else 1
    length = max(image.shape[across] for image in images)
    parts: list[Pixels] = []
    for image in images:
        missing = length - image.shape[across]
        pads = [(0, 0), (0, 0), (0, 0)]
        pads[across] = (missing // 2, missing - missing // 2)
        pads[1 - across] = (0, gap)
        parts.append(np.pad(image, pads, constant_values=255))
    return np.concatenate(parts, axis=1 - across)


def widened(image: Pixels, wide: int) -> Pixels:
    """``image`` in the middle of white that is ``wide`` pixels wide, where it is not wider itself."""
    return stacked([image, np.full((1, wide, 3), 255, dtype=np.uint8)], gap=0)


def heat_colours(values: Floats, low: float, high: float) -> Pixels:
    """``values`` of any shape as colours, dark violet for ``low`` to yellow for ``high``; NaN is grey."""
    share = np.clip((np.nan_to_num(values, nan=low) - low) / max(high - low, 1e-9), 0, 1)
    flat = np.rint(255 * share).astype(np.uint8).reshape(-1, 1)
    colours: Pixels = np.asarray(cv2.applyColorMap(flat, cv2.COLORMAP_VIRIDIS))[:, 0, ::-1].copy()
    colours = colours.reshape(*values.shape, 3)
    colours[np.isnan(values)] = _GREY
    return colours


def heat_map(
    image: Pixels,
    places: Ints,
    values: Floats,
    cell: int,
    *,
    low: float = 0.0,
    high: float = 1.0,
    title: str = "",
    box: Sequence[float] | None = None,
) -> Pixels:
    """``values`` ``[P]`` at ``places`` ``[P, 2]`` (x, y of the centres, pixels of ``image``) as squares of ``cell``
    pixels over the picture in grey, with a scale beneath; ``box`` is what the map is about."""
    big, factor = enlarged(image)
    grey = cv2.cvtColor(big, cv2.COLOR_RGB2GRAY)
    canvas = np.repeat((grey // 2 + 96)[:, :, None].astype(np.uint8), 3, axis=2)
    over = canvas.copy()
    half = max(cell * factor / 2, 1)
    for (x, y), paint in zip((np.asarray(places) * factor).tolist(), heat_colours(values, low, high), strict=True):
        corner, other = (round(x - half), round(y - half)), (round(x + half) - 1, round(y + half) - 1)
        cv2.rectangle(over, corner, other, tuple(paint.tolist()), -1)
    blended: Pixels = np.asarray(cv2.addWeighted(over, 0.72, canvas, 0.28, 0))
    if box is not None:
        x0, y0, x1, y1 = (round(v * factor) for v in box)
        cv2.rectangle(blended, (x0, y0), (x1, y1), _RED, 2)
    scale = np.tile(heat_colours(np.linspace(low, high, blended.shape[1]), low, high)[None], (10, 1, 1))
    words = np.full((18, blended.shape[1], 3), 255, dtype=np.uint8)
    write(words, f"{low:g}", (2, 13))
    (width, _), _ = cv2.getTextSize(f"{high:g}", _FONT, 0.42, 1)
    write(words, f"{high:g}", (blended.shape[1] - width - 2, 13))
    return titled(np.concatenate([blended, scale, words]), title)


def save_png(path: Path, image: Pixels) -> Path:
    """Write ``image`` as PNG, making the folder where needed; returns ``path``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    done, data = cv2.imencode(".png", np.ascontiguousarray(image[:, :, ::-1]))
    if not done:
        raise OSError(f"cannot encode {path}")
    write_atomically(path, data.tobytes())
    return path
