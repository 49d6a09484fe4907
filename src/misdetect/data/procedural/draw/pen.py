"""``Pen``: the verbs of a ``.shapes`` file on a ``Surface``: a board in a room, a view of a bicycle.

Points are in the surface's own units (metres on a board) unless the shape has said ``at``; widths of lines always are.
"""

from functools import lru_cache
from typing import Any

import numpy as np

from misdetect.data.procedural.draw.canvas import Canvas, Colour, Points, curved, oval
from misdetect.data.procedural.draw.canvas import limb as outline_of
from misdetect.data.procedural.draw.surface import Surface

Where = list[Any]


class Pen:
    """Draws on ``surface``, once a shape has said which; ``listed`` is what is listed below the verb at hand."""

    surface: Any

    def __init__(self, canvas: Canvas, surface: Surface | None = None) -> None:
        self.canvas, self.surface = canvas, surface
        self.listed: Where = []

    def at(self, where: Where, unit: Any = 1.0, turn: float = 0.0) -> None:
        """From here on 0,0 is ``where`` on the surface, 1,1 is ``unit`` farther, and all is turned by ``turn``."""
        rx, ry = unit if isinstance(unit, tuple) else (unit, unit)
        self.surface = self.surface.moved(*where[0], rx, ry, turn)

    def point(self, where: Where, form: str | None = None) -> None:
        """Points of the shape above."""
        self.listed += where if form is None else curved(where, form).tolist()

    def fill(
        self,
        where: Where,
        colour: Colour,
        *,
        form: str | None = None,
        limb: tuple[float, float] | None = None,
        **paint: Any,
    ) -> None:
        """A polygon, a closed ``smooth`` curve, or a limb along an open ``curve``, so wide at its two ends."""
        points = curved(where, form)
        if limb is not None:
            points = outline_of(points, np.linspace(*limb, len(points)))
        self.canvas.fill(self.surface.fixed(points), colour, **paint)

    def rectangle(self, where: Where, colour: Colour, **paint: Any) -> None:
        """A rectangle between two opposite corners."""
        (x0, y0), (x1, y1) = where
        self.canvas.fill(self.surface.fixed([(x0, y0), (x1, y0), (x1, y1), (x0, y1)]), colour, **paint)

    def ellipse(self, where: Where, colour: Colour, *, angle: float = 0.0, **paint: Any) -> None:
        """An ellipse round a point, with one radius or two."""
        (x, y), radii = where
        rx, ry = radii if isinstance(radii, tuple) else (radii, radii)
        self.canvas.fill(self.surface.fixed(self.surface.ring, oval(x, y, rx, ry, angle)), colour, **paint)

    def stroke(
        self, where: Where, colour: Colour, width: float, *, form: str | None = None, closed: bool = False
    ) -> None:
        """A line through points."""
        points = self.surface.fixed(curved(where, form))
        self.canvas.stroke(points, width * self.surface.unit, colour, closed=closed)

    def rays(self, where: Where, colour: Colour, width: float, *, step: float, start: float = 0.0) -> None:
        """Lines from one radius to another round 0,0, at ``start`` and some ``step``s of radians on from there."""
        lines = self.surface.fixed(_rays(*where[0], tuple(where[1]), step, start))
        self.canvas.strokes(lines.reshape(-1, 2, 2), width * self.surface.unit, colour)


@lru_cache(maxsize=16)
def _rays(inner: float, outer: float, counts: tuple[int, ...], step: float, start: float) -> Points:
    """The ends of lines ``[2N, 2]``."""
    angles = start + np.array(counts) * step
    ways = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return np.stack([inner * ways, outer * ways], axis=1).reshape(-1, 2)
