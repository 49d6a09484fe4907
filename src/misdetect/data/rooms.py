"""``rooms``: furnished rooms and a few outdoor scenes, twelve classes, boxes and instance masks.

Procedural and seeded, made in memory on demand: ``rooms:val``, ``rooms:train,size=256,count=500,seed=7``. How the
pictures are drawn is in ``misdetect.data.procedural``.
"""

from misdetect.data.dataset import Dataset
from misdetect.data.procedural.draw.dice import Dice
from misdetect.data.procedural.draw.generator import Kind, Made, annotate, load
from misdetect.data.procedural.rooms.layout import NAMES
from misdetect.data.procedural.rooms.scene import compose, draw
from misdetect.nouns.spec import Spec

VERSION = 2
SIZE = 128
_LABELS = {name: label for label, name in enumerate(NAMES)}


def make_room(dice: Dice, size: int, first: int) -> Made:
    """One scene at ``size`` pixels with its annotation, ids counted from ``first``."""
    drawing = draw(compose(dice), size)
    return Made(drawing.image, annotate(drawing.owners, [_LABELS[kind] for kind in drawing.kinds], first))


ROOMS = Kind("rooms", VERSION, 1, NAMES, make_room, SIZE)


def load_rooms(spec: Spec) -> Dataset:
    """The rooms that ``rooms:SPLIT[,size=128][,count=…][,seed=0]`` names; SPLIT is train, val or test."""
    return load(ROOMS, spec)
