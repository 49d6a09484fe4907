"""Decoration that is not annotated: what furnishes a scene, and what looks like a class without being one.

Pictures and windows look like televisions, wall plates like clocks, vases like cups, boxes like books, boulders like
elephants. Without them a detector could be perfect.
"""

from math import cos, pi, sin

import numpy as np

from misdetect.data.procedural.draw.camera import Block, Board, Stage
from misdetect.data.procedural.draw.canvas import Colour, mix, smooth, tint
from misdetect.data.procedural.draw.dice import Dice
from misdetect.data.procedural.draw.items import CLOTHS, PAINTS, WOODS, Item


def picture(stage: Stage, item: Item) -> None:
    """A framed painting: landscape, abstract or portrait."""
    w, h, _ = item.span
    dice = item.dice
    board = item.frame(stage).board(0, 0, -0.02)
    wood = dice.pick((*WOODS, (190, 160, 80), (30, 30, 34), (240, 238, 232)))
    board.rectangle(-w / 2, -h / 2, w / 2, h / 2, wood, slope=(-0.15, 0.2))
    x, y = w / 2 - 0.05, h / 2 - 0.05
    if dice.chance(0.5):
        board.rectangle(-x, -y, x, y, (242, 240, 234))
        x, y = x - 0.05, y - 0.05
    kind = dice.whole(0, 2)
    sky = dice.pick(((150, 190, 224), (240, 200, 150), (120, 130, 170), (220, 224, 226)))
    board.rectangle(-x, -y, x, y, sky, slope=(0, 0.3), texture="grain", grain=1.0)
    if kind == 0:
        for k in range(2):
            level = dice.between(-0.2, 0.25) - 0.3 * k
            ridge = [(-x + 2 * x * t / 8, y * (level + 0.25 * sin(5 * t / 8 + dice.between(0, 6)))) for t in range(9)]
            board.fill(
                [(-x, -y), *ridge, (x, -y)], dice.pick(((70, 110, 80), (96, 90, 110), (150, 130, 80), (60, 90, 120)))
            )
    elif kind == 1:
        for _ in range(4):
            a, b = dice.between(-x * 0.7, x * 0.7), dice.between(-y * 0.7, y * 0.7)
            board.rectangle(a, b, min(x, a + x * 0.7), min(y, b + y * 0.6), dice.pick(PAINTS))
    else:
        board.fill([(-x * 0.6, -y), (-x * 0.4, -y * 0.3), (x * 0.4, -y * 0.3), (x * 0.6, -y)], dice.pick(CLOTHS))
        board.ellipse(0, y * 0.15, x * 0.3, y * 0.42, dice.pick(((224, 176, 140), (150, 104, 76), (196, 150, 116))))
        board.ellipse(0, y * 0.42, x * 0.34, y * 0.22, dice.pick(((60, 40, 30), (150, 110, 60), (40, 40, 44))))


def window(stage: Stage, item: Item) -> None:
    """A window with a sky outside, sometimes with curtains."""
    w, h, _ = item.span
    dice = item.dice
    board = item.frame(stage).board(0, 0, -0.02)
    sky = dice.pick(((170, 206, 240), (214, 226, 236), (250, 214, 170), (60, 74, 120)))
    board.rectangle(-w / 2, -h / 2, w / 2, h / 2, (240, 238, 232), slope=(-0.1, 0.1))
    x, y = w / 2 - 0.06, h / 2 - 0.06
    board.rectangle(-x, -y, x, y, sky, slope=(0.1, 0.35))
    green = dice.pick(((90, 140, 90), (120, 130, 140), (70, 110, 80)))
    ridge = [(-x + 2 * x * t / 8, -y + y * (0.5 + 0.25 * sin(7 * t / 8 + dice.between(0, 1)))) for t in range(9)]
    board.fill([(-x, -y), *ridge, (x, -y)], green, slope=(0, 0.2))
    board.rectangle(-0.02, -y, 0.02, y, (236, 234, 228))
    if dice.chance(0.7):
        board.rectangle(-x, -0.02, x, 0.02, (236, 234, 228))
    board.rectangle(-w / 2 - 0.06, -h / 2 - 0.05, w / 2 + 0.06, -h / 2 + 0.01, (226, 222, 214))
    if dice.chance(0.5):
        cloth = dice.pick(CLOTHS)
        for s in (-1, 1):
            for k in range(4):
                x0, x1 = s * (w / 2 + 0.12 - 0.08 * k), s * (w / 2 + 0.04 - 0.08 * k)
                board.rectangle(
                    x0, -h / 2 - 0.25, x1, h / 2 + 0.12, cloth, shade=0.8 + 0.14 * (k % 2) + 0.1, slope=(0.2, 0)
                )
        board.stroke([(-w / 2 - 0.2, h / 2 + 0.12), (w / 2 + 0.2, h / 2 + 0.12)], 0.03, (90, 70, 50))


