"""The verbs of the shapes behind everything: in units of the picture, with the ground and walls in perspective."""

import numpy as np

from misdetect.data.procedural.draw import patterns
from misdetect.data.procedural.draw.camera import Camera
from misdetect.data.procedural.draw.canvas import Canvas, Colour
from misdetect.data.procedural.draw.pen import Pen, Where
from misdetect.data.procedural.draw.surface import Surface, circle

Place = tuple[float, float, float]
_CIRCLE = circle(28)
_MIDDLE = 2.0 * patterns.SIDE


class SceneryPen(Pen):
    """Draws on the whole canvas: 1 by 1, y down."""

    def __init__(self, canvas: Canvas, camera: Camera) -> None:
        super().__init__(canvas, Surface(canvas, canvas.lens, 1.0, _CIRCLE))
        self.camera = camera

    def cover(
        self,
        where: Where,
        pattern: str,
        low: Colour,
        high: Colour,
        scale: float,
        *,
        origin: Place = (0.0, 0.0, 0.0),
        across: Place = (1.0, 0.0, 0.0),
        down: Place = (0.0, 0.0, 1.0),
        at: float = _MIDDLE,
    ) -> None:
        """Cover a polygon with a pattern in two colours, on a plane whose ``origin`` shows the pattern's pixel ``at``.

        A larger ``scale`` makes the pattern finer. Points may be x,y,z in the world.
        """
        plane = self.camera.plane(origin, across, down, patterns.PIXELS_PER_METRE * scale, at)
        points = self.camera.project(np.array(where)) if len(where[0]) == 3 else self.surface.fixed(where)
        self.canvas.surface(points, patterns.pattern(pattern), plane, patterns.ramp(low, high))

    def soften(self, where: Where, amount: float) -> None:
        """Light (``amount`` > 0) or shadow round a point, with two radii."""
        (x, y), (rx, ry) = where
        self.canvas.soften(x, y, rx, ry, amount)
