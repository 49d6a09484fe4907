"""What is behind a bicycle and what stands before it.

Backgrounds are streets, walls, shops, hedges and the waterside. Things before the bicycle (a bush, a box, a bag, a
crate, a coat, a post, a sign) are why parts are occluded; none of them looks like a part.
"""

from dataclasses import dataclass
from math import cos, pi, sin

import numpy as np

from misdetect.data.procedural.bikes.frame import Build, View
from misdetect.data.procedural.draw import patterns
from misdetect.data.procedural.draw.camera import Camera
from misdetect.data.procedural.draw.canvas import Canvas, Colour, mix, smooth, tint
from misdetect.data.procedural.draw.dice import Dice
from misdetect.data.procedural.draw.pen import Pen
from misdetect.data.procedural.draw.shapes import COLOURS, Shapes

_C = Shapes(Pen, COLOURS).constants
PAINTS, CLOTHS, WOODS = _C["PAINTS"], _C["CLOTHS"], _C["WOODS"]

_WALLS: tuple[Colour, ...] = (
    (168, 104, 80),
    (196, 178, 150),
    (150, 150, 146),
    (214, 206, 190),
    (120, 130, 136),
    (180, 140, 110),
    (96, 110, 100),
)
_GROUNDS: tuple[Colour, ...] = ((130, 128, 124), (150, 140, 128), (104, 104, 108), (166, 156, 140), (140, 112, 92))


@dataclass(frozen=True)
class Thing:
    """Something before the bicycle: its foot's middle (x, y) and size (w, h) in bike units."""

    kind: str
    x: float
    y: float
    w: float
    h: float
    dice: Dice


def choose_things(dice: Dice, b: Build) -> list[Thing]:
    """What hides parts in this picture; often little, sometimes much."""
    things: list[Thing] = []

    def add(kind: str, x: float, y: float, w: float, h: float) -> None:
        things.append(Thing(kind, x, y, w, h, dice.child(40)))

    if dice.chance(0.2):
        add(
            "bag",
            dice.between(-0.06, 0.06),
            b.radius + dice.between(-0.02, 0.04),
            dice.between(0.36, 0.48),
            dice.between(0.32, 0.4),
        )
    if dice.chance(0.2):
        add(
            "crate",
            b.head_high[0] + dice.between(0.16, 0.22),
            b.head_high[1] - dice.between(0.06, 0.14),
            dice.between(0.32, 0.42),
            dice.between(0.22, 0.3),
        )
    if dice.chance(0.16):
        add("crate", dice.between(-0.2, -0.12), b.radius * 2 - 0.04, dice.between(0.36, 0.46), dice.between(0.2, 0.3))
    if dice.chance(0.17):
        add(
            "coat",
            dice.between(0.18, 0.3),
            b.saddle[1] - dice.between(0.26, 0.36),
            dice.between(0.34, 0.46),
            dice.between(0.36, 0.46),
        )
    if dice.chance(0.25):
        add(
            "sack",
            b.grip[0] + dice.between(-0.02, 0.09),
            b.grip[1] - dice.between(0.26, 0.36),
            dice.between(0.24, 0.34),
            dice.between(0.34, 0.46),
        )
    if dice.chance(0.2):
        add("post", dice.between(-0.2, 1.2), -0.04, dice.between(0.08, 0.14), 2.2)
    ground = dice.unit()
    if ground < 0.59:
        kind = dice.pick(("bush", "bush", "carton", "sign", "pot"))
        width = {"bush": (0.65, 1.1), "carton": (0.45, 0.7), "sign": (0.45, 0.6), "pot": (0.3, 0.42)}[kind]
        height = {"bush": (0.45, 0.9), "carton": (0.3, 0.5), "sign": (0.6, 0.8), "pot": (0.45, 0.65)}[kind]
        x = dice.pick((0.0, 0.0, 0.25, 0.45, 1.0, 1.0)) + dice.between(-0.12, 0.12)
        add(kind, x, -0.06, dice.between(*width), dice.between(*height))
    return things


