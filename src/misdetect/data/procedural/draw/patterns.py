"""Patterns for walls and floors: wallpaper, bricks, boards, tiles, carpet, and what lies outdoors.

A pattern is a tile of indices that repeats every two metres; a scene's own two colours are put into it by ``ramp``.
"""

from functools import lru_cache

import cv2
import numpy as np
from numpy.typing import NDArray

from misdetect.data.procedural.draw.canvas import Colour
from misdetect.nouns.picture import Pixels

SIDE = 256
REPEATS = 5
PIXELS_PER_METRE = 128.0
_STEPS = np.linspace(0, 1, 256, dtype=np.float32)
WALLPAPERS = ("plain", "plain", "stripes", "pinstripes", "dots", "diamonds", "flowers", "bricks", "panels", "plaster")
FLOORS = ("boards", "boards", "narrow", "tiles", "checker", "herringbone", "carpet", "stone")
GROUNDS = ("grass", "sand", "earth", "paving")


def _noise(seed: int, sx: float, sy: float) -> NDArray[np.float32]:
    white = np.random.Generator(np.random.PCG64([4711, seed])).standard_normal((SIDE, SIDE)).astype(np.float32)
    wide = cv2.copyMakeBorder(white, 128, 128, 128, 128, cv2.BORDER_WRAP)
    soft = cv2.GaussianBlur(wide, (0, 0), sigmaX=sx, sigmaY=sy)[128:-128, 128:-128]
    noise: NDArray[np.float32] = (soft - soft.mean()) / soft.std()
    return noise


def _per_cell(seed: int, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.float32]:
    """A random level for every cell of a grid, constant within it."""
    table = np.random.Generator(np.random.PCG64([4712, seed])).random((64, 64)).astype(np.float32)
    levels: NDArray[np.float32] = table[rows % 64, columns % 64]
    return levels


def _boards(width: int, length: int, joint: int) -> NDArray[np.float32]:
    y, x = np.mgrid[0:SIDE, 0:SIDE]
    row = y // width
    start = (row * 97) % length
    cell = _per_cell(width, row, ((x + start) // length) % (SIDE // length))
    gap = ((y % width) < joint) | (((x + start) % length) < joint)
    level = 90 + 110 * cell + 14 * _noise(21, 16, 1.2)
    return np.where(gap, 10, level)


def _bricks(width: int, height: int, joint: int, rough: float) -> NDArray[np.float32]:
    y, x = np.mgrid[0:SIDE, 0:SIDE]
    row = y // height
    shifted = (x + (row % 2) * (width // 2)) % SIDE
    gap = ((y % height) < joint) | ((shifted % width) < joint)
    level = 60 + 120 * _per_cell(height, row, shifted // width) + rough * _noise(22, 2, 2)
    return np.where(gap, 235, level)


def _herringbone() -> NDArray[np.float32]:
    y, x = np.mgrid[0:SIDE, 0:SIDE]
    block = 32
    across = ((x // block) + (y // block)) % 2 == 0
    strip = np.where(across, y % block, x % block) // 16
    level = np.where(across, 120, 170) + 40 * strip + 12 * _noise(23, 2, 2)
    edge = (x % block < 2) | (y % block < 2) | (np.where(across, y, x) % 16 < 2)
    return np.where(edge, 40, level)


def _flowers() -> NDArray[np.float32]:
    tile = np.full((SIDE, SIDE), 40, dtype=np.float32)
    for cx, cy in ((32, 32), (96, 96)):
        for k in range(5):
            a = k * 2 * np.pi / 5
            cv2.circle(tile, (round(cx + 13 * np.cos(a)), round(cy + 13 * np.sin(a))), 10, 220, -1)
        cv2.circle(tile, (cx, cy), 8, 120, -1)
        cv2.ellipse(tile, (cx + 26, cy + 10), (12, 5), 40, 0, 360, 160, -1)
    quarter = tile[:128, :128]
    return np.tile(quarter, (2, 2)) + 4 * _noise(24, 2, 2)


def _diamonds() -> NDArray[np.float32]:
    y, x = np.mgrid[0:SIDE, 0:SIDE]
    u, v = (x + y) % 64, (x - y) % 64
    line = (u < 5) | (v < 5)
    return np.where(line, 230, np.where((x + y) // 64 % 2 == 0, 50, 80)).astype(np.float32) + 4 * _noise(25, 2, 2)


def _tiles() -> NDArray[np.float32]:
    y, x = np.mgrid[0:SIDE, 0:SIDE]
    return np.where((x % 64 < 3) | (y % 64 < 3), 20, 150 + 60 * _per_cell(9, y // 64, x // 64)) + 8 * _noise(9, 6, 6)


def _dots() -> NDArray[np.float32]:
    y, x = np.mgrid[0:SIDE, 0:SIDE]
    u, v = x % 64 - 32, y % 64 - 32
    w, z = (x + 32) % 64 - 32, (y + 32) % 64 - 32
    return np.where((u * u + v * v < 90) | (w * w + z * z < 90), 225, 50) + 6 * _noise(6, 3, 3)


_X, _Y = np.arange(SIDE)[None, :], np.arange(SIDE)[:, None]
_TILES = {
    "plain": lambda: 128 + 14 * _noise(1, 30, 30) + 8 * _noise(2, 1.5, 1.5),
    "plaster": lambda: 128 + 36 * _noise(3, 9, 9) + 20 * _noise(4, 2, 2),
    "stripes": lambda: np.where(_X % 64 < 32, 40, 215) + 8 * _noise(5, 3, 3),
    "pinstripes": lambda: np.where(_X % 32 < 5, 220, 60) + 8 * _noise(5, 3, 3),
    "panels": lambda: np.where((_X % 85 < 5) | (_Y % 128 < 5), 30, 160) + 16 * _noise(7, 1.2, 20),
    "checker": lambda: np.where((_X // 64 + _Y // 64) % 2 == 0, 30, 225) + 10 * _noise(8, 6, 6),
    "carpet": lambda: 128 + 26 * _noise(10, 1.2, 1.2) + 24 * _noise(11, 12, 12),
    "grass": lambda: 128 + 34 * _noise(12, 1.4, 5) + 30 * _noise(13, 24, 24),
    "sand": lambda: 128 + 18 * _noise(14, 1.2, 1.2) + 30 * _noise(15, 30, 8),
    "earth": lambda: 128 + 30 * _noise(16, 3, 3) + 34 * _noise(17, 22, 22),
    "boards": lambda: _boards(21, 128, 2),
    "narrow": lambda: _boards(12, 64, 1),
    "bricks": lambda: _bricks(32, 16, 2, 14),
    "stone": lambda: 255 - _bricks(64, 42, 3, 26),
    "paving": lambda: 255 - _bricks(64, 32, 3, 18),
    "tiles": _tiles,
    "dots": _dots,
    "herringbone": _herringbone,
    "flowers": _flowers,
    "diamonds": _diamonds,
}


@lru_cache(maxsize=32)
def pattern(name: str) -> NDArray[np.uint8]:
    """Indices 0 to 255: the tile of 256 pixels repeated five times each way, so that sampling seldom wraps."""
    return np.tile(np.clip(np.rint(_TILES[name]()), 0, 255).astype(np.uint8), (REPEATS, REPEATS))


def ramp(low: Colour, high: Colour) -> Pixels:
    """Colours ``[256, 3]`` from ``low`` (index 0) to ``high`` (index 255)."""
    start = np.array(low, np.float32)[:, None]
    return (start + _STEPS * (np.array(high, np.float32)[:, None] - start)).astype(np.uint8).T
