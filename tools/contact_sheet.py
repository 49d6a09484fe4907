"""A contact sheet: several images of a procedural data set on one page, the lower half with their annotations.

``python tools/contact_sheet.py rooms:val --out docs/images/rooms.png`` draws the sheets in the documentation; it is how
a change of the drawing is looked at before it is believed.
"""

import argparse

import cv2
import numpy as np

from misdetect.data import load_data
from misdetect.data.dataset import Dataset, Sample
from misdetect.nouns.picture import Pixels
from misdetect.nouns.spec import Spec

_COLOURS = (
    (230, 60, 60),
    (60, 200, 80),
    (70, 130, 255),
    (250, 190, 40),
    (220, 80, 220),
    (60, 220, 220),
    (255, 130, 60),
    (170, 230, 60),
)
_STATES = {"intact": (70, 230, 90), "damaged": (255, 190, 40), "absent": (255, 70, 60), "occluded": (80, 170, 255)}


def annotated(sample: Sample, names: tuple[str, ...]) -> Pixels:
    """The sample's image with labelled boxes; parts are coloured by state, objects by class."""
    image = sample.image.copy()
    truth = sample.truth
    scale = sample.width / 640
    for k, (box, label) in enumerate(zip(truth.boxes.round().astype(int).tolist(), truth.labels.tolist(), strict=True)):
        colour = _STATES[truth.states[k]] if truth.states is not None else _COLOURS[label % len(_COLOURS)]
        x0, y0, x1, y1 = box
        cv2.rectangle(image, (x0, y0), (x1 - 1, y1 - 1), colour, max(1, round(2 * scale)))
        letters = (0.4 if truth.states is not None else 0.6) * scale
        (w, h), _ = cv2.getTextSize(names[label], cv2.FONT_HERSHEY_SIMPLEX, letters, 1)
        x, y = min(max(0, x0), sample.width - w - 2), max(h + 3, y0)
        cv2.rectangle(image, (x, y - h - 3), (x + w + 2, y), colour, -1)
        cv2.putText(image, names[label], (x + 1, y - 2), cv2.FONT_HERSHEY_SIMPLEX, letters, (0, 0, 0), 1, cv2.LINE_AA)
    return image


def contact_sheet(data: Dataset, count: int = 12, columns: int = 4) -> Pixels:
    """The first ``count`` images in a grid at half their size, the second half of them with boxes and labels."""
    tiles = [annotated(s, data.names) if i >= count // 2 else s.image for i, s in enumerate(data[:count])]
    # Drawn at twice the size: the page is sharp, and its noise small enough for a PNG to compress.
    tiles = [cv2.resize(t, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA) for t in tiles]
    blank = np.full_like(tiles[0], 255)
    tiles += [blank] * (-len(tiles) % columns)
    return np.concatenate([np.concatenate(tiles[i : i + columns], axis=1) for i in range(0, len(tiles), columns)])


def main() -> None:
    parser = argparse.ArgumentParser(description="Draw a contact sheet of a procedural data set.")
    parser.add_argument("data", help="rooms:SPLIT or bikes:SPLIT, with options")
    parser.add_argument("--out", required=True, help="PNG to write")
    parser.add_argument("--count", type=int, default=12, help="images")
    parser.add_argument("--columns", type=int, default=4, help="images per row")
    parser.add_argument("--size", type=int, default=400, help="pixels of each image")
    asked = parser.parse_args()
    data = load_data(Spec.parse(asked.data).instead("size", 2 * asked.size))
    sheet = contact_sheet(data, asked.count, asked.columns)
    cv2.imwrite(asked.out, cv2.cvtColor(sheet, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_PNG_COMPRESSION, 9])


if __name__ == "__main__":
    main()
