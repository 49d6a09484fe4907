"""``Canvas``: a picture that knows which object owns every pixel.

Pixels are four bytes, red, green, blue and the *owner*; each stroke writes all four at once, so after the last stroke
the owner channel holds exactly the visible part of every object. Points are in scene units (the image is the unit
square, y down), drawn at twice the final size and averaged down. No anti-aliasing: it would blend owners.
"""

from functools import lru_cache
from math import ceil

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray

from misdetect.data.procedural import textures
from misdetect.picture import Pixels

Points = NDArray[np.float64]
Colour = tuple[int, int, int]
SUPERSAMPLE = 2
_LEVELS = 64
_SHIFT = 4
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


_OWNER = np.array([0, 0, 0, 1], dtype=np.uint8).view(np.uint32)[0]
"""What one step of the owner channel adds to a four-byte pixel."""


@lru_cache(maxsize=2048)
def _steps(colour: Colour) -> NDArray[np.uint32]:
    """``colour`` in 64 steps of light, nobody's."""
    gain = np.arange(_LEVELS, dtype=np.float32)[:, None] / (_LEVELS // 2)
    base = np.array(colour, dtype=np.float32)
    dark = base * gain
    light = base + (255 - base) * np.minimum(1, (gain - 1) * 0.65)
    steps = np.zeros((_LEVELS, 4), dtype=np.uint8)
    steps[:, :3] = np.where(gain <= 1, dark, light)
    return steps.view(np.uint32)[:, 0]


def palette(colour: Colour, owner: int) -> NDArray[np.uint32]:
    """``colour`` in 64 steps of light as four-byte pixels of ``owner``; step 32 is the colour itself."""
    pixels: NDArray[np.uint32] = _steps(colour) + _OWNER * np.uint32(owner)
    return pixels


@lru_cache(maxsize=64)
def _ramp(length: int) -> NDArray[np.float32]:
    ramp: NDArray[np.float32] = ((np.arange(length) + 0.5) / length - 0.5).astype(np.float32)
    return ramp


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
        self._touched = [self.side, self.side, 0, 0]
        self._stencil = np.zeros((self.side, self.side), dtype=np.uint8)

    def copy(self) -> "Canvas":
        """A canvas with the same pixels, to be painted on separately."""
        other = Canvas(self.size)
        other.pixels[:] = self.pixels
        other.mirrored = self.mirrored
        return other

    def _fixed(self, points: ArrayLike) -> NDArray[np.int32]:
        """Scene units to OpenCV's fixed point, with pixel centres at whole numbers."""
        return (np.asarray(points, dtype=np.float64) * (self.side * 16) - 7.5).astype(np.int32)

    def _bounds(self, fixed: NDArray[np.int32], margin: int = 0) -> tuple[int, int, int, int]:
        x, y, w, h = cv2.boundingRect(fixed)
        right, low = (x + w >> _SHIFT) + 2 + margin, (y + h >> _SHIFT) + 2 + margin
        left, top = (x >> _SHIFT) - margin, (y >> _SHIFT) - margin
        return max(0, left), max(0, top), min(self.side, right), min(self.side, low)

    def start(self, owner: int) -> None:
        """From now on ``owner`` paints; ``painted`` counts within what it touches."""
        self.owner = owner
        self._touched = [self.side, self.side, 0, 0]

    def _touch(self, x0: int, y0: int, x1: int, y1: int) -> None:
        touched = self._touched
        if x0 < touched[0]:
            touched[0] = x0
        if y0 < touched[1]:
            touched[1] = y0
        if x1 > touched[2]:
            touched[2] = x1
        if y1 > touched[3]:
            touched[3] = y1

    def flat(self, points: ArrayLike, colour: Colour) -> None:
        """Fill a polygon ``[N, 2]`` with one colour."""
        fixed = self._fixed(points)
        self._touch(*self._bounds(fixed))
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
        fixed = self._fixed(points)
        x0, y0, x1, y1 = self._bounds(fixed)
        width, height = x1 - x0, y1 - y0
        if width <= 0 or height <= 0:
            return
        self._touch(x0, y0, x1, y1)
        plain = texture is None and relief is None and slope == (0.0, 0.0)
        if plain or width * height < (60 if relief else _TINY if texture else 2 * _TINY):
            cv2.fillPoly(self.pixels, [fixed], (*tint(colour, shade), self.owner), shift=_SHIFT)
            return
        steps = _ramp(height)[:, None] * (slope[1] * 32) + (_ramp(width) * (slope[0] * 32) + (shade * 32 + 0.5))
        if texture is not None:
            steps += self._texture(texture, x0, y0, width, height) * np.float32(grain)
        if relief is not None:
            tile = cv2.resize(textures.relief(relief, self.mirrored), (width, height))
            steps += tile * np.float32(depth) if depth != 1.0 else tile
        cv2.fillPoly(self._stencil, [fixed], 1, shift=_SHIFT)
        stencil = self._stencil[y0:y1, x0:x1]
        colours = palette(colour, self.owner).take(steps.astype(np.intp), mode="clip")
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
        points = _CIRCLE * (rx, ry)
        if angle:
            c, s = np.cos(angle), np.sin(angle)
            points = points @ np.array([[c, s], [-s, c]])
        self.fill(points + np.array((x, y)), colour, **paint)  # type: ignore[arg-type]

    def strokes(self, lines: ArrayLike, width: float, colour: Colour) -> None:
        """Draw several lines ``[L, N, 2]`` of one width and colour."""
        thickness = max(1, round(width * self.side))
        fixed = self._fixed(lines)
        self._touch(*self._bounds(fixed.reshape(-1, 2), thickness))
        cv2.polylines(self.pixels, list(fixed), False, (*colour, self.owner), thickness, shift=_SHIFT)

    def stroke(self, points: ArrayLike, width: float, colour: Colour, *, closed: bool = False) -> None:
        """Draw a line through ``points`` with round ends, ``width`` scene units thick."""
        thickness = max(1, round(width * self.side))
        fixed = self._fixed(points)
        self._touch(*self._bounds(fixed, thickness))
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

    def surface(self, outline: ArrayLike, tile: NDArray[np.uint8], homography: ArrayLike, lut: Pixels) -> None:
        """Cover a polygon with a repeated ``tile`` (uint8 indices into ``lut`` ``[256, 3]``) seen in perspective.

        ``homography`` ``[3, 3]`` takes tile pixels to scene units.
        """
        fixed = self._fixed(outline)
        x0, y0, x1, y1 = self._bounds(fixed)
        if x1 <= x0 or y1 <= y0:
            return
        # Sampled at the final resolution and stretched: large areas are most of a picture's cost.
        half = self.side / SUPERSAMPLE
        to_pixels = np.array([[half, 0, -x0 / SUPERSAMPLE - 0.5], [0, half, -y0 / SUPERSAMPLE - 0.5], [0, 0, 1]])
        wide, tall = -(-(x1 - x0) // SUPERSAMPLE), -(-(y1 - y0) // SUPERSAMPLE)
        seen = cv2.warpPerspective(
            tile,
            to_pixels @ np.asarray(homography),
            (wide, tall),
            flags=cv2.INTER_LINEAR,
            borderMode=cv2.BORDER_WRAP,
        )
        table = np.empty((256, 1, 4), dtype=np.uint8)
        table[:, 0, :3], table[:, 0, 3] = lut, self.owner
        coloured = cv2.LUT(cv2.merge([seen, seen, seen, seen]), table)
        coloured = cv2.resize(coloured, (wide * SUPERSAMPLE, tall * SUPERSAMPLE))[: y1 - y0, : x1 - x0]
        cv2.fillPoly(self._stencil, [fixed], 1, shift=_SHIFT)
        stencil = self._stencil[y0:y1, x0:x1]
        cv2.copyTo(coloured, stencil, self.pixels[y0:y1, x0:x1])
        stencil[:] = 0

    def corner(self) -> tuple[int, int]:
        """Upper left corner (x, y), in final pixels, of what the current owner has touched."""
        return self._touched[0] // SUPERSAMPLE, self._touched[1] // SUPERSAMPLE

    def owned(self) -> NDArray[np.bool_]:
        """Which final pixels, from ``corner`` on, belong to the current owner now."""
        middle = SUPERSAMPLE // 2
        left, top = self.corner()
        _, _, x1, y1 = self._touched
        x0, y0 = left * SUPERSAMPLE + middle, top * SUPERSAMPLE + middle
        owned: NDArray[np.bool_] = self.pixels[y0:y1:SUPERSAMPLE, x0:x1:SUPERSAMPLE, 3] == self.owner
        return owned

    def owners(self) -> NDArray[np.uint8]:
        """Who owns each final pixel, ``[size, size]``: the sample nearest to the pixel's middle."""
        middle = SUPERSAMPLE // 2
        every = cv2.extractChannel(self.pixels, 3)
        return np.ascontiguousarray(every[middle::SUPERSAMPLE, middle::SUPERSAMPLE])

    def develop(self) -> Pixels:
        """The picture at its final size, ``[size, size, 3]`` uint8."""
        small: Pixels = cv2.resize(self.pixels, (self.size, self.size), interpolation=cv2.INTER_AREA)[..., :3]
        return np.ascontiguousarray(small)


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
    curve: Points = _spline(len(p), closed) @ p
    return curve


def limb(spine: ArrayLike, widths: ArrayLike) -> Points:
    """The outline of a tapering limb along ``spine`` ``[N, 2]`` with ``widths[i]`` at each point."""
    middle = np.asarray(spine, dtype=np.float64)
    along = np.empty_like(middle)
    along[1:-1] = middle[2:] - middle[:-2]
    along[0], along[-1] = middle[1] - middle[0], middle[-1] - middle[-2]
    across = along[:, ::-1] * (-1.0, 1.0)
    across *= (np.asarray(widths) / 2 / np.maximum(np.sqrt((along * along).sum(axis=1)), 1e-9))[:, None]
    return np.concatenate([middle + across, (middle - across)[::-1]])
