"""Potted plants in six designs: broad leaves, palm, cactus, sword leaves, flowers, clipped ball.

Only what grows in a pot is a *plant*; trees, hedges and grass are surroundings.
"""

from math import copysign, cos, pi, sin

import numpy as np

from misdetect.data.procedural.draw.camera import Board, Stage
from misdetect.data.procedural.draw.canvas import Colour, mix, smooth, tint
from misdetect.data.procedural.draw.dice import Dice
from misdetect.data.procedural.draw.items import PAINTS, Item

_GREENS: tuple[Colour, ...] = (
    (62, 128, 62),
    (88, 150, 66),
    (44, 104, 66),
    (110, 160, 80),
    (70, 120, 90),
    (126, 146, 62),
)
_POTS: tuple[Colour, ...] = (
    (186, 98, 62),
    (236, 230, 218),
    (70, 76, 84),
    (70, 120, 150),
    (214, 170, 96),
    (150, 66, 60),
    (120, 140, 110),
)


def plant(stage: Stage, item: Item) -> None:
    """A potted plant: broad leaves, palm, cactus, sword leaves, flowers, or a clipped ball."""
    dice = item.dice
    w, h, _ = item.span
    stage.cast(item.x, item.y, item.z, w * 0.45, w * 0.35)
    board = item.facing(stage)
    green = dice.pick(_GREENS)
    pot_h = h * dice.between(0.26, 0.36)
    pot_w = min(w * 0.62, pot_h * 1.25)
    draw = (_broad, _palm, _cactus, _swords, _flowers, _topiary)[item.design % 6]
    if item.design % 6 in (0, 1, 3):
        draw(board, dice, green, w, pot_h * 0.92, h)
        _pot(stage, item, dice, pot_w, pot_h)
    else:
        _pot(stage, item, dice, pot_w, pot_h)
        draw(board, dice, green, w, pot_h * 0.97, h)


def _pot(stage: Stage, item: Item, dice: Dice, w: float, h: float) -> None:
    colour = dice.pick(_POTS)
    frame = item.frame(stage)
    narrow = dice.pick((0.72, 0.8, 1.0))
    frame.cylinder(0, 0, 0, h * 0.8, w / 2 * narrow, w / 2, colour, lid=(70, 50, 36))
    frame.cylinder(0, 0, h * 0.76, h, w / 2 * 1.1, w / 2 * 1.12, tint(colour, 1.05), lid=(70, 50, 36))
    if dice.chance(0.35):
        frame.cylinder(
            0,
            0,
            h * 0.3,
            h * 0.46,
            w / 2 * (narrow + 1) / 2,
            w / 2 * (narrow + 1) / 2 * 1.03,
            dice.pick(PAINTS),
            capped=False,
        )


def _leaf(
    board: Board,
    root: tuple[float, float],
    angle: float,
    length: float,
    wide: float,
    colour: Colour,
    droop: float = 0.0,
) -> None:
    """A pointed leaf from ``root`` at ``angle`` from the vertical, its halves lit differently."""
    spine, left, right = [], [], []
    x, y = 0.0, 0.0
    for k, breadth in enumerate((0.12, 0.85, 1.0, 0.66, 0.0)):
        s, c = sin(angle + droop * k / 4), cos(angle + droop * k / 4)
        out, down = c * (breadth * wide / 2), -s * (breadth * wide / 2)
        px, py = x + root[0], y + root[1]
        spine.append((px, py))
        left.append((px + out, py + down))
        right.append((px - out, py - down))
        x, y = x + s * length / 4, y + c * length / 4
    board.flat(spine + left[::-1], tint(colour, 0.78))
    board.flat(spine + right[::-1], tint(colour, 1.1))


def _broad(board: Board, dice: Dice, green: Colour, w: float, low: float, high: float) -> None:
    reach = high - low
    count = dice.whole(9, 14)
    for k in range(count):
        a = (k / (count - 1) - 0.5) * 2 * dice.between(1.0, 1.35)
        order = dice.between(0.62, 1.0)
        _leaf(
            board,
            (0, low),
            a * 0.9,
            reach * order * (0.95 - 0.22 * abs(a)),
            w * 0.3,
            tint(green, dice.between(0.75, 1.2)),
            a * 0.5,
        )


def _palm(board: Board, dice: Dice, green: Colour, w: float, low: float, high: float) -> None:
    crown = low + (high - low) * dice.between(0.35, 0.55)
    board.stroke([(0, low), (dice.between(-0.04, 0.04), crown)], w * 0.09, (122, 92, 60))
    for k in range(dice.whole(8, 11)):
        a = -1.7 + 3.4 * ((k * 0.382) % 1.0)
        length = (high - crown) * dice.between(0.9, 1.15)
        _leaf(board, (0, crown), a * 0.8, length, w * 0.13, tint(green, dice.between(0.75, 1.2)), copysign(1.1, a))


