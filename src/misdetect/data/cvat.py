"""``cvat:FILE[,images=DIR][,state=NAME]``: the XML that CVAT exports as "CVAT for images 1.1".

One file for all images: boxes (turned ones too), polygons, ellipses and painted masks. The format is plain XML and
needs no library; it is read image by image, and a document type is refused, as in VOC.
"""

import xml.etree.ElementTree as ElementTree
from functools import partial
from pathlib import Path

import numpy as np

from misdetect.data.dataset import Dataset
from misdetect.data.faults import BadMask, BadRecord, Malformed, UnknownCategory
from misdetect.data.images import check_name, image_folder
from misdetect.data.shapes import Painted, Shape, Shapes, ellipse, outline, rotated
from misdetect.data.table import Table
from misdetect.data.untrusted import parse_number, parse_xml, read_bytes
from misdetect.nouns.boxes import Bools, Floats, Ints
from misdetect.nouns.picture import digest
from misdetect.nouns.spec import Spec

_MAX_BYTES = 1 << 30
_LARGEST_SIDE = 1 << 20
_NO_AREA = ("polyline", "points", "cuboid", "skeleton", "tag")
_CROWD = ("is_crowd", "iscrowd")
"""Attributes by which CVAT's own importers mark a crowd."""


def load_cvat(spec: Spec) -> Dataset:
    """Open ``cvat:FILE[,images=DIR][,state=NAME]``; ``state`` is the attribute that says what is known of each part."""
    path, given, state = Path(spec.target), spec.take("images", ""), spec.take("state", "")
    spec.finish()
    data = read_bytes(path, what="an export of CVAT", largest=_MAX_BYTES)
    found = _Found(path, state)
    root = parse_xml(data, path, largest=_MAX_BYTES, what="an export of CVAT", each=found.take)
    if root.tag != "annotations" or not found.file_names:
        hint = ": it holds tracks of a video; export it as 'CVAT for images 1.1'" if found.tracks else ""
        raise Malformed(f"{path} should hold <annotations> with <image>s, as 'CVAT for images 1.1' does{hint}.")
    names, sizes = found.names, np.array(found.sizes, dtype=np.int64).reshape(-1, 2)
    objects, odd = found.shapes.objects(names, sizes)
    folder = image_folder(given, path, found.file_names)
    table = Table(folder, found.file_names, sizes, objects, segment=found.shapes.segment)
    return table.dataset(spec.text, names, fingerprint=digest("cvat", data, state), warnings=odd)


class _Found:
    """What has been read so far; ``take`` is called with every child of the root."""

    def __init__(self, path: Path, state: str) -> None:
        self._path, self._state = path, state
        self._labels: list[str] = []
        self.file_names: list[str] = []
        self.sizes: list[tuple[int, int]] = []
        self.shapes = Shapes(path)
        self.tracks = 0

    @property
    def names(self) -> list[str]:
        """The labels in the order of the task; without a list of them, the names found, sorted."""
        found = self.shapes.names
        if not self._labels:
            return found
        for shape in self.shapes:
            if shape.name not in self._labels:
                raise UnknownCategory(f"{shape.where}: {shape.name!r} is not among the labels of <meta>.")
        return list(dict.fromkeys(self._labels))

    def take(self, element: ElementTree.Element) -> None:
        """A child of ``<annotations>``."""
        if element.tag == "meta":
            self._labels += [name for node in element.iter("label") if (name := (node.findtext("name") or "").strip())]
        elif element.tag == "track":
            self.tracks += 1
        elif element.tag == "image":
            self._image(element)

    def _image(self, element: ElementTree.Element) -> None:
        where, image = f"{self._path}: image {len(self.file_names)}", len(self.file_names)
        self.file_names.append(check_name(element.get("name"), where))
        self.sizes.append((_side(element, "width", where), _side(element, "height", where)))
        for number, node in enumerate(element):
            if node.tag in _NO_AREA:
                self.shapes.left_out[f"<{node.tag}>"] += 1
                continue
            shape = Shape(image, node.get("label") or "", (), f"{where}, shape {number} (<{node.tag}>)")
            if not shape.name:
                raise BadRecord(f"{shape.where} has no label.")
            self._describe(node, shape)
            self.shapes.append(shape)

    def _describe(self, node: ElementTree.Element, shape: Shape) -> None:
        _place(node, shape)
        about = {each.get("name"): (each.text or "").strip() for each in node.findall("attribute")}
        shape.crowd = any(about.get(name, "").lower() in ("true", "1") for name in _CROWD)
        if self._state:
            shape.state = about.get(self._state, "")
            if not shape.state:
                raise BadRecord(f"{shape.where} has no attribute {self._state!r} with a state such as 'intact'.")


