"""``coco:FILE[,images=DIR][,state=NAME]``: COCO instance annotations, with or without masks.

Opening reads the JSON and no image. The whole file becomes columns (see ``table``); what cannot be trusted is a named
error with file and record, what is merely odd is a counted warning. Evaluation is not here.
"""

from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from misdetect.data.coco_json import POLYGONS, PolygonText, read_coco
from misdetect.data.dataset import Dataset, Warned
from misdetect.data.faults import BadMask, BadRecord, DuplicateId, Malformed, NotFinite, UnknownCategory
from misdetect.data.images import check_name, image_folder
from misdetect.data.sanity import FARTHEST, checked
from misdetect.data.table import Objects, Table
from misdetect.nouns.boxes import Bools, Floats, Ints
from misdetect.nouns.detections import STATES
from misdetect.nouns.masks import Segment
from misdetect.nouns.picture import digest
from misdetect.nouns.spec import Spec

Record = dict[str, Any]
_LARGEST_SIDE = 1 << 20


def load_coco(spec: Spec) -> Dataset:
    """Open ``coco:FILE[,images=DIR][,state=NAME]``; ``state`` is the field that says what is known of each part."""
    path = Path(spec.target)
    given, state = spec.take("images", ""), spec.take("state", "")
    spec.finish()
    document, polygons, data = read_coco(path)
    images, records = _records(document, "images", path), _records(document, "annotations", path, optional=True)
    names, category_ids, label_of, warnings = _categories(document, path)
    file_names, image_ids, sizes = _images(images, path)
    if not sizes.all():
        unknown = int((sizes == 0).any(axis=1).sum())
        warnings.append(Warned("no-image-size", unknown, f"{path}: read from the image files instead"))
    objects, masks, found = _objects(records, path, image_ids, sizes, label_of, polygons, state)
    root = image_folder(given, path, file_names)
    table = Table(root, file_names, sizes, objects, image_ids, segment=masks)
    return table.dataset(
        spec.text,
        names,
        fingerprint=digest("coco", data, state) if state else digest("coco", data),
        category_ids=category_ids,
        warnings=[*warnings, *found],
    )


def _records(document: Record, key: str, path: Path, *, optional: bool = False) -> list[Record]:
    records = document.get(key, [] if optional else None)
    if not isinstance(records, list):
        raise Malformed(f"{path} should hold a list of {key!r}, as COCO files do. Got {type(records).__name__}.")
    for row, record in enumerate(records):
        if type(record) is not dict:
            raise BadRecord(f"{path}: record {row} of {key!r} should be an object. Got {type(record).__name__}.")
    return records


def _field(records: list[Record], key: str, fits: Callable[[Any], bool], expected: str, where: str) -> list[Any]:
    """Field ``key`` of every record; the first record where it is missing or does not fit is named."""
    values = [record.get(key) for record in records]
    for row, value in enumerate(values):
        if not fits(value):
            found = "nothing" if key not in records[row] else repr(value)[:60]
            name = f"id {records[row]['id']!r:.40}" if key != "id" and "id" in records[row] else f"record {row}"
            others = sum(not fits(other) for other in values[row + 1 :])
            more = f" ({others} more like it)" if others else ""
            raise BadRecord(f"{where}, {name}: {key!r} should be {expected}. Got {found}{more}.")
    return values


def _is_id(value: object) -> bool:
    return type(value) is str or (type(value) is int and abs(value) < 1 << 63)


def _categories(document: Record, path: Path) -> tuple[list[str], list[int], dict[int, int], list[Warned]]:
    """Names in the file's order, their ids, and the label of each id. Categories of one name become one label."""
    records, where = _records(document, "categories", path, optional=True), f"{path}: categories"
    ids = _field(records, "id", lambda v: type(v) is int and abs(v) < 1 << 63, "a whole number", where)
    _refuse_duplicates(ids, "category", path)
    named = _field(records, "name", lambda v: type(v) is str and bool(v), "a name", where)
    names: list[str] = list(dict.fromkeys(named))
    label = {name: i for i, name in enumerate(names)}
    warnings = []
    if len(names) < len(named):
        twice = next(name for i, name in enumerate(named) if name in named[:i])
        warnings.append(Warned("duplicate-category-name", len(named) - len(names), f"{path}: {twice!r}, merged"))
    first = dict(zip(reversed(named), reversed(ids), strict=True))
    return names, [first[n] for n in names], {i: label[n] for i, n in zip(ids, named, strict=True)}, warnings


