"""The camera and the solid shapes: cuboids, cylinders and flat boards in metres, projected in perspective.

The world is in metres, x to the right, y up from the floor, z away from the camera. Verticals stay vertical (the
horizon is moved instead of tilting the camera), as in photographs of interiors.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import cos, sin
from typing import Any, ClassVar

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray

from misdetect.data.procedural.canvas import Canvas, Colour, Points, tint

_NEAR = 0.12
_DOWN = np.array([1.0, -1.0])
_CORNERS = np.array([[x, y, z] for x in (-0.5, 0.5) for y in (-0.5, 0.5) for z in (-0.5, 0.5)])
_FACES = np.array([[0, 2, 6, 4], [1, 3, 7, 5], [0, 1, 3, 2], [4, 5, 7, 6], [2, 3, 7, 6], [0, 1, 5, 4]])
_NORMALS = np.array([[0, 0, -1], [0, 0, 1], [-1, 0, 0], [1, 0, 0], [0, 1, 0], [0, -1, 0]], dtype=np.float64)
_RING = np.stack([np.cos(np.arange(24) * (2 * np.pi / 24)), np.sin(np.arange(24) * (2 * np.pi / 24))], axis=1)


@dataclass(frozen=True)
class Camera:
    """``focal`` in image widths, ``horizon`` and ``centre`` in scene units, ``height`` in metres."""

    _eye: ClassVar[NDArray[np.float64]]
    _middle: ClassVar[NDArray[np.float64]]

    focal: float
    horizon: float
    height: float
    centre: float = 0.5

    def __post_init__(self) -> None:
        object.__setattr__(self, "_eye", np.array([0.0, self.height]))
        object.__setattr__(self, "_middle", np.array([self.centre, self.horizon]))

    def project(self, world: NDArray[np.float64]) -> Points:
        """World points ``[..., 3]`` to scene units ``[..., 2]``."""
        scale = self.focal / np.maximum(world[..., 2:], _NEAR)
        out: Points = (world[..., :2] - self._eye) * scale
        out *= _DOWN
        out += self._middle
        return out

    def ray(self, x: float) -> float:
        """World x per metre of depth for screen position ``x``."""
        return (x - self.centre) / self.focal

    def plane(
        self, origin: ArrayLike, u: ArrayLike, v: ArrayLike, pixels_per_metre: float, at: float = 0.0
    ) -> NDArray[np.float64]:
        """Homography ``[3, 3]`` from the pixels of a tile lying on the plane to scene units.

        ``origin`` is where the tile's pixel (``at``, ``at``) lies.
        """
        intrinsic = np.array(
            [[self.focal, 0, self.centre], [0, -self.focal, self.horizon], [0, 0, 1]], dtype=np.float64
        )
        eye = np.array([0.0, self.height, 0.0])
        columns = np.stack(
            [np.asarray(u) / pixels_per_metre, np.asarray(v) / pixels_per_metre, np.asarray(origin) - eye], axis=1
        )
        columns[:, 2] -= at * (columns[:, 0] + columns[:, 1])
        homography: NDArray[np.float64] = intrinsic @ columns
        return homography


@dataclass(frozen=True)
class Block:
    """A cuboid in an object's own frame: middle and size in metres."""

    middle: tuple[float, float, float]
    size: tuple[float, float, float]
    colour: Colour
    texture: str | None = None
    grain: float = 2.0
    relief: str | None = None


@dataclass
class Stage:
    """What objects need to draw themselves: the canvas, the camera and where the light comes from (x, z)."""

    canvas: Canvas
    camera: Camera
    light: tuple[float, float] = (-0.7, -0.7)
    shadow: float = 0.5

    def cast(self, x: float, y: float, z: float, rx: float, rz: float) -> None:
        """A soft shadow on the surface at height ``y``, ``rx`` wide and ``rz`` deep (metres)."""
        scale = self.camera.focal / max(z, 0.3)
        sx, sy = self.camera.project(np.array([x - self.light[0] * rx * 0.25, y, z]))
        near = self.camera.horizon + (self.camera.height - y) * self.camera.focal / max(z - rz, 0.3)
        ry = min(abs(near - sy), 0.4)
        self.canvas.soften(float(sx), float(sy), rx * scale, max(float(ry), rx * scale * 0.12), -self.shadow)


