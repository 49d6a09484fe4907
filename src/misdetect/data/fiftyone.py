"""``fiftyone:NAME[,field=NAME]``: a data set in the user's FiftyOne database.

Detections (with masks) and closed polylines of one field, read through the library, by columns; a mask is fetched when
it is looked at. Image files lie wherever the database says: it is the user's own.
"""

import importlib
import os
from pathlib import Path
from typing import Any

import numpy as np

from misdetect.data.dataset import Dataset
from misdetect.data.faults import BadMask, BadRecord, Malformed, told
from misdetect.data.sanity import checked
from misdetect.data.shapes import polygon_area
from misdetect.data.table import Objects, Table
from misdetect.nouns.boxes import Bools, Floats, Ints
from misdetect.nouns.masks import Segment
from misdetect.nouns.picture import digest
from misdetect.nouns.spec import Spec
from misdetect.said.errors import BadSpec

_LISTS = {"Detections": "detections", "Polylines": "polylines"}
"""Kinds of label that are read, and the name of the list inside each."""


def load_fiftyone(spec: Spec) -> Dataset:
    """Open ``fiftyone:NAME[,field=NAME]``; ``field`` is the one with the annotations where there are several."""
    name, wanted = spec.target, spec.take("field", "")
    spec.finish()
    os.environ.setdefault("FIFTYONE_DO_NOT_TRACK", "true")  # opening data is no reason to report home
    with told(f"fiftyone:{name}", "fiftyone"):
        library = importlib.import_module("fiftyone")
        data = library.load_dataset(name)
        field, kind = _field(data, wanted, name)
        found = _Columns(data, name, field, kind, library.ViewField)
    boxes, keep, odd = checked(found.raw, found.image, found.sizes, found.where, relative=True)
    objects = Objects(
        image=found.image,
        boxes=boxes,
        labels=found.labels,
        crowd=found.crowd,
        areas=found.areas,
        masked=found.masked,
    ).take(keep)
    file_names, sizes = found.file_names, found.sizes
    table = Table(found.root, file_names, sizes, objects, segment=found.segment, relative=True)
    content = [found.raw, found.labels, found.image, found.crowd, found.masked, found.names, file_names, sizes]
    fingerprint = digest("fiftyone", field, content)
    return table.dataset(spec.text, found.names, fingerprint=fingerprint, warnings=odd)


def _field(data: Any, wanted: str, name: str) -> tuple[str, str]:
    """The field with the annotations and its kind of label."""
    if data.media_type not in ("image", None):
        raise Malformed(f"fiftyone:{name} holds {data.media_type}s; expected images.")
    kinds = {}
    for field, about in data.get_field_schema().items():
        kind = getattr(getattr(about, "document_type", None), "__name__", "")
        if kind in _LISTS:
            kinds[field] = kind
    chosen = wanted or (next(iter(kinds)) if len(kinds) == 1 else "ground_truth")
    if chosen not in kinds:
        have = ", ".join(f"{field} ({kind})" for field, kind in kinds.items()) or "none"
        raise BadSpec(f"fiftyone:{name}: choose the annotations with the option field=; it has: {have}.")
    return chosen, kinds[chosen]


