"""``Item``: one thing in a scene, before it is drawn.

An item knows its place in the world, how to draw itself and which items stand on it. ``kind`` is its class; an empty
kind is decoration that is drawn but not annotated.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from misdetect.data.procedural.draw.camera import Board, Frame, Stage
from misdetect.data.procedural.draw.canvas import Colour
from misdetect.data.procedural.draw.dice import Dice

Draw = Callable[[Stage, "Item"], None]

PAINTS: tuple[Colour, ...] = (
    (196, 62, 52), (52, 104, 178), (236, 190, 62), (72, 142, 88), (232, 128, 58), (120, 84, 160), (60, 160, 170),
    (226, 120, 150), (240, 236, 226), (58, 62, 72), (150, 190, 90), (170, 70, 90), (90, 130, 200), (222, 206, 170),
)  # fmt: skip
CLOTHS: tuple[Colour, ...] = (
    (150, 64, 58), (64, 92, 128), (96, 118, 84), (176, 150, 116), (128, 120, 112), (196, 140, 62), (92, 70, 104),
    (62, 122, 124), (206, 196, 180), (74, 76, 84), (168, 96, 110), (112, 74, 52), (188, 182, 96),
)  # fmt: skip
WOODS: tuple[Colour, ...] = (
    (150, 104, 62), (112, 74, 44), (186, 142, 92), (88, 58, 40), (206, 172, 124), (132, 72, 44), (226, 218, 204),
    (70, 66, 64), (168, 120, 84),
)  # fmt: skip


@dataclass
class Item:
    """``x, y, z`` metres (the middle of its foot), ``yaw`` radians, ``size`` a factor, ``span`` width, height, depth"""

    kind: str
    draw: Draw
    dice: Dice
    x: float = 0.0
    y: float = 0.0
    z: float = 0.0
    yaw: float = 0.0
    size: float = 1.0
    span: tuple[float, float, float] = (0.5, 0.5, 0.5)
    design: int = 0
    children: list["Item"] = field(default_factory=list)

    def frame(self, stage: Stage) -> Frame:
        return Frame(stage, self.x, self.y, self.z, self.yaw, self.size)

    def facing(self, stage: Stage, *, flip: bool = False) -> Board:
        return Board.facing(stage, self.x, self.y, self.z, size=self.size, flip=flip)