def _cactus(board: Board, dice: Dice, green: Colour, w: float, low: float, high: float) -> None:
    r = w * dice.between(0.17, 0.22)
    body = mix(green, (90, 150, 90), 0.4)

    def column(x: float, y0: float, y1: float, radius: float) -> None:
        outline = smooth(
            [
                (x - radius, y0),
                (x - radius, (y0 + y1) / 2),
                (x - radius * 0.8, y1 - radius * 0.5),
                (x, y1),
                (x + radius * 0.8, y1 - radius * 0.5),
                (x + radius, (y0 + y1) / 2),
                (x + radius, y0),
            ]
        )
        board.fill(outline, body, relief="column", depth=1.3)
        for s in (-0.5, 0.0, 0.5):
            board.stroke(
                [(x + s * radius, y0), (x + s * radius * 0.9, y1 - radius * 0.5)], radius * 0.12, tint(body, 0.7)
            )

    for s in (-1, 1):
        if dice.chance(0.75):
            y = low + (high - low) * dice.between(0.25, 0.5)
            board.stroke([(0, y), (s * w * 0.36, y + 0.02)], r * 1.1, tint(body, 0.9))
            column(s * w * 0.36, y, y + (high - low) * dice.between(0.25, 0.42), r * 0.6)
    column(0, low, high, r)
    if dice.chance(0.5):
        board.ellipse(0, high, r * 0.5, r * 0.4, (230, 90, 140))


def _swords(board: Board, dice: Dice, green: Colour, w: float, low: float, high: float) -> None:
    for k in range(dice.whole(7, 10)):
        a = -0.5 + ((k * 0.618) % 1.0)
        length = (high - low) * dice.between(0.7, 1.02)
        root = (a * w * 0.3, low)
        _leaf(board, root, a * 0.75, length, w * 0.17, mix(green, (206, 200, 100), 0.45))
        _leaf(board, root, a * 0.75, length * 0.96, w * 0.1, tint(green, dice.between(0.7, 1.0)))


def _flowers(board: Board, dice: Dice, green: Colour, w: float, low: float, high: float) -> None:
    petal = dice.pick(((222, 60, 70), (240, 200, 60), (230, 130, 180), (150, 90, 190), (250, 246, 240), (240, 140, 50)))
    heads = []
    for k in range(dice.whole(5, 8)):
        a = -0.5 + ((k * 0.618) % 1.0)
        tip = (a * w * 0.95, low + (high - low) * dice.between(0.62, 0.94) * (1 - 0.3 * abs(a)))
        board.stroke([(a * w * 0.2, low), (a * w * 0.5, (low + tip[1]) / 2), tip], w * 0.028, tint(green, 0.8))
        _leaf(board, (a * w * 0.2, low), a * 1.9, (high - low) * 0.45, w * 0.13, tint(green, dice.between(0.8, 1.15)))
        heads.append(tip)
    tulip = dice.chance(0.4)
    for x, y in heads:
        r = w * 0.14
        if tulip:
            board.fill(
                [
                    (x - r * 0.7, y + r),
                    (x - r * 0.8, y - 0.2 * r),
                    (x, y - r),
                    (x + r * 0.8, y - 0.2 * r),
                    (x + r * 0.7, y + r),
                    (x, y + 0.3 * r),
                ],
                petal,
                slope=(0.3, 0.2),
            )
        else:
            for k in range(6):
                a = k * pi / 3
                board.ellipse(
                    x + r * 0.62 * cos(a), y + r * 0.62 * sin(a), r * 0.45, r * 0.45, tint(petal, 0.85 + 0.06 * k)
                )
            board.ellipse(x, y, r * 0.4, r * 0.4, (120, 80, 30) if petal[0] > 235 else (250, 214, 90))


def _topiary(board: Board, dice: Dice, green: Colour, w: float, low: float, high: float) -> None:
    board.stroke([(0, low), (0, (low + high) / 2)], w * 0.08, (110, 82, 54))
    crowns = 2 if dice.chance(0.4) else 1
    r = min(w * 0.5, (high - low) * 0.36)
    for k in range(crowns):
        radius = r * (1.0 if k == 0 else 0.68)
        y = (high - r * 1.0 if crowns == 1 else high - r * 1.6) + k * r * 1.05
        bumps = 1 + 0.08 * np.sin(np.arange(18) * 2.4 + dice.between(0, 6))
        outline = [
            (radius * b * cos(a), y + radius * b * sin(a)) for a, b in zip(np.arange(18) * pi / 9, bumps, strict=True)
        ]
        board.fill(smooth(outline), green, texture="leaf", grain=4.5, relief="sphere", depth=0.7)
