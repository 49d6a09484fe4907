"""``delftbikes:FILE[,images=DIR][,parts=any]``: part annotations with states, in the DelftBikes JSON.

Each image has parts by name, each with a state and a box; a missing part still has the box where it would be. Parts are
keyed by name, never by their order. Sizes in the file are hints only: the image's own size counts.
"""

from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any, Final

import numpy as np

from misdetect.data.dataset import Dataset
from misdetect.data.faults import BadRecord, Malformed, UnknownCategory, UnknownState
from misdetect.data.images import check_name, image_folder
from misdetect.data.procedural.bikes.parts import PARTS
from misdetect.data.shapes import Shape, Shapes
from misdetect.data.table import Table
from misdetect.data.untrusted import read_json
from misdetect.nouns.detections import STATES
from misdetect.nouns.picture import digest
from misdetect.nouns.spec import Spec

_SIDES: Final = ("left", "top", "width", "height")


def load_delftbikes(spec: Spec) -> Dataset:
    """Open ``delftbikes:FILE[,images=DIR][,parts=any]``; ``parts=any`` allows part names of other data."""
    path = Path(spec.target)
    given = spec.take("images", "")
    parts = spec.take("parts", "delftbikes", choices=("delftbikes", "any"))
    spec.finish()
    document, data = read_json(path, what="a DelftBikes annotation file")
    if not isinstance(document, dict) or not all(isinstance(v, dict) and "parts" in v for v in document.values()):
        raise Malformed(f"{path} should map each image's file name to an object with 'parts', as DelftBikes does.")
    file_names = [check_name(name, f"{path}: image {i}") for i, name in enumerate(document)]
    shapes, records = Shapes(path), document.values()
    for i, record in enumerate(records):
        shapes += _parts(record, i, f"{path}: image {file_names[i]!r}", records)
    names = PARTS if parts == "delftbikes" else shapes.names
    for shape in shapes:
        if shape.name not in names:
            raise UnknownCategory(
                f"{path}: image {file_names[shape.image]!r}: {shape.name!r} is not a part of DelftBikes; "
                f"with other data use the option parts=any."
            )
    sizes = np.array([_size(record) for record in records], dtype=np.int64).reshape(-1, 2)
    objects, odd = shapes.objects(names, sizes, form="xywh", outside=True)  # hints do not justify dropping a part
    table = Table(image_folder(given, path, file_names), file_names, sizes, objects, sizes_are_hints=True)
    fingerprint = digest("delftbikes", data, parts)
    return table.dataset(spec.text, names, fingerprint=fingerprint, warnings=odd)


def _parts(record: dict[str, Any], image: int, name: str, others: Collection[Any]) -> list[Shape]:
    """The parts of one image, sorted; ``name`` says which image it is."""
    parts = record["parts"]
    if not isinstance(parts, dict):
        raise BadRecord(f"{name}: 'parts' should map part names to parts. Got {parts!r:.60}.")
    found = []
    for part, fields in sorted(parts.items()):
        where = f"{name}, part {part!r:.60}"
        if not isinstance(fields, dict):
            raise BadRecord(f"{where}: expected an object. Got {fields!r:.60}.")
        state, box = fields.get("object_state"), fields.get("absolute_bounding_box")
        if state not in STATES:
            more = _more(others, lambda each: each.get("object_state") not in STATES)
            raise UnknownState(
                f"{where}: 'object_state' should be one of {', '.join(STATES)}. Got {state!r:.60}{more}."
            )
        numbers = _numbers(box)
        if numbers is None:
            more = _more(others, lambda each: _numbers(each.get("absolute_bounding_box")) is None)
            raise BadRecord(f"{where}: 'absolute_bounding_box' should hold the numbers {', '.join(_SIDES)}{more}.")
        found.append(Shape(image, part, numbers, where, state=state))
    return found


def _numbers(box: Any) -> list[Any] | None:
    """Left, top, width and height; None unless all are numbers."""
    numbers: list[Any] = [box.get(side) for side in _SIDES] if isinstance(box, dict) else [None]
    good = all(type(x) is float or (type(x) is int and abs(x) < 1 << 62) for x in numbers)
    return numbers if good else None


def _more(records: Iterable[Any], is_bad: Callable[[dict[str, Any]], bool]) -> str:
    """How many parts of all ``records`` have the same fault, where it is not only one."""
    parts = [record["parts"] for record in records if isinstance(record["parts"], dict)]
    count = sum(is_bad(part) for each in parts for part in each.values() if isinstance(part, dict))
    return f" ({count} parts in all)" if count > 1 else ""


def _size(record: dict[str, Any]) -> tuple[int, int]:
    """Width and height as declared, or 0, 0."""
    image = record.get("image")
    sides: list[Any] = [image.get("width"), image.get("height")] if isinstance(image, dict) else [None, None]
    if all(type(side) is int and 0 < side < 1 << 20 for side in sides):
        return sides[0], sides[1]
    return 0, 0