class Frame:
    """An object's own coordinates: origin (x, y, z) on its support, turned by ``yaw``; its front looks to -z."""

    def __init__(self, stage: Stage, x: float, y: float, z: float, yaw: float = 0.0, scale: float = 1.0) -> None:
        self.stage = stage
        self.origin = np.array([x, y, z])
        c, s = cos(yaw) * scale, sin(yaw) * scale
        self.axes = np.array([[c, 0, s], [0, scale, 0], [-s, 0, c]])
        self.scale = scale
        self.yaw = yaw

    def world(self, local: ArrayLike) -> NDArray[np.float64]:
        """Local points ``[..., 3]`` to the world."""
        placed: NDArray[np.float64] = np.asarray(local, dtype=np.float64) @ self.axes + self.origin
        return placed

    def at(self, local: ArrayLike) -> Points:
        """Local points ``[..., 3]`` to scene units ``[..., 2]``."""
        return self.stage.camera.project(self.world(local))

    def blocks(self, blocks: Sequence[Block]) -> None:
        """Draw cuboids from the farthest to the nearest, front faces only."""
        camera, canvas = self.stage.camera, self.stage.canvas
        middles = np.array([b.middle for b in blocks])
        sizes = np.array([b.size for b in blocks])
        world = (middles[:, None] + _CORNERS * sizes[:, None]) @ self.axes + self.origin
        quads = camera.project(world)[:, _FACES]
        normals = _NORMALS @ (self.axes / self.scale)
        # A face is seen if the eye is on its outer side: compare the eye's distance along the normal with the face's.
        to_eye = np.array([0.0, camera.height, 0.0]) - (middles @ self.axes + self.origin)
        facing = to_eye @ normals.T > np.repeat(sizes[:, (2, 0, 1)], 2, axis=1) * (self.scale / 2)
        lx, lz = self.stage.light
        shades = (0.86 + 0.2 * (normals[:, 0] * lx + normals[:, 2] * lz)).tolist()
        shades[4:] = 1.14, 0.5
        thin = ((quads.max(axis=2) - quads.min(axis=2)).min(axis=2) * canvas.side < 4).tolist()
        seen = facing.tolist()
        for b in np.argsort(-(to_eye * to_eye).sum(axis=1), kind="stable").tolist():
            block = blocks[b]
            for f in range(6):
                if not seen[b][f]:
                    continue
                if thin[b][f]:
                    canvas.flat(quads[b, f], tint(block.colour, shades[f]))
                    continue
                canvas.fill(
                    quads[b, f],
                    block.colour,
                    shade=shades[f],
                    slope=(0.0, -0.1) if f < 4 else (0.0, 0.06),
                    texture=block.texture,
                    grain=block.grain,
                    relief=block.relief,
                )

    def cylinder(
        self,
        x: float,
        z: float,
        low: float,
        high: float,
        radius_low: float,
        radius_high: float,
        colour: Colour,
        *,
        lid: Colour | None = None,
        capped: bool = True,
        **paint: Any,
    ) -> None:
        """An upright (tapering) cylinder; its lid, if seen from above, has the colour ``lid`` (default ``colour``).

        A band round something else is not ``capped``.
        """
        ring = np.empty((48, 3))
        ring[:24, 0::2], ring[24:, 0::2] = _RING * radius_low, _RING * radius_high
        ring[:, 0] += x
        ring[:, 2] += z
        ring[:24, 1], ring[24:, 1] = low, high
        flat = self.at(ring)
        hull = cv2.convexHull(flat.astype(np.float32))[:, 0]
        paint.setdefault("relief", "column")
        self.stage.canvas.fill(hull, colour, **paint)
        top = self.origin[1] + high * self.scale
        if capped and self.stage.camera.height > top:
            self.stage.canvas.fill(flat[24:], lid if lid is not None else colour, shade=1.12, slope=(0.1, 0.08))

    def sphere(self, x: float, y: float, z: float, radius: float, colour: Colour, **paint: Any) -> None:
        """A ball; ``paint`` as in ``Canvas.fill``."""
        (sx, sy), depth = self.at((x, y, z)), float(self.world((x, y, z))[2])
        r = radius * self.scale * self.stage.camera.focal / max(depth, _NEAR)
        paint.setdefault("relief", "sphere")
        self.stage.canvas.ellipse(float(sx), float(sy), r, r, colour, **paint)

    def board(self, x: float = 0.0, y: float = 0.0, z: float = 0.0, *, flip: bool = False) -> "Board":
        """The upright plane through a local point, turned with the object."""
        return Board(self.stage, self.world((x, y, z)), self.axes[0], self.scale, -1.0 if flip else 1.0)


