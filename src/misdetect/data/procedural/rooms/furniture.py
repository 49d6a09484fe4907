"""Chairs, couches, tables and televisions, each in several designs, as cuboids and cylinders in metres.

Every function draws one item at its place; nothing here decides where things stand (see ``layout``).
"""

from math import cos, pi, sin

import numpy as np

from misdetect.data.procedural.draw.camera import Block, Frame, Stage
from misdetect.data.procedural.draw.canvas import Colour, mix, smooth, tint
from misdetect.data.procedural.draw.dice import Dice
from misdetect.data.procedural.draw.items import CLOTHS, PAINTS, WOODS, Item


def _legs(w: float, d: float, h: float, thick: float, colour: Colour) -> list[Block]:
    x, z = w / 2 - thick / 2, d / 2 - thick / 2
    return [Block((sx * x, h / 2, sz * z), (thick, h, thick), colour) for sx in (-1, 1) for sz in (-1, 1)]


def chair(stage: Stage, item: Item) -> None:
    """Wooden, upholstered, swivel, or garden chair."""
    w, h, d = item.span
    stage.cast(item.x, item.y, item.z, w * 0.85, d * 0.8)
    frame = item.frame(stage)
    (_wooden, _upholstered, _swivel, _shell)[item.design % 4](frame, item.dice, w, h, d)


def _wooden(frame: Frame, dice: Dice, w: float, h: float, d: float) -> None:
    wood = dice.pick(WOODS)
    seat = dice.between(0.45, 0.5) * h
    t = 0.045
    cushion = dice.pick(CLOTHS) if dice.chance(0.4) else wood
    blocks = _legs(w, d, seat, t, wood)
    blocks += [Block((s * (w - t) / 2, (seat + h) / 2, d / 2 - t / 2), (t, h - seat, t), wood) for s in (-1, 1)]
    blocks.append(Block((0, seat, 0), (w, 0.05, d), cushion, "wood" if cushion == wood else "fabric", 1.5))
    if dice.chance(0.5):
        count = dice.whole(2, 4)
        for i in range(count):
            y = seat + (h - seat) * (0.35 + 0.58 * i / max(1, count - 1))
            blocks.append(Block((0, y, d / 2 - t / 2), (w - t, 0.07, 0.025), wood, "wood", 1.5))
    else:
        blocks.append(Block((0, h - 0.05, d / 2 - t / 2), (w, 0.1, 0.03), wood, "wood", 1.5))
        for i in range(dice.whole(3, 5)):
            x = (i - 2) * w / 5.5
            blocks.append(Block((x, (seat + h) / 2, d / 2 - t / 2), (0.022, h - seat, 0.02), wood))
    frame.blocks(blocks)


def _upholstered(frame: Frame, dice: Dice, w: float, h: float, d: float) -> None:
    cloth, wood = dice.pick(CLOTHS), dice.pick(WOODS)
    seat = 0.48 * h
    back = h - seat
    frame.blocks(
        [
            *_legs(w * 0.9, d * 0.9, seat - 0.05, 0.05, wood),
            Block((0, seat - 0.02, 0), (w, 0.11, d), cloth, "fabric", 1.6, "cushion"),
            Block((0, seat + back / 2, d / 2 - 0.04), (w * 0.96, back, 0.08), cloth, "fabric", 1.6, "cushion"),
        ]
    )
    if dice.chance(0.5):
        board = frame.board(0, 0, d / 2 - 0.085)
        for x in (-0.16, 0.0, 0.16):
            for y in (0.35, 0.68):
                board.ellipse(x * w / 0.45, seat + back * y, 0.014, 0.014, tint(cloth, 0.62))


