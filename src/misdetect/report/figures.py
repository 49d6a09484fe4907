"""Photos with something on them: boxes, maps over a grid of positions, strips of pictures; all ``[H, W, 3]``.

Charts are in ``charts``, interactive maps in ``interactive``. Nothing here knows of runs or studies.
"""

from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np

from misdetect.boxes import Floats, Ints
from misdetect.files import write_atomically
from misdetect.picture import Pixels

_PALETTE = np.array(
    [[230, 60, 60], [40, 120, 220], [30, 150, 70], [230, 140, 20], [150, 60, 190], [0, 150, 160], [200, 60, 130]]
)
_FONT = cv2.FONT_HERSHEY_SIMPLEX
_WHITE, _BLACK, _GREY, _RED = (255, 255, 255), (20, 20, 20), (128, 128, 128), (230, 40, 40)


def colour(label: int) -> tuple[int, int, int]:
    """The colour in which class ``label`` is drawn, always the same."""
    red, green, blue = _PALETTE[label % len(_PALETTE)].tolist()
    return red, green, blue


def enlarged(image: Pixels, least: int = 320) -> tuple[Pixels, float]:
    """``image`` blown up by a whole factor to a shorter side of about ``least``, so that small pictures can be
    read, and the factor."""
    factor = max(1, round(least / min(image.shape[:2])))
    if factor == 1:
        return image.copy(), 1.0
    large: Pixels = np.asarray(cv2.resize(image, None, fx=factor, fy=factor, interpolation=cv2.INTER_CUBIC))
    return large, float(factor)


def with_boxes(image: Pixels, boxes: Floats, captions: Sequence[str], labels: Sequence[int]) -> Pixels:
    """``image`` with ``boxes`` ``[N, 4]`` (in its pixels), each with its caption and in its class's colour."""
    drawn = np.ascontiguousarray(image.copy())
    for box, caption, label in zip(np.asarray(boxes).tolist(), captions, labels, strict=True):
        x0, y0, x1, y1 = (round(v) for v in box)
        paint = colour(label)
        cv2.rectangle(drawn, (x0, y0), (x1, y1), paint, 2)
        if caption:
            _tag(drawn, caption, x0, y0, paint)
    return drawn


def frame(image: Pixels, box: Floats, paint: tuple[int, int, int], thickness: int) -> None:
    """Draw ``box`` ``[4]`` (pixels) onto ``image`` itself."""
    x0, y0, x1, y1 = (round(v) for v in np.asarray(box).tolist())
    cv2.rectangle(image, (x0, y0), (x1, y1), paint, thickness)


def _tag(image: Pixels, text: str, x: int, y: int, paint: tuple[int, int, int]) -> None:
    (width, height), _ = cv2.getTextSize(text, _FONT, 0.42, 1)
    top = y - height - 5 if y - height - 5 >= 0 else y
    left = int(np.clip(x, 0, max(image.shape[1] - width - 4, 0)))
    cv2.rectangle(image, (left, top), (left + width + 4, top + height + 5), paint, -1)
    cv2.putText(image, text, (left + 2, top + height + 1), _FONT, 0.42, _WHITE, 1, cv2.LINE_AA)


def titled(image: Pixels, title: str) -> Pixels:
    """``image`` under a line of text."""
    bar = np.full((22, image.shape[1], 3), 255, dtype=np.uint8)
    cv2.putText(bar, title, (4, 15), _FONT, 0.45, _BLACK, 1, cv2.LINE_AA)
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
    cv2.putText(words, f"{low:g}", (2, 13), _FONT, 0.42, _BLACK, 1, cv2.LINE_AA)
    (width, _), _ = cv2.getTextSize(f"{high:g}", _FONT, 0.42, 1)
    cv2.putText(words, f"{high:g}", (blended.shape[1] - width - 2, 13), _FONT, 0.42, _BLACK, 1, cv2.LINE_AA)
    return titled(np.concatenate([blended, scale, words]), title)


def save_png(path: Path, image: Pixels) -> Path:
    """Write ``image`` as PNG, making the folder where needed; returns ``path``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    done, data = cv2.imencode(".png", np.ascontiguousarray(image[:, :, ::-1]))
    if not done:
        raise OSError(f"cannot encode {path}")
    write_atomically(path, data.tobytes())
    return path