class Board:
    """An upright plane to draw on in metres: x along ``right``, y up."""

    def __init__(
        self, stage: Stage, origin: NDArray[np.float64], right: NDArray[np.float64], scale: float, mirror: float = 1.0
    ) -> None:
        self.canvas, self.camera = stage.canvas, stage.camera
        self._origin = origin
        self._basis = np.stack([right * mirror, np.array([0.0, scale, 0.0])])
        self._unit = scale * self.camera.focal / max(float(origin[2]), _NEAR)
        # A board that faces the camera has one depth, so its projection is a scaling and a shift.
        self._shift = self.camera.project(origin) if abs(right[2]) < 1e-9 else None
        self._stretch = np.array([mirror * self._unit, -self._unit])

    @classmethod
    def facing(cls, stage: Stage, x: float, y: float, z: float, *, size: float = 1.0, flip: bool = False) -> "Board":
        """A board turned to the camera, whose own unit is ``size`` metres."""
        right = np.array([size, 0.0, 0.0])
        return cls(stage, np.array([x, y, z], dtype=np.float64), right, size, -1.0 if flip else 1.0)

    def at(self, points: ArrayLike) -> Points:
        """Board points ``[N, 2]`` to scene units."""
        if self._shift is not None:
            facing: Points = np.asarray(points, dtype=np.float64) * self._stretch + self._shift
            return facing
        return self.camera.project(np.asarray(points, dtype=np.float64) @ self._basis + self._origin)

    def flat(self, points: ArrayLike, colour: Colour) -> None:
        self.canvas.flat(self.at(points), colour)

    def fill(self, points: ArrayLike, colour: Colour, **paint: Any) -> None:
        self.canvas.fill(self.at(points), colour, **paint)

    def rectangle(self, x0: float, y0: float, x1: float, y1: float, colour: Colour, **paint: Any) -> None:
        self.canvas.fill(self.at([[x0, y0], [x1, y0], [x1, y1], [x0, y1]]), colour, **paint)

    def ellipse(
        self, x: float, y: float, rx: float, ry: float, colour: Colour, *, angle: float = 0.0, **paint: Any
    ) -> None:
        points = _RING * (rx, ry)
        if angle:
            points = points @ np.array([[cos(angle), sin(angle)], [-sin(angle), cos(angle)]])
        self.canvas.fill(self.at(points + np.array((x, y))), colour, **paint)

    def strokes(self, lines: ArrayLike, width: float, colour: Colour) -> None:
        self.canvas.strokes(self.at(lines), width * self._unit, colour)

    def stroke(self, points: ArrayLike, width: float, colour: Colour, *, closed: bool = False) -> None:
        self.canvas.stroke(self.at(points), width * self._unit, colour, closed=closed)
