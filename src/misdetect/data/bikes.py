"""``bikes``: one bicycle per picture with the 22 parts of DelftBikes, each intact, damaged, absent or occluded.

Procedural and seeded, made in memory on demand: ``bikes:val``, ``bikes:train,size=320,count=500,seed=7``. Every part is
annotated in every image: present parts (intact, damaged) by the tight box and mask of what is visible, missing parts
(absent, occluded) by a likely box and no mask.
"""

import numpy as np

from misdetect.data.dataset import Dataset
from misdetect.data.procedural.bikes.parts import PARTS
from misdetect.data.procedural.bikes.scene import ABSENT, OCCLUDED, REFERENCE, assemble, portray
from misdetect.data.procedural.draw.dice import Dice
from misdetect.data.procedural.draw.generator import Kind, Made, load, regions
from misdetect.nouns.detections import Truth
from misdetect.nouns.masks import Masks, Segment
from misdetect.nouns.spec import Spec

VERSION = 2
SIZE = REFERENCE


def make_bike(dice: Dice, size: int, first: int) -> Made:
    """One bicycle at ``size`` pixels with all its 22 parts annotated, labels and ids in the order of ``PARTS``."""
    portrait = portray(assemble(dice), size)
    boxes = np.array(portrait.likely, dtype=np.float64)
    areas = (boxes[:, 2:] - boxes[:, :2]).prod(axis=1)
    segments: list[Segment] = [None] * len(PARTS)
    present = [k for k, state in enumerate(portrait.states) if state not in (ABSENT, OCCLUDED)]
    tight, shapes, pixels = regions(portrait.owners, [k + 1 for k in present])
    for k, box, mask, count in zip(present, tight, shapes, pixels, strict=True):
        boxes[k], segments[k], areas[k] = box, mask, count
    labels = np.arange(len(PARTS), dtype=np.int64)
    masks = Masks(segments, size, size)
    truth = Truth(boxes, labels, labels + first, areas=areas, states=portrait.states, masks=masks)
    return Made(portrait.image, truth)


BIKES = Kind("bikes", VERSION, 2, PARTS, make_bike, SIZE)


def load_bikes(spec: Spec) -> Dataset:
    """The bicycles that ``bikes:SPLIT[,size=160][,count=…][,seed=0]`` names; SPLIT is train, val or test."""
    return load(BIKES, spec)
