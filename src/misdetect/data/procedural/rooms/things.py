"""Cups, books, lamps, clocks and balls, each in several designs.

Small things are drawn larger than life (a mug is 17 to 22 cm tall), so that they can be recognised in a picture of
128 pixels; they keep their relations to each other.
"""

from math import cos, pi, sin, sqrt

import numpy as np

from misdetect.data.procedural.draw.camera import Block, Board, Frame, Stage
from misdetect.data.procedural.draw.canvas import Colour, mix, smooth, tint
from misdetect.data.procedural.draw.dice import Dice
from misdetect.data.procedural.draw.items import CLOTHS, PAINTS, WOODS, Item

_DRINKS: tuple[Colour, ...] = ((62, 36, 22), (120, 66, 28), (196, 110, 40), (226, 214, 196))
_ROUND = np.array([(sin(k * pi / 6), cos(k * pi / 6)) for k in range(12)])
_HOURS = np.stack([0.68 * _ROUND, 0.76 * _ROUND], axis=1)[[k for k in range(12) if k % 3]]
_QUARTERS = np.stack([0.6 * _ROUND, 0.76 * _ROUND], axis=1)[::3]


def cup(stage: Stage, item: Item) -> None:
    """A mug, a teacup on its saucer, a take-away cup, or a tall mug with a band."""
    dice = item.dice
    w, h, _ = item.span
    frame = item.frame(stage)
    stage.cast(item.x, item.y, item.z, w * 0.9, w * 0.6)
    colour = dice.pick(PAINTS)
    drink = dice.pick(_DRINKS)
    r = w / 2
    side = dice.sign()
    unit = stage.camera.focal / item.z * item.size

    def handle(high: float, low: float, out: float) -> None:
        loop = smooth(
            [(r * 0.85, high), (r + out, high * 0.97), (r + out * 1.1, (high + low) / 2), (r * 0.85, low)], closed=False
        )
        flat = frame.board().at(loop * (side, 1))
        stage.canvas.stroke(flat, 0.034 * unit, tint(colour, 0.85))
        stage.canvas.stroke(flat - 0.004 * unit, 0.016 * unit, tint(colour, 1.15))

    if item.design == 1:
        frame.cylinder(0, 0, 0, 0.02, r * 1.0, r * 1.75, tint(colour, 0.9), lid=colour)
        handle(h * 0.85, h * 0.35, r * 0.5)
        frame.cylinder(0, 0, 0.02, h, r * 0.55, r * 1.15, colour, lid=tint(colour, 0.7))
        frame.cylinder(0, 0, h * 0.93, h * 0.93, r * 1.0, r * 1.0, drink, lid=drink)
    elif item.design == 2:
        frame.cylinder(0, 0, 0, h * 0.92, r * 0.68, r * 0.95, (238, 232, 222))
        frame.cylinder(
            0,
            0,
            h * 0.3,
            h * 0.66,
            r * 0.8,
            r * 0.9,
            colour if colour != (240, 236, 226) else (130, 90, 60),
            capped=False,
        )
        frame.cylinder(0, 0, h * 0.92, h, r * 1.04, r * 0.95, tint(colour, 0.75), lid=tint(colour, 0.9))
    else:
        handle(h * 0.82, h * 0.22, r * 0.62)
        frame.cylinder(0, 0, 0, h, r * 0.94, r, colour, lid=tint(colour, 0.62))
        if item.design == 3:
            frame.cylinder(0, 0, h * 0.35, h * 0.6, r * 0.98, r * 0.99, dice.pick(PAINTS), capped=False)
        frame.cylinder(0, 0, h * 0.9, h * 0.9, r * 0.84, r * 0.84, drink, lid=drink)


