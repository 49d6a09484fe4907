"""``boxes-csv:FILE[,images=DIR]``: boxes in a CSV file with the columns image, label, x0, y0, x1, y1 (pixels).

A line without a label says that there is nothing on its image.
"""

import csv
from io import StringIO
from pathlib import Path

import numpy as np

from misdetect.data.dataset import Dataset
from misdetect.data.faults import BadRecord, Malformed
from misdetect.data.formats import Format
from misdetect.data.images import check_name, image_folder
from misdetect.data.shapes import Shape, Shapes
from misdetect.data.table import Table
from misdetect.data.untrusted import parse_number, read_bytes
from misdetect.nouns.boxes import SIDES
from misdetect.nouns.picture import digest
from misdetect.nouns.spec import Spec

FORMAT = Format("boxes in a CSV file", "boxes-csv:FILE[,images=DIR]", "misdetect_darkness.boxes_csv:load_boxes_csv")
_COLUMNS = ("image", "label", *SIDES)


def load_boxes_csv(spec: Spec) -> Dataset:
    """Open ``boxes-csv:FILE``; the images are in ``images``, or near the file."""
    path, folder = Path(spec.target), spec.take("images", "")
    spec.finish()
    data = read_bytes(path, what="a CSV of boxes")
    rows = csv.DictReader(StringIO(data.decode("utf-8-sig", "replace")), strict=True)
    if not set(_COLUMNS) <= set(rows.fieldnames or ()):
        raise Malformed(f"{path} should start with the line {','.join(_COLUMNS)}. Got {rows.fieldnames}.")
    places: dict[str, int] = {}
    shapes = Shapes(path)
    for row in rows:
        where = f"{path}, line {rows.line_num}"
        image = places.setdefault(check_name(row["image"], where), len(places))
        if row["label"]:
            shapes.append(Shape(image, row["label"], [_number(row[side], where) for side in SIDES], where))
    sizes = np.zeros((len(places), 2), dtype=np.int64)  # unknown: images say it themselves
    objects, odd = shapes.objects(shapes.names, sizes)
    table = Table(image_folder(folder, path, places), list(places), sizes, objects)
    return table.dataset(spec.text, shapes.names, fingerprint=digest("boxes-csv", data), warnings=odd)


def _number(text: str | None, where: str) -> float:
    try:
        return parse_number(text or "")
    except ValueError:
        raise BadRecord(f"{where}: a side of a box should be a number. Got {text!r}.") from None
