"""Wheels, mudguards, guards, chain, pedals, stand and lock: the parts below the saddle.

A damaged part is bent, broken, torn, flat or hangs loose, and is rusty where it is metal: a person sees it.
"""

from math import cos, pi, sin

import numpy as np

from misdetect.data.procedural.bikes.frame import RUST, Build, Spot, View, aged, arc, ring, turned
from misdetect.data.procedural.draw.canvas import Colour, mix, smooth, tint
from misdetect.data.procedural.draw.dice import Dice


def _wheel(view: View, b: Build, dice: Dice, hurt: bool, hub: Spot) -> None:
    x, y = hub
    way = dice.whole(0, 2)
    rim, tyre = ring(x, y, b.radius - 0.035), ring(x, y, b.radius - 0.014)
    steel = aged(b.metal, hurt)
    if hurt and way == 0:
        bend = 1 + 0.14 * np.sin(2 * np.arange(40) * pi / 20 + dice.between(0, 6))[:, None]
        rim, tyre = (rim - hub) * bend + hub, (tyre - hub) * bend + hub
    elif hurt and way == 1:
        sunk = np.maximum(0.0, 0.11 - tyre[:, 1:])
        tyre = np.concatenate(
            [x + (tyre[:, :1] - x) * (1 + sunk * 1.6), np.maximum(tyre[:, 1:], 0.05 - 0.2 * sunk)], axis=1
        )
    turn = dice.between(0, 1)
    spokes = 12
    angles = turn + np.arange(spokes) * 2 * pi / spokes
    ends = np.stack([np.cos(angles), np.sin(angles)], axis=1) * (b.radius - 0.04) + hub
    if hurt:
        ends = ends[: 7 if way == 2 else 10]
    view.strokes(
        np.stack([np.broadcast_to(np.array(hub), ends.shape), ends], axis=1), 0.008, mix(steel, (230, 230, 235), 0.2)
    )
    view.stroke(rim, 0.02, tint(steel, 0.95), closed=True)
    if hurt and way == 2:
        view.stroke(tyre[6:34], 0.036, b.tyre)
        view.stroke(smooth([tyre[6], tyre[6] + (0.06, 0.1), tyre[6] + (0.14, 0.05)], closed=False), 0.03, b.tyre)
    else:
        view.stroke(tyre, 0.036, b.tyre, closed=True)
    view.ellipse(x, y, 0.034, 0.034, tint(steel, 0.8), relief="sphere", depth=0.5)


def back_wheel(view: View, b: Build, dice: Dice, hurt: bool) -> None:
    _wheel(view, b, dice, hurt, b.rear)


def front_wheel(view: View, b: Build, dice: Dice, hurt: bool) -> None:
    _wheel(view, b, dice, hurt, b.front)


def _mudguard(view: View, b: Build, dice: Dice, hurt: bool, hub: Spot, start: float, end: float) -> None:
    bow = arc(start, end, 16)
    reach = np.full((16, 1), b.radius + 0.03)
    if hurt and dice.chance(0.5):
        reach[10:, 0] += np.linspace(0.0, 0.16, 6)
    elif hurt:
        bow, reach = bow[:9], reach[:9] + np.array([[0.0]] * 6 + [[0.02], [0.05], [0.1]])
    bow = bow * reach + hub
    view.tube(bow, 0.042, aged(b.guard, hurt))
    tip = bow[-1] if not hurt else bow[0]
    view.stroke([tip, (hub[0], hub[1])], 0.007, b.metal)


def back_mudguard(view: View, b: Build, dice: Dice, hurt: bool) -> None:
    _mudguard(view, b, dice, hurt, b.rear, 0.25, pi + 0.12)


def front_mudguard(view: View, b: Build, dice: Dice, hurt: bool) -> None:
    _mudguard(view, b, dice, hurt, b.front, 0.35, pi + 0.3)


