"""Saddle, bars, handles, brakes, bell, lights, reflector and dynamo, each intact or damaged.

Handles and hand brakes are *front* on the viewer's side and *back* behind the bicycle.
"""

import numpy as np

from misdetect.data.procedural.bikes.frame import RUST, Build, Spot, View, aged, turned
from misdetect.data.procedural.draw.canvas import Points, limb, mix, smooth, tint
from misdetect.data.procedural.draw.dice import Dice


def saddle(view: View, b: Build, dice: Dice, hurt: bool) -> None:
    x, y = b.saddle
    shape = np.array(
        [
            (-0.13, 0.06),
            (-0.15, 0.02),
            (-0.1, -0.03),
            (0.0, -0.03),
            (0.1, 0.0),
            (0.17, 0.02),
            (0.18, 0.045),
            (0.08, 0.05),
            (-0.02, 0.055),
        ]
    )
    if hurt:
        shape = turned(shape, (0.0, 0.0), 0.42)
    for k in (-0.07, -0.02):
        view.ellipse(x + k, y - 0.035, 0.022, 0.026, b.metal, relief="sphere")
    view.fill(smooth(shape + np.array((x, y))), b.leather, relief="body", slope=(0, 0.15))
    if hurt:
        view.fill(
            turned(np.array([(-0.09, 0.05), (-0.02, 0.055), (0.0, 0.02), (-0.05, 0.0)]), (0.0, 0.0), 0.42)
            + np.array((x, y)),
            (222, 196, 110),
            texture="grain",
            grain=3.0,
        )


def _bar(b: Build, shift: Spot) -> Points:
    (sx, sy), (gx, gy) = b.stem, b.grip
    dx, dy = shift
    if b.bars == 1:
        return smooth([(sx, sy), (sx + 0.05, sy + 0.01), (gx + dx, gy + dy)], closed=False)
    rise = 0.06 if b.bars == 0 else 0.03
    return smooth(
        [
            (sx, sy),
            (sx + 0.045, sy + rise),
            (sx - 0.02 + dx * 0.6, sy + rise + 0.01 + dy * 0.6),
            (gx + 0.05 + dx, gy + dy),
        ],
        closed=False,
    )


def steer(view: View, b: Build, dice: Dice, hurt: bool) -> None:
    steel = aged(b.metal, hurt)
    view.tube([b.head_high, b.stem], 0.03, steel)
    view.tube(_bar(b, b.far), 0.026, tint(steel, 0.7))
    near = _bar(b, (0.0, 0.0))
    if hurt:
        middle = len(near) // 2
        near[middle - 3 : middle + 4] += np.array(
            [(0.01, -0.02), (0.03, -0.05), (0.05, -0.08), (0.06, -0.09), (0.04, -0.07), (0.02, -0.05), (0.0, -0.02)]
        )
    view.tube(near, 0.03, steel)
    view.ellipse(b.stem[0], b.stem[1], 0.026, 0.026, tint(steel, 0.8))


def _direction(b: Build) -> Spot:
    """Where a grip points to: backwards, or forwards and down on sporty bars."""
    return (-0.11, -0.015) if b.bars != 1 else (0.1, -0.03)


def _handle(view: View, b: Build, dice: Dice, hurt: bool, shift: Spot, light: float) -> None:
    x, y = b.grip[0] + shift[0], b.grip[1] + shift[1]
    dx, dy = _direction(b)
    colour = dice.pick((b.leather, (36, 36, 38), (36, 36, 38), (110, 66, 40), (130, 130, 134)))
    start = (x + 0.05, y) if b.bars != 1 else (x - 0.02, y)
    end = (x + dx, y + dy)
    if hurt:
        view.stroke([start, end], 0.022, tint(RUST, light))
        view.flat(
            limb([start, ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2 - 0.012)], [0.05, 0.03]), tint(colour, light)
        )
        return
    view.stroke([start, end], 0.05, tint(colour, light))
    view.stroke(
        [(start[0], start[1] + 0.008), (end[0], end[1] + 0.008)], 0.014, mix(tint(colour, light), (255, 255, 255), 0.3)
    )


def front_handle(view: View, b: Build, dice: Dice, hurt: bool) -> None:
    _handle(view, b, dice, hurt, (0.0, 0.0), 1.0)


def back_handle(view: View, b: Build, dice: Dice, hurt: bool) -> None:
    _handle(view, b, dice, hurt, b.far, 0.8)


def _brake(view: View, b: Build, hurt: bool, shift: Spot, light: float) -> None:
    x, y = b.grip[0] + shift[0] + 0.07, b.grip[1] + shift[1]
    dx, _ = _direction(b)
    if b.bars == 1:
        x -= 0.06
    bow = [(x, y - 0.01), (x + dx * 0.3, y - 0.06), (x + dx * 1.15, y - 0.085)]
    if hurt:
        bow = [(x, y - 0.01), (x + 0.02, y - 0.09), (x - 0.02, y - 0.17)]
    line = smooth(bow, closed=False)
    view.stroke(line, 0.026, tint(aged((120, 122, 126), hurt), 0.55 * light))
    view.stroke(line, 0.012, tint(aged((214, 216, 220), hurt), light))
    view.ellipse(x, y - 0.008, 0.024, 0.026, tint((70, 70, 74), light))