def plate(stage: Stage, item: Item) -> None:
    """A painted plate or a round mirror on the wall: round like a clock, but without hands."""
    dice = item.dice
    r = item.span[0] / 2
    board = item.frame(stage).board(0, 0, -0.02)
    rim = dice.pick(PAINTS)
    board.ellipse(0, 0, r, r, rim, relief="sphere", depth=0.5)
    if dice.chance(0.4):
        board.ellipse(0, 0, r * 0.86, r * 0.86, (176, 196, 206), relief="glass", depth=0.7)
        return
    board.ellipse(0, 0, r * 0.72, r * 0.72, (244, 240, 230), slope=(0.1, 0.1))
    ink = dice.pick(PAINTS[:8])
    for k in range(5):
        a = k * 2 * pi / 5
        board.ellipse(r * 0.3 * cos(a), r * 0.3 * sin(a), r * 0.15, r * 0.15, ink)


def vase(stage: Stage, item: Item) -> None:
    """A vase, bottle or bowl: made as cups are, without a handle."""
    dice = item.dice
    w, h, _ = item.span
    stage.cast(item.x, item.y, item.z, w * 0.7, w * 0.5)
    board = item.facing(stage)
    colour = dice.pick(PAINTS)
    form = dice.whole(0, 2)
    if form == 2:
        frame = item.frame(stage)
        frame.cylinder(0, 0, 0, h * 0.45, w * 0.3, w * 0.8, colour, lid=tint(colour, 0.6))
        return
    profile = (
        [(0.3, 0), (0.5, 0.3), (0.42, 0.55), (0.16, 0.75), (0.24, 1.0)],
        [(0.36, 0), (0.38, 0.5), (0.3, 0.62), (0.12, 0.75), (0.12, 1.0)],
    )[form]
    side = smooth(profile, closed=False) * (w, h * 1.5)
    board.fill(np.concatenate([side, (side * (-1, 1))[::-1]]), colour, relief="column", depth=1.2)


def box(stage: Stage, item: Item) -> None:
    """A cardboard box or a gift."""
    dice = item.dice
    w, h, d = item.span
    stage.cast(item.x, item.y, item.z, w * 0.7, d * 0.8)
    frame = item.frame(stage)
    gift = dice.chance(0.4)
    colour = dice.pick(PAINTS) if gift else dice.pick(((186, 146, 96), (166, 128, 84), (204, 166, 116)))
    frame.blocks([Block((0, h / 2, 0), (w, h, d), colour, "grain", 1.4)])
    tape = dice.pick(PAINTS) if gift else (214, 190, 140)
    frame.board(0, 0, -d / 2 - 0.002).rectangle(-w * 0.08, 0, w * 0.08, h, tape)
    top = frame.at([[-w * 0.08, h, -d / 2], [w * 0.08, h, -d / 2], [w * 0.08, h, d / 2], [-w * 0.08, h, d / 2]])
    stage.canvas.fill(top, tape, shade=1.1)


def cabinet(stage: Stage, item: Item) -> None:
    """A sideboard with doors; a television or plants may stand on it."""
    dice = item.dice
    w, h, d = item.span
    stage.cast(item.x, item.y, item.z, w * 0.6, d * 0.8)
    frame = item.frame(stage)
    wood = dice.pick(WOODS)
    frame.blocks([Block((0, h / 2, 0), (w, h, d), wood, "wood", 1.8)])
    board = frame.board(0, 0, -d / 2 - 0.003)
    doors = max(2, round(w / 0.45))
    for k in range(doors):
        x0, x1 = -w / 2 + w * k / doors + 0.02, -w / 2 + w * (k + 1) / doors - 0.02
        board.rectangle(x0, 0.06, x1, h - 0.05, tint(wood, 0.9), slope=(0.05, -0.12), texture="post", grain=1.2)
        board.ellipse((x1 - 0.05) if k % 2 == 0 else (x0 + 0.05), h * 0.55, 0.022, 0.022, (60, 56, 50))


def shelf(stage: Stage, item: Item) -> None:
    """A board on the wall on which small things stand."""
    w, h, d = item.span
    wood = item.dice.pick(WOODS)
    frame = item.frame(stage)
    sx, sy = frame.at((0, -0.1, 0))
    unit = stage.camera.focal / max(item.z, 0.5)
    stage.canvas.soften(float(sx), float(sy), w * 0.55 * unit, 0.16 * unit, -stage.shadow * 0.7)
    frame.blocks([Block((s * w * 0.36, -h - 0.05, 0.02), (0.03, 0.1, d * 0.6), tint(wood, 0.7)) for s in (-1, 1)])
    frame.blocks([Block((0, -h / 2, 0), (w, h, d), wood, "wood", 1.6)])


