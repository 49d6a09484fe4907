"""The verbs of the shapes in rooms: solids in an item's own space, boards to draw on, light and shadow."""

from functools import cache, cached_property
from math import cos, sin
from pathlib import Path
from typing import Any

from misdetect.data.procedural.draw.camera import Block, Board, Frame, Stage
from misdetect.data.procedural.draw.canvas import Colour, curved, tint
from misdetect.data.procedural.draw.items import Item
from misdetect.data.procedural.draw.pen import Pen, Where
from misdetect.data.procedural.draw.shapes import COLOURS, Shapes

_HERE = Path(__file__).parent


class RoomPen(Pen):
    """Draws one item. Its space is in metres: x to its right, y up from its foot, z to its back."""

    def __init__(self, stage: Stage, item: Item) -> None:
        super().__init__(stage.canvas)
        self.stage, self.item = stage, item
        self.near = stage.camera.focal / item.z
        """Scene units to a metre."""

    @cached_property
    def frame(self) -> Frame:
        """The item's own space."""
        return self.item.frame(self.stage)

    def board(self, where: Where) -> None:
        """From here on draw on the upright plane through a point, which turns with the item."""
        self.surface = self.frame.board(*(where[0] if where else ()))

    def facing(self, where: Where, flip: bool = False, scale: float = 1.0) -> None:
        """From here on draw on the plane that faces the camera, at a height above the foot, in units of ``scale`` m."""
        stage, item = self.stage, self.item
        y = item.y + where[0] * item.size if where else item.y
        self.surface = Board.facing(stage, item.x, y, item.z, size=item.size * scale, flip=flip)

    def cast(self, where: Where) -> None:
        """A shadow on the ground, so wide and so deep."""
        self.stage.cast(self.item.x, self.item.y, self.item.z, *where)

    def soften(self, where: Where, amount: float) -> None:
        """Light (``amount`` > 0) or shadow round a point of the board or of space, with one radius or two."""
        point, radii = where
        x, y = self.frame.at(point) if len(point) == 3 else self.surface.at([point])[0]
        rx, ry = radii if isinstance(radii, tuple) else (radii, radii)
        self.canvas.soften(float(x), float(y), rx * self.near, ry * self.near, amount)

    def mould(self, where: Where) -> None:
        """Round off what the item has drawn within a radius: light above, shadow below."""
        (x, y), (edge, _) = self.surface.at([(0, 0), (where[0], 0)])
        self.canvas.mould(float(x), float(y), abs(float(edge - x)))

    def block(self, where: Where, colour: Colour, **paint: Any) -> None:
        """A cuboid, its middle and its size, one of the ``blocks`` above it."""
        middle, size = where
        self.listed.append(Block(middle, size, colour, **paint))

    def blocks(self, where: Where) -> None:
        """Cuboids that hide each other rightly."""
        self.frame.blocks(where)

    def cylinder(self, where: Where, colour: Colour, **paint: Any) -> None:
        """Upright, between two heights, with the radii that it has there."""
        (low, high), (radius_low, radius_high) = where
        self.frame.cylinder(low, high, radius_low, radius_high, colour, **paint)

    def sphere(self, where: Where, colour: Colour, **paint: Any) -> None:
        """A ball: its middle and radius."""
        (x, y, z), radius = where
        self.frame.sphere(x, y, z, radius, colour, **paint)

    def disc(self, where: Where, colour: Colour, **paint: Any) -> None:
        """Lying, at a height and with a radius."""
        self.canvas.fill(self.frame.disc(*where), colour, **paint)

    def sheet(
        self, where: Where, colour: Colour, *, y: float | None = None, form: str | None = None, **paint: Any
    ) -> None:
        """A polygon in space, or lying at height ``y``, where its points are x,z."""
        points = curved(where, form)
        if y is not None:
            points = [(x, y, z) for x, z in points]
        self.canvas.fill(self.frame.at(points), colour, **paint)

    def rod(self, where: Where, colour: Colour, width: float) -> None:
        """A line in space."""
        self.canvas.stroke(self.frame.at(where), width * self.near, colour)

    def bar(self, where: Where, colour: Colour, form: str | None = None) -> None:
        """A handle: a line on the board and its gleam."""
        line, unit = self.surface.at(curved(where, form)), self.near * self.item.size
        self.canvas.stroke(line, 0.034 * unit, tint(colour, 0.85))
        self.canvas.stroke(line - 0.004 * unit, 0.016 * unit, tint(colour, 1.15))

    def leaf(self, where: Where, colour: Colour, droop: float = 0.0) -> None:
        """A pointed leaf: its root, angle from the vertical, length and width; its halves are lit differently."""
        (root_x, root_y), angle, length, wide = where
        spine, left, right = [], [], []
        x, y = 0.0, 0.0
        for k, breadth in enumerate((0.12, 0.85, 1.0, 0.66, 0.0)):
            s, c = sin(angle + droop * k / 4), cos(angle + droop * k / 4)
            out, down = c * (breadth * wide / 2), -s * (breadth * wide / 2)
            px, py = x + root_x, y + root_y
            spine.append((px, py))
            left.append((px + out, py + down))
            right.append((px - out, py - down))
            x, y = x + s * length / 4, y + c * length / 4
        self.fill(spine + left[::-1], tint(colour, 0.78))
        self.fill(spine + right[::-1], tint(colour, 1.1))


@cache
def shapes() -> Shapes:
    """All that can be in a room."""
    files = ("furniture", "things", "plants", "animals", "decor")
    return Shapes(RoomPen, COLOURS, *(_HERE / f"{name}.shapes" for name in files))


def draw_item(stage: Stage, item: Item) -> None:
    """Draw an item at its place; what stands on it is drawn by itself."""
    w, h, d = item.span
    towards = cos(item.yaw)
    known = {"w": w, "h": h, "d": d, "design": item.design, "size": item.size, "light": stage.light[0]}
    known |= {"shadow": stage.shadow, "towards": towards > 0, "away": towards < 0}
    shapes().draw(item.shape, RoomPen(stage, item), item.dice, known)
