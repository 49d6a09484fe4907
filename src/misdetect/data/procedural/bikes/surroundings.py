"""What is behind a bicycle and what stands before it.

Backgrounds are streets, walls, shops, hedges and the waterside. Things before the bicycle (a bush, a box, a bag, a
crate, a coat, a post, a sign) are why parts are occluded; none of them looks like a part.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from misdetect.data.procedural.bikes.frame import Build, View
from misdetect.data.procedural.bikes.pen import draw_shape
from misdetect.data.procedural.draw.camera import Camera
from misdetect.data.procedural.draw.canvas import Canvas
from misdetect.data.procedural.draw.dice import Dice
from misdetect.data.procedural.draw.pen import Where
from misdetect.data.procedural.draw.scenery import SceneryPen
from misdetect.data.procedural.draw.shapes import COLOURS, Shapes


@dataclass(frozen=True)
class Thing:
    """Something before the bicycle: its foot's middle (x, y) and size (w, h) in bike units."""

    kind: str
    x: float
    y: float
    w: float
    h: float
    dice: Dice


class _Chooser:
    """The one verb of ``before.shapes``."""

    surface = None

    def __init__(self, dice: Dice) -> None:
        self.dice = dice
        self.things: list[Thing] = []

    def put(self, where: Where, kind: str) -> None:
        """A thing of a ``kind`` before the bicycle: the middle of its foot, its width and height."""
        (x, y), (w, h) = where
        self.things.append(Thing(kind, x, y, w, h, self.dice.child(40)))


@cache
def _before() -> Shapes:
    return Shapes(_Chooser, Path(__file__).with_name("before.shapes"))


def choose_things(dice: Dice, b: Build) -> list[Thing]:
    """What hides parts in this picture; often little, sometimes much."""
    chooser = _Chooser(dice)
    _before().draw("before_the_bicycle", chooser, dice, vars(b))
    return chooser.things


@cache
def _street() -> Shapes:
    return Shapes(SceneryPen, COLOURS, Path(__file__).with_name("street.shapes"))


def draw_background(canvas: Canvas, dice: Dice) -> None:
    """Wall or country, and the ground the bicycle stands on."""
    dice.rewind()
    _street().draw("background", SceneryPen(canvas, Camera(focal=1.0, horizon=0.36, height=1.5)), dice, {})


def draw_shadow(view: View, b: Build) -> None:
    """The bicycle's shadow on the ground."""
    for x in (0.0, b.front[0]):
        view.soften(x, 0.0, 0.2, 0.03, -0.5)
    view.soften(b.front[0] / 2, 0.0, 0.8, 0.045, -0.4)


def draw_thing(view: View, thing: Thing) -> None:
    """A thing before the bicycle; it owns nothing."""
    thing.dice.rewind()
    if thing.y < 0:
        view.soften(thing.x, thing.y, thing.w * 0.65, 0.035, -0.5)
    draw_shape(thing.kind, view, thing.dice, vars(thing))
