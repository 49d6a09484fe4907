"""A reader of ten lines and what it reads, for tests of open names: signs are strips of cells, blue to the full, whose
red is a letter. What covers a cell takes its letter away."""

from pathlib import Path

import numpy as np

from misdetect.data import load_data
from misdetect.data.dataset import Dataset
from misdetect.data.export import export_coco
from misdetect.nouns.detections import Detections, Truth
from misdetect.nouns.masks import Masks
from misdetect.nouns.open_names import OpenNames

CELL = 8
SIGNS = ((8, 8, "EXIT"), (56, 24, "SALE"))


class Reader:
    names = OpenNames()

    def detect(self, images):
        return [self.read(image) for image in images]

    def read(self, image):
        boxes, words = [], []
        for x, y, word in SIGNS:
            cells = image[y : y + CELL, x : x + CELL * len(word)].reshape(CELL, len(word), CELL, 3)
            seen = [int(cell[0, 0, 0]) for cell in cells.swapaxes(0, 1) if (cell[..., 2] == 255).all()]
            if seen:
                boxes.append([x, y, x + CELL * len(word), y + CELL])
                words.append("".join(map(chr, seen)))
        return boxes, [0.9] * len(boxes), words


def drawn(count: int = 3) -> Dataset:
    """Grey walls with both signs, and a ball at another place of each."""
    pairs = []
    for i in range(count):
        image = np.full((64, 96, 3), 90 + i, dtype=np.uint8)
        for x, y, word in SIGNS:
            for k, letter in enumerate(word):
                image[y : y + CELL, x + k * CELL : x + (k + 1) * CELL] = (ord(letter), 0, 255)
        ball = np.zeros((64, 96), dtype=bool)
        ball[40:52, 10 + 20 * i : 22 + 20 * i] = True
        image[ball] = (200, 80, 10)
        boxes = [[10 + 20 * i, 40, 22 + 20 * i, 52], *([x, y, x + CELL * len(w), y + CELL] for x, y, w in SIGNS)]
        masks = Masks([ball, None, None], 64, 96)  # so that the ball is what is moved
        pairs.append((image, Truth(boxes, [0, 1, 2], masks=masks)))
    return load_data(pairs, names=["ball", *(word for *_, word in SIGNS)])


def written(folder: Path) -> str:
    """The spec of ``drawn``, which every process can open."""
    export_coco(drawn(), folder)
    return f"coco:{folder / 'instances.json'}"


def decoded_words(entry: bytes) -> list[str]:
    """The words of a stored answer, in a process that has never heard them."""
    from misdetect.engine.cache import decode

    found: Detections = decode(entry)
    return [OpenNames()[label] for label in found.labels]
