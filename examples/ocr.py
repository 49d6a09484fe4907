"""A reader of text as a detector, as in Fig. 4 of "The Elephant in the Room": words are what it finds.

    pip install rapidocr onnxruntime
    python examples/ocr.py signs                     # draws rooms with signs on the walls, as COCO
    misdetect scan --detector python:examples/ocr.py:Reader --data coco:signs/instances.json --out run

Nobody can list the words beforehand, so the reader's names are open: it returns words for labels. The scan shows where
an object makes it lose a word or read another, and how much of the word the object covers there.
"""

import logging
import sys
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

import misdetect as md

WORDS = ("EXIT", "SALE", "CAFE 24", "ROOM 101", "PUSH", "OPEN", "TAXI", "WARNING", "HOTEL", "KEEP LEFT")
SIDE, FACTOR = 256, 2  # of the rooms, which are drawn twice as large as for detectors


class Reader:
    """RapidOCR, whose models come with its package."""

    names = md.OpenNames()
    batch_size = 1

    def __init__(self, score: str = "0.5") -> None:
        from rapidocr import RapidOCR

        logging.getLogger("RapidOCR").setLevel(logging.WARNING)
        self.settings = {"reader": "rapidocr", "score": float(score)}
        self._read = RapidOCR(params={"Global.log_level": "warning", "Global.text_score": float(score)})

    def detect(self, images):
        """Boxes around the quadrilaterals of what is read, scores, and the words."""
        return [self._found(image) for image in images]

    def _found(self, image):
        said = self._read(np.ascontiguousarray(image[:, :, ::-1]))  # it expects BGR
        if said.boxes is None or not len(said.boxes):
            return np.zeros((0, 4)), [], []
        corners = np.asarray(said.boxes, dtype=float)
        boxes = np.concatenate([corners.min(axis=1), corners.max(axis=1)], axis=1)
        words = [" ".join(text.split()) for text in said.txts]
        named = [i for i, word in enumerate(words) if word]
        return boxes[named], np.asarray(said.scores, dtype=float)[named], [words[i] for i in named]


def signs(count: int, data: str = "rooms:val", seed: int = 0):
    """``count`` rooms with two signs each: pairs of an image and what is annotated, objects and words alike."""
    generator = np.random.default_rng(seed)
    font = ImageFont.truetype(str(_font()), 17)
    for sample in md.load_data(data).limit(count):
        room = sample.larger(FACTOR)
        image = Image.fromarray(room.image)
        draw = ImageDraw.Draw(image)
        words = generator.choice(len(WORDS), 2, replace=False)
        places = [(12, 20), (130, 45)]
        boxes, names = room.truth.boxes.tolist(), [md.load_data(data).names[i] for i in room.truth.labels]
        masks = list(room.truth.masks)
        for word, (x, y) in zip((WORDS[i] for i in words), places, strict=True):
            x, y = x + int(generator.integers(0, 15)), y + int(generator.integers(0, 15))
            box = draw.textbbox((x, y), word, font=font)
            plate = (box[0] - 4, box[1] - 4, box[2] + 4, box[3] + 4)
            draw.rectangle(plate, fill=(245, 245, 235), outline=(40, 40, 40))
            draw.text((x, y), word, font=font, fill=(20, 20, 60))
            mask = np.zeros((SIDE, SIDE), dtype=bool)
            mask[plate[1] : plate[3], plate[0] : plate[2]] = True
            boxes, names, masks = [*boxes, list(box)], [*names, word], [*masks, mask]
        yield np.asarray(image), {"boxes": boxes, "labels": names, "masks": np.stack(masks)}


def _font() -> Path:
    import matplotlib

    return Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans-Bold.ttf"


if __name__ == "__main__":
    from misdetect.data.export import export_coco

    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "signs")
    print(export_coco(md.load_data(list(signs(12))), folder))