def draw_background(canvas: Canvas, dice: Dice) -> None:
    """Wall or country, and the ground the bicycle stands on."""
    dice.rewind()
    camera = Camera(focal=1.0, horizon=0.36, height=1.5)
    edge = dice.between(0.6, 0.76)
    depth = 1.5 / (edge - 0.36)
    kind = dice.pick(("wall", "wall", "shop", "hedge", "water", "street"))
    sky = dice.pick(((176, 204, 230), (206, 214, 220), (236, 210, 180)))
    if kind not in ("wall", "shop"):  # which hide all of it
        canvas.fill([(0, 0), (1, 0), (1, 1), (0, 1)], sky, slope=(0.05, 0.2), texture="cloud", grain=1.2)
    wall = dice.pick(_WALLS)
    paper = dice.pick(("bricks", "bricks", "plaster", "panels", "stone", "plain"))
    upright = camera.plane(
        (dice.between(-2, 0), 3.0, depth),
        (1, 0, 0),
        (0, -1, 0),
        patterns.PIXELS_PER_METRE * dice.between(0.8, 1.6),
        512.0,
    )
    colours = patterns.ramp(tint(wall, dice.between(0.6, 0.85)), wall)
    full = [(0, 0), (1, 0), (1, edge), (0, edge)]
    if kind in ("wall", "shop"):
        canvas.surface(full, patterns.pattern(paper), upright, colours)
        if kind == "shop":
            _shop(canvas, dice, edge)
    elif kind == "hedge":
        top = dice.between(0.1, 0.35)
        rim = [(x, top + 0.02 * sin(17 * x + 3 * top)) for x in np.linspace(0, 1, 20)]
        canvas.fill(
            [*rim, (1, edge), (0, edge)],
            dice.pick(((58, 100, 52), (80, 116, 60), (44, 84, 56))),
            texture="leaf",
            grain=6.0,
            slope=(0.1, -0.3),
        )
    elif kind == "water":
        canvas.fill(
            [(0, 0.3), (1, 0.3), (1, edge), (0, edge)], (96, 122, 136), texture="wood", grain=2.4, slope=(0, 0.2)
        )
        _houses(canvas, dice, 0.31)
        for y in (edge - 0.16, edge - 0.06):
            canvas.stroke([(0, y), (1, y)], 0.012, (60, 64, 62))
        for k in range(7):
            canvas.stroke([(k / 6 + 0.03, edge - 0.17), (k / 6 + 0.03, edge)], 0.014, (60, 64, 62))
    else:
        _houses(canvas, dice, edge - 0.04)
        canvas.fill([(0, edge - 0.06), (1, edge - 0.06), (1, edge), (0, edge)], (150, 146, 140))
    ground = dice.pick(_GROUNDS)
    name = (
        "grass"
        if kind == "hedge" and dice.chance(0.6)
        else dice.pick(("paving", "bricks", "stone", "earth", "herringbone"))
    )
    low, high = ((70, 110, 54), (130, 164, 84)) if name == "grass" else (tint(ground, 0.72), ground)
    floor = camera.plane((0, 0, 0), (1, 0, 0), (0, 0, 1), patterns.PIXELS_PER_METRE * dice.between(0.7, 1.1), 512.0)
    canvas.surface([(0, edge), (1, edge), (1, 1), (0, 1)], patterns.pattern(name), floor, patterns.ramp(low, high))
    canvas.soften(0.5, edge, 0.9, 0.05, -0.25)


def _shop(canvas: Canvas, dice: Dice, edge: float) -> None:
    start = dice.between(-0.2, 0.1)
    wood = dice.pick((*WOODS, *CLOTHS))
    for k in range(3):
        x0 = start + 0.42 * k
        canvas.fill([(x0, 0.12), (x0 + 0.36, 0.12), (x0 + 0.36, edge - 0.06), (x0, edge - 0.06)], wood)
        canvas.fill(
            [(x0 + 0.02, 0.14), (x0 + 0.34, 0.14), (x0 + 0.34, edge - 0.09), (x0 + 0.02, edge - 0.09)],
            dice.pick(((66, 82, 92), (96, 110, 116), (190, 170, 120))),
            relief="glass",
            depth=1.2,
        )
    cloth = dice.pick(CLOTHS)
    for k in range(12):
        x0, x1 = k / 12, (k + 1) / 12
        tone: Colour = cloth if k % 2 else (232, 228, 218)
        canvas.fill([(x0, 0), (x1, 0), (x1, 0.1), (x0 + (x1 - x0) / 2, 0.125), (x0, 0.1)], tone, slope=(0, -0.3))


def _houses(canvas: Canvas, dice: Dice, foot: float) -> None:
    x = -0.05
    while x < 1.0:
        wide, tall = dice.between(0.14, 0.26), dice.between(0.18, 0.34)
        wall = dice.pick(_WALLS)
        canvas.fill(
            [
                (x, foot),
                (x, foot - tall),
                (x + wide / 2, foot - tall - 0.06),
                (x + wide, foot - tall),
                (x + wide, foot),
            ],
            wall,
            texture="grain",
            grain=1.0,
        )
        for row in range(int(tall / 0.09)):
            for k in (0.2, 0.6):
                wx, wy = x + wide * k, foot - tall + 0.03 + row * 0.09
                canvas.flat(
                    [(wx, wy), (wx + wide * 0.22, wy), (wx + wide * 0.22, wy + 0.05), (wx, wy + 0.05)], (70, 80, 92)
                )
        x += wide


