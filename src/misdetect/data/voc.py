"""``voc:DIR[,split=NAME][,origin=auto|0|1][,difficult=ignore|keep|drop]``: PASCAL VOC XML, one file per image.

Reads the devkit's layout (``Annotations/``, ``JPEGImages/``, ``ImageSets/Main/``, masks in ``SegmentationObject/``) and
a flat folder of XML files beside or above their images. XML with a document type is refused: it could grow without end.
"""

import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from misdetect.data.dataset import Dataset, Warned
from misdetect.data.faults import BadMask, BadRecord, Malformed
from misdetect.data.images import check_name, folder_with, image_size, inside
from misdetect.data.shapes import Placed, Shape, Shapes
from misdetect.data.table import Table, image_ids_from_names
from misdetect.data.untrusted import parse_number, parse_xml, read_bytes
from misdetect.nouns.boxes import Bools
from misdetect.nouns.picture import digest
from misdetect.nouns.spec import Spec
from misdetect.said.errors import BadImage

_MAX_BYTES = 16 << 20


class _Photo:
    """One parsed XML file: the image's name and size, and its objects; ``image`` is its place among all."""

    def __init__(self, path: Path, data: bytes, image: int) -> None:
        self.path = path
        root = parse_xml(data, path, largest=_MAX_BYTES, what="the annotation of one image")
        self.file_name = check_name(_text(root, "filename") or f"{path.stem}.jpg", str(path))
        self.size = (self._side(root, "width"), self._side(root, "height"))
        self.objects = [_object(node, image, f"{path}: object {i}") for i, node in enumerate(root.findall("object"))]

    def _side(self, root: ElementTree.Element, side: str) -> int:
        text = _text(root, f"size/{side}") or "0"
        if not text.isascii() or not text.isdecimal() or len(text) > 7:
            raise BadRecord(f"{self.path}: <{side}> should be a number of pixels. Got {text!r:.60}.")
        return int(text)


def _object(node: ElementTree.Element, image: int, where: str) -> Shape:
    """One object; it is a crowd if it is marked difficult."""
    name = _text(node, "name")
    if not name:
        raise BadRecord(f"{where} has no <name>.")
    corners = []
    for corner in ("xmin", "ymin", "xmax", "ymax"):
        text = _text(node, f"bndbox/{corner}")
        try:
            corners.append(parse_number(text))
        except ValueError:
            raise BadRecord(f"{where}: <{corner}> should be a number. Got {text!r:.60}.") from None
    return Shape(image, name, corners, where, crowd=_text(node, "difficult") == "1")


def load_voc(spec: Spec) -> Dataset:
    """Open ``voc:DIR``. ``split`` names a list in ``ImageSets/Main``; see docs/data.md for the other options."""
    root = Path(spec.target)
    split = spec.take("split", "")
    origin = spec.take("origin", "auto", choices=("auto", "0", "1"))
    difficult = spec.take("difficult", "ignore", choices=("ignore", "keep", "drop"))
    spec.finish()
    files = _annotation_files(root, split)
    contents = [read_bytes(path, what="a VOC annotation") for path in files]
    photos = [_Photo(path, data, i) for i, (path, data) in enumerate(zip(files, contents, strict=True))]
    shapes = Shapes(root)
    for photo in photos:
        shapes += photo.objects
    warnings: list[Warned] = []
    first = _first_pixel(shapes, warnings) if origin == "auto" else int(origin)
    hard = [shape for shape in shapes if shape.crowd]
    if hard and difficult != "keep":
        how = "treated as crowd" if difficult == "ignore" else "left out"
        warnings.append(Warned("difficult", len(hard), f"{hard[0].where}: {how}"))
    for shape in hard:
        shape.crowd = difficult != "keep"
    _add_masks(root / "SegmentationObject", photos)
    names, sizes = shapes.names, np.array([photo.size for photo in photos], dtype=np.int64)
    objects, odd = shapes.objects(names, sizes, origin=first, crowds=difficult != "drop")
    file_names = [photo.file_name for photo in photos]
    folder = folder_with(file_names[0], (root / "JPEGImages", root / "images", root, files[0].parent))
    ids, stems = image_ids_from_names([path.name for path in files]), [path.stem for path in files]
    table = Table(folder, file_names, sizes, objects, ids, stems, segment=shapes.segment)
    fingerprint = digest("voc", [path.name for path in files], *contents, origin, difficult)
    return table.dataset(spec.text, names, fingerprint=fingerprint, warnings=[*warnings, *odd])


def _first_pixel(shapes: Shapes, warnings: list[Warned]) -> int:
    """What the data calls its first pixel: 1 in VOC, 0 where a tool wrote plain array coordinates. The last pixel is
    included, so the far corner stays either way."""
    zero = [shape for shape in shapes if 0 in shape.box[:2]]
    if not zero:
        return 1
    example = f"{zero[0].where}: starts at 0, so pixels are taken to be counted from 0"
    warnings.append(Warned("zero-based-boxes", len(zero), example))
    return 0


def _annotation_files(root: Path, split: str) -> list[Path]:
    folder = root / "Annotations" if (root / "Annotations").is_dir() else root
    if not folder.is_dir():
        raise Malformed(f"{root} is not a folder; expected one with VOC annotations.")
    if split:
        listed = root / "ImageSets" / "Main" / f"{check_name(split, 'the option split')}.txt"
        lines = read_bytes(listed, what="a list of images, one per line").decode("utf-8", "replace").splitlines()
        stems = [line.split()[0] for line in lines if line.strip()]
        files = [folder / f"{check_name(stem, str(listed))}.xml" for stem in stems]
    else:
        files = sorted(path for path in folder.glob("*.xml") if not path.name.startswith("."))
    if not files:
        raise Malformed(f"{folder} holds no .xml file; expected VOC annotations.")
    return files


def _text(node: ElementTree.Element, path: str) -> str:
    return (node.findtext(path) or "").strip()


def _add_masks(folder: Path, photos: list[_Photo]) -> None:
    present = {path.stem for path in folder.glob("*.png")} if folder.is_dir() else set()
    for photo in photos:
        if photo.path.stem in present:
            for number, shape in enumerate(photo.objects, start=1):
                shape.segment = _Instance(folder, photo.path.stem, number)


@dataclass(frozen=True)
class _Instance(Placed):
    """A mask in ``SegmentationObject``: pixel value ``k`` of an image's PNG is the ``k``-th object of its XML file."""

    folder: Path
    stem: str
    number: int

    def within(self, width: int, height: int, where: str) -> Bools:
        path = inside(self.folder / f"{self.stem}.png", self.folder)
        if image_size(path) != (width, height):
            raise BadMask(f"{path} should have the size of its image, {width}x{height}. Got {image_size(path)}.")
        try:
            with Image.open(path, formats=("PNG",)) as image:
                mask: Bools = np.asarray(image) == self.number
        except (OSError, ValueError, SyntaxError) as error:
            raise BadImage(f"{path} is damaged: {error}.") from error
        return mask
