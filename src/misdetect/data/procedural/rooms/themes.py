"""What is in a scene: living room, dining room, study, table top, or outdoors.

Each theme lists what it usually holds and how often; ``layout`` finds the places. The rates are chosen so that no
class is more than six times as frequent as another.
"""

from math import cos, hypot, pi, sin

from misdetect.data.procedural.draw.camera import Camera
from misdetect.data.procedural.draw.dice import Dice
from misdetect.data.procedural.draw.items import Item
from misdetect.data.procedural.rooms.backdrop import Room
from misdetect.data.procedural.rooms.layout import DESIGNS, Layout, make, make_small


def furnish(theme: str, camera: Camera, room: Room | None, dice: Dice) -> tuple[list[Item], list[Item]]:
    """Flat things (drawn first) and the rest from the farthest to the nearest."""
    layout = Layout(camera, room, dice)
    {"living": _living, "dining": _dining, "study": _study, "close": _close, "outdoor": _outdoor}[theme](layout, dice)
    if room is not None:
        _walls(layout, dice)
    layout.flats.sort(key=lambda i: (bool(i.kind), -hypot(i.x, i.z)))
    layout.items.sort(key=lambda i: -hypot(i.x, i.z))
    return layout.flats, layout.items


def _walls(layout: Layout, dice: Dice) -> None:
    assert layout.room is not None
    if dice.chance(0.4):
        layout.hang(make("clock", dice.pick((0, 0, 0, 2, 3)), dice), 1.5, 2.0)
    if dice.chance(0.45):
        layout.hang(make("window", 0, dice), 1.4, 1.7)
    for _ in range(dice.whole(0, 2)):
        layout.hang(make(dice.pick(("picture", "picture", "plate")), 0, dice), 1.3, 1.9)


def _shelf(layout: Layout, dice: Dice) -> None:
    shelf = make("shelf", 0, dice)
    assert layout.room is not None
    if layout.hang(shelf, 1.2, 1.6):
        reach = shelf.span[2] / 2
        shelf.x, shelf.z = shelf.x + sin(shelf.yaw) * reach, shelf.z - cos(shelf.yaw) * reach
        layout.top(shelf, dice.whole(2, 4), ("book", "book", "plant", "cup", "cup", "vase", "clock"))


def _television(layout: Layout, dice: Dice) -> None:
    way = dice.unit()
    if way < 0.3:
        layout.hang(make("tv", 1, dice), 1.15, 1.6)
        return
    stand = make("cabinet", 0, dice) if way < 0.8 else make("table", 2, dice)
    if not layout.against(stand):
        return
    screen = make("tv", dice.pick((0, 0, 2)), dice)
    screen.x, screen.y, screen.z, screen.yaw = stand.x, stand.y + stand.span[1], stand.z, stand.yaw
    stand.children.append(screen)
    if dice.chance(0.4) and stand.span[0] > screen.span[0] + 0.45:
        extra = make_small(dice.pick(("plant", "vase", "cup", "book", "clock")), dice)
        side = dice.sign() * (stand.span[0] / 2 - 0.16)
        extra.x, extra.y = stand.x + cos(stand.yaw) * side, stand.y + stand.span[1]
        extra.z = stand.z + sin(stand.yaw) * side
        extra.yaw = stand.yaw
        stand.children.append(extra)


def _pendant(layout: Layout, dice: Dice, x: float, z: float) -> None:
    """A lamp from the ceiling, low enough to be in the picture and high enough to clear what is under it."""
    assert layout.room is not None
    lamp = make("lamp", 3, dice)
    rim = dice.between(0.14, 0.24)
    height = layout.camera.height + (layout.camera.horizon - rim) * z / layout.camera.focal
    if 1.25 < height < layout.room.ceiling - 0.35:
        lamp.x, lamp.y, lamp.z = x, layout.room.ceiling, z
        lamp.span = (lamp.span[0], layout.room.ceiling - height, lamp.span[2])
        layout.items.append(lamp)


