"""From dice to a finished picture of a bicycle: states, background, occluders, drawing, truth.

A part is *absent* by its own rate; what is not absent is drawn and may be damaged; what then shows less than a fifth of
itself, behind a thing or behind another part, is *occluded*. States are decided at the reference size, so the same
bicycle at another size has the same states.
"""

from dataclasses import dataclass, field
from functools import cached_property

import cv2
import numpy as np
from numpy.typing import NDArray

from misdetect.data.procedural.bikes import surroundings as bike_surroundings
from misdetect.data.procedural.bikes.frame import Build, View, choose_build
from misdetect.data.procedural.bikes.parts import BEFORE, BEHIND, PARTS
from misdetect.data.procedural.bikes.pen import draw_part
from misdetect.data.procedural.draw.canvas import Canvas
from misdetect.data.procedural.draw.dice import Dice
from misdetect.data.procedural.draw.finish import finish
from misdetect.nouns.picture import Pixels

REFERENCE = 160
LEAST_SHARE = 0.2
LEAST_PIXELS = 10
INTACT, DAMAGED, ABSENT, OCCLUDED = STATES = ("intact", "damaged", "absent", "occluded")
_DAMAGE = 0.0905
"""Of the parts that are not absent; with those that are then occluded, 6 % of all are left damaged."""
_ABSENT = {
    "back_hand_break": 0.22, "back_handle": 0.04, "back_light": 0.3, "back_mudguard": 0.1, "back_pedal": 0.06,
    "back_reflector": 0.35, "back_wheel": 0.03, "bell": 0.38, "chain": 0.06, "dress_guard": 0.55, "dynamo": 0.55,
    "front_handbreak": 0.19, "front_handle": 0.03, "front_light": 0.3, "front_mudguard": 0.12, "front_pedal": 0.05,
    "front_wheel": 0.04, "gear_case": 0.3, "kickstand": 0.18, "lock": 0.3, "saddle": 0.05, "steer": 0.02,
}  # fmt: skip
_ON_THE_BARS = ("back_hand_break", "back_handle", "bell", "front_handbreak", "front_handle")
Box = tuple[float, float, float, float]


@dataclass
class Bicycle:
    """A bicycle in its surroundings, not yet drawn. ``states`` may still say intact where a part turns out hidden."""

    build: Build
    states: dict[str, str]
    dice: dict[str, Dice]
    view: Dice
    surroundings: Dice
    things: list[bike_surroundings.Thing]
    jitter: dict[str, tuple[float, float, float, float]]
    finish: Dice
    offset: tuple[float, float] = field(default=(0.0, 0.0))


@dataclass(frozen=True)
class Sheet:
    """A drawn bicycle: who owns each pixel, and each part's own box and pixels before anything hid it."""

    canvas: Canvas
    likely: dict[str, Box]
    own: dict[str, int]

    @cached_property
    def owners(self) -> NDArray[np.uint8]:
        return self.canvas.owners()

    @cached_property
    def shown(self) -> dict[str, int]:
        """How many pixels of each part are visible."""
        pixels = np.bincount(self.owners.ravel(), minlength=len(PARTS) + 1).tolist()
        return dict(zip(PARTS, pixels[1:], strict=True))


def assemble(dice: Dice) -> Bicycle:
    """Choose a bicycle, the state of its parts, and what stands before it."""
    build = choose_build(dice.child(60))
    states = {}
    for part in PARTS:
        absent, hurt = dice.chance(_ABSENT[part]), dice.chance(_DAMAGE)
        states[part] = ABSENT if absent else DAMAGED if hurt else INTACT
    if states["steer"] == ABSENT:
        states |= dict.fromkeys(_ON_THE_BARS, ABSENT)
    jitter = {part: tuple(dice.between(-0.04, 0.04) for _ in range(4)) for part in PARTS}
    return Bicycle(
        build,
        states,
        {part: dice.child(24) for part in PARTS},
        dice.child(16),
        dice.child(90),
        bike_surroundings.choose_things(dice, build),
        jitter,  # type: ignore[arg-type]
        dice.child(24),
        (dice.unit(), dice.unit()),
    )


