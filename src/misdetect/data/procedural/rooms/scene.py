"""From dice to a finished picture of a room: scene, drawing, truth.

Everything is decided at the reference size of 128 pixels, so that the same scene at another size holds the same
objects: what shows less than a quarter of itself, or fewer than 40 reference pixels, is taken out of the scene and the
picture is drawn again without it. So nothing of a class is visible and not annotated.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from misdetect.data.procedural.draw.camera import Camera, Stage
from misdetect.data.procedural.draw.canvas import Canvas
from misdetect.data.procedural.draw.dice import Dice
from misdetect.data.procedural.draw.finish import finish
from misdetect.data.procedural.draw.items import Item
from misdetect.data.procedural.rooms.backdrop import Room, choose_landscape, choose_room, draw_landscape, draw_room
from misdetect.data.procedural.rooms.pen import draw_item
from misdetect.data.procedural.rooms.themes import furnish
from misdetect.nouns.picture import Pixels

REFERENCE = 128
LEAST_PIXELS = 40
LEAST_SHARE = 0.25
_THEMES = ("living",) * 29 + ("dining",) * 20 + ("study",) * 17 + ("close",) * 15 + ("outdoor",) * 19


@dataclass
class Furnished:
    """A furnished scene, not yet drawn."""

    theme: str
    camera: Camera
    room: Room | None
    flats: list[Item]
    items: list[Item]
    light: tuple[float, float]
    shadow: float
    backdrop: Dice
    finish: Dice


@dataclass(frozen=True)
class Drawing:
    """A finished picture: ``owners`` ``[size, size]`` holds k + 1 where ``kinds[k]`` is visible, else 0."""

    image: Pixels
    owners: NDArray[np.uint8]
    kinds: tuple[str, ...]


def compose(dice: Dice) -> Furnished:
    """Choose a theme, a space and what stands in it."""
    theme = dice.pick(_THEMES)
    light = (dice.sign() * dice.between(0.5, 0.9), -dice.between(0.3, 0.8))
    shadow, backdrop, finish = dice.between(0.3, 0.6), dice.child(80), dice.child(40)
    room: Room | None = None
    if theme == "outdoor":
        camera = choose_landscape(dice)
    else:
        camera, room = choose_room(dice, near=theme == "close")
    flats, items = furnish(theme, camera, room, dice)
    return Furnished(theme, camera, room, flats, items, light, shadow, backdrop, finish)


def draw(scene: Furnished, size: int) -> Drawing:
    """The scene at ``size`` pixels, without what could hardly be seen."""
    canvas = _backdrop(scene, REFERENCE)
    empty = canvas.pixels.copy()
    listed, fresh = _paint(scene, canvas)
    owners = canvas.owners()
    shown = np.bincount(owners.ravel(), minlength=len(listed) + 1).tolist()[1:]
    poor = [k for k in range(len(listed)) if shown[k] < max(LEAST_PIXELS, LEAST_SHARE * fresh[k])]
    if poor:
        _remove(scene, {id(listed[k]) for k in poor})
    if poor or size != REFERENCE:
        if size == REFERENCE:
            canvas.pixels[:] = empty
        else:
            canvas = _backdrop(scene, size)
        listed, _ = _paint(scene, canvas)
        owners = canvas.owners()
    image = finish(canvas, scene.finish, 1.0 if scene.light[0] > 0 else -1.0, REFERENCE)
    return Drawing(image, owners, tuple(item.kind for item in listed))


def _remove(scene: Furnished, gone: set[int]) -> None:
    """Take items out of the scene; what stands on them goes with them."""
    scene.flats = [i for i in scene.flats if id(i) not in gone]
    scene.items = [i for i in scene.items if id(i) not in gone]
    for item in [*scene.flats, *scene.items]:
        item.children = [c for c in item.children if id(c) not in gone]


def _backdrop(scene: Furnished, size: int) -> Canvas:
    """The space without anything in it."""
    canvas = Canvas(size)
    canvas.mirrored = scene.light[0] > 0
    stage = Stage(canvas, scene.camera, scene.light, scene.shadow)
    scene.backdrop.rewind()
    if scene.room is not None:
        draw_room(stage, scene.room, scene.backdrop)
    else:
        draw_landscape(stage, scene.backdrop)
    return canvas


def _paint(scene: Furnished, canvas: Canvas) -> tuple[list[Item], list[int]]:
    """Put everything before the backdrop; the annotated items in order and each one's pixels before it was hid."""
    stage = Stage(canvas, scene.camera, scene.light, scene.shadow)
    listed: list[Item] = []
    fresh: list[int] = []

    def put(item: Item) -> None:
        item.dice.rewind()
        canvas.offset = (int(item.dice.unit() * canvas.side), int(item.dice.unit() * canvas.side))
        if item.kind:
            listed.append(item)
        canvas.start(len(listed) if item.kind else 0)
        draw_item(stage, item)
        if item.kind:
            fresh.append(int(np.count_nonzero(canvas.owned()[0])))
        for child in item.children:
            put(child)

    for item in scene.flats:
        put(item)
    for item in scene.items:
        put(item)
    return listed, fresh
