"""A bicycle's build and the view of it: where every joint is, and how bike units become scene units.

Bike units: the rear hub stands at x = 0, the front hub at about 1, the ground is y = 0 and y points up. All bicycles
look to the right and show their drive side; viewpoint, frame, wheels, bars and colours differ.
"""

from dataclasses import dataclass
from math import cos, sin

import numpy as np

from misdetect.data.procedural.draw.canvas import Canvas, Colour, through
from misdetect.data.procedural.draw.dice import Dice
from misdetect.data.procedural.draw.surface import Surface, circle

Spot = tuple[float, float]
_CIRCLE = circle(20)
_PAINTS: tuple[Colour, ...] = (
    (36, 36, 40), (36, 36, 40), (60, 90, 150), (150, 40, 40), (40, 100, 70), (200, 200, 204), (120, 124, 130),
    (220, 160, 50), (70, 150, 170), (130, 70, 120), (230, 110, 60), (90, 70, 54), (226, 150, 170), (50, 60, 90),
)  # fmt: skip


@dataclass(frozen=True)
class Build:
    """What kind of bicycle it is: the places of its joints and its colours."""

    radius: float
    front: Spot
    crank: Spot
    seat: Spot
    saddle: Spot
    head_low: Spot
    head_high: Spot
    stem: Spot
    grip: Spot
    far: Spot
    turn: float
    style: int
    bars: int
    paint: Colour
    metal: Colour
    tyre: Colour
    guard: Colour
    leather: Colour
    full_case: bool
    tube: float

    @property
    def rear(self) -> Spot:
        return 0.0, self.radius


def choose_build(dice: Dice) -> Build:
    """A bicycle drawn at random: diamond, step-through or sloping frame, small differences in every length."""
    r = dice.between(0.325, 0.35)
    base = dice.between(0.99, 1.05)
    style = dice.whole(0, 2)
    crank = (dice.between(0.41, 0.45), r - dice.between(0.03, 0.06))
    seat = (dice.between(0.29, 0.33), dice.between(0.76, 0.82))
    saddle_y = seat[1] + dice.between(0.1, 0.17)
    head_high = (base - dice.between(0.19, 0.22), dice.between(0.8, 0.86))
    stem = (head_high[0] - 0.02, head_high[1] + dice.between(0.1, 0.17))
    bars = dice.whole(0, 2)
    reach = (-0.2, 0.02, -0.1)[bars] + dice.between(-0.02, 0.02)
    paint = dice.pick(_PAINTS)
    return Build(
        radius=r,
        front=(base, r),
        crank=crank,
        seat=seat,
        saddle=(seat[0] - 0.03, saddle_y),
        head_low=(head_high[0] + 0.035, head_high[1] - dice.between(0.13, 0.17)),
        head_high=head_high,
        stem=stem,
        grip=(stem[0] + reach, stem[1] + dice.between(0.0, 0.06)),
        far=(dice.between(0.09, 0.16), dice.between(0.05, 0.1)),
        turn=dice.between(0, 2 * np.pi),
        style=style,
        bars=bars,
        paint=paint,
        metal=dice.pick(((176, 180, 186), (150, 154, 160), (90, 92, 96))),
        tyre=dice.pick(((34, 34, 36), (34, 34, 36), (48, 46, 44), (120, 100, 78))),
        guard=dice.pick((paint, paint, (40, 40, 44), (190, 192, 196))),
        leather=dice.pick(((40, 38, 38), (40, 38, 38), (120, 74, 44), (70, 70, 76))),
        full_case=dice.chance(0.42),
        tube=dice.between(0.034, 0.046),
    )


class View(Surface):
    """Bike units on a canvas, through a slightly turned, sheared and foreshortened view."""

    def __init__(self, canvas: Canvas, dice: Dice) -> None:
        scale = dice.between(0.49, 0.545)
        angle, shear = dice.between(-0.035, 0.035), dice.between(-0.04, 0.04)
        stretch = dice.between(0.93, 1.03)
        fall = dice.between(-0.09, 0.09)
        origin = 0.5 + dice.between(-0.03, 0.03), dice.between(0.82, 0.88)
        # Turn, shear and foreshortening are one homography about the middle of the bicycle.
        about = np.array([[1.0, 0.0, -0.51], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
        moved = np.array([[1.0, 0.0, origin[0]], [0.0, 1.0, origin[1]], [0.0, 0.0, 1.0]])
        look = np.zeros((3, 3))
        look[:2, :2] = np.array([[cos(angle) * stretch, -sin(angle)], [sin(angle) + shear, -cos(angle)]]) * scale
        look[2] = fall, 0.0, 1.0
        self._scene = moved @ look @ about
        super().__init__(canvas, canvas.lens @ self._scene, scale, _CIRCLE)

    def soften(self, x: float, y: float, rx: float, ry: float, amount: float) -> None:
        """A shadow round a point; ``rx`` in bike units, ``ry`` in scene units."""
        ((u, v),) = through(self._scene, [(x, y)]).tolist()
        self.canvas.soften(u, v, rx * self.unit, ry, amount)
