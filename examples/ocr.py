"""A reader of text as a detector, as in Fig. 4 of "The Elephant in the Room": words are what it finds.

    pip install rapidocr onnxruntime
    python examples/ocr.py notices                   # draws rooms with a notice on the wall, as COCO
    misdetect scan --detector python:examples/ocr.py:Reader --data coco:notices/instances.json \\
        --pairs 6 --step 120 --out run               # about four minutes

Nobody can list the words beforehand, so the reader's names are open: it returns words for labels. The notices are in
small print and were saved as JPEG, so that they are hard to read, as the paper's sign was. The scan shows that an
object far from a line makes the reader read it otherwise, and how often a patch of the room in its place does (the
control). What was measured: docs/scan.md.
"""

import io
import sys
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

import misdetect as md
from misdetect.nouns.masks import Masks

HEADS = ("BUS", "CALL", "DESK", "DR", "FLOOR", "GATE", "LEVEL", "OFFICE", "ROOM", "STOP", "TAXI", "UNIT")
LARGER, LINES, FINER = 4, 8, 4  # the rooms are drawn larger than for detectors, the notices finer than the rooms


class Reader:
    """RapidOCR, whose models come with its package. It also says what it is not sure of, so that the scan can tell a
    score that flickers from a word that is gone."""

    names = md.OpenNames()
    batch_size = 1

    def __init__(self, score: str = "0.05") -> None:
        from rapidocr import RapidOCR

        self.settings = {"reader": "rapidocr", "score": float(score)}
        self._read = RapidOCR(params={"Global.log_level": "error", "Global.text_score": float(score)})

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


def notices(count: int, seed: int = 1, data: str = "rooms:val", size: float = 7, quality: int = 50):
    """``count`` rooms with a notice of ``LINES`` lines each, type of ``size`` pixels, saved as JPEG of ``quality``:
    pairs of an image and what is annotated, objects and lines alike. Size and quality were chosen with seed 0."""
    generator, rooms = np.random.default_rng(seed), md.load_data(data)
    for i in range(count):
        room = rooms[(1000 * seed + i) % len(rooms)].larger(LARGER)
        numbers = generator.integers((100, 1000), (1000, 10000), (LINES, 2))
        lines = [f"{generator.choice(HEADS)} {first}-{last}" for first, last in numbers]
        sheet, boxes = _sheet(lines, size)
        image = Image.fromarray(room.image)
        x, y = generator.integers(5, (image.width - sheet.width - 5, image.height // 2 - sheet.height)).tolist()
        image.paste(sheet, (x, y))
        file = io.BytesIO()
        image.save(file, "JPEG", quality=quality)
        yield (
            np.asarray(Image.open(file)),
            {
                "boxes": np.concatenate([room.truth.boxes, np.add(boxes, (x, y, x, y))]),
                "labels": [*(rooms.names[label] for label in room.truth.labels), *lines],
                "masks": Masks([*room.truth.masks, *[None] * LINES], *image.size[::-1]),  # lines are not what is moved
            },
        )


def _sheet(lines, size):
    """A sheet of paper with ``lines``, and the boxes of its rows."""
    from matplotlib import get_data_path

    font = ImageFont.truetype(str(Path(get_data_path(), "fonts", "ttf", "DejaVuSans.ttf")), round(size * FINER))
    row, boxes = round(1.5 * size * FINER), []
    sheet = Image.new("RGB", (row * 9, row * (len(lines) + 1)), (215, 212, 200))
    for i, line in enumerate(lines, 1):
        ImageDraw.Draw(sheet).text((row, i * row), line, font=font, fill=(60, 60, 70), anchor="lm")
        boxes.append((row * 0.8, (i - 0.5) * row, row * 1.2 + font.getlength(line), (i + 0.5) * row))
    return sheet.reduce(FINER), np.array(boxes) / FINER


if __name__ == "__main__":
    from misdetect.data.export import export_coco

    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "notices")
    print(export_coco(md.load_data(list(notices(12))), folder))