def _floor_extras(layout: Layout, dice: Dice, far: float) -> None:
    near = layout.nearest
    lots = (("cat", 0.5), ("ball", 0.55), ("lamp", 0.4), ("plant", 0.45), ("box", 0.2), ("vase", 0.12))
    for kind, rate in lots:
        if not dice.chance(rate):
            continue
        if kind == "lamp":
            item = make("lamp", 1, dice)
        elif kind in ("plant", "ball", "cat"):
            item = make(kind, dice.whole(0, DESIGNS[kind] - 1), dice)
        else:
            item = make(kind, 0, dice)
            item.size = 1.6 if kind == "vase" else 1.0
        layout.stand(item, near * (1.0 if kind in ("ball", "cat") else 1.1), far)
    if dice.chance(0.05):
        toy = make("elephant", 1, dice)
        toy.size = 0.55
        layout.stand(toy, near, far)
    if dice.chance(0.05):
        stray = make_small(dice.pick(("cup", "book", "clock")), dice)
        stray.size = 1.2
        layout.stand(stray, near, near + 0.8)


def _living(layout: Layout, dice: Dice) -> None:
    assert layout.room is not None
    far, near = layout.room.depth + 0.3, layout.nearest
    if dice.chance(0.6):
        rug = make("rug", 0, dice)
        z = near * dice.between(1.15, 1.5)
        rug.x, rug.z, rug.yaw = layout.camera.ray(dice.between(0.3, 0.7)) * z, z, layout.room.yaw
        if layout.room.holds(rug.x, rug.z, hypot(rug.span[0], rug.span[2]) / 2 * 0.8):
            layout.flats.append(rug)
    couch = make("couch", 0, dice)
    turn = layout.room.yaw + dice.pick((0.0, 0.0, 0.5, -0.5, pi))
    if dice.chance(0.92) and not layout.against(couch):
        layout.stand(couch, near * 1.1, far, edge=0.2, yaw=turn)
    if couch.z and dice.chance(0.16):
        lying = make("cat", 2, dice)
        lying.size = 0.9
        lying.x, lying.y, lying.z = couch.x, couch.span[1] * 0.55, couch.z - 0.12
        if cos(couch.yaw) > 0.5:
            couch.children.append(lying)
    if dice.chance(0.65):
        _television(layout, dice)
    if dice.chance(0.6):
        table = make("table", dice.pick((1, 2, 2)), dice)
        if layout.stand(table, near, far - 0.5, edge=0.15):
            layout.top(table, dice.whole(2, 4))
    if dice.chance(0.3):
        layout.stand(make("chair", dice.whole(0, 3), dice), near, far)
    if dice.chance(0.3):
        _shelf(layout, dice)
    _floor_extras(layout, dice, far)


def _dining(layout: Layout, dice: Dice) -> None:
    assert layout.room is not None
    far, near = layout.room.depth + 0.3, layout.nearest
    table = make("table", dice.pick((0, 0, 1)), dice)
    if layout.stand(table, near * 1.05, near * 1.5, edge=0.25, yaw=layout.room.yaw + dice.between(-0.2, 0.2)):
        layout.top(table, dice.whole(3, 5))
        if dice.chance(0.5):
            _pendant(layout, dice, table.x, table.z)
    for _ in range(dice.pick((1, 1, 2, 3))):
        side = make("chair", dice.whole(0, 3), dice)
        side.yaw = layout.room.yaw
        layout.stand(side, near, far, most=0.5, yaw=layout.room.yaw + dice.pick((0.0, 0.4, -0.4, 1.4, -1.4, pi, 2.6)))
    if dice.chance(0.35):
        sideboard = make("cabinet", 0, dice)
        if layout.against(sideboard):
            layout.top(sideboard, dice.whole(1, 3))
    if dice.chance(0.3):
        _shelf(layout, dice)
    if dice.chance(0.4):
        _television(layout, dice)
    _floor_extras(layout, dice, far)