def paint(bicycle: Bicycle, size: int) -> Sheet:
    """Draw everything at ``size`` pixels."""
    canvas = Canvas(size)
    bicycle.view.rewind()
    view = View(canvas, bicycle.view)
    likely: dict[str, Box] = {}
    own: dict[str, int] = {}
    canvas.offset = int(bicycle.offset[0] * canvas.side), int(bicycle.offset[1] * canvas.side)

    def put(part: str) -> None:
        bicycle.dice[part].rewind()
        canvas.start(PARTS.index(part) + 1)
        draw_part(part, view, bicycle.build, bicycle.dice[part], hurt=bicycle.states[part] == DAMAGED)
        likely[part], own[part] = _extent(canvas)
        canvas.start(0)

    # Absent parts are drawn first and then painted over: that is how their likely box is known.
    for part in PARTS:
        if bicycle.states[part] == ABSENT:
            put(part)
    bike_surroundings.draw_background(canvas, bicycle.surroundings)
    bike_surroundings.draw_shadow(view, bicycle.build)
    present = {part for part in PARTS if bicycle.states[part] != ABSENT}
    closed = "gear_case" in present and bicycle.build.full_case
    for part in BEHIND:
        if part in present:
            put(part)
    draw_part("frame", view, bicycle.build, bicycle.view)
    for part in BEFORE:
        if part == "back_reflector":
            draw_part("cranks", view, bicycle.build, bicycle.view, chainring=not closed)
        if part in present:
            put(part)
    for thing in bicycle.things:
        bike_surroundings.draw_thing(view, thing)
    return Sheet(canvas, likely, own)


def _extent(canvas: Canvas) -> tuple[Box, int]:
    """Box (x0, y0, x1, y1 in final pixels) and pixels of what the current owner has just painted."""
    owned, left, top = canvas.owned()
    x, y, w, h = cv2.boundingRect(owned.view(np.uint8))
    if not w:
        x, y = canvas.corner()
        return (float(x), float(y), float(x + 1), float(y + 1)), 0
    x, y = left + x, top + y
    return (float(x), float(y), float(x + w), float(y + h)), int(np.count_nonzero(owned))


def settle(states: dict[str, str], sheet: Sheet) -> dict[str, str]:
    """``states`` with what hardly shows marked as occluded, judged from the drawing at the reference size."""
    shown = sheet.shown
    return {
        part: OCCLUDED if state != ABSENT and shown[part] < max(LEAST_PIXELS, LEAST_SHARE * sheet.own[part]) else state
        for part, state in states.items()
    }


@dataclass(frozen=True)
class Portrait:
    """A finished picture: ``owners`` holds k + 1 where part k is present and visible; ``likely`` boxes of all parts."""

    image: Pixels
    owners: NDArray[np.uint8]
    states: tuple[str, ...]
    likely: tuple[Box, ...]


def portray(bicycle: Bicycle, size: int) -> Portrait:
    """The bicycle at ``size`` pixels."""
    sheet = paint(bicycle, REFERENCE)
    decided = settle(bicycle.states, sheet)
    if size != REFERENCE:
        sheet = paint(bicycle, size)
    # In pictures much smaller than usual a part may be left without a pixel: then nobody can see it.
    states = tuple(OCCLUDED if decided[part] != ABSENT and not sheet.shown[part] else decided[part] for part in PARTS)
    gone = np.zeros(256, dtype=np.uint8)
    gone[1 : len(PARTS) + 1] = [0 if s in (ABSENT, OCCLUDED) else k + 1 for k, s in enumerate(states)]
    likely = tuple(_jittered(sheet.likely[p], bicycle.jitter[p], decided[p] == ABSENT, size) for p in PARTS)
    image = finish(sheet.canvas, bicycle.finish, (-0.5, 0.5)[int(bicycle.offset[0] < 0.5)], REFERENCE)
    return Portrait(image, cv2.LUT(sheet.owners, gone), states, likely)


def _jittered(box: Box, jitter: tuple[float, float, float, float], absent: bool, size: int) -> Box:
    """A person's guess at where an absent part would be: a little off on every side, inside the picture."""
    if not absent:
        return box
    x0, y0, x1, y1 = box
    w, h = x1 - x0, y1 - y0
    moved = (x0 + jitter[0] * w, y0 + jitter[1] * h, x1 + jitter[2] * w, y1 + jitter[3] * h)
    left, top = min(max(moved[0], 0.0), size - 1.0), min(max(moved[1], 0.0), size - 1.0)
    return left, top, min(max(moved[2], left + 1), float(size)), min(max(moved[3], top + 1), float(size))