def draw_shadow(view: View, b: Build) -> None:
    """The bicycle's shadow on the ground."""
    for x in (0.0, b.front[0]):
        view.canvas.soften(*view.spot(x, 0.0), 0.2 * view.scale, 0.03, -0.5)
    view.canvas.soften(*view.spot(b.front[0] / 2, 0.0), 0.8 * view.scale, 0.045, -0.4)


def draw_thing(view: View, thing: Thing) -> None:
    """A thing before the bicycle; it owns nothing."""
    thing.dice.rewind()
    if thing.y < 0:
        view.canvas.soften(*view.spot(thing.x, thing.y), thing.w * 0.65 * view.scale, 0.035, -0.5)
    _THINGS[thing.kind](view, thing)


def _bush(view: View, t: Thing) -> None:
    green = t.dice.pick(((60, 106, 54), (86, 124, 62), (46, 88, 58), (112, 124, 60)))
    angles = np.linspace(-0.05, pi + 0.05, 17)
    low = t.y + t.h * 0.2
    bumps = 1 + 0.05 * np.sin(angles * 9 + t.dice.between(0, 6))
    # A superellipse: full shoulders, so that what is behind it is hidden.
    x, y = np.cos(angles), np.sin(angles)
    crown = np.stack([np.sign(x) * np.abs(x) ** 0.75 * t.w / 2, np.sign(y) * np.abs(y) ** 0.75 * t.h * 0.8], axis=1)
    crown = crown * bumps[:, None] + np.array((t.x, low))
    foot = np.array([(t.x - t.w * 0.4, t.y + 0.01), (t.x, t.y - 0.01), (t.x + t.w * 0.4, t.y + 0.01)])
    view.fill(smooth(np.concatenate([crown, foot])), green, texture="leaf", grain=4.0, relief="body")
    for k in range(14):
        cx, cy = t.x + t.w * t.dice.between(-0.38, 0.38), t.y + t.h * t.dice.between(0.15, 0.85)
        light = 0.72 + 0.5 * (cy - t.y) / t.h
        r = t.w * t.dice.between(0.07, 0.13)
        view.ellipse(cx, cy, r, r * 0.7, tint(green, light), angle=0.4 * (k % 3 - 1), texture="leaf", grain=3.0)


def _carton(view: View, t: Thing) -> None:
    colour = t.dice.pick(((186, 146, 96), (166, 128, 84), (204, 170, 124)))
    x0, x1, y1 = t.x - t.w / 2, t.x + t.w / 2, t.y + t.h
    view.fill([(x0, t.y), (x1, t.y), (x1, y1), (x0, y1)], colour, texture="grain", grain=1.5, slope=(-0.1, 0.1))
    view.fill([(x0, y1), (x1, y1), (x1 - 0.06, y1 + 0.07), (x0 + 0.06, y1 + 0.07)], colour, shade=1.15)
    view.flat(
        [(t.x - 0.03, t.y), (t.x + 0.03, t.y), (t.x + 0.03, y1), (t.x - 0.03, y1)], mix(colour, (240, 226, 190), 0.5)
    )


def _sign(view: View, t: Thing) -> None:
    frame = t.dice.pick(WOODS)
    x0, x1, y1 = t.x - t.w / 2, t.x + t.w / 2, t.y + t.h
    view.fill([(x0, t.y), (x1, t.y), (x1 - 0.03, y1), (x0 + 0.03, y1)], frame, texture="wood", grain=1.5)
    view.fill(
        [(x0 + 0.05, t.y + 0.1), (x1 - 0.05, t.y + 0.1), (x1 - 0.07, y1 - 0.05), (x0 + 0.07, y1 - 0.05)],
        (44, 50, 48),
        slope=(0.1, 0.1),
    )
    for k in range(4):
        y = t.y + t.h * (0.32 + 0.15 * k)
        reach = t.w * t.dice.between(0.12, 0.32)
        view.stroke(
            [(t.x - reach, y), (t.x + reach, y)],
            0.022,
            t.dice.pick(((236, 236, 226), (240, 214, 120), (240, 170, 170))),
        )


def _pot(view: View, t: Thing) -> None:
    green = t.dice.pick(((60, 116, 62), (90, 140, 70)))
    pot_h = t.h * 0.5
    for k in range(9):
        a = -1.1 + 2.2 * k / 8
        tip = (t.x + sin(a) * t.w * 0.75, t.y + pot_h + cos(a) * t.h * 0.6)
        view.stroke([(t.x, t.y + pot_h * 0.9), tip], 0.06, tint(green, 0.8 + 0.05 * (k % 5)))
    view.fill(
        [(t.x - t.w * 0.36, t.y), (t.x + t.w * 0.36, t.y), (t.x + t.w / 2, t.y + pot_h), (t.x - t.w / 2, t.y + pot_h)],
        t.dice.pick(((186, 98, 62), (120, 124, 130))),
        relief="column",
    )