def _place(node: ElementTree.Element, shape: Shape) -> None:
    """Put the corners, and the mask where it is more than the box, into ``shape``."""
    if node.tag == "box":
        corners = [_number(node, key, shape.where) for key in ("xtl", "ytl", "xbr", "ybr")]
        left, top, right, bottom = corners
        turn = _number(node, "rotation", shape.where) if node.get("rotation") else 0.0
        shape.box = corners
        if turn:
            points = np.array([(left, top), (right, top), (right, bottom), (left, bottom)])
            shape.box, shape.segment, shape.area = outline(rotated(points, turn))
    elif node.tag == "polygon":
        shape.box, shape.segment, shape.area = outline(_points(node.get("points") or "", shape.where))
    elif node.tag == "ellipse":
        x, y, width, height = (_number(node, key, shape.where) for key in ("cx", "cy", "rx", "ry"))
        points = ellipse((x, y), (width, height))
        turn = _number(node, "rotation", shape.where) if node.get("rotation") else 0.0
        shape.box, shape.segment, shape.area = outline(rotated(points, turn) if turn else points)
    elif node.tag == "mask":
        _paint(node, shape)
    else:
        raise BadRecord(f"{shape.where}: expected box, polygon, ellipse, mask, {', '.join(_NO_AREA)}.")


def _paint(node: ElementTree.Element, shape: Shape) -> None:
    """Run lengths of a rectangle, row by row, from the first that is not painted."""
    left, top = (_whole(node, key, shape.where) for key in ("left", "top"))
    width, height = (_side(node, key, shape.where) for key in ("width", "height"))
    words = (node.get("rle") or "").split(",")
    if not all(word.strip().isascii() and word.strip().isdecimal() and len(word.strip()) < 10 for word in words):
        raise BadMask(f"{shape.where}: 'rle' should hold run lengths. Got {node.get('rle')!r:.60}.")
    runs = np.array([int(word) for word in words], dtype=np.int64)
    if int(runs.sum()) != width * height:
        raise BadMask(f"{shape.where}: its runs cover {runs.sum()} pixels, but its rectangle has {width}x{height}.")
    shape.box = [left, top, left + width, top + height]
    shape.segment = Painted(left, top, partial(_decoded, runs, height, width))
    shape.area = float(runs[1::2].sum())


def _decoded(runs: Ints, height: int, width: int) -> Bools:
    painted = np.arange(len(runs)) % 2 == 1
    return np.repeat(painted, runs).reshape(height, width)


def _points(text: str, where: str) -> Floats:
    try:
        points = [[parse_number(number.strip()) for number in pair.split(",")] for pair in text.split(";")]
    except ValueError:
        points = []
    if len(points) < 3 or any(len(point) != 2 for point in points):
        raise BadRecord(f"{where}: 'points' should hold three or more of x,y;x,y;… Got {text!r:.60}.")
    return np.array(points, dtype=np.float64)


def _number(node: ElementTree.Element, key: str, where: str) -> float:
    text = node.get(key) or ""
    try:
        return parse_number(text)
    except ValueError:
        raise BadRecord(f"{where}: {key!r} should be a number. Got {text!r:.60}.") from None


def _whole(node: ElementTree.Element, key: str, where: str) -> int:
    value = _number(node, key, where)
    if not abs(value) <= _LARGEST_SIDE or value != int(value):
        raise BadRecord(f"{where}: {key!r} should be a whole number of pixels. Got {node.get(key)!r:.60}.")
    return int(value)


def _side(node: ElementTree.Element, key: str, where: str) -> int:
    text = node.get(key) or ""
    if not text.isascii() or not text.isdecimal() or len(text) > 7 or not 0 < int(text) <= _LARGEST_SIDE:
        raise BadRecord(f"{where}: {key!r} should be a number of pixels. Got {text!r:.60}.")
    return int(text)
