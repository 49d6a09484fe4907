"""The space a scene happens in: a room with walls in true perspective, or a landscape.

A backdrop draws itself first and then tells ``layout`` where floor and walls are.
"""

from dataclasses import dataclass
from functools import cache
from math import cos, hypot, inf, sin
from pathlib import Path

import numpy as np

from misdetect.data.procedural.draw import patterns
from misdetect.data.procedural.draw.camera import Camera, Stage
from misdetect.data.procedural.draw.canvas import Colour, mix, tint
from misdetect.data.procedural.draw.dice import Dice
from misdetect.data.procedural.draw.scenery import SceneryPen
from misdetect.data.procedural.draw.shapes import Shapes

_WALLS: tuple[Colour, ...] = (
    (232, 226, 212), (206, 214, 206), (180, 200, 214), (226, 204, 180), (214, 190, 190), (170, 184, 160),
    (128, 148, 158), (196, 170, 130), (222, 216, 170), (108, 118, 110), (148, 104, 92), (88, 100, 128),
    (236, 236, 234), (190, 178, 200),
)  # fmt: skip
_FLOORS: tuple[Colour, ...] = (
    (168, 122, 78), (122, 82, 52), (198, 160, 112), (150, 146, 140), (206, 200, 188), (110, 104, 100), (146, 92, 70),
    (120, 132, 140), (176, 150, 128), (96, 110, 96), (134, 70, 66), (84, 92, 120),
)  # fmt: skip


@dataclass(frozen=True)
class Wall:
    """A point on a wall: its place in plan and the direction the wall looks to, as a yaw for ``Frame``."""

    x: float
    z: float
    yaw: float


@dataclass(frozen=True)
class Room:
    """A rectangular room in plan, turned by ``yaw`` round the camera: walls at ``-left``, ``right`` and ``depth``."""

    yaw: float
    depth: float
    left: float
    right: float
    ceiling: float

    def world(self, u: float, w: float) -> tuple[float, float]:
        """Room coordinates to the world's plan."""
        c, s = cos(self.yaw), sin(self.yaw)
        return u * c - w * s, u * s + w * c

    def local(self, x: float, z: float) -> tuple[float, float]:
        c, s = cos(self.yaw), sin(self.yaw)
        return x * c + z * s, -x * s + z * c

    def holds(self, x: float, z: float, margin: float) -> bool:
        """Whether a round thing of radius ``margin`` at (x, z) is inside the room."""
        u, w = self.local(x, z)
        return -self.left + margin <= u <= self.right - margin and w <= self.depth - margin

    def hit(self, slope: float) -> Wall:
        """The wall that the ray ``x = slope * z`` meets first."""
        du, dw = self.local(slope, 1.0)
        best, turn = inf, 0.0
        for limit, speed, facing in ((self.depth, dw, 0.0), (-self.left, du, -np.pi / 2), (self.right, du, np.pi / 2)):
            if speed * limit > 1e-6 and limit / speed < best:
                best, turn = limit / speed, facing
        # A Frame's front looks to -z at yaw 0: the back wall looks at the camera, the side walls to the middle.
        return Wall(slope * best, best, self.yaw - turn)


def choose_room(dice: Dice, near: bool) -> tuple[Camera, Room]:
    """A camera and a room round it; ``near`` for pictures of a table top."""
    camera = Camera(
        focal=dice.between(0.82, 1.15) * (1.1 if near else 1.0),
        horizon=dice.between(0.18, 0.34) if near else dice.between(0.26, 0.44),
        height=dice.between(1.15, 1.5) if near else dice.between(1.05, 1.65),
    )
    depth = dice.between(2.6, 3.6) if near else dice.between(3.3, 5.0)
    for _ in range(8):
        yaw = dice.between(-0.12, 0.12) if dice.chance(0.45) else dice.sign() * dice.between(0.2, 0.75)
        room = Room(yaw, depth, dice.between(1.3, 3.0), dice.between(1.3, 3.0), dice.between(2.3, 3.0))
        # A wall close before the camera would leave no room for anything.
        if min(room.hit(camera.ray(x)).z for x in (0.3, 0.5, 0.7)) > 0.72 * depth:
            break
    return camera, room


