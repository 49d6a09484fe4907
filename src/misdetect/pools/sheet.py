"""The contact sheet of a pool: its objects on a checkerboard, class by class, to see what was let through."""

from collections.abc import Sequence

import cv2
import numpy as np

from misdetect.data.cutouts import Cutout
from misdetect.nouns.picture import Pixels

_TILE = 96
_CAPTION = 14
_MARGIN = 3
_SQUARE = 8
_LIGHT, _DARK = 235, 200
_COLUMNS = 12
_SHOWN = 600


def sheet(cutouts: Sequence[Cutout], *, columns: int = _COLUMNS, shown: int = _SHOWN) -> Pixels:
    """At most ``shown`` objects by class, each fitted into a tile with its class below; ``[H, W, 3]`` uint8.

    Of a larger pool every class shows its first objects, as many of each as there is room for.
    """
    ordered = sorted(range(len(cutouts)), key=lambda i: (cutouts[i].label, i))
    if len(ordered) > shown:
        seen: dict[str, int] = {}
        turn = {}
        for i in ordered:
            turn[i] = seen[cutouts[i].label] = seen.get(cutouts[i].label, 0) + 1
        first = set(sorted(ordered, key=lambda i: turn[i])[:shown])
        ordered = [i for i in ordered if i in first]
    tiles = [_tile(cutouts[i]) for i in ordered]
    columns = max(1, min(columns, len(tiles)))
    tiles += [np.full((_TILE + _CAPTION, _TILE, 3), 255, dtype=np.uint8)] * (-len(tiles) % columns or (not tiles))
    return np.concatenate([np.concatenate(tiles[i : i + columns], axis=1) for i in range(0, len(tiles), columns)])


def _tile(cutout: Cutout) -> Pixels:
    tile = np.full((_TILE + _CAPTION, _TILE, 3), 255, dtype=np.uint8)
    square = np.arange(_TILE) // _SQUARE
    tile[:_TILE] = np.where((square[:, None] + square) % 2, _LIGHT, _DARK)[:, :, None]
    width, height = cutout.size
    scale = (_TILE - 2 * _MARGIN) / max(width, height)
    size = max(1, round(width * scale)), max(1, round(height * scale))
    small = cv2.resize(cutout.rgba, size, interpolation=cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR)
    left, top = (_TILE - size[0]) // 2, (_TILE - size[1]) // 2
    np.copyto(tile[top : top + size[1], left : left + size[0]], small[:, :, :3], where=small[:, :, 3:] >= 128)
    name = cutout.label.encode("ascii", "replace").decode()[:14]
    cv2.putText(tile, name, (2, _TILE + _CAPTION - 4), cv2.FONT_HERSHEY_SIMPLEX, 0.36, (0, 0, 0), 1, cv2.LINE_AA)
    return tile