def _refuse_duplicates(ids: list[Any], what: str, path: Path) -> None:
    if len(set(ids)) == len(ids):
        return
    seen: set[Any] = set()
    for row, value in enumerate(ids):
        if value in seen:
            raise DuplicateId(f"{path}: {what} id {value!r} is used twice, again in record {row}; renumber them.")
        seen.add(value)


def _images(records: list[Record], path: Path) -> tuple[list[str], list[int | str], Ints]:
    where = f"{path}: images"
    ids = _field(records, "id", _is_id, "a number or a string", where)
    _refuse_duplicates(ids, "image", path)
    names = [check_name(record.get("file_name"), f"{where}, id {record['id']!r}") for record in records]
    sizes = []
    for side in ("width", "height"):
        declared = [record.get(side) or 0 for record in records]
        for row, value in enumerate(declared):
            if type(value) not in (int, float) or not 0 <= value <= _LARGEST_SIDE or value != int(value):
                raise BadRecord(f"{where}, id {ids[row]!r}: {side!r} should be a number of pixels. Got {value!r:.60}.")
        sizes.append(declared)
    return names, ids, np.array(sizes, dtype=np.int64).reshape(2, len(records)).T


def _objects(
    records: list[Record],
    path: Path,
    image_ids: list[int | str],
    sizes: Ints,
    label_of: dict[int, int],
    polygons: PolygonText,
    state: str,
) -> tuple[Objects, "_MaskReader", list[Warned]]:
    where = f"{path}: annotations"
    warnings: list[Warned] = []
    raw = _boxes(records, where)
    ids = _annotation_ids(records, path, warnings)

    def name(row: int) -> str:
        own = records[row].get("id")
        return f"{where}, record {row}" if own is None else f"{where}, id {own!r:.40}"

    labels = [label_of.get(value, -1) for value in _field(records, "category_id", _is_id, "a category's id", where)]
    if -1 in labels:
        row = labels.index(-1)
        raise UnknownCategory(f"{name(row)}: category {records[row]['category_id']!r} is not among 'categories'.")
    place = {value: i for i, value in enumerate(image_ids)}
    image = np.array([place.get(v, -1) for v in _field(records, "image_id", _is_id, "an id", where)], dtype=np.int64)
    if (orphans := image < 0).any():
        warnings.append(Warned("unknown-image", int(orphans.sum()), f"{name(int(orphans.argmax()))}, left out"))
    boxes, keep, odd = checked(raw, image, sizes, name)
    warnings += odd
    masks = _MaskReader(records, polygons, ids, where)
    objects = Objects(
        image=image,
        boxes=boxes,
        labels=np.array(labels, dtype=np.int64),
        ids=ids,
        record=np.arange(len(records)),
        crowd=_crowd(records, where),
        areas=_areas(records, raw, where),
        states=_states(records, where, state),
        masked=masks.masked,
    )
    return objects if keep.all() else objects.take(keep), masks, warnings


def _boxes(records: list[Record], where: str) -> Floats:
    """All boxes as in the file, ``[N, 4]``; numbers only, and four of them."""
    boxes = _field(records, "bbox", lambda v: type(v) is list and len(v) == 4, "four numbers", where)
    if not set(map(type, chain.from_iterable(boxes))) <= {int, float}:
        _field(records, "bbox", lambda v: all(type(x) in (int, float) for x in v), "four numbers", where)
    try:
        return np.array(boxes, dtype=np.float64).reshape(-1, 4)
    except OverflowError:
        row = next(i for i, box in enumerate(boxes) if any(abs(x) > 1e300 for x in box))
        raise NotFinite(f"{where}, id {records[row].get('id')!r}: the box holds far too large a number.") from None


def _annotation_ids(records: list[Record], path: Path, warnings: list[Warned]) -> Ints:
    """Ids of the file where they are numbers; repeated ones after the first get new ids above the largest."""
    given = [record.get("id") for record in records]
    if not all(type(v) is int and abs(v) < 1 << 62 for v in given):
        odd = next(v for v in given if not (type(v) is int and abs(v) < 1 << 62))
        warnings.append(
            Warned("annotation-id-not-a-number", len(given), f"{path}: {odd!r:.60}; numbered from 1 instead")
        )
        return np.arange(1, len(given) + 1, dtype=np.int64)
    ids = np.array(given, dtype=np.int64)
    _, first = np.unique(ids, return_index=True)
    if len(first) < len(ids):
        again = np.setdiff1d(np.arange(len(ids)), first)
        example = f"{path}: annotation id {ids[again[0]]}, again in record {again[0]}; renumbered"
        warnings.append(Warned("duplicate-annotation-id", len(again), example))
        ids[again] = ids.max() + 1 + np.arange(len(again))
    return ids


