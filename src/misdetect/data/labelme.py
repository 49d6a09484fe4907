"""``labelme:DIR[,images=DIR]``: LabelMe's JSON, one file per image, in one folder.

Rectangles are boxes, polygons, circles and painted masks are masks with their boxes; shapes of one label and
``group_id`` are one object. The format is plain JSON and needs no library. An image that is embedded in its JSON is
read from there each time it is looked at; nothing of it is kept.
"""

import base64
import io
import math
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from misdetect.data.dataset import Dataset
from misdetect.data.faults import BadMask, BadRecord, Malformed, NotFinite
from misdetect.data.images import check_name
from misdetect.data.shapes import Painted, Shape, Shapes, ellipse, outline
from misdetect.data.table import Load, Table, image_ids_from_names
from misdetect.data.untrusted import parse, read_bytes, read_json
from misdetect.nouns.boxes import Bools, Floats
from misdetect.nouns.picture import digest
from misdetect.nouns.spec import Spec
from misdetect.said.errors import BadImage

_NO_AREA = ("point", "points", "line", "linestrip")
_LARGEST_SIDE = 1 << 20
_MAX_BYTES = 1 << 30
Record = dict[str, Any]


def load_labelme(spec: Spec) -> Dataset:
    """Open ``labelme:DIR[,images=DIR]``; ``images`` is where the images lie if not where their JSON says."""
    root, given = Path(spec.target), spec.take("images", "")
    spec.finish()
    if not root.is_dir():
        raise Malformed(f"{root} is not a folder; expected one with LabelMe's .json files.")
    paths = sorted(path for path in root.glob("*.json") if not path.name.startswith("."))
    if not paths:
        raise Malformed(f"{root} holds no .json file; expected LabelMe annotations, one per image.")
    shapes = Shapes(root)
    file_names: list[str] = []
    sizes: list[tuple[int, int]] = []
    embedded: list[bool] = []
    hashes: list[str] = []
    for image, path in enumerate(paths):
        data = read_bytes(path, what="a LabelMe annotation", largest=_MAX_BYTES)
        document = _document(parse(data, path), path)
        hashes.append(digest(data))
        embedded.append(document.get("imageData") is not None)
        file_names.append(_file_name(document, path, beside=not given, embedded=embedded[-1]))
        sizes.append((_side(document, "imageWidth", path), _side(document, "imageHeight", path)))
        shapes += _shapes(document, image, path, shapes.left_out)
    declared = np.array(sizes, dtype=np.int64).reshape(-1, 2)
    names = shapes.names
    objects, odd = shapes.objects(names, declared)

    def stored(index: int) -> Load | None:
        return partial(_embedded, paths[index]) if embedded[index] else None

    table = Table(
        Path(given) if given else root,
        file_names,
        declared,
        objects,
        image_ids_from_names([path.name for path in paths]),
        [path.stem for path in paths],
        segment=shapes.segment,
        stored=stored,
    )
    fingerprint = digest("labelme", [path.name for path in paths], hashes)
    return table.dataset(spec.text, names, fingerprint=fingerprint, warnings=odd)


def _document(content: Any, path: Path) -> Record:
    if not isinstance(content, dict) or not isinstance(content.get("shapes"), list):
        raise Malformed(f"{path} should hold an object with a list of 'shapes', as LabelMe writes it.")
    return content


def _file_name(document: Record, path: Path, *, beside: bool, embedded: bool) -> str:
    """The image's name below the image folder. One that is embedded is called as its JSON; its path is of the machine
    on which it was drawn, as often as not."""
    if embedded:
        return f"{path.stem}.png"
    given = document.get("imagePath")
    if not isinstance(given, str) or not given:
        raise BadRecord(f"{path}: 'imagePath' should name the image, which is not embedded. Got {given!r:.60}.")
    name = given.replace("\\", "/")
    return check_name(name if beside else name.rsplit("/", 1)[-1], f"{path}: 'imagePath' (see the option images=)")


def _side(document: Record, key: str, path: Path) -> int:
    """Pixels as declared, 0 where nothing is: old files do not say."""
    value = document.get(key)
    if value is None:
        return 0
    if type(value) not in (int, float) or not 0 < value <= _LARGEST_SIDE or value != int(value):
        raise BadRecord(f"{path}: {key!r} should be a number of pixels. Got {value!r:.60}.")
    return int(value)


def _shapes(document: Record, image: int, path: Path, left_out: Counter[str]) -> list[Shape]:
    """The objects of one image, in the order of their first shapes; shapes that cover nothing go to ``left_out``."""
    groups: dict[Any, list[Shape]] = {}
    for number, record in enumerate(document["shapes"]):
        where = f"{path}: shape {number}"
        if not isinstance(record, dict):
            raise BadRecord(f"{where} should be an object. Got {type(record).__name__}.")
        kind, name, group = record.get("shape_type") or "polygon", record.get("label"), record.get("group_id")
        if not isinstance(name, str) or not name:
            raise BadRecord(f"{where}: 'label' should be a name. Got {name!r:.60}.")
        if not isinstance(kind, str) or not isinstance(group, (int, str, type(None))):
            raise BadRecord(f"{where}: 'shape_type' should be a word and 'group_id' a number or null.")
        if kind in _NO_AREA:
            left_out[f"of type {kind!r}"] += 1
            continue
        key = (name, group) if group is not None else number
        groups.setdefault(key, []).append(_shape(record, kind, Shape(image, name, (), where)))
    return [_joined(group) for group in groups.values()]