def _swivel(frame: Frame, dice: Dice, w: float, h: float, d: float) -> None:
    cloth, metal = dice.pick(CLOTHS + PAINTS), dice.pick(((60, 62, 66), (150, 154, 160)))
    seat = 0.47 * h
    for k in range(5):
        a = k * 2 * pi / 5 + 0.3
        x, z = 0.52 * w * cos(a), 0.52 * w * sin(a)
        tip = frame.at([[0, 0.1, 0], [x, 0.05, z]])
        frame.stage.canvas.stroke(tip, 0.035 * frame.stage.camera.focal / frame.origin[2], metal)
        frame.sphere(x, 0.03, z, 0.032, (40, 40, 42))
    frame.cylinder(0, 0, 0.08, seat, 0.03, 0.03, metal)
    frame.blocks(
        [
            Block((0, seat + 0.02, 0), (w, 0.09, d), cloth, "fabric", 1.4, "cushion"),
            Block((0, seat + 0.1, d / 2), (0.06, 0.2, 0.04), metal),
            Block((0, seat + 0.33 * h, d / 2 - 0.02), (w * 0.9, 0.4 * h, 0.06), cloth, "fabric", 1.4, "cushion"),
        ]
    )
    if dice.chance(0.5):
        arm = seat + 0.2
        frame.blocks([Block((s * w * 0.54, arm, 0), (0.05, 0.04, d * 0.6), metal) for s in (-1, 1)])
        frame.blocks([Block((s * w * 0.54, arm - 0.1, 0), (0.03, 0.18, 0.03), metal) for s in (-1, 1)])


def _shell(frame: Frame, dice: Dice, w: float, h: float, d: float) -> None:
    """A moulded shell on splayed legs: a café or garden chair."""
    shell, leg = dice.pick(PAINTS), dice.pick(WOODS)
    seat = 0.46 * h
    unit = frame.stage.camera.focal / frame.origin[2]
    canvas = frame.stage.canvas

    def back_rest() -> None:
        board = frame.board(0, 0, d / 2 - 0.03)
        top = h
        outline = smooth(
            [(-w * 0.47, seat), (-w * 0.5, seat + 0.55 * (top - seat)), (-w * 0.34, top), (w * 0.34, top),
             (w * 0.5, seat + 0.55 * (top - seat)), (w * 0.47, seat)]
        )  # fmt: skip
        board.fill(outline, shell, relief="cushion", slope=(0.08, -0.1))
        if style == 1:
            for y in (0.35, 0.6):
                gap = seat + y * (top - seat)
                board.rectangle(-w * 0.3, gap, w * 0.3, gap + 0.05, tint(shell, 0.45))
        elif style == 2:
            board.ellipse(0, seat + 0.62 * (top - seat), w * 0.17, 0.07, tint(shell, 0.42))

    def seat_pad() -> None:
        pad = smooth(
            [(-w / 2, -d * 0.4), (-w * 0.38, -d / 2), (w * 0.38, -d / 2), (w / 2, -d * 0.4), (w / 2, d * 0.4),
             (w * 0.4, d / 2), (-w * 0.4, d / 2), (-w / 2, d * 0.4)]
        )  # fmt: skip
        flat = np.stack([pad[:, 0], np.full(len(pad), seat), pad[:, 1]], axis=1)
        canvas.fill(frame.at(flat - (0, 0.04, 0)), shell, shade=0.7)
        canvas.fill(frame.at(flat), shell, shade=1.1, slope=(0.1, 0.1))

    style = dice.whole(0, 2)
    for sx in (-1, 1):
        for sz in (1, -1):
            ends = frame.at([[sx * w * 0.3, seat, sz * d * 0.3], [sx * w * 0.48, 0, sz * d * 0.46]])
            canvas.stroke(ends, 0.04 * unit, tint(leg, 0.75 if sz > 0 else 1.0))
    towards = frame.axes[2, 2] > 0
    if towards:
        back_rest()
    seat_pad()
    if not towards:
        back_rest()


