"""Cats and elephants: outlines on a board that faces the camera, with relief and texture.

Each has several poses and coats, and faces left or right.
"""

import numpy as np

from misdetect.data.procedural.draw.camera import Board, Stage
from misdetect.data.procedural.draw.canvas import Colour, Points, limb, mix, smooth, tint
from misdetect.data.procedural.draw.dice import Dice
from misdetect.data.procedural.draw.items import Item

_FURS: tuple[tuple[Colour, Colour], ...] = (
    ((206, 130, 62), (166, 92, 40)), ((96, 92, 90), (60, 58, 58)), ((44, 42, 44), (30, 28, 30)),
    ((232, 226, 214), (196, 186, 170)), ((150, 118, 84), (100, 74, 50)), ((178, 172, 166), (130, 124, 120)),
)  # fmt: skip


def cat(stage: Stage, item: Item) -> None:
    """Sitting, standing or lying, plain or striped."""
    dice = item.dice
    w, h, _ = item.span
    stage.cast(item.x, item.y, item.z, w * 0.5, w * 0.3)
    fur, dark = dice.pick(_FURS)
    board = item.facing(stage, flip=dice.chance(0.5))
    belly = (240, 234, 224) if dice.chance(0.4) else tint(fur, 1.15)
    striped = dice.chance(0.55)
    (_sitting, _standing, _lying)[item.design % 3](board, dice, w, h, fur, dark, belly, striped)


def _cat_head(
    board: Board, dice: Dice, x: float, y: float, r: float, fur: Colour, dark: Colour, belly: Colour, striped: bool
) -> None:
    for s in (-1, 1):
        board.flat(
            [(x + s * r * 0.95, y + r * 0.2), (x + s * r * 0.82, y + r * 1.35), (x + s * r * 0.15, y + r * 0.8)],
            tint(fur, 0.85),
        )
        board.flat(
            [(x + s * r * 0.78, y + r * 0.5), (x + s * r * 0.74, y + r * 1.08), (x + s * r * 0.36, y + r * 0.75)],
            (214, 150, 140),
        )
    head = smooth(
        [
            (x - r, y),
            (x - r * 0.72, y + r * 0.7),
            (x, y + r * 0.85),
            (x + r * 0.72, y + r * 0.7),
            (x + r, y),
            (x + r * 0.6, y - r * 0.7),
            (x, y - r * 0.85),
            (x - r * 0.6, y - r * 0.7),
        ]
    )
    board.fill(head, fur, relief="sphere", depth=0.5, texture="fur", grain=1.2)
    if striped:
        for k in (-0.28, 0.0, 0.28):
            board.stroke([(x + k * r, y + r * 0.8), (x + k * r * 0.7, y + r * 0.45)], r * 0.1, dark)
    board.ellipse(x, y - r * 0.38, r * 0.44, r * 0.32, belly)
    eye = dice.pick(((170, 200, 70), (230, 180, 50), (110, 180, 210)))
    for s in (-1, 1):
        board.ellipse(x + s * r * 0.42, y + r * 0.12, r * 0.2, r * 0.2, eye)
        board.ellipse(x + s * r * 0.42, y + r * 0.12, r * 0.08, r * 0.18, (16, 16, 16))
    board.flat([(x - r * 0.13, y - r * 0.2), (x + r * 0.13, y - r * 0.2), (x, y - r * 0.38)], (206, 110, 110))
    for s in (-1, 1):
        board.stroke([(x + s * r * 0.35, y - r * 0.36), (x + s * r * 1.25, y - r * 0.28)], r * 0.03, (240, 240, 240))


def _sitting(
    board: Board, dice: Dice, w: float, h: float, fur: Colour, dark: Colour, belly: Colour, striped: bool
) -> None:
    tail = smooth([(w * 0.22, 0.05 * h), (w * 0.48, 0.04 * h), (w * 0.56, 0.18 * h), (w * 0.46, 0.3 * h)], closed=False)
    board.flat(limb(tail, np.linspace(0.13, 0.09, len(tail)) * h), tint(fur, 0.8))
    body = smooth(
        [
            (-w * 0.3, 0),
            (-w * 0.36, h * 0.2),
            (-w * 0.2, h * 0.52),
            (-w * 0.14, h * 0.66),
            (w * 0.14, h * 0.66),
            (w * 0.22, h * 0.5),
            (w * 0.38, h * 0.2),
            (w * 0.32, 0),
        ]
    )
    board.fill(body, fur, relief="body", texture="fur", grain=2.0)
    board.ellipse(0, h * 0.36, w * 0.13, h * 0.2, belly)
    if striped:
        for k, y in enumerate((0.14, 0.25, 0.36, 0.47)):
            reach = w * (0.33 - 0.04 * k)
            for s in (-1, 1):
                board.stroke([(s * reach, h * y), (s * reach * 0.55, h * (y - 0.03))], 0.03 * h, dark)
    for s in (-1, 1):
        board.fill(
            [
                (s * w * 0.14 - w * 0.07, h * 0.34),
                (s * w * 0.14 + w * 0.07, h * 0.34),
                (s * w * 0.13 + w * 0.07, 0),
                (s * w * 0.13 - w * 0.07, 0),
            ],
            fur,
            shade=0.95,
            relief="column",
            depth=0.6,
        )
        board.ellipse(s * w * 0.13, h * 0.025, w * 0.1, h * 0.04, belly)
    _cat_head(board, dice, 0, h * 0.76, h * 0.2, fur, dark, belly, striped)


