"""``labelstudio:FILE[,images=DIR]``: the JSON (or JSON-MIN) that Label Studio exports for object detection.

Rectangles (turned ones too), polygons, ellipses and brushed masks, given in percent of the image. Where an image was
annotated several times, its ground truth counts, else its last annotation that was not cancelled. Images are looked for
by name: the export holds addresses of the server that they were uploaded to, which puts eight digits before the name.
"""

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import numpy as np

from misdetect.data.dataset import Dataset, Warned
from misdetect.data.faults import BadMask, BadRecord, Malformed
from misdetect.data.images import check_name, image_folder, pixel_limit
from misdetect.data.shapes import Painted, Shape, Shapes, ellipse, outline
from misdetect.data.table import Table
from misdetect.data.untrusted import read_json
from misdetect.nouns.boxes import Bools, Floats
from misdetect.nouns.picture import Pixels, digest
from misdetect.nouns.spec import Spec

Record = dict[str, Any]
_LABELS = ("rectanglelabels", "polygonlabels", "ellipselabels", "brushlabels", "labels")
"""Where a value names its class; "labels" of a shape whose classes are chosen apart from it."""
_IMAGE = re.compile(r"\.(jpe?g|png|webp|bmp|tiff?|gif)$", re.IGNORECASE)
_UPLOADED = re.compile(r"^[0-9a-f]{8}-")
_LARGEST_SIDE = 1 << 20


def load_labelstudio(spec: Spec) -> Dataset:
    """Open ``labelstudio:FILE[,images=DIR]``."""
    path, given = Path(spec.target), spec.take("images", "")
    spec.finish()
    document, data = read_json(path, what="an export of Label Studio")
    if not isinstance(document, list) or not all(isinstance(task, dict) for task in document):
        raise Malformed(f"{path} should hold a list of tasks, as Label Studio exports them as JSON or JSON-MIN.")
    shapes, file_names, warnings = Shapes(path), list[str](), list[Warned]()
    sizes: list[tuple[int, int]] = []
    unlabelled = several = 0
    for number, task in enumerate(document):
        where = f"{path}: task {task.get('id', number)}"
        annotations = _annotations(task, where)
        if not annotations:
            unlabelled += 1
            continue
        several += len(annotations) > 1
        chosen = next((each for each in annotations if each.get("ground_truth") is True), annotations[-1])
        image = len(file_names)
        file_names.append(_file_name(task, where))
        sizes.append(_read(chosen, image, where, shapes))
    if not file_names:
        raise Malformed(f"{path} holds no annotated task.")
    folder = image_folder(given, path, file_names)
    file_names = [_without_upload(name, folder) for name in file_names]
    if unlabelled:
        warnings.append(Warned("unlabelled", unlabelled, "tasks without an annotation are left out"))
    if several:
        warnings.append(Warned("several-annotations", several, "the ground truth counts, else the last annotation"))
    names, declared = shapes.names, np.array(sizes, dtype=np.int64).reshape(-1, 2)
    objects, odd = shapes.objects(names, declared)
    table = Table(folder, file_names, declared, objects, segment=shapes.segment)
    return table.dataset(spec.text, names, fingerprint=digest("labelstudio", data), warnings=[*warnings, *odd])


def _annotations(task: Record, where: str) -> list[Record]:
    """What was annotated, the last one last. JSON-MIN has the shapes of one annotation in the task itself."""
    found = task.get("annotations", task.get("completions"))
    if found is None:
        lists = [each for each in task.values() if isinstance(each, list)]
        values = [value for each in lists for value in each if isinstance(value, dict) and "original_width" in value]
        return [{"result": [{**value, "value": value} for value in values]}] if values else []
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise BadRecord(f"{where}: 'annotations' should be a list of annotations.")
    return [each for each in found if not each.get("was_cancelled")]


def _file_name(task: Record, where: str) -> str:
    """The image's name; of an address its last part, or what stands behind ``?d=``."""
    data = task["data"] if isinstance(task.get("data"), dict) else task
    for value in data.values():
        if not isinstance(value, str):
            continue
        parts = urlsplit(value)
        local = parse_qs(parts.query).get("d", [unquote(parts.path)])[0]
        name = local.replace("\\", "/").rsplit("/", 1)[-1]
        if _IMAGE.search(name):
            return check_name(name, where)
    raise BadRecord(f"{where} names no image in its 'data'.")


def _without_upload(name: str, folder: Path) -> str:
    """``name``, or without the digits of its upload where only that lies in ``folder``."""
    original = _UPLOADED.sub("", name)
    return original if not (folder / name).exists() and (folder / original).exists() else name


def _read(annotation: Record, image: int, where: str, shapes: Shapes) -> tuple[int, int]:
    """Append the objects of an image to ``shapes``; its width and height as declared, 0 where nothing is."""
    size, results = (0, 0), annotation.get("result")
    if not isinstance(results, list):
        raise BadRecord(f"{where}: 'result' should be a list of shapes.")
    for number, result in enumerate(results):
        value = result.get("value") if isinstance(result, dict) else None
        if not isinstance(value, dict):
            raise BadRecord(f"{where}, shape {number} should be an object with a 'value'.")
        label = next((value[key] for key in _LABELS if value.get(key)), None)
        if label is None:  # a relation, a choice for the whole image, or a shape that nobody has named
            shapes.left_out[f"of type {str(result.get('type') or 'no label')!r:.40}"] += 1
            continue
        named = f"{where}, shape {number}"
        if not isinstance(label, list) or not isinstance(label[0], str):
            raise BadRecord(f"{named}: its labels should be a list of names. Got {label!r:.60}.")
        size = _side(result, "original_width", named), _side(result, "original_height", named)
        shape = Shape(image, label[0], (), named)
        _place(value, size, shape)
        shapes.append(shape)
    return size