def couch(stage: Stage, item: Item) -> None:
    """Two or three seats, with block or rolled arms, with or without legs and loose pillows."""
    w, h, d = item.span
    dice = item.dice
    stage.cast(item.x, item.y, item.z, w * 0.62, d * 0.85)
    frame = item.frame(stage)
    cloth, wood = dice.pick(CLOTHS), dice.pick(WOODS)
    texture = dice.pick(("fabric", "grain", "fabric"))
    arm, seat = dice.between(0.12, 0.22), 0.46 * h / 0.85
    leg = dice.pick((0.02, 0.1, 0.14))
    arm_h = dice.between(0.56, 0.72) * h
    frame.blocks([Block((0, (leg + seat * 0.62) / 2, 0), (w * 0.97, seat * 0.62 - leg, d), tint(cloth, 0.86), texture)])
    if leg > 0.05:
        frame.blocks(_legs(w * 0.95, d * 0.95, leg, 0.06, wood))
    seats = 3 if w > 1.75 else 2
    inner = w - 2 * arm
    pitch = inner / seats
    middles = [(i - (seats - 1) / 2) * pitch for i in range(seats)]
    back_blocks = [
        Block((0, (leg + h) / 2 - 0.02, d / 2 - 0.09), (w * 0.99, h - leg - 0.04, 0.18), tint(cloth, 0.92), texture)
    ]
    pads = [
        Block((x, (seat + h) / 2 + 0.02, d / 2 - 0.24), (pitch * 0.97, h - seat, 0.16), cloth, texture, 1.6, "cushion")
        for x in middles
    ]
    cushions = [
        Block((x, seat - 0.07, -0.05), (pitch * 0.98, 0.17, d - 0.2), cloth, texture, 1.6, "cushion") for x in middles
    ]
    arms = [
        Block((s * (w - arm) / 2, (leg + arm_h) / 2, -0.02), (arm, arm_h - leg, d), cloth, texture, 1.6, "cushion")
        for s in (-1, 1)
    ]
    away = frame.axes[2, 2] < 0
    if away:
        frame.blocks(arms + cushions)
        frame.blocks(back_blocks)
    else:
        frame.blocks(back_blocks)
        frame.blocks(pads)
        frame.blocks(cushions)
        _pillows(frame, dice, middles, seat, d)
        frame.blocks(arms)
    if dice.chance(0.35):
        for s in (-1, 1):
            board = frame.board(s * (w - arm) / 2, 0, (d if away else -d) / 2 - 0.025)
            board.ellipse(0, arm_h - arm * 0.4, arm * 0.62, arm * 0.62, cloth, shade=1.02, relief="sphere", depth=0.5)


def _pillows(frame: Frame, dice: Dice, middles: list[float], seat: float, d: float) -> None:
    for x in middles:
        if not dice.chance(0.35):
            continue
        colour = dice.pick(PAINTS)
        board = frame.board(x, seat + 0.02, d / 2 - 0.36)
        tilt = dice.between(-0.35, 0.35)
        corners = np.array(
            [(-0.2, 0.0), (-0.14, 0.15), (-0.2, 0.34), (0, 0.29), (0.2, 0.34), (0.14, 0.15), (0.2, 0.0), (0, 0.03)]
        )
        turn = np.array([[cos(tilt), sin(tilt)], [-sin(tilt), cos(tilt)]])
        board.fill(smooth(corners @ turn), colour, texture="fabric", grain=1.5, relief="cushion")


