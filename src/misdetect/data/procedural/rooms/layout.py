"""Where things stand in a room: themes, supports and context.

Cups stand on tables, clocks hang on walls, elephants live outdoors, and only rarely is something where it does not
belong. A place is drawn at random, then refused if the thing would stick into another, leave the picture, or hide
what is already there.
"""

from dataclasses import dataclass, field
from functools import cache
from math import cos, hypot, sin
from pathlib import Path

from misdetect.data.procedural.draw.camera import Camera
from misdetect.data.procedural.draw.dice import Dice
from misdetect.data.procedural.draw.items import Item
from misdetect.data.procedural.rooms.backdrop import Room

NAMES = ("ball", "book", "cat", "chair", "clock", "couch", "cup", "elephant", "lamp", "plant", "table", "tv")
Rect = tuple[float, float, float, float]
DESIGNS = {"ball": 5, "cat": 3, "chair": 4, "plant": 6}
"""How many designs the kinds have that stand on floors; the rest are chosen where they are made."""
_SMALL = ("cup", "cup", "cup", "book", "book", "plant", "lamp", "clock", "vase", "ball", "box")


@cache
def _sizes() -> dict[str, list[tuple[float, float]]]:
    """The limits of width, height and depth of every kind, or of its designs."""
    rows = Path(__file__).with_name("sizes.txt").read_text(encoding="utf-8").splitlines()
    sizes = {}
    for name, *spans in (row.split() for row in rows if row[:1].isalpha()):
        limits = [span.split("-") for span in spans]
        sizes[name] = [(float(low_high[0]), float(low_high[-1])) for low_high in limits]
    return sizes


def make(kind: str, design: int, dice: Dice, *, small: bool = False) -> Item:
    """An item of ``kind`` and ``design`` with a size of its own, not yet placed."""
    sizes = _sizes()
    own = dice.child()
    limits = sizes.get(f"{kind}_{design}") or sizes[f"small_{kind}" if small else kind]
    w, h, d = (own.between(*span) for span in limits)
    return Item(kind if kind in NAMES else "", kind, own.child(120), span=(w, h, d), design=design)


