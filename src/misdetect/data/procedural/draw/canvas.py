"""``Canvas``: a picture that knows which object owns every pixel.

Pixels are four bytes, red, green, blue and the *owner*; each stroke writes all four at once, so after the last stroke
the owner channel holds exactly the visible part of every object. Points are in scene units (the image is the unit
square, y down), drawn at twice the final size and averaged down. No anti-aliasing: it would blend owners.
"""

from functools import lru_cache
from math import ceil, cos, sin
from typing import Any

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray

from misdetect.data.procedural.draw import textures
from misdetect.nouns.picture import Pixels

Points = NDArray[np.float64]
Colour = tuple[int, int, int]
Window = tuple[int, int, int, int]
SUPERSAMPLE = 2
FIXED = np.dtype(np.int32)
"""OpenCV's fixed point: sixteenths of a canvas pixel."""
_SHIFT = 4
_LEVELS = 64
_WIDEST = 1024
"""Textures are kept up to this many pixels per canvas side, so that a 2048-pixel image does not need gigabytes."""
_TINY = 360
"""Polygons whose bounding box has fewer canvas pixels than this get one colour: nobody sees a texture there."""
_CIRCLE = np.stack([np.cos(np.arange(28) * (2 * np.pi / 28)), np.sin(np.arange(28) * (2 * np.pi / 28))], axis=1)


def tint(colour: Colour, shade: float) -> Colour:
    """``colour`` under more or less light: below 1 it darkens, above 1 it also pales towards white."""
    if shade <= 1:
        return int(colour[0] * shade), int(colour[1] * shade), int(colour[2] * shade)
    gain = min(1.0, (shade - 1) * 0.65)
    r, g, b = colour
    return int(r + (255 - r) * gain), int(g + (255 - g) * gain), int(b + (255 - b) * gain)


def mix(a: Colour, b: Colour, share: float) -> Colour:
    """``a`` with ``share`` of ``b`` in it."""
    return (
        int(a[0] + (b[0] - a[0]) * share),
        int(a[1] + (b[1] - a[1]) * share),
        int(a[2] + (b[2] - a[2]) * share),
    )