def table(stage: Stage, item: Item) -> None:
    """Four legs, a round pedestal, a low slab with a shelf, or a desk with drawers."""
    w, h, d = item.span
    dice = item.dice
    stage.cast(item.x, item.y, item.z, w * 0.62, d * 0.75)
    frame = item.frame(stage)
    wood = dice.pick(WOODS)
    top = mix(wood, dice.pick(WOODS), 0.6) if dice.chance(0.3) else wood
    t = dice.between(0.035, 0.07)
    if item.design == 1:
        _round_table(frame, dice, wood, top, w, h, t)
        return
    slab = Block((0, h - t / 2, 0), (w, t, d), top, "wood", 2.4)
    thick = dice.between(0.04, 0.09)
    if item.design == 2:
        frame.blocks(
            [
                *_legs(w * 0.94, d * 0.9, h - t, thick, wood),
                Block((0, 0.16, 0), (w * 0.86, 0.03, d * 0.8), wood, "wood"),
            ]
        )
        frame.blocks([slab])
    elif item.design == 3:
        frame.blocks(_legs(w * 0.96, d * 0.94, h - t, 0.05, wood))
        side = dice.sign()
        frame.blocks([Block((side * w * 0.32, h * 0.55, 0), (w * 0.3, h * 0.75, d * 0.88), wood, "wood", 1.6)])
        frame.blocks([slab])
        if frame.axes[2, 2] > 0:
            board = frame.board(side * w * 0.32, 0, -d * 0.45)
            for y in (0.28, 0.54, 0.8):
                board.rectangle(-w * 0.13, h * (y - 0.1), w * 0.13, h * (y + 0.1), tint(wood, 0.9), slope=(0, -0.1))
                board.rectangle(-0.05, h * y - 0.01, 0.05, h * y + 0.015, (70, 66, 60))
    else:
        apron = Block((0, h - t - 0.05, 0), (w * 0.9, 0.1, d * 0.86), tint(wood, 0.85), "wood", 1.6)
        frame.blocks([*_legs(w * 0.94, d * 0.92, h - t, thick, wood), apron])
        frame.blocks([slab])
    if dice.chance(0.2) and item.design != 3:
        runner = dice.pick(PAINTS)
        frame.blocks([Block((0, h + 0.003, 0), (w * 0.3, 0.005, d * 1.0), runner, "fabric", 1.5)])


def _round_table(frame: Frame, dice: Dice, wood: Colour, top: Colour, w: float, h: float, t: float) -> None:
    r = w / 2
    frame.cylinder(0, 0, 0, 0.05, r * 0.5, r * 0.42, wood)
    frame.cylinder(0, 0, 0.05, h - t, 0.05, 0.06, wood)
    if dice.chance(0.25):
        cloth = dice.pick(CLOTHS)
        frame.cylinder(0, 0, h * 0.68, h, r * 1.05, r, cloth, texture="fabric", grain=1.8, lid=cloth)
        return
    frame.cylinder(0, 0, h - t, h, r, r, tint(wood, 0.8), lid=top)
    frame.stage.canvas.fill(frame.disc(h, r * 0.96), top, shade=1.1, texture="wood", grain=2.4, slope=(0.1, 0.1))


def tv(stage: Stage, item: Item) -> None:
    """A flat screen on a foot or on the wall, or an old set with a tube and an aerial; on or off."""
    w, h, d = item.span
    dice = item.dice
    frame = item.frame(stage)
    case = dice.pick(((28, 28, 32), (48, 48, 54), (24, 26, 36), (170, 172, 176)))
    if item.design == 2:
        _tube_set(frame, dice, w, h, d)
        return
    foot = 0.0
    if item.design == 0:
        foot = 0.09
        stage.cast(item.x, item.y, item.z, w * 0.45, 0.16)
        frame.blocks(
            [Block((0, 0.012, 0), (w * 0.42, 0.025, 0.2), case), Block((0, 0.06, 0.02), (0.09, 0.1, 0.04), case)]
        )
    frame.blocks([Block((0, foot + h / 2, 0), (w, h, d), case)])
    board = frame.board(0, foot, -d / 2 - 0.004)
    rim = dice.between(0.018, 0.04)
    _screen(board.rectangle, board.fill, dice, -w / 2 + rim, rim + 0.012, w / 2 - rim, h - rim)
    board.ellipse(w / 2 - 0.05, 0.014, 0.008, 0.008, (220, 40, 40) if dice.chance(0.5) else (60, 220, 90))


