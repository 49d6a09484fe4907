"""``Item``: one thing in a scene, before it is drawn.

An item knows its place in the world, its shape and which items stand on it. ``kind`` is its class; an empty kind is
decoration that is drawn but not annotated.
"""

from dataclasses import dataclass, field

from misdetect.data.procedural.draw.camera import Frame, Stage
from misdetect.data.procedural.draw.dice import Dice


@dataclass
class Item:
    """``x, y, z`` metres (the middle of its foot), ``yaw`` radians, ``size`` a factor, ``span`` width, height, depth"""

    kind: str
    shape: str
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