def _standing(
    board: Board, dice: Dice, w: float, h: float, fur: Colour, dark: Colour, belly: Colour, striped: bool
) -> None:
    up = dice.between(0.75, 1.0)
    tail = smooth(
        [(-w * 0.36, h * 0.56), (-w * 0.5, h * 0.7), (-w * 0.48, h * up), (-w * 0.4, h * (up + 0.06))], closed=False
    )
    board.flat(limb(tail, np.linspace(0.11, 0.07, len(tail)) * h), tint(fur, 0.85))
    for x, light in ((-0.26, 0.7), (0.2, 0.7), (-0.34, 0.95), (0.27, 0.95)):
        step = dice.between(-0.05, 0.05) * w
        board.fill(
            [
                (x * w - w * 0.05, h * 0.42),
                (x * w + w * 0.06, h * 0.42),
                (x * w + step + w * 0.045, 0),
                (x * w + step - w * 0.045, 0),
            ],
            fur,
            shade=light,
            slope=(0.0, -0.1),
        )
        board.ellipse(x * w + step + w * 0.02, h * 0.025, w * 0.06, h * 0.03, tint(belly, light))
    body = smooth(
        [
            (-w * 0.42, h * 0.5),
            (-w * 0.34, h * 0.66),
            (0, h * 0.64),
            (w * 0.26, h * 0.68),
            (w * 0.36, h * 0.52),
            (w * 0.24, h * 0.34),
            (-w * 0.05, h * 0.33),
            (-w * 0.34, h * 0.36),
        ]
    )
    board.fill(body, fur, relief="body", texture="fur", grain=2.0)
    if striped:
        for k in range(5):
            x = w * (-0.3 + 0.12 * k)
            board.stroke([(x, h * 0.65), (x + w * 0.02, h * 0.48)], 0.035 * h, dark)
    _cat_head(board, dice, w * 0.36, h * 0.74, h * 0.19, fur, dark, belly, striped)


def _lying(
    board: Board, dice: Dice, w: float, h: float, fur: Colour, dark: Colour, belly: Colour, striped: bool
) -> None:
    body = smooth(
        [
            (-w * 0.5, h * 0.1),
            (-w * 0.48, h * 0.45),
            (-w * 0.22, h * 0.68),
            (w * 0.12, h * 0.62),
            (w * 0.36, h * 0.45),
            (w * 0.42, h * 0.08),
            (0, 0),
        ]
    )
    board.fill(body, fur, relief="body", texture="fur", grain=2.0)
    if striped:
        for k in range(5):
            x = w * (-0.34 + 0.12 * k)
            board.stroke([(x, h * 0.6), (x - w * 0.03, h * 0.36)], 0.045 * h, dark)
    tail = smooth(
        [(-w * 0.42, h * 0.08), (-w * 0.2, h * 0.02), (w * 0.05, h * 0.08), (w * 0.12, h * 0.14)], closed=False
    )
    board.flat(limb(tail, np.linspace(0.17, 0.12, len(tail)) * h), tint(fur, 0.8))
    for x in (0.24, 0.38):
        board.ellipse(w * x, h * 0.08, w * 0.11, h * 0.09, belly)
    _cat_head(board, dice, w * 0.32, h * 0.58, h * 0.32, fur, dark, belly, striped)


_HIDES: tuple[Colour, ...] = (
    (132, 128, 126),
    (118, 118, 124),
    (148, 138, 126),
    (106, 100, 98),
    (150, 148, 150),
    (128, 112, 98),
)