def book(stage: Stage, item: Item) -> None:
    """Lying, standing, leaning on its spine, or open."""
    dice = item.dice
    w, h, d = item.span
    colour = dice.pick(PAINTS + CLOTHS)
    trim = dice.pick(((236, 206, 120), (240, 236, 226), (40, 40, 50)))
    frame = item.frame(stage)
    stage.cast(item.x, item.y, item.z, w * 0.7, d * 0.7)
    paper: Colour = (236, 228, 208)
    if item.design == 3:
        _open_book(frame, dice, w, d, colour, paper)
    elif item.design == 2:
        frame.blocks(
            [
                Block((0, h / 2, 0.012), (w * 0.94, h * 0.96, d * 0.8), paper),
                Block((0, h / 2, -d * 0.3), (w, h, d * 0.3), colour, "grain", 1.0),
            ]
        )
        board = frame.board(0, 0, -d * 0.46)
        board.rectangle(-w * 0.36, h * 0.62, w * 0.36, h * 0.84, trim)
        if dice.chance(0.6):
            board.ellipse(0, h * 0.33, w * 0.26, w * 0.26, dice.pick(PAINTS))
        for y in (0.7, 0.77):
            board.rectangle(-w * 0.26, h * y - 0.006, w * 0.26, h * y + 0.006, colour)
    elif item.design == 1:
        frame.blocks(
            [
                Block((0, h / 2, 0.01), (w * 0.72, h * 0.97, d * 0.96), paper),
                Block((0, h / 2, 0), (w, h, d), colour, "grain", 1.0),
            ]
        )
        board = frame.board(0, 0, -d / 2 - 0.002)
        for y in (0.14, 0.8):
            board.rectangle(-w / 2, h * y, w / 2, h * (y + 0.07), trim)
        board.rectangle(-w * 0.16, h * 0.32, w * 0.16, h * 0.68, tint(trim, 0.9))
    else:
        t = h
        frame.blocks([Block((0, t * 0.08, 0), (w, t * 0.16, d), colour)])
        frame.blocks([Block((0, t / 2, 0), (w * 0.95, t * 0.7, d * 0.95), paper, "wood", 3.0)])
        frame.blocks([Block((0, t * 0.92, 0), (w, t * 0.16, d), colour, "grain", 1.0)])
        frame.blocks([Block((-w * 0.485, t / 2, 0), (0.03 * w, t, d), tint(colour, 0.8))])
        top = frame.at([[-w * 0.3, t, -d * 0.3], [w * 0.3, t, -d * 0.3], [w * 0.3, t, d * 0.1], [-w * 0.3, t, d * 0.1]])
        stage.canvas.fill(top, trim, slope=(0.1, 0.0))


def _open_book(frame: Frame, dice: Dice, w: float, d: float, colour: Colour, paper: Colour) -> None:
    canvas = frame.stage.canvas
    low = frame.at([[-w * 0.92, 0, -d / 2], [w * 0.92, 0, -d / 2], [w * 0.92, 0, d / 2], [-w * 0.92, 0, d / 2]])
    canvas.fill(low, colour)
    for s in (-1, 1):
        xs = np.array([0.0, 0.25, 0.6, 0.88]) * w * s
        ys = np.array([0.02, 0.075, 0.06, 0.02])
        front = np.stack([xs, ys, np.full(4, -d * 0.46)], axis=1)
        rear = front + np.array((0, 0, d * 0.92))
        canvas.fill(frame.at(np.concatenate([front, front[::-1] * (1, 0, 1)])), tint(paper, 0.75))
        canvas.fill(frame.at(np.concatenate([front, rear[::-1]])), paper, shade=1.0 + 0.05 * s, slope=(-0.25 * s, 0))
        for k in range(4):
            z = d * (-0.32 + 0.2 * k)
            line = frame.at([[xs[1] * 0.7, 0.07, z], [xs[2] * 0.8, 0.068, z], [xs[3] * 0.92, 0.035, z]])
            canvas.stroke(line, 0.01 * frame.stage.camera.focal / frame.origin[2], (130, 124, 116))