_GAIN = np.arange(_LEVELS, dtype=np.float32)[:, None] / (_LEVELS // 2)
_PALING = np.minimum(1, (_GAIN - 1) * 0.65)
_DARK = _GAIN <= 1


@lru_cache(maxsize=8192)
def palette(colour: Colour, owner: int) -> NDArray[np.uint32]:
    """``colour`` in 64 steps of light as four-byte pixels of ``owner``; step 32 is the colour itself."""
    base = np.array(colour, dtype=np.float32)
    steps = np.empty((_LEVELS, 4), dtype=np.uint8)
    steps[:, :3] = np.where(_DARK, base * _GAIN, base + (255 - base) * _PALING)
    steps[:, 3] = owner
    return steps.view(np.uint32)[:, 0]


@lru_cache(maxsize=512)
def _ramp(length: int) -> NDArray[np.float32]:
    ramp: NDArray[np.float32] = ((np.arange(length) + 0.5) / length - 0.5).astype(np.float32)
    return ramp


def _gradient(width: int, height: int, shade: float, slope: tuple[float, float]) -> NDArray[np.float32] | np.float32:
    """Palette steps over a rectangle ``[height, width]``, or one row, column or number where that says it all."""
    across, down = slope
    level = shade * 32 + 0.5
    if not across:
        return (_ramp(height) * (down * 32) + level)[:, None] if down else np.float32(level)
    row: NDArray[np.float32] = _ramp(width) * (across * 32) + level
    return _ramp(height)[:, None] * (down * 32) + row if down else row


def oval(x: float, y: float, rx: float, ry: float, angle: float) -> NDArray[np.float64]:
    """The map ``[3, 3]`` of the unit circle to an ellipse round (x, y), with two radii, turned by ``angle`` radians."""
    c, s = (cos(angle), sin(angle)) if angle else (1.0, 0.0)
    return np.array([[c * rx, -s * ry, x], [s * rx, c * ry, y], [0.0, 0.0, 1.0]])


def through(lens: NDArray[np.floating[Any]], points: ArrayLike) -> Points:
    """Points ``[N, 2]`` seen through a homography ``[3, 3]``: one call where NumPy would need six."""
    seen: Points = cv2.perspectiveTransform(np.ascontiguousarray(points, dtype=np.float64)[None], lens)[0]
    return seen


class Canvas:
    """A square canvas of ``size`` final pixels. ``owner`` is written with every stroke; 0 owns nothing."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.side = size * SUPERSAMPLE
        self.pixels = np.zeros((self.side, self.side, 4), dtype=np.uint8)
        self.words = self.pixels.view(np.uint32)[..., 0]
        self.owner = 0
        self.mirrored = False
        self.offset = (0, 0)
        self.lens = np.array([[16.0 * self.side, 0, -7.5], [0, 16.0 * self.side, -7.5], [0, 0, 1]])
        """Scene units to OpenCV's fixed point, with pixel centres at whole numbers: a homography ``[3, 3]``."""
        # Arrays without axes: NumPy takes them as they are, plain numbers it would convert each time.
        self._scale, self._shift = np.array(16.0 * self.side), np.array(-7.5)
        self._shapes: list[tuple[NDArray[np.int32], int]] = []
        """What the owner has drawn: shapes ``[N, 2]``, and how far the line of each reaches beyond it."""
        self._stencil = np.zeros((self.side, self.side), dtype=np.uint8)

    def fixed(self, points: ArrayLike) -> NDArray[np.int32]:
        """Points in scene units to OpenCV's fixed point; fixed points are returned as they are.

        All drawing goes through here, so shapes may come in either: what knows its own lens saves a conversion.
        """
        if isinstance(points, np.ndarray) and points.dtype == FIXED:
            return points
        scaled = np.asarray(points, dtype=np.float64) * self._scale
        scaled += self._shift
        fixed: NDArray[np.int32] = scaled.astype(FIXED)
        return fixed

    def _bounds(self, fixed: NDArray[np.int32], margin: int = 0) -> Window:
        x, y, w, h = cv2.boundingRect(fixed)
        right, low = (x + w >> _SHIFT) + 2 + margin, (y + h >> _SHIFT) + 2 + margin
        left, top = (x >> _SHIFT) - margin, (y >> _SHIFT) - margin
        return max(0, left), max(0, top), min(self.side, right), min(self.side, low)

    def start(self, owner: int) -> None:
        """From now on ``owner`` paints; ``owned`` and ``corner`` are about what it has painted."""
        self.owner = owner
        self._shapes = []

    def flat(self, points: ArrayLike, colour: Colour) -> None:
        """Fill a polygon ``[N, 2]`` with one colour."""
        self._flat(self.fixed(points), colour)

    def _flat(self, fixed: NDArray[np.int32], colour: Colour) -> None:
        self._shapes.append((fixed, 0))
        cv2.fillPoly(self.pixels, [fixed], (*colour, self.owner), shift=_SHIFT)

    def fill(
        self,
        points: ArrayLike,
        colour: Colour,
        *,
        shade: float = 1.0,
        slope: tuple[float, float] = (0.0, 0.0),
        texture: str | None = None,
        grain: float = 2.0,
        relief: str | None = None,
        depth: float = 1.0,
    ) -> None:
        """Fill a polygon with light and texture.

        ``shade`` multiplies the colour; ``slope`` adds a gradient across the bounding box (x, y) in the same unit;
        ``texture`` is laid on with strength ``grain`` (palette steps); ``relief`` rounds the shape by ``depth``.
        """
        fixed = self.fixed(points)
        if texture is None and relief is None and slope == (0.0, 0.0):
            self._flat(fixed, colour if shade == 1.0 else tint(colour, shade))
            return
        x0, y0, x1, y1 = self._bounds(fixed)
        width, height = x1 - x0, y1 - y0
        if width <= 0 or height <= 0:
            return
        if width * height < (60 if relief else _TINY if texture else 2 * _TINY):
            self._flat(fixed, tint(colour, shade))
            return
        self._shapes.append((fixed, 0))
        steps: Any = _gradient(width, height, shade, slope)
        if texture is not None:
            grained = self._texture(texture, x0, y0, width, height) * np.float32(grain)
            grained += steps
            steps = grained
        if relief is not None:
            tile = cv2.resize(textures.relief(relief, self.mirrored), (width, height))
            if depth != 1.0:
                tile *= np.float32(depth)
            tile += steps
            steps = tile
        colours = palette(colour, self.owner).take(steps.astype(np.intp), mode="clip")
        cv2.fillPoly(self._stencil, [fixed], 1, shift=_SHIFT)
        stencil = self._stencil[y0:y1, x0:x1]
        np.copyto(self.words[y0:y1, x0:x1], colours, where=stencil.view(np.bool_))
        stencil[:] = 0

    def _texture(self, name: str, x: int, y: int, width: int, height: int) -> NDArray[np.float32]:
        """The piece of a texture under a rectangle of the canvas; very large canvases stretch a smaller one."""
        left, top = (x + self.offset[0]) % (self.side // 2), (y + self.offset[1]) % (self.side // 2)
        if self.side <= _WIDEST:
            return textures.texture(name, self.side)[top : top + height, left : left + width]
        share = _WIDEST / self.side
        left, top = int(left * share), int(top * share)
        piece = textures.texture(name, _WIDEST)[top : top + ceil(height * share), left : left + ceil(width * share)]
        stretched: NDArray[np.float32] = cv2.resize(piece, (width, height))
        return stretched

    def ellipse(
        self, x: float, y: float, rx: float, ry: float, colour: Colour, *, angle: float = 0.0, **paint: object
    ) -> None:
        """Fill an ellipse with radii ``rx``, ``ry`` turned by ``angle`` radians; ``paint`` as in ``fill``."""
        ring = through(self.lens.dot(oval(x, y, rx, ry, angle)), _CIRCLE)
        self.fill(ring.astype(FIXED), colour, **paint)  # type: ignore[arg-type]

    def strokes(self, lines: ArrayLike, width: float, colour: Colour) -> None:
        """Draw several lines ``[L, N, 2]`` of one width and colour."""
        thickness = max(1, round(width * self.side))
        fixed = self.fixed(lines)
        self._shapes.append((fixed.reshape(-1, 2), thickness))
        cv2.polylines(self.pixels, list(fixed), False, (*colour, self.owner), thickness, shift=_SHIFT)

    def stroke(self, points: ArrayLike, width: float, colour: Colour, *, closed: bool = False) -> None:
        """Draw a line through ``points`` with round ends, ``width`` scene units thick."""
        thickness = max(1, round(width * self.side))
        fixed = self.fixed(points)
        self._shapes.append((fixed, thickness))
        cv2.polylines(self.pixels, [fixed], closed, (*colour, self.owner), thickness, shift=_SHIFT)

    def soften(self, x: float, y: float, rx: float, ry: float, amount: float) -> None:
        """Darken (``amount`` < 0: a shadow) or brighten (> 0: a glow) a soft ellipse; owners stay as they are."""
        left, top = round((x - rx) * self.side), round((y - ry) * self.side)
        width, height = max(2, ceil(2 * rx * self.side)), max(2, ceil(2 * ry * self.side))
        x0, y0, x1, y1 = max(0, left), max(0, top), min(self.side, left + width), min(self.side, top + height)
        if x1 <= x0 or y1 <= y0 or width > 4 * self.side or height > 4 * self.side:
            return
        spot = cv2.resize(textures.blob(), (width, height))[y0 - top : y1 - top, x0 - left : x1 - left]
        gain = cv2.convertScaleAbs(spot, alpha=min(amount, 0.98) * 128, beta=128)
        region = self.pixels[y0:y1, x0:x1]
        cv2.multiply(region, gain, dst=region, scale=1 / 128)

    def mould(self, x: float, y: float, radius: float) -> None:
        """Shade the current owner's pixels within a circle as a ball, whatever pattern they wear."""
        left, top = round((x - radius) * self.side), round((y - radius) * self.side)
        width = max(2, ceil(2 * radius * self.side) + 1)
        x0, y0, x1, y1 = max(0, left), max(0, top), min(self.side, left + width), min(self.side, top + width)
        if x1 <= x0 or y1 <= y0 or width > 2 * self.side:
            return
        tile = cv2.resize(textures.relief("sphere", self.mirrored), (width, width))
        gain = np.clip(tile[y0 - top : y1 - top, x0 - left : x1 - left] * 4 + 128, 30, 255).astype(np.uint8)
        region = self.pixels[y0:y1, x0:x1]
        gain[region[..., 3] != self.owner] = 128
        cv2.multiply(region, cv2.merge([gain, gain, gain, np.full_like(gain, 128)]), dst=region, scale=1 / 128)

    def surface(
        self,
        outline: ArrayLike,
        tile: NDArray[np.uint8],
        homography: NDArray[np.float64],
        lut: Pixels,
        *,
        visible: ArrayLike | None = None,
    ) -> None:
        """Cover a polygon with a repeated ``tile`` (uint8 indices into ``lut`` ``[256, 3]``) seen in perspective.

        ``homography`` ``[3, 3]`` takes tile pixels to scene units. Where all will be painted over but the inside of a
        polygon ``visible``, the colours of the rest may be wrong, which is faster.
        """
        fixed = self.fixed(outline)
        x0, y0, x1, y1 = self._bounds(fixed)
        if x1 <= x0 or y1 <= y0:
            return
        # Sampled at the final resolution and stretched: large areas are most of a picture's cost.
        half = self.side / SUPERSAMPLE
        to_pixels = np.array([[half, 0, -x0 / SUPERSAMPLE - 0.5], [0, half, -y0 / SUPERSAMPLE - 0.5], [0, 0, 1]])
        wide, tall = -(-(x1 - x0) // SUPERSAMPLE), -(-(y1 - y0) // SUPERSAMPLE)
        # Beyond the tile, wrapping costs five times as much as a constant.
        border = cv2.BORDER_WRAP
        if visible is not None:
            spots = through(np.linalg.inv(homography), visible)
            if spots.min() >= 1 and spots.max() <= len(tile) - 2:
                border = cv2.BORDER_CONSTANT
        seen = cv2.warpPerspective(
            tile,
            to_pixels @ homography,
            (wide, tall),
            flags=cv2.INTER_LINEAR,
            borderMode=border,
        )
        table = np.empty((256, 4), dtype=np.uint8)
        table[:, :3], table[:, 3] = lut, self.owner
        coloured = cv2.LUT(seen, table.view(np.int32)).view(np.uint8).reshape(tall, wide, 4)
        coloured = cv2.resize(coloured, (wide * SUPERSAMPLE, tall * SUPERSAMPLE))[: y1 - y0, : x1 - x0]
        cv2.fillPoly(self._stencil, [fixed], 1, shift=_SHIFT)
        stencil = self._stencil[y0:y1, x0:x1]
        cv2.copyTo(coloured, stencil, self.pixels[y0:y1, x0:x1])
        stencil[:] = 0

    def owned(self) -> tuple[NDArray[np.bool_], int, int]:
        """Which final pixels belong to the current owner: a mask of where it has drawn, and its left and top."""
        if not self._shapes:
            return np.zeros((0, 0), dtype=np.bool_), 0, 0
        shapes, widths = zip(*self._shapes, strict=True)
        x0, y0, x1, y1 = self._bounds(np.concatenate(shapes), max(widths))
        left, top = x0 // SUPERSAMPLE, y0 // SUPERSAMPLE
        window = self._samples()[top : y1 // SUPERSAMPLE, left : x1 // SUPERSAMPLE]
        return window == self.owner, left, top

    def corner(self) -> tuple[int, int]:
        """Left and top, in final pixels, of the shapes that the current owner has drawn, seen or not."""
        bounds = [self._bounds(shape, width) for shape, width in self._shapes]
        left, top = min(self.side, *(b[0] for b in bounds)), min(self.side, *(b[1] for b in bounds))
        return left // SUPERSAMPLE, top // SUPERSAMPLE

    def owners(self) -> NDArray[np.uint8]:
        """Who owns each final pixel, ``[size, size]``: the sample nearest to the pixel's middle."""
        return np.ascontiguousarray(self._samples())

    def _samples(self) -> NDArray[np.uint8]:
        middle = SUPERSAMPLE // 2
        return self.pixels[middle::SUPERSAMPLE, middle::SUPERSAMPLE, 3]

    def develop(self) -> Pixels:
        """The picture at its final size, ``[size, size, 3]`` uint8."""
        small = cv2.resize(self.pixels, (self.size, self.size), interpolation=cv2.INTER_AREA)
        picture: Pixels = cv2.cvtColor(small, cv2.COLOR_RGBA2RGB)
        return picture


_SPLINE_STEPS = 6


@lru_cache(maxsize=64)
def _spline(count: int, closed: bool) -> NDArray[np.float64]:
    """The matrix that takes ``count`` control points to the points of a Catmull-Rom curve."""
    t = np.arange(_SPLINE_STEPS)[:, None] / _SPLINE_STEPS
    catmull = 0.5 * np.array([[0, 2, 0, 0], [-1, 0, 1, 0], [2, -5, 4, -1], [-1, 3, -3, 1]], dtype=np.float64)
    basis = np.concatenate([t**0, t, t**2, t**3], axis=1) @ catmull
    spans = count if closed else count - 1
    matrix = np.zeros((spans * _SPLINE_STEPS + (0 if closed else 1), count))
    for span in range(spans):
        for k in range(4):
            at = (span + k - 1) % count if closed else min(max(span + k - 1, 0), count - 1)
            matrix[span * _SPLINE_STEPS : (span + 1) * _SPLINE_STEPS, at] += basis[:, k]
    if not closed:
        matrix[-1, -1] = 1.0
    return matrix


def smooth(points: ArrayLike, *, closed: bool = True) -> Points:
    """A Catmull-Rom curve through ``points`` ``[N, 2]``, six steps between each two."""
    p = np.asarray(points, dtype=np.float64)
    curve: Points = _spline(len(p), closed).dot(p)
    return curve


def curved(points: Any, form: str | None) -> Any:
    """``points``, or the closed (``smooth``) or open (``curve``) curve through them."""
    return points if form is None else smooth(points, closed=form == "smooth")


def arc(radius: float, start: float, end: float, count: int) -> list[tuple[float, float]]:
    """``count`` points of a circle round 0,0 from one angle to another."""
    step = (end - start) / (count - 1)
    return [(radius * cos(start + k * step), radius * sin(start + k * step)) for k in range(count)]


def limb(spine: ArrayLike, widths: ArrayLike) -> Points:
    """The outline of a tapering limb along ``spine`` ``[N, 2]`` with ``widths[i]`` at each point."""
    middle = np.asarray(spine, dtype=np.float64)
    along = np.empty_like(middle)
    along[1:-1] = middle[2:] - middle[:-2]
    along[0], along[-1] = middle[1] - middle[0], middle[-1] - middle[-2]
    across = along[:, ::-1] * (-1.0, 1.0)
    across *= (np.asarray(widths) / 2 / np.maximum(np.sqrt((along * along).sum(axis=1)), 1e-9))[:, None]
    return np.concatenate([middle + across, (middle - across)[::-1]])