def elephant(stage: Stage, item: Item) -> None:
    """Seen from the side, facing left or right; ears, trunk, tusks, size and step vary."""
    dice = item.dice
    _, h, _ = item.span
    stage.cast(item.x, item.y, item.z, h * 0.95, h * 0.4)
    board = Board.facing(stage, item.x, item.y, item.z, size=item.size * h, flip=dice.chance(0.5))
    hide = dice.pick(_HIDES)
    young = item.design == 1
    long = 0.88 if young else dice.between(0.94, 1.08)
    gait = dice.between(0.02, 0.11)
    for x, dx, light in ((-0.44, gait, 0.66), (0.26, -gait, 0.66)):
        _elephant_leg(board, x * long + 0.06, dx, hide, light)
    tail = smooth([(-0.68 * long, 0.78), (-0.8 * long, 0.62), (-0.8 * long, 0.4)], closed=False)
    board.stroke(tail, 0.03, tint(hide, 0.7))
    board.ellipse(-0.8 * long, 0.37, 0.025, 0.05, (50, 46, 44))
    body = np.array(
        [
            (-0.66, 0.86),
            (-0.42, 1.0),
            (-0.1, 1.03),
            (0.2, 0.98),
            (0.4, 1.0),
            (0.5, 0.8),
            (0.44, 0.52),
            (0.2, 0.38),
            (-0.12, 0.34),
            (-0.44, 0.37),
            (-0.66, 0.44),
            (-0.74, 0.65),
        ]
    )
    board.fill(smooth(body * (long, 1)), hide, relief="body", texture="skin", grain=2.2)
    for x, dx in ((-0.52, -gait), (0.3, gait)):
        _elephant_leg(board, x * long, dx, hide, 0.98)
    _elephant_head(board, dice, 0.58 * long, 0.9 + dice.between(-0.06, 0.08), hide, young)


def _elephant_leg(board: Board, x: float, dx: float, hide: Colour, light: float) -> None:
    outline = [
        (x - 0.12, 0.56),
        (x + 0.13, 0.56),
        (x + 0.1 + dx * 0.6, 0.28),
        (x + 0.11 + dx, 0.02),
        (x + 0.09 + dx, 0),
        (x - 0.09 + dx, 0),
        (x - 0.1 + dx, 0.02),
        (x - 0.09 + dx * 0.6, 0.28),
    ]
    board.fill(outline, hide, shade=light, relief="column", depth=0.8, texture="skin", grain=1.6)
    for k in (-0.05, 0.01, 0.06):
        board.ellipse(x + dx + k, 0.018, 0.022, 0.02, (206, 198, 184))


def _elephant_head(board: Board, dice: Dice, x: float, y: float, hide: Colour, young: bool) -> None:
    pose = dice.whole(0, 2)
    trunks = (
        [(0.2, 0.02), (0.3, -0.2), (0.3, -0.5), (0.28, -0.72), (0.38, -0.8)],
        [(0.2, 0.02), (0.34, -0.16), (0.46, -0.34), (0.62, -0.38), (0.7, -0.24)],
        [(0.2, 0.04), (0.42, 0.02), (0.56, 0.16), (0.58, 0.38), (0.48, 0.46)],
    )
    trunk: Points = smooth(np.array(trunks[pose]) + np.array((x, y)), closed=False)
    skull = smooth(
        [
            (x - 0.22, y - 0.08),
            (x - 0.2, y + 0.14),
            (x - 0.02, y + 0.26),
            (x + 0.18, y + 0.2),
            (x + 0.29, y + 0.02),
            (x + 0.24, y - 0.16),
            (x + 0.06, y - 0.26),
            (x - 0.12, y - 0.22),
        ]
    )
    board.fill(
        limb(trunk, np.linspace(0.22, 0.075, len(trunk))),
        hide,
        shade=0.94,
        texture="skin",
        grain=2.4,
        slope=(-0.1, -0.2),
    )
    board.fill(skull, hide, shade=1.04, relief="sphere", depth=0.45, texture="skin", grain=1.8)
    for k in range(4, len(trunk) - 2, 4):
        px, py = trunk[k]
        board.stroke([(px - 0.05, py + 0.01), (px + 0.045, py - 0.01)], 0.012, tint(hide, 0.72))
    if not young and dice.chance(0.75):
        tusk = smooth([(x + 0.2, y - 0.14), (x + 0.34, y - 0.28), (x + 0.5, y - 0.24)], closed=False)
        board.flat(limb(tusk, np.linspace(0.06, 0.015, len(tusk))), (244, 238, 220))
    big = dice.between(0.85, 1.15)
    ear = (
        np.array(
            [
                (0.02, 0.18),
                (-0.16, 0.26),
                (-0.36, 0.16),
                (-0.42, -0.06),
                (-0.34, -0.3),
                (-0.2, -0.42),
                (-0.08, -0.28),
                (0.0, -0.06),
            ]
        )
        * big
    )
    board.fill(smooth(ear * 1.06 + (x - 0.01, y - 0.01)), tint(hide, 0.55))
    board.fill(
        smooth(ear + np.array((x, y))),
        mix(hide, (190, 140, 130), 0.16),
        shade=0.95,
        texture="skin",
        grain=2.0,
        slope=(0.25, 0.15),
    )
    board.ellipse(x + 0.13, y + 0.06, 0.032, 0.034, (240, 236, 226))
    board.ellipse(x + 0.135, y + 0.06, 0.022, 0.026, (24, 20, 18))
