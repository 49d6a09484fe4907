"""Objects cut out of their images, for a classifier: one object each, with a little of what is around it.

Cut once and kept: reading (or drawing) the images takes longer than learning from what is cut out of them.
"""

import io
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from misdetect.compose.resend import resize
from misdetect.data.dataset import Dataset
from misdetect.kept.files import whole_file, write_atomically
from misdetect.nouns.picture import Pixels, digest
from misdetect.said.errors import BadData
from misdetect.training.batches import DatasetBatches
from misdetect.training.images import TrainingImages

SIDE = 64
"""Pixels of a crop's side: a quarter of the work of an image of the zoo's rooms."""
CONTEXT = 1.3
"""Times the longer side of an object is the side of the square that is cut out."""
LEAST = 16
"""Pixels of the smallest square: enlarged further, an object is a blur."""
MOST = 20_000
"""Objects that are cut out: 245 MB."""


def object_crops(
    data: Dataset,
    names: Sequence[str],
    cache: Path,
    *,
    side: int = SIDE,
    most: int = MOST,
    flip: bool = True,
) -> TrainingImages:
    """The first ``most`` objects of ``data`` that a detector of ``names`` shall find, each an image ``[side, side, 3]``
    of its own, labelled by a box around all of it; kept in the folder ``cache`` for the next time.

    Crowds, absent parts and classes not in ``names`` are left out. ``flip`` mirrors them at random when they are learnt
    from.
    """
    source = DatasetBatches(data, names)
    content = digest("crops", source.fingerprint, len(data), side, most, CONTEXT, LEAST)
    pixels, labels = cache / f"{content}.crops", cache / f"{content}.labels.npy"
    if not labels.exists():  # which is written last
        _cut(source, pixels, labels, side, most)
    known = np.load(labels)
    return TrainingImages(
        tuple(names),
        np.memmap(pixels, np.uint8, "r", shape=(len(known), side, side, 3)),
        np.tile(np.array([0.0, 0.0, side, side]), (len(known), 1)),
        known,
        np.arange(len(known) + 1),
        f"objects of {data.spec}",
        content,
        flip,
    )


def window(box: ArrayLike, width: int, height: int) -> tuple[int, int, int, int]:
    """The square that is cut out for ``box`` (x0, y0, x1, y1), in whole pixels of an image of ``width`` × ``height``:
    around the box's centre, but moved into the image, and not wider or higher than that."""
    x0, y0, x1, y1 = np.asarray(box, dtype=np.float64).tolist()
    side = max(round(CONTEXT * max(x1 - x0, y1 - y0)), LEAST)
    wide, high = min(side, width), min(side, height)
    left = min(max(round((x0 + x1 - wide) / 2), 0), width - wide)
    top = min(max(round((y0 + y1 - high) / 2), 0), height - high)
    return left, top, left + wide, top + high


def _crops(source: DatasetBatches, side: int) -> Iterator[tuple[Pixels, int]]:
    for index in range(len(source)):
        image, truth = source.read(index)
        for box, label in zip(truth.boxes, truth.labels.tolist(), strict=True):
            x0, y0, x1, y1 = window(box, image.shape[1], image.shape[0])
            yield resize(image[y0:y1, x0:x1], (side, side)), label


def _cut(source: DatasetBatches, pixels: Path, labels: Path, side: int, most: int) -> None:
    """Write the crops one after the other, so that memory does not grow with them, and then their labels."""
    pixels.parent.mkdir(parents=True, exist_ok=True)
    found: list[int] = []
    with whole_file(pixels) as file:
        for _, (crop, label) in zip(range(most), _crops(source, side), strict=False):
            file.write(np.ascontiguousarray(crop).tobytes())
            found.append(label)
        if not found:
            raise BadData(f"{source.spec} has no objects of the detector's classes to cut out.")
    held = io.BytesIO()
    np.save(held, np.array(found, dtype=np.int64))
    write_atomically(labels, held.getvalue())