def _side(result: Record, key: str, where: str) -> int:
    value = result.get(key)
    if type(value) is not int or not 0 < value <= _LARGEST_SIDE:
        raise BadRecord(f"{where}: {key!r} should be a number of pixels. Got {value!r:.60}.")
    return value


def _place(value: Record, size: tuple[int, int], shape: Shape) -> None:
    """Put the corners in pixels, and the mask where it is more than the box, into ``shape``."""
    scale = np.array(size) / 100
    if value.get("format") == "rle" or "rle" in value:
        _paint(value.get("rle"), size, shape)
    elif "points" in value:
        shape.box, shape.segment, shape.area = outline(_points(value["points"], shape.where) * scale)
    elif "radiusX" in value:
        x, y, across, down = (_number(value, key, shape.where) for key in ("x", "y", "radiusX", "radiusY"))
        round_ = ellipse((0, 0), (across, down)) * scale
        points = _turned(round_, value, shape.where) + np.array((x, y)) * scale
        shape.box, shape.segment, shape.area = outline(points)
    else:
        x, y, width, height = (_number(value, key, shape.where) for key in ("x", "y", "width", "height"))
        corners = np.array([(0, 0), (width, 0), (width, height), (0, height)]) * scale
        points = _turned(corners, value, shape.where) + np.array((x, y)) * scale
        if value.get("rotation"):
            shape.box, shape.segment, shape.area = outline(points)
        else:
            shape.box = [*points[0].tolist(), *points[2].tolist()]


def _turned(points: Floats, value: Record, where: str) -> Floats:
    """``points`` in pixels, turned clockwise about their origin, which is a rectangle's first corner."""
    turn = np.radians(_number(value, "rotation", where) if value.get("rotation") else 0.0)
    turned: Floats = points @ np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]])
    return turned


def _points(points: Any, where: str) -> Floats:
    good = isinstance(points, list) and len(points) > 2
    good = good and all(isinstance(p, list) and len(p) == 2 and all(_is_number(x) for x in p) for p in points)
    if not good:
        raise BadRecord(f"{where}: 'points' should hold three or more pairs of numbers. Got {points!r:.60}.")
    return np.array(points, dtype=np.float64)


def _number(value: Record, key: str, where: str) -> float:
    number: Any = value.get(key)
    if not _is_number(number):
        raise BadRecord(f"{where}: {key!r} should be a number. Got {number!r:.60}.")
    return float(number)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) < 1 << 62


def _paint(runs: Any, size: tuple[int, int], shape: Shape) -> None:
    """What was brushed: run lengths of RGBA values, of which alpha counts."""
    if not isinstance(runs, list) or not all(type(x) is int and 0 <= x < 256 for x in runs):
        raise BadMask(f"{shape.where}: 'rle' should hold bytes. Got {runs!r:.60}.")
    if size[0] * size[1] > pixel_limit():
        raise BadMask(f"{shape.where}: its image is said to have {size[0]}x{size[1]} pixels, too many to be painted.")
    values = _decoded(bytes(runs), size[0] * size[1] * 4, shape.where)
    mask: Bools = values.reshape(size[1], size[0], 4)[:, :, 3] > 0
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    if not len(rows):
        raise BadMask(f"{shape.where}: nothing is painted in its mask.")
    left, top, right, bottom = int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1
    packed = np.packbits(mask[top:bottom, left:right]).tobytes()
    shape.box, shape.area = [left, top, right, bottom], float(mask.sum())
    shape.segment = Painted(left, top, partial(_unpacked, packed, bottom - top, right - left))


def _unpacked(packed: bytes, height: int, width: int) -> Bools:
    bits = np.unpackbits(np.frombuffer(packed, np.uint8), count=height * width)
    return bits.reshape(height, width).astype(np.bool_)


def _decoded(data: bytes, expected: int, where: str) -> Pixels:
    """The bytes ``[expected]`` behind Label Studio's run lengths: 32 bits of how many there are, the width of a value,
    four widths of lengths; then per run one bit (same values or not), which width, the length, and the value or
    values."""
    bits = _Bits(data, where)
    count, word = bits.take(32), bits.take(5) + 1
    widths = [bits.take(4) + 1 for _ in range(4)]
    if count != expected or word > 8:
        raise BadMask(f"{where}: its mask has {count} values, but its image {expected}.")
    found = np.zeros(count, np.uint8)
    at = 0
    while at < count:
        same = bits.take(1)
        end = at + 1 + bits.take(widths[bits.take(2)])
        if end > count:
            raise BadMask(f"{where}: the run lengths of its mask go beyond its image.")
        if same:
            found[at:end] = bits.take(word)
        else:
            found[at:end] = [bits.take(word) for _ in range(end - at)]
        at = end
    return found


class _Bits:
    """Bits of ``data``, the highest of each byte first."""

    def __init__(self, data: bytes, where: str) -> None:
        self._where = where
        self._bits: Iterator[int] = iter(np.unpackbits(np.frombuffer(data, np.uint8)).tolist())

    def take(self, number: int) -> int:
        """The next ``number`` bits as a number."""
        value = 0
        for _ in range(number):
            bit = next(self._bits, None)
            if bit is None:
                raise BadMask(f"{self._where}: its mask ends in the middle.")
            value = value << 1 | bit
        return value