def _shape(record: Record, kind: str, shape: Shape) -> Shape:
    points = _points(record, shape.where)
    if kind == "polygon":
        if len(points) < 3:
            raise BadRecord(f"{shape.where}: a polygon should have at least three points. Got {len(points)}.")
        shape.box, shape.segment, shape.area = outline(points)
    elif len(points) != 2 or kind not in ("rectangle", "circle", "mask"):
        known = ", ".join(("polygon", "rectangle", "circle", "mask", *_NO_AREA))
        raise BadRecord(
            f"{shape.where}: expected one of {known} with its points. Got {kind!r:.40}, {len(points)} points."
        )
    elif kind == "circle":
        radius = math.dist(*points.tolist())
        shape.box, shape.segment, shape.area = outline(ellipse(points[0].tolist(), (radius, radius)))
    else:
        shape.box = [*points.min(axis=0).tolist(), *points.max(axis=0).tolist()]
        if kind == "mask":
            _paint(record, shape)
    return shape


def _points(record: Record, where: str) -> Floats:
    """Points ``[N, 2]`` in pixels."""
    points = record.get("points")
    good = isinstance(points, list) and all(
        isinstance(p, list) and len(p) == 2 and all(type(x) in (int, float) and abs(x) < 1 << 62 for x in p)
        for p in points
    )
    if not good or not points:
        if isinstance(points, list) and any(type(x) is float for p in points if isinstance(p, list) for x in p):
            raise NotFinite(f"{where}: 'points' should hold pairs of finite numbers. Got {points!r:.60}.")
        raise BadRecord(f"{where}: 'points' should hold pairs of numbers. Got {points!r:.60}.")
    return np.array(points, dtype=np.float64)


def _paint(record: Record, shape: Shape) -> None:
    """What ``"mask"`` holds: a PNG of the rectangle, whose last row and column belong to it."""
    text = record.get("mask")
    if not isinstance(text, str):
        raise BadRecord(f"{shape.where}: 'mask' should hold a PNG as base64. Got {text!r:.60}.")
    left, top, right, bottom = (round(x) for x in shape.box)
    shape.box = [left, top, right + 1, bottom + 1]
    size = (right + 1 - left, bottom + 1 - top)
    shape.segment = painted = Painted(left, top, partial(_decoded, text, size, shape.where))
    shape.area = float(painted.pixels().sum())


def _decoded(text: str, size: tuple[int, int], where: str) -> Bools:
    """The painted pixels of a rectangle of ``size`` (width, height)."""
    try:
        with Image.open(io.BytesIO(base64.b64decode(text, validate=True)), formats=("PNG",)) as image:
            if image.size != size:
                raise BadMask(f"{where}: the mask should have the size of its rectangle, {size}. Got {image.size}.")
            return np.asarray(image.convert("L")) > 0
    except (OSError, ValueError, SyntaxError) as error:
        if isinstance(error, BadMask):
            raise
        raise BadMask(f"{where}: 'mask' holds no PNG that can be read: {error}.") from None


def _joined(group: list[Shape]) -> Shape:
    """One object of several shapes: the box around all; the union of their masks, if any of them has one."""
    first = group[0]
    if len(group) == 1:
        return first
    corners = np.array([shape.box for shape in group])
    around = [*corners[:, :2].min(axis=0).tolist(), *corners[:, 2:].max(axis=0).tolist()]
    if all(shape.segment is None for shape in group):
        return Shape(first.image, first.name, around, first.where)
    if any(isinstance(shape.segment, Painted) for shape in group):
        raise BadRecord(f"{first.where}: a painted mask cannot share its group_id with other shapes of its label.")
    polygons = [polygon for shape in group for polygon in _polygons(shape)]
    area = sum(shape.area if shape.area is not None else _area(shape) for shape in group)
    return Shape(first.image, first.name, around, first.where, segment=polygons, area=area)


def _polygons(shape: Shape) -> list[list[float]]:
    if isinstance(shape.segment, list):
        return shape.segment
    left, top, right, bottom = shape.box
    return [[left, top, right, top, right, bottom, left, bottom]]


def _area(shape: Shape) -> float:
    left, top, right, bottom = shape.box
    return float((right - left) * (bottom - top))


def _embedded(path: Path) -> bytes:
    """The bytes of the image inside a LabelMe file."""
    document, _ = read_json(path, what="a LabelMe annotation")
    text = document.get("imageData") if isinstance(document, dict) else None
    try:
        return base64.b64decode(str(text), validate=True)
    except ValueError as error:
        raise BadImage(f"{path}: 'imageData' holds no image as base64: {error}.") from None