def dress_guard(view: View, b: Build, dice: Dice, hurt: bool) -> None:
    x, y = b.rear
    r = b.radius - 0.02
    bow = arc(0.5, 2.75, 12)
    colour = dice.pick(((50, 50, 56), b.paint, (220, 220, 224), (90, 100, 120)))
    panel = np.concatenate([bow * r, (bow * 0.07)[::-1]]) + np.array((x, y))
    view.fill(panel, colour, texture="fabric", grain=1.5, slope=(0.15, 0.1))
    if hurt:
        hole = smooth(
            [(x - 0.12, y + 0.16), (x - 0.02, y + 0.24), (x + 0.1, y + 0.18), (x + 0.06, y + 0.1), (x - 0.04, y + 0.08)]
        )
        view.fill(hole, (24, 22, 22))
        view.stroke([(x + 0.08, y + 0.18), (x + 0.13, y + 0.28)], 0.018, (24, 22, 22))
        view.flat(
            [(x - 0.02, y + 0.24), (x + 0.02, y + 0.24), (x + 0.06, y + 0.08)], mix(colour, (255, 255, 255), 0.25)
        )
    else:
        for a in (0.9, 1.6, 2.3):
            view.stroke(
                [(x + 0.08 * cos(a), y + 0.08 * sin(a)), (x + r * cos(a), y + r * sin(a))], 0.008, tint(colour, 0.65)
            )


def _pedal(view: View, b: Build, hurt: bool, side: float) -> None:
    x = b.crank[0] + side * 0.165 * cos(b.turn)
    y = b.crank[1] + side * 0.165 * sin(b.turn)
    light = 1.0 if side > 0 else 0.75
    block = np.array([(x - 0.062, y - 0.024), (x + 0.062, y - 0.024), (x + 0.062, y + 0.024), (x - 0.062, y + 0.024)])
    if hurt:
        block = turned(
            np.array(
                [
                    (x - 0.062, y - 0.024),
                    (x + 0.004, y - 0.024),
                    (x + 0.03, y + 0.004),
                    (x - 0.01, y + 0.024),
                    (x - 0.062, y + 0.024),
                ]
            ),
            (x, y),
            -0.7,
        )
    view.fill(block, aged((52, 52, 56), hurt), shade=light, slope=(0, 0.25))
    if not hurt:
        for k in (-0.044, 0.044):
            view.flat(
                [
                    (x + k - 0.013, y - 0.015),
                    (x + k + 0.013, y - 0.015),
                    (x + k + 0.013, y + 0.015),
                    (x + k - 0.013, y + 0.015),
                ],
                tint((250, 160, 40), light),
            )


def front_pedal(view: View, b: Build, dice: Dice, hurt: bool) -> None:
    _pedal(view, b, hurt, 1.0)


def back_pedal(view: View, b: Build, dice: Dice, hurt: bool) -> None:
    _pedal(view, b, hurt, -1.0)


def chain(view: View, b: Build, dice: Dice, hurt: bool) -> None:
    (x0, y0), (x1, y1) = b.rear, b.crank
    colour: Colour = aged((110, 112, 116), hurt)
    upper = [(x0, y0 + 0.045), (x1, y1 + 0.085)]
    lower = [(x0, y0 - 0.045), ((x0 + x1) / 2, (y0 + y1) / 2 - 0.075), (x1, y1 - 0.085)]
    if hurt:
        lower = [(x0, y0 - 0.045), (x0 + 0.14, y0 - 0.2), (x1 - 0.14, y1 - 0.2), (x1, y1 - 0.085)]
        upper = [(x0, y0 + 0.045), ((x0 + x1) / 2, (y0 + y1) / 2 + 0.0), (x1, y1 + 0.06)]
    for line in (upper, lower):
        curve = smooth(line, closed=False)
        view.stroke(curve, 0.024, tint(colour, 0.6))
        view.stroke(curve, 0.01, mix(colour, (240, 240, 240), 0.35))
    view.ellipse(x0, y0, 0.05, 0.05, tint(colour, 0.75), relief="sphere", depth=0.4)


