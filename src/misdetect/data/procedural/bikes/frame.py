"""A bicycle's build and the view of it: where every joint is, and how bike units become scene units.

Bike units: the rear hub stands at x = 0, the front hub at about 1, the ground is y = 0 and y points up. All bicycles
look to the right and show their drive side; viewpoint, frame, wheels, bars and colours differ.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import cos, sin
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from misdetect.data.procedural.draw.canvas import FIXED, Canvas, Colour, Points, mix, oval, smooth, through, tint
from misdetect.data.procedural.draw.dice import Dice

Spot = tuple[float, float]
RUST: Colour = (140, 78, 40)
_RING = np.stack([np.cos(np.arange(40) * (np.pi / 20)), np.sin(np.arange(40) * (np.pi / 20))], axis=1)
_TUBE = np.array([[[0.0, 0.0]], [[0.0, 0.15]], [[0.0, 0.25]]])
"""How much higher than the tube itself its lighter stripes lie, in tube widths."""
_COARSE_RING = np.ascontiguousarray(_RING[::2])
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


class View:
    """Draws in bike units on a canvas, through a slightly turned, sheared and foreshortened view."""

    def __init__(self, canvas: Canvas, dice: Dice) -> None:
        self.canvas = canvas
        self.scale = dice.between(0.49, 0.545)
        angle, shear = dice.between(-0.035, 0.035), dice.between(-0.04, 0.04)
        stretch = dice.between(0.93, 1.03)
        fall = dice.between(-0.09, 0.09)
        origin = 0.5 + dice.between(-0.03, 0.03), dice.between(0.82, 0.88)
        # Turn, shear and foreshortening are one homography about the middle of the bicycle.
        about = np.array([[1.0, 0.0, -0.51], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
        moved = np.array([[1.0, 0.0, origin[0]], [0.0, 1.0, origin[1]], [0.0, 0.0, 1.0]])
        look = np.zeros((3, 3))
        look[:2, :2] = np.array([[cos(angle) * stretch, -sin(angle)], [sin(angle) + shear, -cos(angle)]]) * self.scale
        look[2] = fall, 0.0, 1.0
        self._scene = moved @ look @ about
        self._lens = canvas.lens @ self._scene

    def spot(self, x: float, y: float) -> Spot:
        """A point in bike units to scene units."""
        ((u, v),) = through(self._scene, [(x, y)]).tolist()
        return u, v

    def _fixed(self, points: ArrayLike) -> NDArray[np.int32]:
        return through(self._lens, points).astype(FIXED)

    def fill(self, points: ArrayLike, colour: Colour, **paint: Any) -> None:
        self.canvas.fill(self._fixed(points), colour, **paint)

    def flat(self, points: ArrayLike, colour: Colour) -> None:
        self.canvas.flat(self._fixed(points), colour)

    def ellipse(
        self, x: float, y: float, rx: float, ry: float, colour: Colour, *, angle: float = 0.0, **paint: Any
    ) -> None:
        ring = through(self._lens.dot(oval(x, y, rx, ry, angle)), _COARSE_RING)
        self.canvas.fill(ring.astype(FIXED), colour, **paint)

    def stroke(self, points: ArrayLike, width: float, colour: Colour, *, closed: bool = False) -> None:
        self.canvas.stroke(self._fixed(points), width * self.scale, colour, closed=closed)

    def strokes(self, lines: ArrayLike, width: float, colour: Colour) -> None:
        every = np.asarray(lines)
        self.canvas.strokes(self._fixed(every.reshape(-1, 2)).reshape(every.shape), width * self.scale, colour)

    def tube(self, points: ArrayLike, width: float, colour: Colour) -> None:
        """A round tube: dark below, light above."""
        unit = width * self.scale
        stripes = through(self._lens, points) - _TUBE * (unit * self.canvas.lens[0, 0])
        whole, middle, shine = stripes.astype(FIXED)
        self.canvas.stroke(whole, unit, tint(colour, 0.6))
        self.canvas.stroke(middle, unit * 0.6, colour)
        self.canvas.stroke(shine, unit * 0.2, mix(colour, (255, 255, 255), 0.4))


def ring(x: float, y: float, r: float) -> Points:
    """A circle of 40 points in bike units."""
    circle: Points = _RING * r + (x, y)
    return circle


@lru_cache(maxsize=16)
def arc(start: float, end: float, count: int) -> Points:
    """``count`` points of the unit circle from one angle to another."""
    angles = np.linspace(start, end, count)
    points: Points = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    points.flags.writeable = False
    return points


def draw_frame(view: View, b: Build) -> None:
    """Frame, fork, cranks' axle and luggage carrier: no part of the 22, so nobody owns them."""
    paint, t = b.paint, b.tube
    axle = b.rear
    view.tube([axle, (b.crank[0], b.crank[1])], t * 0.62, paint)
    view.tube([axle, (b.seat[0] + 0.02, b.seat[1] - 0.1)], t * 0.5, paint)
    if b.style == 0:
        view.tube([(b.seat[0] + 0.01, b.seat[1] - 0.04), b.head_high], t, paint)
        view.tube([b.crank, b.head_low], t, paint)
    elif b.style == 1:
        swoop = smooth(
            [
                (b.seat[0] + 0.06, b.seat[1] - 0.3),
                (b.crank[0] + 0.04, b.crank[1] + 0.13),
                (b.crank[0] + 0.22, b.crank[1] + 0.2),
                b.head_low,
            ],
            closed=False,
        )
        view.tube(swoop, t, paint)
        view.tube(
            smooth(
                [b.crank, (b.crank[0] + 0.2, b.crank[1] + 0.08), (b.head_low[0] - 0.02, b.head_low[1] - 0.02)],
                closed=False,
            ),
            t,
            paint,
        )
    else:
        view.tube([(b.seat[0] + 0.04, b.seat[1] - 0.24), b.head_high], t, paint)
        view.tube([b.crank, b.head_low], t * 1.1, paint)
    view.tube([b.crank, b.seat], t, paint)
    view.tube([b.seat, (b.saddle[0] + 0.03, b.saddle[1] - 0.02)], t * 0.7, b.metal)
    fork = smooth([b.head_low, (b.head_low[0] + 0.07, (b.head_low[1] + b.front[1]) / 2 + 0.02), b.front], closed=False)
    view.tube(fork, t * 0.7, paint)
    view.tube([b.head_low, b.head_high], t * 1.25, paint)
    top = b.radius * 2 + 0.07
    view.tube([(0.2, top), (-0.24, top)], 0.024, b.metal)
    view.stroke([(-0.2, top), axle], 0.014, b.metal)


def draw_cranks(view: View, b: Build, *, chainring: bool) -> None:
    """The two cranks, and the chainring unless a closed case hides it."""
    x, y = b.crank
    if chainring:
        view.ellipse(x, y, 0.085, 0.085, tint(b.metal, 0.8), relief="sphere", depth=0.4)
        view.ellipse(x, y, 0.05, 0.05, tint(b.metal, 0.45))
    dx, dy = 0.165 * cos(b.turn), 0.165 * sin(b.turn)
    view.stroke([(x, y), (x - dx, y - dy)], 0.026, tint(b.metal, 0.6))
    view.tube([(x, y), (x + dx, y + dy)], 0.03, b.metal)


def aged(colour: Colour, hurt: bool) -> Colour:
    """``colour``, rusty if the part is damaged."""
    return mix(colour, RUST, 0.6) if hurt else colour


def turned(points: Points, about: Spot, angle: float) -> Points:
    """``points`` turned by ``angle`` radians ``about`` a spot."""
    c, s = cos(angle), sin(angle)
    out: Points = (points - about) @ np.array([[c, s], [-s, c]]) + about
    return out
