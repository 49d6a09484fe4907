"""Precomputed textures and relief: small tiles that give flat polygons grain, weave, wood and roundness.

Tiles are built once per canvas size from a fixed seed and in scene units, so the same scene at another size wears the
same texture. Values are offsets in palette steps (see ``canvas.palette``); nothing here depends on the image.
"""

from functools import lru_cache
from math import ceil
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

Tile = NDArray[np.float32]
_SEED = 20_190_816
_BASE = 512
"""Tiles are drawn at this many pixels per scene side and resampled to the canvas."""


def _noise(name: int, blur_x: float, blur_y: float) -> Tile:
    """Smooth unit-variance noise ``[BASE, BASE]`` that wraps around; ``blur`` in pixels."""
    stream = np.random.Generator(np.random.PCG64([_SEED, name]))
    white = stream.standard_normal((_BASE, _BASE)).astype(np.float32)
    if blur_x or blur_y:
        margin = min(_BASE // 2, 4 * ceil(max(blur_x, blur_y)) + 16)  # the reach of OpenCV's kernel, and some more
        wide = cv2.copyMakeBorder(white, margin, margin, margin, margin, cv2.BORDER_WRAP)
        wide = cv2.GaussianBlur(wide, (0, 0), sigmaX=max(blur_x, 0.1), sigmaY=max(blur_y, 0.1))
        white = wide[margin:-margin, margin:-margin]
    tile: Tile = (white - white.mean()) / white.std()
    return tile


def _grid(period: float, width: float) -> tuple[Tile, Tile]:
    """Masks of vertical and horizontal lines every ``period`` scene sides, ``width`` wide."""
    at = (np.arange(_BASE) / _BASE % period) < width
    rows = np.repeat(at[:, None], _BASE, axis=1).astype(np.float32)
    return rows.T.copy(), rows


def _weave() -> Any:
    up, across = _grid(1 / 64, 1 / 128)
    return 0.9 * (up - 0.5) * (across - 0.5) * 4 + 0.5 * _noise(8, 2, 2) + 0.4 * _noise(9, 12, 12)


def _leaves() -> Any:
    clumps = _noise(15, 3.2, 3.2)
    return 1.2 * np.sign(clumps) * np.abs(clumps) ** 0.5 + 0.4 * _noise(16, 1, 1)


def _wood() -> Any:
    return 0.9 * _noise(6, 45, 1.6) + 0.5 * _noise(7, 20, 6)


_TEXTURES = {
    "grain": lambda: 0.7 * _noise(1, 0.8, 0.8) + 0.5 * _noise(2, 3, 3),
    "cloud": lambda: 0.8 * _noise(3, 40, 40) + 0.6 * _noise(4, 15, 15) + 0.3 * _noise(5, 5, 5),
    "wood": _wood,
    "post": lambda: _wood().T.copy(),
    "fabric": _weave,
    "skin": lambda: 0.7 * _noise(10, 2.5, 2.5) + 0.8 * _noise(11, 10, 4) + 0.5 * _noise(12, 30, 30),
    "fur": lambda: 0.9 * _noise(13, 1.2, 4.5) + 0.5 * _noise(14, 14, 14),
    "leaf": _leaves,
}


@lru_cache(maxsize=64)
def texture(name: str, side: int) -> Tile:
    """Texture ``name`` for a canvas of ``side`` pixels: about zero mean and unit variance, 1.5 sides square."""
    tile = _TEXTURES[name]().astype(np.float32)
    if side != _BASE:
        flags = cv2.INTER_AREA if side < _BASE else cv2.INTER_LINEAR
        tile = cv2.resize(tile, (side, side), interpolation=flags)
    half = side // 2
    grown: Tile = cv2.copyMakeBorder(tile, 0, half, 0, half, cv2.BORDER_WRAP)
    return grown


def _sphere(x: Any, y: Any) -> Any:
    z = np.sqrt(np.maximum(0, 1 - x * x - y * y))
    lit = 0.5 * -x - 0.55 * y + 0.67 * z
    return 22 * (lit - 0.42) + 26 * np.maximum(lit, 0) ** 18


def _column(x: Any, y: Any) -> Any:
    z = np.sqrt(np.maximum(0, 1 - x * x))
    lit = -0.55 * x + 0.83 * z
    return 20 * (lit - 0.55) + 6 * np.maximum(lit, 0) ** 16 + 0 * y


def _body(x: Any, y: Any) -> Any:
    """A rounded animal's flank: light on its back, dark below."""
    return -10 * y - 4 * x - 7 * (np.abs(y) ** 3)


def _cushion(x: Any, y: Any) -> Any:
    edge = np.maximum(np.abs(x), np.abs(y)) ** 5
    return 3 - 9 * edge - 3 * y


def _glass(x: Any, y: Any) -> Any:
    """A dark screen with a diagonal reflection."""
    return 14 * np.exp(-(((x + y * 0.7 + 0.45) / 0.16) ** 2)) + 8 * np.exp(-(((x + y * 0.7 + 0.05) / 0.08) ** 2))


_RELIEFS = {"sphere": _sphere, "column": _column, "body": _body, "cushion": _cushion, "glass": _glass}


@lru_cache(maxsize=16)
def relief(name: str, mirrored: bool) -> Tile:
    """Shading ``[64, 64]`` of a shape stretched to its bounding box; lit from the left, or from the right."""
    ticks = (np.arange(64, dtype=np.float32) + 0.5) / 32 - 1
    tile: Tile = _RELIEFS[name](ticks[None, :], ticks[:, None]).astype(np.float32)
    return np.ascontiguousarray(tile[:, ::-1]) if mirrored else tile


@lru_cache(maxsize=1)
def blob() -> Tile:
    """A soft round spot ``[64, 64, 4]``, 1 in the middle and 0 at the rim; 0 everywhere in the owner channel."""
    ticks = (np.arange(64, dtype=np.float32) + 0.5) / 32 - 1
    r2 = ticks[None, :] ** 2 + ticks[:, None] ** 2
    spot: Tile = np.zeros((64, 64, 4), dtype=np.float32)
    spot[..., :3] = (np.maximum(0, 1 - r2) ** 1.5)[..., None]
    return spot


@lru_cache(maxsize=1)
def sensor_noise() -> Tile:
    """Unit-variance sensor noise ``[640, 640, 3]``, correlated between channels."""
    stream = np.random.Generator(np.random.PCG64([_SEED, 99]))
    grey = stream.standard_normal((640, 640, 1))
    colour = stream.standard_normal((640, 640, 3))
    noise: Tile = (0.8 * grey + 0.6 * colour).astype(np.float32)
    return noise
