"""The camera and the solid shapes: cuboids, cylinders and flat boards in metres, projected in perspective.

The world is in metres, x to the right, y up from the floor, z away from the camera. Verticals stay vertical (the
horizon is moved instead of tilting the camera), as in photographs of interiors.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import cos, sin
from operator import itemgetter
from typing import Any, ClassVar, NamedTuple

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray

from misdetect.data.procedural.draw.canvas import FIXED, Canvas, Colour, Points, through, tint
from misdetect.data.procedural.draw.surface import Surface, circle

_NEAR = 0.12
_NEAREST = np.array(_NEAR)
_REACH = 3.0
"""No object draws farther than this from the origin of its board, in board units."""
_CORNERS = np.array([[x, y, z] for x in (-0.5, 0.5) for y in (-0.5, 0.5) for z in (-0.5, 0.5)])
_FACES = _CORNERS[[[0, 2, 6, 4], [1, 3, 7, 5], [0, 1, 3, 2], [4, 5, 7, 6], [2, 3, 7, 6], [0, 1, 5, 4]]]
"""The corners of a unit cube's faces ``[6, 4, 3]``: front (-z), back, left (-x), right, top (+y), bottom."""
_SLOPES = ((0.0, -0.1),) * 4 + ((0.0, 0.06),) * 2
_RING = circle(24)
_LYING_RING = np.stack([_RING[:, 0], np.zeros(24), _RING[:, 1]], axis=1)


@dataclass(frozen=True)
class Camera:
    """``focal`` in image widths, ``horizon`` and ``centre`` in scene units, ``height`` in metres."""

    view: ClassVar[NDArray[np.float64]]
    """World points from the camera's place to scene units: a projection ``[3, 3]``."""
    _eye: ClassVar[NDArray[np.float64]]
    _reach: ClassVar[NDArray[np.float64]]
    _middle: ClassVar[NDArray[np.float64]]

    focal: float
    horizon: float
    height: float
    centre: float = 0.5

    def __post_init__(self) -> None:
        view = np.array([[self.focal, 0.0, self.centre], [0.0, -self.focal, self.horizon], [0.0, 0.0, 1.0]])
        object.__setattr__(self, "view", view)
        object.__setattr__(self, "_eye", np.array([0.0, self.height]))
        object.__setattr__(self, "_reach", np.array([self.focal, -self.focal]))
        object.__setattr__(self, "_middle", np.array([self.centre, self.horizon]))

    def project(self, world: NDArray[np.float64]) -> Points:
        """World points ``[..., 3]`` to scene units ``[..., 2]``; what is behind the camera is moved before it."""
        out: Points = world[..., :2] - self._eye
        out *= self._reach / np.maximum(world[..., 2:], _NEAREST)
        out += self._middle
        return out

    def spot(self, x: float, y: float, z: float) -> tuple[float, float]:
        """One world point to scene units: ``project`` without the cost of arrays."""
        scale = self.focal / max(z, _NEAR)
        return x * scale + self.centre, (y - self.height) * -scale + self.horizon

    def ray(self, x: float) -> float:
        """World x per metre of depth for screen position ``x``."""
        return (x - self.centre) / self.focal

    def plane(
        self, origin: ArrayLike, u: ArrayLike, v: ArrayLike, pixels_per_metre: float, at: float = 0.0
    ) -> NDArray[np.float64]:
        """Homography ``[3, 3]`` from the pixels of a tile lying on the plane to scene units.

        ``origin`` is where the tile's pixel (``at``, ``at``) lies.
        """
        columns = np.array([u, v, origin], dtype=np.float64).T
        columns[:, :2] /= pixels_per_metre
        columns[1, 2] -= self.height
        columns[:, 2] -= at * (columns[:, 0] + columns[:, 1])
        homography: NDArray[np.float64] = self.view @ columns
        return homography