def rug(stage: Stage, item: Item) -> None:
    """A rug on the floor, oblong or round."""
    dice = item.dice
    w, _, d = item.span
    frame = item.frame(stage)
    colour, other = dice.pick(CLOTHS), dice.pick(PAINTS)
    round_one = dice.chance(0.35)
    for scale, tone in ((1.0, colour), (0.84, other), (0.74, colour), (0.3, mix(colour, other, 0.6))):
        if round_one:
            outline = frame.disc(0.0, w / 2 * scale)
        else:
            x, z = w / 2 * scale, d / 2 * scale
            outline = frame.at([(-x, 0.0, -z), (x, 0.0, -z), (x, 0.0, z), (-x, 0.0, z)])
        stage.canvas.fill(outline, tone, texture="fabric", grain=2.0)


def boulder(stage: Stage, item: Item) -> None:
    """A grey rock: coloured and rounded like an elephant."""
    dice = item.dice
    w, h, _ = item.span
    stage.cast(item.x, item.y, item.z, w * 0.6, w * 0.3)
    board = item.facing(stage)
    tops = [
        (-w / 2, 0),
        (-w * 0.46, h * 0.45),
        (-w * 0.2, h * dice.between(0.7, 1)),
        (w * 0.15, h * dice.between(0.6, 1)),
        (w * 0.42, h * 0.5),
        (w / 2, 0),
    ]
    board.fill(
        smooth([*tops, (0, -0.02)]),
        dice.pick(((130, 126, 122), (112, 110, 110), (150, 140, 128))),
        relief="body",
        texture="skin",
        grain=3.0,
    )


def tree(stage: Stage, item: Item) -> None:
    """A tree: round, pointed or leaning palm; no pot, so no plant."""
    dice = item.dice
    w, h, _ = item.span
    stage.cast(item.x, item.y, item.z, w * 0.6, w * 0.3)
    board = item.facing(stage)
    green = dice.pick(((58, 104, 56), (80, 124, 60), (96, 120, 66), (48, 90, 64), (150, 120, 50)))
    bark: Colour = (96, 74, 54)
    board.fill(
        [(-w * 0.07, 0), (w * 0.07, 0), (w * 0.045, h * 0.6), (-w * 0.045, h * 0.6)],
        bark,
        texture="post",
        grain=3.0,
        relief="column",
    )
    if item.design == 0:
        for _ in range(5):
            x, y, r = dice.between(-0.26, 0.26) * w, h * dice.between(0.52, 0.8), w * dice.between(0.2, 0.3)
            board.ellipse(
                x,
                y,
                r,
                r * 0.9,
                tint(green, dice.between(0.85, 1.15)),
                texture="leaf",
                grain=5.0,
                relief="sphere",
                depth=0.6,
            )
    elif item.design == 1:
        for k in range(4):
            y = h * (0.25 + 0.17 * k)
            reach = w * (0.46 - 0.09 * k)
            board.fill(
                [(-reach, y), (reach, y), (0, y + h * 0.34)],
                green,
                texture="leaf",
                grain=4.0,
                shade=0.85 + 0.06 * k,
                slope=(-0.25, 0),
            )
    else:
        _fronds(board, dice, green, w, h)


def _fronds(board: Board, dice: Dice, green: Colour, w: float, h: float) -> None:
    for k in range(9):
        a = -2.0 + 4.0 * k / 8
        arc = smooth(
            [
                (0, h * 0.6),
                (sin(a) * w * 0.3, h * (0.62 + 0.22 * cos(a))),
                (sin(a) * w * 0.55, h * (0.6 + 0.1 * cos(a))),
            ],
            closed=False,
        )
        board.stroke(arc, w * 0.05, tint(green, dice.between(0.8, 1.2)))


def fence(stage: Stage, item: Item) -> None:
    """A wooden fence across the scene."""
    dice = item.dice
    w, h, _ = item.span
    wood = dice.pick(WOODS)
    frame = item.frame(stage)
    posts = round(w / 0.35)
    blocks = [
        Block((-w / 2 + w * k / posts, h / 2, 0), (0.1, h, 0.04), tint(wood, 0.9 + 0.1 * (k % 2)))
        for k in range(posts + 1)
    ]
    frame.blocks([Block((0, y * h, 0.03), (w, 0.08, 0.03), tint(wood, 0.8)) for y in (0.3, 0.75)])
    frame.blocks(blocks)
