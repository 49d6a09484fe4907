"""The verbs of the shapes on and before a bicycle: lines, tubes and wheels in bike units."""

from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from misdetect.data.procedural.bikes.frame import Build, View
from misdetect.data.procedural.draw.canvas import FIXED, Colour, curved, mix, through, tint
from misdetect.data.procedural.draw.dice import Dice
from misdetect.data.procedural.draw.pen import Pen, Where
from misdetect.data.procedural.draw.shapes import COLOURS, Shapes
from misdetect.data.procedural.draw.surface import circle

RUST: Colour = (140, 78, 40)
_rusty = partial(mix, b=RUST, share=0.6)
_WHEEL = circle(40)
_TUBE = np.array([[[0.0, 0.0]], [[0.0, 0.15]], [[0.0, 0.25]]])
"""How much higher than the tube itself its lighter stripes lie, in tube widths."""


class BikePen(Pen):
    """Draws on the view of a bicycle."""

    def tube(
        self, where: Where, colour: Colour, width: float, *, form: str | None = None, dent: Where | None = None
    ) -> None:
        """A round tube: dark below, light above; ``dent`` moves the seven points in its middle."""
        points = curved(where, form)
        if dent:
            start = len(points) // 2 - 3
            points[start : start + 7] += dent
        unit = width * self.surface.unit
        stripes = through(self.surface.lens, points) - _TUBE * (unit * self.canvas.lens[0, 0])
        whole, middle, shine = stripes.astype(FIXED)
        self.canvas.stroke(whole, unit, tint(colour, 0.6))
        self.canvas.stroke(middle, unit * 0.6, colour)
        self.canvas.stroke(shine, unit * 0.2, mix(colour, (255, 255, 255), 0.4))

    def links(self, where: Where, colour: Colour) -> None:
        """A run of the chain."""
        self.stroke(where, tint(colour, 0.6), 0.024, form="curve")
        self.stroke(where, mix(colour, (240, 240, 240), 0.35), 0.01, form="curve")

    def hoop(
        self,
        where: Where,
        colour: Colour,
        width: float,
        *,
        bend: float | None = None,
        flat: float | None = None,
        torn: bool = False,
    ) -> None:
        """A circle round 0,0: bent from the angle ``bend`` on, flat on a ground ``flat`` below, or torn open."""
        points = _WHEEL * where[0]
        if bend is not None:
            points *= 1 + 0.14 * np.sin(2 * np.arange(40) * np.pi / 20 + bend)[:, None]
        if flat is not None:
            sunk = np.maximum(0.0, 0.11 - flat - points[:, 1])
            points[:, 0] *= 1 + sunk * 1.6
            points[:, 1] = np.maximum(points[:, 1], 0.05 - 0.2 * sunk - flat)
        self.stroke(points[6:34] if torn else points, colour, width, closed=not torn)


@cache
def _shapes() -> Shapes:
    here = Path(__file__).parent
    return Shapes(BikePen, COLOURS, here / "bicycle.shapes", here / "things.shapes")


def draw_shape(name: str, view: View, dice: Dice, known: dict[str, Any]) -> None:
    """Draw shape ``name``, which may use what is ``known``."""
    _shapes().draw(name, BikePen(view.canvas, view), dice, known)


def draw_part(name: str, view: View, build: Build, dice: Dice, *, hurt: bool = False, chainring: bool = True) -> None:
    """Draw a part, the ``frame`` or the ``cranks`` of a bicycle, intact or ``hurt``."""
    aged = _rusty if hurt else tuple
    known = {**vars(build), "rear": build.rear, "hurt": hurt, "aged": aged, "chainring": chainring, "RUST": RUST}
    draw_shape(name, view, dice, known)