def draw_room(stage: Stage, room: Room, dice: Dice) -> None:
    """Floor, ceiling and the walls in front of the camera."""
    canvas, camera = stage.canvas, stage.camera
    wall = dice.pick(_WALLS)
    paper = dice.pick(patterns.WALLPAPERS)
    contrast = dice.between(0.08, 0.3)
    second = mix(wall, dice.pick(_WALLS), 0.7) if dice.chance(0.5) else tint(wall, 1 - contrast)
    floor = dice.pick(_FLOORS)
    tiles = dice.pick(patterns.FLOORS)
    partner = mix(floor, dice.pick(_FLOORS), 0.8) if tiles == "checker" else tint(floor, dice.between(0.6, 0.82))
    accent = dice.pick(_WALLS) if dice.chance(0.3) else wall
    ceiling = mix((246, 244, 240), wall, 0.15)
    canvas.flat([(0, 0), (1, 0), (1, 1), (0, 1)], ceiling)
    turn = room.yaw + (np.pi / 2 if dice.chance(0.4) else 0.0)
    u, v = (cos(turn), 0.0, sin(turn)), (-sin(turn), 0.0, cos(turn))
    ppm = patterns.PIXELS_PER_METRE * dice.between(0.8, 1.3)
    outline = [(0, camera.horizon), (1, camera.horizon), (1, 1), (0, 1)]
    corners = [(-room.left, 0.2), (-room.left, room.depth), (room.right, room.depth), (room.right, 0.2)]
    # The walls hide the floor beyond its farthest corner; two pixels more for the edge.
    farthest = max(room.world(*corner)[1] for corner in corners)
    top = camera.horizon + camera.height * camera.focal / farthest - 2 / canvas.size
    canvas.surface(
        outline,
        patterns.pattern(tiles),
        camera.plane((0, 0, 0), u, v, ppm, 512.0),
        patterns.ramp(partner, floor),
        visible=[(0, top), (1, top), (1, 1), (0, 1)],
    )
    skirting = dice.pick((None, tint(wall, 1.3), (240, 238, 232), (110, 80, 56)))
    scale = dice.between(0.8, 1.4)
    for k in range(3):
        light = (0.86, 1.0, 0.92)[k] if stage.light[0] < 0 else (0.92, 1.0, 0.86)[k]
        base, other = (accent, tint(accent, 1 - contrast)) if k == 1 and accent != wall else (wall, second)
        _wall(stage, room, corners[k], corners[k + 1], paper, tint(other, light), tint(base, light), scale, skirting)


def _wall(
    stage: Stage,
    room: Room,
    start: tuple[float, float],
    end: tuple[float, float],
    paper: str,
    low: Colour,
    high: Colour,
    scale: float,
    skirting: Colour | None,
) -> None:
    origin = room.world(*start)
    (ax, az), (bx, bz) = origin, room.world(*end)
    near = 0.15
    if az < near and bz < near:
        return
    if az < near:
        ax, az = ax + (bx - ax) * (near - az) / (bz - az), near
    if bz < near:
        bx, bz = bx + (ax - bx) * (near - bz) / (az - bz), near
    camera, canvas = stage.camera, stage.canvas

    def quad(y0: float, y1: float) -> list[tuple[float, float]]:
        return [camera.spot(ax, y0, az), camera.spot(bx, y0, bz), camera.spot(bx, y1, bz), camera.spot(ax, y1, az)]

    whole = quad(0, room.ceiling)
    left, right = min(x for x, _ in whole), max(x for x, _ in whole)
    if left > 1.1 or right < -0.1:
        return
    length = max(hypot(bx - ax, bz - az), 1e-9)
    plane = camera.plane(
        (origin[0], room.ceiling, origin[1]),
        ((bx - ax) / length, 0, (bz - az) / length),
        (0, -1, 0),
        patterns.PIXELS_PER_METRE * scale,
    )
    canvas.surface(whole, patterns.pattern(paper), plane, patterns.ramp(low, high))
    if skirting is not None:
        canvas.flat(quad(0, 0.1), tint(skirting, 0.92))
        canvas.flat(quad(0.08, 0.1), skirting)
        canvas.flat(quad(room.ceiling - 0.06, room.ceiling), tint(skirting, 0.95))


def choose_landscape(dice: Dice) -> Camera:
    """A camera outdoors."""
    return Camera(focal=dice.between(0.8, 1.1), horizon=dice.between(0.3, 0.5), height=dice.between(1.3, 1.9))


@cache
def _landscape() -> Shapes:
    return Shapes(SceneryPen, Path(__file__).with_name("landscape.shapes"))


def draw_landscape(stage: Stage, dice: Dice) -> None:
    """Sky, far country and ground."""
    pen = SceneryPen(stage.canvas, stage.camera)
    _landscape().draw("landscape", pen, dice, {"horizon": stage.camera.horizon})