def front_handbreak(view: View, b: Build, dice: Dice, hurt: bool) -> None:
    _brake(view, b, hurt, (0.0, 0.0), 1.0)


def back_hand_break(view: View, b: Build, dice: Dice, hurt: bool) -> None:
    _brake(view, b, hurt, b.far, 0.8)


def bell(view: View, b: Build, dice: Dice, hurt: bool) -> None:
    x, y = b.stem[0] - 0.035, b.stem[1] + 0.085
    colour = dice.pick(((214, 216, 222), (206, 170, 80), (200, 50, 50), (60, 130, 190)))
    if hurt:
        view.fill(
            turned(
                smooth([(x - 0.05, y - 0.02), (x - 0.03, y + 0.02), (x + 0.0, y - 0.002), (x + 0.05, y - 0.02)]),
                (x, y),
                -0.5,
            ),
            aged(colour, True),
            slope=(0.3, 0.0),
        )
    else:
        view.fill(
            smooth(
                [
                    (x - 0.052, y - 0.022),
                    (x - 0.04, y + 0.02),
                    (x, y + 0.04),
                    (x + 0.04, y + 0.02),
                    (x + 0.052, y - 0.022),
                ]
            ),
            colour,
            relief="sphere",
        )
    view.stroke([(x - 0.05, y - 0.024), (x + 0.05, y - 0.024)], 0.014, (60, 60, 64))


def back_light(view: View, b: Build, dice: Dice, hurt: bool) -> None:
    x, y = -0.27, b.radius * 2 + 0.045
    shell = np.array([(x - 0.03, y - 0.045), (x + 0.055, y - 0.045), (x + 0.055, y + 0.045), (x - 0.03, y + 0.045)])
    lens = np.array([(x - 0.055, y - 0.038), (x - 0.01, y - 0.045), (x - 0.01, y + 0.045), (x - 0.055, y + 0.038)])
    if hurt:
        shell, lens = turned(shell, (x, y), 0.6), turned(lens[[0, 1, 2]], (x, y), 0.6)
    view.fill(shell, (44, 44, 48), slope=(0.2, 0))
    view.fill(lens, (150, 60, 50) if hurt else (224, 36, 36), slope=(0.2, -0.4))
    if hurt:
        view.stroke([(x - 0.03, y + 0.02), (x + 0.03, y - 0.03)], 0.014, (230, 220, 214))


def back_reflector(view: View, b: Build, dice: Dice, hurt: bool) -> None:
    x, y = -b.radius - 0.045, b.radius + 0.02
    plate = np.array([(x - 0.034, y - 0.05), (x + 0.026, y - 0.05), (x + 0.026, y + 0.05), (x - 0.034, y + 0.05)])
    if hurt:
        plate = turned(plate[[0, 1, 3]], (x, y), 0.5)
        view.fill(plate, (150, 70, 60), slope=(0.3, 0.3))
        view.stroke([plate[0], plate.mean(axis=0)], 0.012, (60, 30, 30))
        return
    view.flat((plate - (x, y)) * 1.14 + (x, y), (60, 24, 24))
    view.fill(plate, (246, 66, 48), slope=(-0.3, -0.3))


def front_light(view: View, b: Build, dice: Dice, hurt: bool) -> None:
    x, y = b.head_high[0] + 0.1, b.head_high[1] - 0.01
    case = dice.pick(((180, 184, 190), (44, 44, 48), b.paint))
    body = np.array(
        [
            (x - 0.06, y + 0.02),
            (x - 0.02, y + 0.05),
            (x + 0.04, y + 0.055),
            (x + 0.04, y - 0.055),
            (x - 0.02, y - 0.05),
            (x - 0.06, y - 0.02),
        ]
    )
    if hurt:
        body = turned(body, (x, y), -0.9)
        view.fill(body, aged(case, True), relief="body")
        view.stroke([(x - 0.01, y - 0.05), (x + 0.04, y - 0.02)], 0.02, (30, 30, 30))
        return
    view.fill(body, case, relief="body")
    view.ellipse(x + 0.04, y, 0.022, 0.055, (255, 244, 196), slope=(0.1, 0.2))


def dynamo(view: View, b: Build, dice: Dice, hurt: bool) -> None:
    x, y = b.front[0] - 0.035, b.radius * 2 - 0.045
    tilt = -0.9 if hurt else -0.2
    bottle = np.array([(-0.032, -0.075), (0.032, -0.075), (0.034, 0.04), (0.016, 0.06), (-0.016, 0.06), (-0.034, 0.04)])
    cap = np.array([(-0.016, 0.055), (0.016, 0.055), (0.014, 0.09), (-0.014, 0.09)])
    steel = aged(dice.pick(((186, 188, 192), (120, 122, 126), (50, 50, 54))), hurt)
    view.fill(turned(bottle, (0, 0), tilt) + np.array((x, y)), steel, relief="column")
    if not hurt:
        view.fill(turned(cap, (0, 0), tilt) + np.array((x, y)), (60, 60, 62))