def lamp(stage: Stage, item: Item) -> None:
    """A table or floor lamp with a shade, a desk lamp with an arm, or a pendant from the ceiling."""
    dice = item.dice
    w, h, _ = item.span
    frame = item.frame(stage)
    lit = dice.chance(0.65)
    metal = dice.pick(((60, 58, 56), (186, 158, 92), (170, 174, 180), (120, 78, 48), (236, 232, 224)))
    shade = dice.pick(
        (
            (244, 226, 178),
            (240, 206, 150),
            (232, 226, 214),
            (208, 92, 72),
            (110, 150, 160),
            (150, 176, 110),
            (236, 176, 70),
        )
    )
    if item.design != 3:
        stage.cast(item.x, item.y, item.z, w * 0.5, w * 0.4)
    if item.design == 2:
        _desk_lamp(frame, dice, w, h, metal, lit)
        return
    if item.design == 3:
        _pendant(frame, dice, w, h, shade, lit)
        return
    tall = h > 1.0
    drop = (0.24 if tall else 0.42) * h
    base = 0.17 if tall else w * 0.3
    frame.cylinder(0, 0, 0, 0.03, base, base * 0.9, metal)
    if tall:
        frame.cylinder(0, 0, 0.03, h - drop * 0.8, 0.022, 0.022, metal)
    else:
        form = dice.whole(0, 2)
        body = dice.pick(PAINTS)
        if form == 0:
            frame.sphere(0, h * 0.24, 0, h * 0.2, body)
        elif form == 1:
            frame.cylinder(0, 0, 0.03, h * 0.5, w * 0.24, w * 0.1, body)
        frame.cylinder(0, 0, 0.03 if form == 2 else h * 0.36, h - drop * 0.8, 0.03, 0.03, metal)
    _shade(frame, h - drop, h, w / 2, w / 2 * dice.pick((0.55, 0.7, 0.96)), shade, lit)


def _shade(frame: Frame, low: float, high: float, wide: float, narrow: float, colour: Colour, lit: bool) -> None:
    if lit:
        sx, sy = frame.at((0, (low + high) / 2, 0))
        reach = wide * 2.6 * frame.scale * frame.stage.camera.focal / frame.origin[2]
        frame.stage.canvas.soften(float(sx), float(sy), reach, reach, 0.45)
        warm = mix(colour, (255, 236, 170), 0.45)
        frame.cylinder(
            0,
            0,
            low,
            high,
            wide,
            narrow,
            warm,
            shade=1.12,
            slope=(0, 0.25),
            relief="column",
            depth=0.45,
            lid=(255, 248, 214),
        )
    else:
        frame.cylinder(0, 0, low, high, wide, narrow, colour, texture="fabric", grain=0.8, lid=tint(colour, 0.7))
    board = frame.board()
    for y, r in ((low, wide), (high, narrow)):
        board.stroke([(-r * 0.98, y), (r * 0.98, y)], 0.014, tint(colour, 0.72))


def _desk_lamp(frame: Frame, dice: Dice, w: float, h: float, metal: Colour, lit: bool) -> None:
    colour = dice.pick(PAINTS)
    s = dice.sign()
    frame.cylinder(0, 0, 0, 0.035, w * 0.34, w * 0.3, colour)
    board = Board.facing(frame.stage, *frame.origin.tolist(), size=frame.scale, flip=s < 0)
    elbow, head = (-0.16 * w / 0.4, h * 0.55), (0.1 * w / 0.4, h * 0.88)
    board.stroke([(0, 0.03), elbow, head], 0.03, metal)
    board.ellipse(*elbow, 0.026, 0.026, tint(metal, 0.7))
    hx, hy = head
    cone = np.array([(hx - 0.05, hy + 0.07), (hx + 0.05, hy + 0.05), (hx + 0.22, hy - 0.09), (hx + 0.03, hy - 0.2)])
    if lit:
        sx, sy = board.at([(hx + 0.14, hy - 0.2)])[0]
        reach = 0.3 * frame.stage.camera.focal / frame.origin[2]
        frame.stage.canvas.soften(float(sx), float(sy), reach, reach, 0.5)
    board.fill(cone, colour, slope=(0.4, 0.2))
    board.ellipse(hx + 0.125, hy - 0.145, 0.112, 0.045, (255, 246, 196) if lit else (200, 196, 184), angle=0.53)


def _pendant(frame: Frame, dice: Dice, w: float, h: float, colour: Colour, lit: bool) -> None:
    """Hangs from the item's place: ``y`` is the ceiling, ``h`` the length down to the rim."""
    board = frame.board()
    board.stroke([(0, 0), (0, -h + 0.1)], 0.016, (40, 38, 36))
    low, high = -h, -h + w * 0.55
    if dice.chance(0.3):
        frame.sphere(
            0, -h + w * 0.4, 0, w * 0.42, mix(colour, (255, 244, 200), 0.5 if lit else 0.1), shade=1.2 if lit else 1.0
        )
        return
    if lit:
        sx, sy = frame.at((0, low - 0.05, 0))
        reach = w * 1.1 * frame.stage.camera.focal / frame.origin[2]
        frame.stage.canvas.soften(float(sx), float(sy), reach, reach, 0.45)
    ring = [(w / 2 * cos(k * pi / 10), low, w / 2 * sin(k * pi / 10)) for k in range(20)]
    dome = smooth(
        [
            (-w / 2, low),
            (-w * 0.42, low + w * 0.28),
            (-w * 0.12, high),
            (w * 0.12, high),
            (w * 0.42, low + w * 0.28),
            (w / 2, low),
        ],
        closed=False,
    )
    board.fill(dome, colour, relief="column", slope=(0, -0.15))
    frame.stage.canvas.fill(frame.at(ring), (255, 246, 200) if lit else tint(colour, 0.55))