class Block(NamedTuple):
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

    def __post_init__(self) -> None:
        self.view = self.canvas.lens.dot(self.camera.view)
        """As ``Camera.view``, to the canvas's fixed point."""

    def cast(self, x: float, y: float, z: float, rx: float, rz: float) -> None:
        """A soft shadow on the surface at height ``y``, ``rx`` wide and ``rz`` deep (metres)."""
        scale = self.camera.focal / max(z, 0.3)
        sx, sy = self.camera.spot(x - self.light[0] * rx * 0.25, y, z)
        near = self.camera.horizon + (self.camera.height - y) * self.camera.focal / max(z - rz, 0.3)
        ry = min(abs(near - sy), 0.4)
        self.canvas.soften(sx, sy, rx * scale, max(ry, rx * scale * 0.12), -self.shadow)


class Frame:
    """An object's own coordinates: origin (x, y, z) on its support, turned by ``yaw``; its front looks to -z."""

    def __init__(self, stage: Stage, x: float, y: float, z: float, yaw: float = 0.0, scale: float = 1.0) -> None:
        self.stage = stage
        self.origin = np.array([x, y, z])
        c, s = cos(yaw) * scale, sin(yaw) * scale
        self.axes = np.array([[c, 0, s], [0, scale, 0], [-s, 0, c]])
        self.scale = scale
        self.yaw = yaw
        camera, (lx, lz) = stage.camera, stage.light
        self._place = np.array([[c, 0, -s, x], [0, scale, 0, y - camera.height], [s, 0, c, z]])
        self._lens = stage.view.dot(self._place)
        area = scale * scale
        self._eye = -(x * c + z * s) / area, (camera.height - y) / scale, (x * s - z * c) / area
        side, back = 0.2 * (c * lx + s * lz) / scale, 0.2 * (c * lz - s * lx) / scale
        self._shades = 0.86 - back, 0.86 + back, 0.86 - side, 0.86 + side, 1.14, 0.5

    def world(self, local: ArrayLike) -> NDArray[np.float64]:
        """Local points ``[..., 3]`` to the world."""
        # For matrices as small as these, dot has half the overhead of @.
        placed: NDArray[np.float64] = np.asarray(local, dtype=np.float64).dot(self.axes)
        placed += self.origin
        return placed

    def at(self, local: ArrayLike) -> Points:
        """Local points ``[..., 3]`` to scene units ``[..., 2]``."""
        return self.stage.camera.project(self.world(local))

    def _before(self, reach: float) -> bool:
        """Whether what is no farther than ``reach`` from the object's axis, in local units, is before the camera."""
        return bool(self.origin[2] - reach * self.scale > _NEAR)

    def blocks(self, blocks: Sequence[Block]) -> None:
        """Draw cuboids from the farthest to the nearest, front faces only."""
        canvas, shades = self.stage.canvas, self._shades
        found, reach = self._seen(blocks)
        if not found:
            return
        corners = np.array([block.size for _, block, _ in found])[:, None] * _FACES[[face for _, _, face in found]]
        corners += np.array([block.middle for _, block, _ in found])[:, None]
        # A lens would show what is behind the camera, upside down.
        if self._before(reach):
            quads = cv2.perspectiveTransform(corners, self._lens)
        else:
            quads = self.at(corners.reshape(-1, 3)).reshape(-1, 4, 2) * canvas.lens[0, 0] + canvas.lens[0, 2]
        thin = (quads.max(axis=1) - quads.min(axis=1)).min(axis=1) < 4 * 16
        for quad, flat, (_, block, face) in zip(quads.astype(FIXED), thin.tolist(), found, strict=True):
            if flat:
                canvas.flat(quad, tint(block.colour, shades[face]))
            else:
                canvas.fill(
                    quad,
                    block.colour,
                    shade=shades[face],
                    slope=_SLOPES[face],
                    texture=block.texture,
                    grain=block.grain,
                    relief=block.relief,
                )

    def _seen(self, blocks: Sequence[Block]) -> tuple[list[tuple[float, Block, int]], float]:
        """The faces that look at the camera, those of the farthest block first, and how far out the blocks reach.

        A face is its block's nearness, its block, and its number in ``_FACES``.
        """
        ex, ey, ez = self._eye
        found: list[tuple[float, Block, int]] = []
        reach = 0.0
        for block in blocks:
            (mx, my, mz), (w, h, d) = block.middle, block.size
            reach = max(reach, abs(mx) + abs(mz) + w + d)
            # A face is seen if the eye is beyond it.
            x, y, z = ex - mx, ey - my, ez - mz
            nearness = -(x * x + y * y + z * z)
            if abs(z) > d / 2:
                found.append((nearness, block, 0 if z < 0 else 1))
            if abs(x) > w / 2:
                found.append((nearness, block, 2 if x < 0 else 3))
            if abs(y) > h / 2:
                found.append((nearness, block, 4 if y > 0 else 5))
        found.sort(key=itemgetter(0))
        return found, reach

    def cylinder(
        self,
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
        """An upright (tapering) cylinder round the object's axis.

        Its lid, if seen from above, has the colour ``lid`` (default ``colour``); a band round something else is not
        ``capped``.
        """
        rings = _LYING_RING * np.array([[[radius_low]], [[radius_high]]])
        rings += np.array([[[0.0, low, 0.0]], [[0.0, high, 0.0]]])
        if self._before(max(radius_low, radius_high)):
            flat: Points = cv2.perspectiveTransform(rings, self.stage.camera.view.dot(self._place)).reshape(48, 2)
        else:
            flat = self.at(rings.reshape(48, 3))
        hull = cv2.convexHull(flat.astype(np.float32))[:, 0]
        paint.setdefault("relief", "column")
        self.stage.canvas.fill(hull, colour, **paint)
        top = self.origin[1] + high * self.scale
        if capped and self.stage.camera.height > top:
            self.stage.canvas.fill(flat[24:], lid if lid is not None else colour, shade=1.12, slope=(0.1, 0.08))

    def disc(self, height: float, radius: float) -> Points:
        """The rim of a horizontal disc round the object's axis, in scene units ``[24, 2]``."""
        return self.at(_LYING_RING * radius + np.array([0.0, height, 0.0]))

    def sphere(self, x: float, y: float, z: float, radius: float, colour: Colour, **paint: Any) -> None:
        """A ball; ``paint`` as in ``Canvas.fill``."""
        camera = self.stage.camera
        place = self.world((x, y, z)).tolist()
        r = radius * self.scale * camera.focal / max(place[2], _NEAR)
        paint.setdefault("relief", "sphere")
        self.stage.canvas.ellipse(*camera.spot(*place), r, r, colour, **paint)

    def board(self, x: float = 0.0, y: float = 0.0, z: float = 0.0, *, flip: bool = False) -> "Board":
        """The upright plane through a local point, turned with the object."""
        return Board(self.stage, self.world((x, y, z)), self.axes[0], self.scale, -1.0 if flip else 1.0)


class Board(Surface):
    """An upright plane to draw on in metres: x along ``right``, y up."""

    def __init__(
        self, stage: Stage, origin: NDArray[np.float64], right: NDArray[np.float64], scale: float, mirror: float = 1.0
    ) -> None:
        self.camera = stage.camera
        self._origin, self._right, self._scale, self._mirror = origin, right, scale, mirror
        (x, y, z), (rx, _, rz) = origin.tolist(), (right * mirror).tolist()
        plane = np.array([[rx, 0.0, x], [0.0, scale, y - self.camera.height], [rz, 0.0, z]])
        super().__init__(stage.canvas, stage.view.dot(plane), scale * self.camera.focal / max(z, _NEAR), _RING)
        # A lens would show what is behind the camera, upside down.
        self._before = z - abs(rz) * _REACH > _NEAR

    @classmethod
    def facing(cls, stage: Stage, x: float, y: float, z: float, *, size: float = 1.0, flip: bool = False) -> "Board":
        """A board turned to the camera, whose own unit is ``size`` metres."""
        right = np.array([size, 0.0, 0.0])
        return cls(stage, np.array([x, y, z], dtype=np.float64), right, size, -1.0 if flip else 1.0)

    def at(self, points: ArrayLike) -> Points:
        """Board points ``[N, 2]`` to scene units."""
        basis = np.array([self._right * self._mirror, (0.0, self._scale, 0.0)])
        return self.camera.project(np.asarray(points, dtype=np.float64) @ basis + self._origin)

    def fixed(self, points: ArrayLike, shape: NDArray[np.float64] | None = None) -> NDArray[np.int32]:
        if self._before:
            return super().fixed(points, shape)
        for way in (shape, self.place):
            points = points if way is None else through(way, points)
        return self.canvas.fixed(self.at(points))
