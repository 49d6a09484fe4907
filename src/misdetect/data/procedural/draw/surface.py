"""``Surface``: a plane in the picture that has units of its own, such as metres on a board."""

from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from misdetect.data.procedural.draw.canvas import FIXED, Canvas, Points, oval, through


def circle(count: int) -> Points:
    """``count`` points of the unit circle."""
    angles = np.arange(count) * (2 * np.pi / count)
    points: Points = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return points


class Surface:
    """The way from its own units through ``lens`` ``[3, 3]`` to the fixed point of ``canvas``.

    A line of width 1 is ``unit`` wide in the scene; ``ring`` ``[N, 2]`` is the circle that ellipses are made of.
    """

    def __init__(self, canvas: Canvas, lens: NDArray[np.float64], unit: float, ring: Points) -> None:
        self.canvas, self.unit, self.ring = canvas, unit, ring
        self.place: NDArray[np.float64] | None = None
        self.lens, self._own = lens, lens

    def moved(self, x: float, y: float, rx: float, ry: float, turn: float) -> Self:
        """The same surface with 0,0 and its units and axes elsewhere, see ``oval``; widths of lines stay."""
        place = oval(x, y, rx, ry, turn)
        moved = object.__new__(type(self))
        moved.__dict__.update(self.__dict__, place=place, lens=self._own.dot(place))
        return moved

    def fixed(self, points: ArrayLike, shape: NDArray[np.float64] | None = None) -> NDArray[np.int32]:
        """Points ``[N, 2]``, mapped by ``shape`` ``[3, 3]`` if there is one, in the canvas's fixed point."""
        return through(self.lens if shape is None else self.lens.dot(shape), points).astype(FIXED)
