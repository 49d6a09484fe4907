"""What is in a data set, and what is wrong with it: the numbers behind ``misdetect data``.

Looks at every annotation and at whether every image file is there, but decodes no photo. Masks are decoded only on
request, since that takes seconds on COCO-sized data.
"""

import os
from collections import Counter
from typing import Any

import numpy as np

from misdetect.data.dataset import Dataset, Sample, Warned
from misdetect.data.images import FileSource, inside
from misdetect.nouns.boxes import Floats
from misdetect.said.errors import BadArray, BadData, BadImage

SMALL, MEDIUM = 32**2, 96**2
"""COCO's limits in square pixels: small < 32², medium < 96², large from there."""


class _Tally:
    """Warnings by kind, counting all and keeping the first of each as its example."""

    def __init__(self, known: tuple[Warned, ...]) -> None:
        self._count = Counter({warned.kind: warned.count for warned in known})
        self._example = {warned.kind: warned.example for warned in known}

    def add(self, kind: str, example: str, count: int = 1) -> None:
        self._count[kind] += count
        self._example.setdefault(kind, example)

    def rows(self) -> list[dict[str, Any]]:
        return [{"count": self._count[k], "example": self._example[k], "kind": k} for k in sorted(self._count)]


def inspect(dataset: Dataset, *, masks: bool = False) -> dict[str, Any]:
    """A JSON-able account of ``dataset``; with ``masks``, every mask is decoded and checked too.

    Warnings that the reader gave concern the whole data, also where ``dataset`` is a view of a part of it.
    """
    tally = _Tally(dataset.warnings)
    per_class = np.zeros((len(dataset.names), 2), dtype=np.int64)  # objects, images
    sizes, states = Counter({"small": 0, "medium": 0, "large": 0}), Counter[str]()
    totals = Counter({"crowd": 0, "masks": 0, "objects": 0, "without": 0, "unreadable": 0})
    for index in range(len(dataset)):
        try:
            sample = dataset[index]
            _ = sample.width
        except BadImage as error:  # its size is only in a header that cannot be read
            totals["unreadable"] += 1
            tally.add(error.kind, str(error))
            continue
        _check_file(sample, tally)
        truth = sample.truth
        totals["objects"] += len(truth)
        totals["without"] += len(truth) == 0
        np.add.at(per_class[:, 0], truth.labels, 1)
        per_class[np.unique(truth.labels), 1] += 1
        if truth.crowd is not None and truth.areas is not None:
            totals["crowd"] += int(truth.crowd.sum())
            sizes.update(_size_classes(truth.areas))
        if truth.states is not None:
            states.update(truth.states)
        totals["masks"] += _check_masks(sample, tally, decode=masks)
        _check_repeats(sample, tally)
    return {
        "classes": [
            {"category_id": i, "images": images, "name": name, "objects": objects}
            for i, name, (objects, images) in zip(dataset.category_ids, dataset.names, per_class.tolist(), strict=True)
        ],
        "crowd": totals["crowd"],
        "data": dataset.spec,
        "fingerprint": dataset.fingerprint,
        "images": len(dataset),
        "images_unreadable": totals["unreadable"],
        "images_without_objects": totals["without"],
        "masks": totals["masks"],
        "masks_checked": masks,
        "objects": totals["objects"],
        "sizes": dict(sizes),
        "states": _shares(states),
        "warnings": tally.rows(),
    }


def _size_classes(areas: Floats) -> dict[str, int]:
    small, medium = int((areas < SMALL).sum()), int(((areas >= SMALL) & (areas < MEDIUM)).sum())
    return {"small": small, "medium": medium, "large": len(areas) - small - medium}


def _shares(states: Counter[str]) -> dict[str, dict[str, float]]:
    total = states.total()
    return {state: {"count": count, "share": count / total} for state, count in sorted(states.items())}


def _check_file(sample: Sample, tally: _Tally) -> None:
    """Is the image file there, and inside its folder? A look at the directory, not at the file."""
    source = sample.source
    if not isinstance(source, FileSource):
        return
    try:
        real = inside(source.path, source.root)
        if not real.is_file():
            tally.add("image-missing", f"{source.path} does not exist")
        elif not os.access(real, os.R_OK) or not real.stat().st_size:
            tally.add("image-corrupt", f"{source.path} is empty or may not be read")
    except BadImage as error:
        tally.add(error.kind, str(error))


def _check_masks(sample: Sample, tally: _Tally, *, decode: bool) -> int:
    """How many objects have a mask; with ``decode``, also whether each can be read and covers anything."""
    masks, ids = sample.truth.masks, sample.truth.ids
    if masks is None or ids is None:
        return 0
    if not decode:
        return sum(masks.has(i) for i in range(len(masks)))
    found = 0
    for i in range(len(masks)):
        where = f"image {sample.id!r}, annotation {ids[i]}"
        try:
            if not masks.has(i):
                continue
            found += 1
            if not masks[i].any():
                tally.add("mask-without-pixels", where)
        except (BadData, BadArray) as error:
            tally.add("bad-mask", f"{where}: {error}")
    return found


def _check_repeats(sample: Sample, tally: _Tally) -> None:
    """Objects annotated twice: same label, same box."""
    truth = sample.truth
    if len(truth) < 2:
        return
    rows = np.column_stack([truth.labels, truth.boxes])
    repeats = len(rows) - len(np.unique(rows, axis=0))
    if repeats:
        tally.add("object-twice", f"image {sample.id!r}: the same box and class more than once", repeats)