def _post(view: View, t: Thing) -> None:
    colour = t.dice.pick(((70, 76, 72), (150, 40, 40), (120, 92, 62), (176, 178, 180)))
    x0, x1 = t.x - t.w / 2, t.x + t.w / 2
    view.fill(
        [(x0, t.y), (x1, t.y), (x1, t.y + t.h), (x0, t.y + t.h)], colour, relief="column", texture="post", grain=1.0
    )
    for y in (0.5, 0.62):
        view.fill([(x0, y), (x1, y), (x1, y + 0.06), (x0, y + 0.06)], (232, 230, 224), relief="column")


def _bag(view: View, t: Thing) -> None:
    cloth = t.dice.pick((*CLOTHS, *PAINTS[:8]))
    x0, x1, y1 = t.x - t.w / 2, t.x + t.w / 2, t.y + t.h
    view.fill(
        smooth([(x0, t.y + 0.03), (x0 + 0.02, y1), (x1 - 0.02, y1), (x1, t.y + 0.03), (t.x, t.y)]),
        cloth,
        texture="fabric",
        grain=1.5,
        relief="cushion",
    )
    view.fill(
        [(x0 - 0.005, y1 - t.h * 0.34), (x1 + 0.005, y1 - t.h * 0.34), (x1 + 0.01, y1 + 0.02), (x0 - 0.01, y1 + 0.02)],
        cloth,
        shade=0.82,
        slope=(0, 0.2),
    )
    for k in (-0.22, 0.22):
        view.stroke([(t.x + k * t.w, y1), (t.x + k * t.w, t.y + t.h * 0.42)], 0.022, tint(cloth, 0.5))


def _crate(view: View, t: Thing) -> None:
    wood = t.dice.pick((*WOODS[:6], (60, 120, 70), (60, 90, 150)))
    x0, x1 = t.x - t.w / 2, t.x + t.w / 2
    view.fill([(x0, t.y), (x1, t.y), (x1, t.y + t.h), (x0, t.y + t.h)], tint(wood, 0.6))
    rows = 3
    for k in range(rows):
        low = t.y + t.h * k / rows
        view.fill(
            [(x0, low + 0.008), (x1, low + 0.008), (x1, low + t.h / rows - 0.008), (x0, low + t.h / rows - 0.008)],
            wood,
            texture="wood",
            grain=2.0,
            shade=0.9 + 0.08 * k,
        )
    for x in (x0 + 0.025, x1 - 0.025):
        view.stroke([(x, t.y), (x, t.y + t.h)], 0.035, tint(wood, 0.8))


def _coat(view: View, t: Thing) -> None:
    cloth = t.dice.pick(CLOTHS)
    x0, x1, y1 = t.x - t.w / 2, t.x + t.w / 2, t.y + t.h
    shape = [
        (x0, t.y + 0.04),
        (x0 + 0.04, y1 - 0.06),
        (t.x - 0.05, y1 + 0.02),
        (t.x + 0.1, y1),
        (x1, y1 - 0.08),
        (x1 - 0.03, t.y),
        (t.x + 0.05, t.y + 0.06),
        (t.x - 0.06, t.y - 0.01),
    ]
    view.fill(smooth(shape), cloth, texture="fabric", grain=1.5, relief="body")
    for k in (-0.25, 0.05, 0.28):
        view.stroke([(t.x + k * t.w, y1 - 0.08), (t.x + k * t.w * 1.2, t.y + 0.08)], 0.014, tint(cloth, 0.72))


def _sack(view: View, t: Thing) -> None:
    colour = t.dice.pick(((240, 240, 236), (230, 206, 120), (150, 196, 220), (232, 130, 120)))
    x0, x1, y1 = t.x - t.w / 2, t.x + t.w / 2, t.y + t.h
    shape = [
        (x0 + 0.02, t.y),
        (x0 - 0.01, t.y + t.h * 0.4),
        (x0 + 0.03, y1 - 0.04),
        (t.x, y1 + 0.02),
        (x1 - 0.03, y1 - 0.04),
        (x1 + 0.01, t.y + t.h * 0.4),
        (x1 - 0.02, t.y),
    ]
    view.fill(smooth(shape), colour, relief="cushion", slope=(0.1, 0.1))
    view.ellipse(t.x, t.y + t.h * 0.42, t.w * 0.24, t.w * 0.24, t.dice.pick(PAINTS))
    for k in (-0.2, 0.2):
        view.stroke([(t.x + k * t.w, y1 - 0.08), (t.x + k * t.w * 0.7, t.y + 0.1)], 0.01, tint(colour, 0.8))


_THINGS = {
    "bush": _bush, "carton": _carton, "sign": _sign, "pot": _pot, "post": _post, "bag": _bag, "crate": _crate,
    "coat": _coat, "sack": _sack,
}  # fmt: skip