def clock(stage: Stage, item: Item) -> None:
    """A round or square wall clock, an alarm clock with bells, or a tall wall clock with a pendulum."""
    dice = item.dice
    w, _, d = item.span
    frame = item.frame(stage)
    rim = dice.pick((*PAINTS, *WOODS[:4], (40, 40, 44), (186, 158, 92)))
    face = dice.pick(((246, 244, 236), (246, 244, 236), (250, 240, 210), (226, 234, 240), (44, 46, 54)))
    r = w / 2
    if item.design == 1:
        stage.cast(item.x, item.y, item.z, w * 0.55, 0.12)
        board = frame.board(0, r * 1.12, -d / 2)
        for s in (-1, 1):
            board.stroke([(s * r * 0.5, -r * 0.8), (s * r * 0.72, -r * 1.1)], 0.035, tint(rim, 0.7))
            board.ellipse(s * r * 0.55, r * 0.95, r * 0.4, r * 0.3, (200, 170, 90), angle=-s * 0.6, relief="sphere")
        board.stroke([(-r * 0.3, r * 1.15), (0, r * 1.32), (r * 0.3, r * 1.15)], 0.02, (150, 130, 70))
        _dial(board, dice, 0, 0, r, rim, face)
        return
    board = frame.board(0, 0, -d)
    sx, sy = board.at([(-stage.light[0] * 0.06, -0.05)])[0]
    unit = stage.camera.focal / max(item.z, 0.5) * item.size
    stage.canvas.soften(float(sx), float(sy), r * 1.2 * unit, r * 1.25 * unit, -stage.shadow)
    if item.design == 2:
        board.rectangle(-r, -r, r, r, rim, slope=(-0.2, -0.25))
        board.rectangle(-r * 0.84, -r * 0.84, r * 0.84, r * 0.84, face)
        _dial(board, dice, 0, 0, r * 0.84, face, face)
    elif item.design == 3:
        wood = dice.pick(WOODS[:6])
        board.fill(
            [(-r, -r * 2.6), (r, -r * 2.6), (r, r), (0, r * 1.7), (-r, r)],
            wood,
            texture="post",
            grain=1.6,
            slope=(-0.2, 0),
        )
        board.rectangle(-r * 0.7, -r * 2.4, r * 0.7, -r * 0.95, tint(wood, 0.5))
        swing = dice.between(-0.3, 0.3)
        board.stroke([(0, -r), (swing * r, -r * 1.9)], 0.018, (214, 180, 90))
        board.ellipse(swing * r, -r * 1.95, r * 0.26, r * 0.26, (226, 190, 90), relief="sphere")
        _dial(board, dice, 0, 0, r * 0.82, (200, 170, 96), face)
    else:
        _dial(board, dice, 0, 0, r, rim, face)


def _dial(board: Board, dice: Dice, x: float, y: float, r: float, rim: Colour, face: Colour) -> None:
    ink: Colour = (24, 24, 28) if sum(face) > 380 else (236, 232, 214)
    board.ellipse(x, y, r, r, rim, relief="sphere", depth=0.5)
    board.ellipse(x, y, r * 0.84, r * 0.84, face, slope=(0.06, 0.12))
    board.strokes(_HOURS * r + (x, y), 0.045 * r, ink)
    board.strokes(_QUARTERS * r + (x, y), 0.085 * r, ink)
    hour, minute = dice.between(0, 2 * pi), dice.whole(0, 11) * pi / 6
    board.stroke([(x, y), (x + 0.42 * r * sin(hour), y + 0.42 * r * cos(hour))], 0.13 * r, ink)
    board.stroke([(x, y), (x + 0.64 * r * sin(minute), y + 0.64 * r * cos(minute))], 0.085 * r, ink)
    if dice.chance(0.5):
        second = dice.between(0, 2 * pi)
        board.stroke([(x, y), (x + 0.66 * r * sin(second), y + 0.66 * r * cos(second))], 0.035 * r, (206, 40, 36))
    board.ellipse(x, y, 0.07 * r, 0.07 * r, ink)