def _crowd(records: list[Record], where: str) -> Bools:
    kinds = (int, bool, type(None))
    flags = _field(records, "iscrowd", lambda v: type(v) in kinds and v in (0, 1, None), "0 or 1", where)
    return np.array([flag or 0 for flag in flags], dtype=np.bool_)


def _areas(records: list[Record], raw: Floats, where: str) -> Floats:
    """Areas of the file; where it gives none, the box's."""
    kinds = (int, float, type(None))
    given = _field(records, "area", lambda v: type(v) in kinds, "a number", where)
    for row, area in enumerate(given):
        if area is not None and not 0 <= area <= FARTHEST**2:
            raise NotFinite(f"{where}, record {row}: 'area' should be a finite number of pixels. Got {area!r:.40}.")
    whole = raw[:, 2:].prod(axis=1).tolist()
    return np.array([box if area is None else area for area, box in zip(given, whole, strict=True)], dtype=np.float64)


def _states(records: list[Record], where: str, named: str) -> tuple[str, ...] | None:
    """States of parts, by the field ``named`` (dots lead into objects); None unless there are any. Where none is named:
    "state", as misdetect's own export writes it, else "attributes.state", if DelftBikes' states are among its values:
    other data may say something else by that name."""
    for name in (named,) if named else ("state", "attributes.state"):
        values = [_inner(record, name) for record in records]
        if name == "attributes.state" and not named and not set(STATES) & {v for v in values if type(v) is str}:
            continue
        lacking = [row for row, value in enumerate(values) if type(value) is not str]
        if lacking and (named or len(lacking) < len(values)):
            first = records[lacking[0]].get("id")
            raise BadRecord(
                f"{where}: {len(lacking)} of {len(values)} annotations have no {name!r} with a state such as 'intact' "
                f"(first: id {first!r:.40})."
            )
        if values and not lacking:
            return tuple(values)
    return None


def _inner(record: Any, name: str) -> Any:
    """The value of the field ``name`` of ``record``; dots lead into objects."""
    for key in name.split("."):
        record = record.get(key) if type(record) is dict else None
    return record


class _MaskReader:
    """Masks of a COCO file by record: polygons as text, run lengths as they are. Called when one is looked at."""

    def __init__(self, records: list[Record], polygons: PolygonText, ids: Ints, where: str) -> None:
        self._polygons, self._where, self._ids = polygons, where, ids
        self._number = np.full(len(records), -1, dtype=np.int64)
        self._other: dict[int, Segment] = {}
        for row, record in enumerate(records):
            number = record.get(POLYGONS)
            if number is not None and type(number) is int and 0 <= number < len(polygons):
                self._number[row] = number
            elif (segment := record.get("segmentation")) is not None and segment != []:
                self._other[row] = self._understood(segment, row)
        self.masked: Bools = self._number >= 0
        self.masked[list(self._other)] = True

    def _understood(self, segment: Any, row: int) -> Segment:
        """What the fast path did not lift out: run lengths, one polygon without its outer list, or nonsense."""
        if isinstance(segment, dict):
            counts = segment.get("counts")
            if isinstance(segment.get("size"), list) and isinstance(counts, (str, list)):
                return {"size": segment["size"], "counts": counts}
        elif isinstance(segment, list):
            polygons = segment if all(type(part) is list for part in segment) else [segment]
            numbers = list(chain.from_iterable(polygons))
            if numbers and all(type(x) in (int, float) and abs(x) < 1e300 for x in numbers):
                return polygons
            if any(type(x) in (int, float) for x in numbers):
                raise NotFinite(f"{self._name(row)}: the polygon holds something that is no finite number.")
            if not numbers:
                return []
        raise BadMask(f"{self._name(row)}: 'segmentation' should be polygons or run lengths. Got {segment!r:.60}.")

    def _name(self, row: int) -> str:
        return f"{self._where}, id {self._ids[row]}"

    def __call__(self, record: int, width: int, height: int) -> Segment:
        if self._number[record] < 0:
            segment = self._other[record]
            if isinstance(segment, dict) and segment["size"] != [height, width]:
                raise BadMask(
                    f"{self._name(record)}: the mask is for an image of size {segment['size']!r:.60}, "
                    f"but its image has height {height} and width {width}."
                )
            return segment
        try:
            return self._polygons[int(self._number[record])]
        except (ValueError, RecursionError) as error:
            raise BadMask(f"{self._name(record)}: the polygons cannot be read: {error}.") from None