def gear_case(view: View, b: Build, dice: Dice, hurt: bool) -> None:
    (x0, y0), (x1, y1) = b.rear, b.crank
    colour = aged(dice.pick(((40, 40, 44), b.paint, (60, 60, 66))), hurt)
    if b.full_case:
        # Covers the chain altogether, sprocket and chainring included.
        low = 0.225 if hurt else 0.125
        outline = np.array(
            [
                (x0 - 0.085, y0),
                (x0 - 0.05, y0 + 0.085),
                (x1 - 0.05, y1 + 0.125),
                (x1 + 0.09, y1 + 0.1),
                (x1 + 0.125, y1),
                (x1 + 0.08, y1 - 0.11),
                (x1 - 0.05, y1 - 0.125),
                ((x0 + x1) / 2, y0 - low),
                (x0 - 0.04, y0 - 0.09),
            ]
        )
    else:
        outline = np.array(
            [
                (x0 - 0.02, y0 + 0.03),
                (x0, y0 + 0.085),
                (x1 - 0.06, y1 + 0.14),
                (x1 + 0.08, y1 + 0.12),
                (x1 + 0.135, y1 + 0.02),
                (x1 + 0.1, y1 + 0.0),
                (x1 + 0.05, y1 + 0.065),
                (x1 - 0.06, y1 + 0.07),
            ]
        )
        if hurt:
            outline[:4] += np.array([(0.1, 0.03), (0.1, 0.06), (0.0, 0.05), (0.02, 0.04)])
    view.fill(smooth(outline), colour, relief="cushion", slope=(0, 0.2))
    middle = ((x0 + x1) / 2, (y0 + y1) / 2)
    if hurt:
        if b.full_case:
            view.fill(
                [
                    (middle[0] - 0.02, middle[1] + 0.05),
                    (middle[0] + 0.09, middle[1] + 0.03),
                    (middle[0] + 0.04, middle[1] - 0.06),
                ],
                (20, 18, 18),
            )
        view.stroke([(middle[0] - 0.1, middle[1] + 0.07), (middle[0] - 0.05, middle[1] + 0.1)], 0.02, RUST)
    else:
        view.stroke([(x0 + 0.06, y0 + 0.06), (x1 - 0.05, y1 + 0.1)], 0.01, mix(colour, (255, 255, 255), 0.35))


def kickstand(view: View, b: Build, dice: Dice, hurt: bool) -> None:
    top = (0.31, b.crank[1] - 0.02)
    foot = (dice.between(0.16, 0.22), 0.015)
    line = [top, foot]
    if hurt:
        line = [top, (0.24, 0.16), (0.36, 0.05)]
    view.tube(line, 0.03, aged(b.metal, hurt))
    view.stroke([line[-1], (line[-1][0] + 0.045, line[-1][1])], 0.028, (40, 40, 42))


def lock(view: View, b: Build, dice: Dice, hurt: bool) -> None:
    x, y = 0.17, b.radius * 2 - 0.08
    colour: Colour = aged(dice.pick(((46, 46, 52), (60, 64, 72), (30, 30, 34))), hurt)
    hoop = arc(-0.5, pi + 0.5 if not hurt else 1.6, 10) * 0.062 + (x, y - 0.01)
    view.stroke(hoop, 0.03, tint(colour, 0.8))
    body = np.array([(x - 0.07, y + 0.005), (x + 0.07, y + 0.005), (x + 0.08, y + 0.085), (x - 0.08, y + 0.085)])
    view.fill(turned(body, (x, y), 0.5) if hurt else body, colour, relief="cushion", shade=1.1)
    view.ellipse(x + 0.03, y + 0.045, 0.018, 0.018, (220, 196, 90) if not hurt else (70, 50, 40))