@dataclass
class Layout:
    """A scene being furnished: flat things on walls and floor first, then the rest from far to near."""

    camera: Camera
    room: Room | None
    dice: Dice
    flats: list[Item] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)
    _feet: list[tuple[float, float, float]] = field(default_factory=list)
    _seen: list[tuple[Rect, float]] = field(default_factory=list)
    _hung: list[Rect] = field(default_factory=list)

    @property
    def nearest(self) -> float:
        """The depth at which the floor enters the picture."""
        return self.camera.focal * self.camera.height / (1.0 - self.camera.horizon)

    def outline(self, item: Item) -> Rect:
        """About where an item appears, in scene units."""
        w, h, d = item.span
        half = max(w, d) / 2 * item.size if item.kind in ("couch", "table") else w / 2 * item.size
        scale = self.camera.focal / max(item.z, 0.4)
        x = self.camera.centre + item.x * scale
        low = self.camera.horizon + (self.camera.height - item.y) * scale
        return x - half * scale, low - h * item.size * scale, x + half * scale, low

    def _clear(self, item: Item, most: float) -> bool:
        """Whether the item hides, or is hidden by, no more than ``most`` of anything."""
        mine = self.outline(item)
        for other, depth in self._seen:
            wide = min(mine[2], other[2]) - max(mine[0], other[0])
            tall = min(mine[3], other[3]) - max(mine[1], other[1])
            if wide <= 0 or tall <= 0:
                continue
            hidden = other if item.z < depth else mine
            if wide * tall > most * (hidden[2] - hidden[0]) * (hidden[3] - hidden[1]):
                return False
        return True

    def _accept(self, item: Item, radius: float) -> None:
        self.items.append(item)
        self._feet.append((item.x, item.z, radius))
        self._seen.append((self.outline(item), item.z))

    def stand(
        self, item: Item, near: float, far: float, *, most: float = 0.45, edge: float = 0.1, yaw: float | None = None
    ) -> bool:
        """Put an item on the floor between two depths; False if no place was found."""
        dice = self.dice
        radius = max(item.span[0], item.span[2]) / 2 * item.size
        foot = radius * (0.75 if item.kind == "couch" else 0.95)
        for _ in range(14):
            z = dice.between(near, far)
            x = self.camera.ray(dice.between(edge, 1 - edge)) * z
            if self.room is not None and not self.room.holds(x, z, foot):
                continue
            if any(hypot(x - a, z - b) < foot + r for a, b, r in self._feet):
                continue
            item.x, item.z = x, z
            if not self._clear(item, most):
                continue
            base = self.room.yaw if self.room is not None else 0.0
            item.yaw = (
                yaw if yaw is not None else base + dice.between(-0.25, 0.25) + dice.pick((0.0, 0.0, 0.0, 0.6, -0.6))
            )
            self._accept(item, foot)
            return True
        return False

    def against(self, item: Item, *, most: float = 0.5) -> bool:
        """Put an item on the floor with its back to a wall."""
        assert self.room is not None
        for _ in range(14):
            wall = self.room.hit(self.camera.ray(self.dice.between(0.15, 0.85)))
            reach = item.span[2] / 2 + 0.04
            item.x, item.z = wall.x + sin(wall.yaw) * reach, wall.z - cos(wall.yaw) * reach
            if item.z < self.nearest * 0.95 or wall.z < 1.6:
                continue
            item.yaw = wall.yaw
            foot = max(item.span[0], item.span[2]) / 2 * 0.9
            side = item.span[0] / 2
            ends = [(item.x + s * cos(wall.yaw) * side, item.z + s * sin(wall.yaw) * side) for s in (-1, 1)]
            if not all(self.room.holds(x, z, 0.02) and z > 0.8 for x, z in ends):
                continue
            if any(hypot(item.x - a, item.z - b) < foot + r for a, b, r in self._feet) or not self._clear(item, most):
                continue
            self._accept(item, foot)
            return True
        return False

    def hang(self, item: Item, low: float, high: float) -> bool:
        """Hang an item on a wall with its middle between two heights."""
        assert self.room is not None
        w, h, _ = item.span
        if item.kind == "clock":
            h = w * (2.2 if item.design == 3 else 1.0)
        for _ in range(14):
            wall = self.room.hit(self.camera.ray(self.dice.between(0.1, 0.9)))
            # Seen at too sharp an angle nobody could tell what hangs there.
            if wall.z < 1.5 or abs(cos(wall.yaw) * wall.z - sin(wall.yaw) * wall.x) < 0.55 * hypot(wall.x, wall.z):
                continue
            y = self.dice.between(low, min(high, self.room.ceiling - h / 2 - 0.15))
            scale = self.camera.focal / wall.z
            sx = self.camera.centre + wall.x * scale
            sy = self.camera.horizon + (self.camera.height - y) * scale
            rect = (sx - w * 0.6 * scale, sy - h * 0.65 * scale, sx + w * 0.6 * scale, sy + h * 0.65 * scale)
            ends = [(wall.x + s * cos(wall.yaw) * w / 2, wall.z + s * sin(wall.yaw) * w / 2) for s in (-1, 1)]
            if rect[1] < -0.02 or not all(self.room.holds(x, z, -0.02) for x, z in ends):
                continue
            if any(rect[0] < o[2] and o[0] < rect[2] and rect[1] < o[3] and o[1] < rect[3] for o in self._hung):
                continue
            item.x, item.y, item.z, item.yaw = wall.x, y, wall.z, wall.yaw
            mine = (rect, wall.z)
            if item.kind and any(_covered(rect, o) > 0.5 for o, depth in self._seen if depth < wall.z):
                continue
            self._hung.append(rect)
            if item.kind:
                self._seen.append(mine)
            self.flats.append(item)
            return True
        return False

    def top(self, support: Item, count: int, kinds: tuple[str, ...] = _SMALL) -> None:
        """Put up to ``count`` small things on a support; far away they are a little larger, to stay recognisable."""
        w, h, d = support.span
        level = support.y + (h if support.shape != "shelf" else 0.0)
        across, along = cos(support.yaw), sin(support.yaw)
        taken: list[tuple[float, float, float]] = []
        for _ in range(count):
            item = make_small(self.dice.pick(kinds), self.dice)
            usual = item.size
            r = max(item.span[0], min(item.span[2], 0.3)) / 2 * 1.1 + 0.015
            for _ in range(8):
                u = self.dice.between(-1, 1) * max(0.0, w / 2 - r * 0.8)
                v = self.dice.between(-1, 1) * max(0.0, d / 2 - r * 0.8)
                if support.design == 1 and support.kind == "table" and hypot(u, v) > w / 2 - r * 0.7:
                    continue
                if any(hypot(u - a, (v - b) * 0.8) < r + s for a, b, s in taken):
                    continue
                z = support.z + u * along + v * across
                item.x, item.y, item.z = support.x + u * across - v * along, level, z
                item.size = usual * min(1.4, max(1.0, 0.08 * z / (item.span[0] * usual * self.camera.focal)))
                shown = self.outline(item)
                if not (
                    0.0 < (shown[0] + shown[2]) / 2 < 1.0 and shown[1] > -0.02 and shown[3] < 1.03
                ) or not self._clear_small(item):
                    continue
                item.yaw = support.yaw + self.dice.between(-0.5, 0.5)
                taken.append((u, v, r))
                support.children.append(item)
                self._seen.append((shown, z))
                break
        support.children.sort(key=lambda i: -hypot(i.x, i.z))

    def _clear_small(self, item: Item) -> bool:
        """As ``_clear``, but the support itself may be covered."""
        mine = self.outline(item)
        for other, depth in self._seen:
            nearer, farther = (mine, other) if item.z < depth else (other, mine)
            small_pair = (other[2] - other[0]) * (other[3] - other[1]) < 3 * (mine[2] - mine[0]) * (mine[3] - mine[1])
            if _covered(farther, nearer) > 0.5 and (small_pair or farther == mine):
                return False
        return True


def _covered(rect: Rect, by: Rect) -> float:
    """Share of ``rect`` that ``by`` covers."""
    wide = min(rect[2], by[2]) - max(rect[0], by[0])
    tall = min(rect[3], by[3]) - max(rect[1], by[1])
    size = (rect[2] - rect[0]) * (rect[3] - rect[1])
    return max(0.0, wide) * max(0.0, tall) / size if size > 0 else 0.0


def make_small(kind: str, dice: Dice) -> Item:
    """A thing that stands on tables and shelves."""
    designs = {
        "cup": (0, 0, 1, 2, 3),
        "book": (0, 0, 1, 2, 3),
        "plant": (0, 1, 2, 3, 4, 5),
        "lamp": (0, 0, 2),
        "clock": (1,),
        "tv": (0, 2),
        "cat": (0, 2),
    }
    design = dice.pick(designs.get(kind, (0, 1, 2, 3, 4)))
    item = make(kind, design, dice, small=kind == "plant")
    item.size = {"ball": 0.7, "box": 0.6, "cat": 0.85}.get(kind, 1.0)
    return item