class _Columns:
    """What the database says of images and objects; ``raw`` is x, y, width, height as fractions of the image."""

    def __init__(self, data: Any, name: str, field: str, kind: str, view_field: Any) -> None:
        self._data, self._name, self._field, self._list = data, name, field, _LISTS[kind]
        self._view_field = view_field
        self._sample_ids = data.values("id")
        paths = [Path(os.path.abspath(path)) for path in data.values("filepath")]
        if not paths:
            raise Malformed(f"fiftyone:{name} has no samples.")
        self.root = Path(os.path.commonpath([path.parent for path in paths]))
        self.file_names = [path.relative_to(self.root).as_posix() for path in paths]
        sides = zip(data.values("metadata.width"), data.values("metadata.height"), strict=True)
        self.sizes: Ints = np.array([(w, h) if w and h else (0, 0) for w, h in sides], dtype=np.int64).reshape(-1, 2)
        labels = self._inner("label")
        counts = [len(some or ()) for some in labels]
        self.image: Ints = np.repeat(np.arange(len(paths)), counts)
        self._first: Ints = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        self._polygons: list[Any] = _flat(self._inner("points")) if kind == "Polylines" else []
        self.names, self.labels = self._classes(_flat(labels))
        self.crowd: Bools = np.array([flag in (True, 1) for flag in self._flags("iscrowd")], dtype=np.bool_)
        self.raw, self.areas, self.masked = self._polylines() if kind == "Polylines" else self._detections()

    def where(self, row: int) -> str:
        """Names object ``row`` for a message."""
        image = int(self.image[row])
        place = row - int(self._first[image])
        return f"fiftyone:{self._name}: {self.file_names[image]}, {self._field}.{self._list}[{place}]"

    def segment(self, record: int, width: int, height: int) -> Segment:
        """The mask of object ``record``, from its polylines or from the database."""
        if self._polygons:
            parts = [np.asarray(part, dtype=np.float64) for part in self._polygons[record]]
            return [(part * [width, height]).reshape(-1).tolist() for part in parts]
        image = int(self.image[record])
        with told(f"fiftyone:{self._name}", "fiftyone"):
            found = self._data[self._sample_ids[image]][self._field][self._list][record - int(self._first[image])]
            drawn = found.to_segmentation(frame_size=(width, height)).mask
        if drawn.shape != (height, width):
            raise BadMask(f"{self.where(record)}: its mask is for another size, {drawn.shape[1]}x{drawn.shape[0]}.")
        return np.asarray(drawn > 0)

    def _inner(self, key: str) -> list[Any]:
        return list(self._data.values(f"{self._field}.{self._list}.{key}"))

    def _flags(self, key: str) -> list[Any]:
        """A value of every object that only some have, or none."""
        found = _flat(self._inner(key))
        return found if len(found) == len(self.image) else [None] * len(self.image)

    def _classes(self, found: list[Any]) -> tuple[list[str], Ints]:
        """The classes that the data set lists for the field, then those it does not list, sorted."""
        for row, label in enumerate(found):
            if not isinstance(label, str) or not label:
                raise BadRecord(f"{self.where(row)} has no label.")
        listed = self._data.classes.get(self._field) or self._data.default_classes or []
        names = [*dict.fromkeys(listed), *sorted(set(found) - set(listed))]
        place = {name: i for i, name in enumerate(names)}
        return names, np.array([place[label] for label in found], dtype=np.int64)

    def _detections(self) -> tuple[Floats, Floats | None, Bools]:
        boxes = _flat(self._inner("bounding_box"))
        for row, box in enumerate(boxes):
            if not isinstance(box, (list, tuple)) or len(box) != 4:
                raise BadRecord(f"{self.where(row)}: 'bounding_box' should hold four numbers. Got {box!r:.60}.")
        ViewField = self._view_field
        has = (ViewField("mask") != None) | (ViewField("mask_path") != None)  # noqa: E711 (an expression of the database)
        masked = _flat(self._data.values(ViewField(f"{self._field}.{self._list}").map(has)))
        raw = np.array(boxes, dtype=np.float64).reshape(-1, 4)
        return raw, None, np.array(masked, dtype=np.bool_)

    def _polylines(self) -> tuple[Floats, Floats, Bools]:
        raw, areas = [], []
        for row, parts in enumerate(self._polygons):
            points = [np.asarray(part, dtype=np.float64).reshape(-1, 2) for part in parts or () if len(part) >= 3]
            if not points:
                raise BadRecord(f"{self.where(row)}: expected a polygon of three points or more.")
            self._polygons[row] = points
            every = np.concatenate(points)
            low, high = every.min(axis=0), every.max(axis=0)
            raw.append([*low, *(high - low)])
            areas.append(sum(polygon_area(part.reshape(-1)) for part in points))
        return np.array(raw).reshape(-1, 4), np.array(areas, dtype=np.float64), np.ones(len(raw), dtype=np.bool_)


def _flat(lists: list[Any]) -> list[Any]:
    return [value for some in lists for value in some or ()]