def _study(layout: Layout, dice: Dice) -> None:
    assert layout.room is not None
    far, near = layout.room.depth + 0.2, layout.nearest
    desk = make("table", dice.pick((3, 3, 0)), dice)
    if layout.against(desk) or layout.stand(desk, near * 1.05, far):
        layout.top(
            desk, dice.whole(3, 5), ("book", "book", "lamp", "lamp", "cup", "clock", "plant", "tv", "vase", "box")
        )
    if dice.chance(0.85):
        layout.stand(make("chair", dice.pick((0, 1, 2, 2, 3)), dice), near, far, most=0.5)
    if dice.chance(0.6):
        _shelf(layout, dice)
    if dice.chance(0.45):
        _television(layout, dice)
    if dice.chance(0.4):
        layout.against(make("couch", 0, dice))
    _floor_extras(layout, dice, far)


def _close(layout: Layout, dice: Dice) -> None:
    assert layout.room is not None
    table = make("table", dice.pick((0, 0, 1)), dice)
    table.span = (table.span[0] * 1.15, table.span[1], table.span[2] * 1.1)
    if layout.stand(table, 1.35, 1.75, edge=0.36, yaw=layout.room.yaw * 0.4):
        kinds = ("cup", "cup", "book", "book", "plant", "clock", "lamp", "vase", "ball", "cat", "box", "tv")
        layout.top(table, dice.whole(4, 7), kinds)
    far = layout.room.depth + 0.2
    for _ in range(dice.whole(0, 2)):
        layout.stand(make("chair", dice.whole(0, 3), dice), layout.nearest * 1.2, far)
    if dice.chance(0.4):
        layout.against(make("couch", 0, dice))
    if dice.chance(0.4):
        _television(layout, dice)
    if dice.chance(0.3):
        z = dice.between(1.9, 2.6)
        _pendant(layout, dice, layout.camera.ray(dice.between(0.2, 0.8)) * z, z)


def _outdoor(layout: Layout, dice: Dice) -> None:
    near = layout.nearest
    for _ in range(dice.whole(0, 4)):
        layout.stand(make("tree", dice.whole(0, 2), dice), 8.0, 16.0, most=0.7, edge=0.0)
    if dice.chance(0.3):
        fence = make("fence", 0, dice)
        fence.z, fence.yaw = dice.between(7.0, 9.0), dice.between(-0.15, 0.15)
        layout.items.append(fence)
    if dice.chance(0.85):
        for _ in range(dice.pick((1, 1, 2, 3))):
            young = dice.chance(0.25)
            layout.stand(make("elephant", int(young), dice), near * (1.3 if young else 2.0), 8.0, most=0.4, edge=0.2)
    for kind, rate, times in (
        ("ball", 0.6, 2),
        ("plant", 0.55, 2),
        ("boulder", 0.45, 2),
        ("cat", 0.25, 1),
        ("chair", 0.4, 2),
        ("box", 0.15, 1),
    ):
        for _ in range(times):
            if dice.chance(rate):
                far = {"ball": near + 1.6, "cat": near + 1.5, "plant": near + 1.8, "boulder": 7.0}.get(kind, near + 2.2)
                layout.stand(make(kind, dice.whole(0, DESIGNS.get(kind, 1) - 1), dice), near, far)
    if dice.chance(0.3):
        table = make("table", dice.pick((0, 1, 2)), dice)
        if layout.stand(table, near * 1.02, near + 1.5):
            layout.top(table, dice.whole(1, 3), ("cup", "cup", "plant", "book", "vase", "ball"))
    if dice.chance(0.06):
        odd = make(*dice.pick((("couch", 0), ("tv", 2), ("lamp", 1))), dice)
        layout.stand(odd, near * 1.1, near + 2.0)