def _screen(rectangle, fill, dice: Dice, x0: float, y0: float, x1: float, y1: float) -> None:  # type: ignore[no-untyped-def]
    """What a set shows: nothing but a reflection, or a programme."""
    w, h = x1 - x0, y1 - y0
    if dice.chance(0.42):
        rectangle(x0, y0, x1, y1, (30, 34, 42), relief="glass", slope=(0.1, -0.2))
        return
    show = dice.whole(0, 3)
    if show == 0:
        rectangle(x0, y0, x1, y1, (92, 160, 230), slope=(0, 0.5))
        ground = smooth([(0, 0.4), (0.3, 0.52), (0.6, 0.38), (1, 0.55)], closed=False)
        edge = [(x0 + a * w, y0 + b * h) for a, b in ground]
        fill([(x0, y0), *edge, (x1, y0)], dice.pick(((60, 140, 70), (190, 160, 90), (70, 90, 150))), slope=(0, -0.3))
        fill(
            [(x0 + w * (0.78 + 0.08 * cos(k * pi / 6)), y0 + h * (0.8 + 0.1 * sin(k * pi / 6))) for k in range(12)],
            (255, 240, 170),
        )
    elif show == 1:
        rectangle(x0, y0, x1, y1, (40, 120, 60), slope=(0.1, 0.2))
        for k in (0.25, 0.5, 0.75):
            rectangle(x0 + w * k - 0.006, y0, x0 + w * k + 0.006, y1, (190, 230, 190))
        for _ in range(5):
            a, b = x0 + w * dice.between(0.1, 0.9), y0 + h * dice.between(0.15, 0.8)
            rectangle(a, b, a + 0.05 * w, b + 0.16 * h, dice.pick(((230, 60, 60), (240, 240, 90))))
    elif show == 2:
        rectangle(x0, y0, x1, y1, dice.pick(((40, 60, 140), (140, 50, 60), (60, 60, 90))), slope=(0.3, 0.2))
        cx, cy = x0 + w * dice.between(0.35, 0.65), y0
        fill(
            smooth(
                [(cx - 0.2 * w, cy), (cx - 0.14 * w, cy + 0.35 * h), (cx + 0.14 * w, cy + 0.35 * h), (cx + 0.2 * w, cy)]
            ),
            (60, 60, 80),
        )
        fill(
            [(cx + 0.1 * w * cos(k * pi / 7), cy + h * (0.58 + 0.2 * sin(k * pi / 7))) for k in range(14)],
            (224, 176, 140),
        )
        rectangle(x0, y0 + 0.06 * h, x1, y0 + 0.2 * h, (230, 230, 240))
    else:
        bars = (
            (230, 230, 230),
            (230, 220, 60),
            (60, 210, 220),
            (60, 200, 80),
            (210, 60, 200),
            (210, 50, 50),
            (50, 60, 200),
        )
        for k, colour in enumerate(bars):
            rectangle(x0 + w * k / 7, y0, x0 + w * (k + 1) / 7, y1, colour, slope=(0, 0.1))


def _tube_set(frame: Frame, dice: Dice, w: float, h: float, d: float) -> None:
    case = dice.pick((*WOODS[:6], (60, 60, 64), (196, 70, 60), (230, 224, 210)))
    d = 0.34
    frame.stage.cast(frame.origin[0], frame.origin[1], frame.origin[2], w * 0.6, 0.25)
    aerial = frame.board(0, h * 0.95, 0)
    if dice.chance(0.7):
        spread = dice.between(0.15, 0.3)
        aerial.stroke([(-spread, 0.26), (0, 0), (spread * 0.8, 0.28)], 0.012, (120, 120, 124))
    frame.blocks([Block((0, h / 2, 0), (w, h, d), case, "wood", 1.2)])
    board = frame.board(0, 0, -d / 2 - 0.004)
    x0, y0, x1, y1 = -w * 0.44, h * 0.12, w * 0.2, h * 0.88
    board.rectangle(x0 - 0.015, y0 - 0.015, x1 + 0.015, y1 + 0.015, (36, 34, 34))
    _screen(board.rectangle, board.fill, dice, x0, y0, x1, y1)
    for y in (0.74, 0.5):
        board.ellipse(w * 0.35, h * y, w * 0.065, w * 0.065, (210, 206, 196), relief="sphere", depth=0.6)
    for y in (0.16, 0.22, 0.28):
        board.rectangle(w * 0.26, h * y, w * 0.44, h * (y + 0.03), (50, 46, 44))