def ball(stage: Stage, item: Item) -> None:
    """A football, a basketball, a beach ball, a tennis ball or a striped one, turned at random."""
    dice = item.dice
    r = item.span[0] / 2
    stage.cast(item.x, item.y, item.z, r * 1.25, r * 0.9)
    board = Board.facing(stage, item.x, item.y + r * item.size, item.z, size=item.size)
    spin = dice.between(0, 2 * pi)
    design = item.design
    base = ((242, 242, 238), (226, 118, 42), (244, 240, 230), (206, 226, 60), dice.pick(PAINTS))[design % 5]
    other = dice.pick(((214, 54, 48), (48, 104, 190), (240, 196, 50), (60, 150, 90), (120, 80, 160)))
    board.ellipse(0, 0, r, r, base)
    if design == 0:
        for k in range(6):
            a = spin + k * 2 * pi / 5
            px, py, pr = (0.62 * cos(a) * r, 0.62 * sin(a) * r, 0.25 * r) if k < 5 else (0.0, 0.0, 0.3 * r)
            squeeze = 0.72 if k < 5 else 1.0
            corners = [spin * 1.3 + i * 2 * pi / 5 for i in range(5)]
            patch = np.array([(pr * squeeze * cos(b), pr * sin(b)) for b in corners])
            turn = np.array([[cos(a), sin(a)], [-sin(a), cos(a)]])
            board.flat((patch @ turn if k < 5 else patch) + (px, py), (34, 34, 40))
    elif design == 1:
        for bend in (-0.75, 0.0, 0.75):
            _seam(board, r, spin, bend, 0.055 * r, (60, 32, 18))
        _seam(board, r, spin + pi / 2, 0.0, 0.055 * r, (60, 32, 18))
    elif design == 2:
        wedge = [other, base, dice.pick(PAINTS), base, (240, 196, 50), base]
        for k, colour in enumerate(wedge):
            a0, a1 = spin + k * pi / 3, spin + (k + 1) * pi / 3
            rim = [(r * cos(a0 + (a1 - a0) * i / 6), r * sin(a0 + (a1 - a0) * i / 6)) for i in range(7)]
            board.flat([(0.25 * r, 0.3 * r), *rim], colour)
        board.ellipse(0.25 * r, 0.3 * r, 0.14 * r, 0.14 * r, (250, 250, 250))
    elif design == 3:
        for bend in (-0.7, 0.7):
            _seam(board, r, spin, bend, 0.07 * r, (246, 248, 232))
    else:
        turn = np.array([[cos(spin), sin(spin)], [-sin(spin), cos(spin)]])
        for low, high in ((-0.22, 0.22), (0.55, 0.8), (-0.8, -0.55)):
            right = [(sqrt(1 - t * t) * r, t * r) for t in (low + (high - low) * i / 3 for i in range(4))]
            left = [(-x, y) for x, y in right[::-1]]
            board.flat(np.array(right + left) @ turn, other)
    _round_off(stage, board, r)


def _seam(board: Board, r: float, spin: float, bend: float, width: float, colour: Colour) -> None:
    """A seam across a ball, straight or curving towards its middle on one side."""
    if bend:
        arc = np.array([(t / 4 * 0.64 * r, bend * (0.5 + 0.5 * (t / 4) ** 2) * r) for t in range(-4, 5)])
    else:
        arc = np.array([(t / 4 * 0.97 * r, 0.0) for t in range(-4, 5)])
    board.stroke(arc @ np.array([[cos(spin), sin(spin)], [-sin(spin), cos(spin)]]), width, colour)


def _round_off(stage: Stage, board: Board, r: float) -> None:
    """Light on the upper side and shadow below, over whatever pattern the ball wears."""
    (x, y), (edge, _) = board.at([(0, 0), (r, 0)])
    stage.canvas.mould(float(x), float(y), abs(float(edge - x)))
