"""``voc:DIR[,split=NAME][,origin=auto|0|1][,difficult=ignore|keep|drop]``: PASCAL VOC XML, one file per image.

Reads the devkit's layout (``Annotations/``, ``JPEGImages/``, ``ImageSets/Main/``, masks in ``SegmentationObject/``) and
a flat folder of XML files beside or above their images. XML with a document type is refused: it could grow without end.
"""

import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Final

import numpy as np
from PIL import Image

from misdetect.data.dataset import Dataset, Warned
from misdetect.data.faults import BadMask, BadRecord, Malformed
from misdetect.data.images import check_name, folder_with, image_size, inside
from misdetect.data.sanity import Where, checked
from misdetect.data.table import Objects, Table, image_ids_from_names
from misdetect.data.untrusted import parse_number, parse_xml, read_bytes
from misdetect.nouns.boxes import Bools, Floats, Ints
from misdetect.nouns.masks import Segment
from misdetect.nouns.picture import digest
from misdetect.nouns.spec import Spec
from misdetect.said.errors import BadImage

_CORNERS: Final = ("xmin", "ymin", "xmax", "ymax")
_MAX_BYTES = 16 << 20


class _Photo:
    """One parsed XML file: the image's name and size, and its objects as ``(name, difficult, corners)``."""

    def __init__(self, path: Path, data: bytes) -> None:
        self.path = path
        root = parse_xml(data, path, largest=_MAX_BYTES, what="the annotation of one image")
        self.file_name = check_name(_text(root, "filename") or f"{path.stem}.jpg", str(path))
        self.width, self.height = (self._side(root, side) for side in ("width", "height"))
        self.objects = [self._object(node, i) for i, node in enumerate(root.findall("object"))]

    def _side(self, root: ElementTree.Element, side: str) -> int:
        text = _text(root, f"size/{side}") or "0"
        if not text.isascii() or not text.isdecimal() or len(text) > 7:
            raise BadRecord(f"{self.path}: <{side}> should be a number of pixels. Got {text!r:.60}.")
        return int(text)

    def _object(self, node: ElementTree.Element, index: int) -> tuple[str, bool, list[float]]:
        name = _text(node, "name")
        if not name:
            raise BadRecord(f"{self.path}: object {index} has no <name>.")
        corners = []
        for corner in _CORNERS:
            text = _text(node, f"bndbox/{corner}")
            try:
                corners.append(parse_number(text))
            except ValueError:
                raise BadRecord(
                    f"{self.path}: object {index}: <{corner}> should be a number. Got {text!r:.60}."
                ) from None
        return name, _text(node, "difficult") == "1", corners


def load_voc(spec: Spec) -> Dataset:
    """Open ``voc:DIR``. ``split`` names a list in ``ImageSets/Main``; see docs/data.md for the other options."""
    root = Path(spec.target)
    split = spec.take("split", "")
    origin = spec.take("origin", "auto", choices=("auto", "0", "1"))
    difficult = spec.take("difficult", "ignore", choices=("ignore", "keep", "drop"))
    spec.finish()
    files = _annotation_files(root, split)
    contents = [read_bytes(path, what="a VOC annotation") for path in files]
    photos = [_Photo(path, data) for path, data in zip(files, contents, strict=True)]
    rows = [(i, *found) for i, photo in enumerate(photos) for found in photo.objects]
    record = [k for photo in photos for k in range(len(photo.objects))]
    names = sorted({row[1] for row in rows})
    label = {name: i for i, name in enumerate(names)}
    raw = np.array([row[3] for row in rows], dtype=np.float64).reshape(-1, 4)
    image = np.array([row[0] for row in rows], dtype=np.int64)
    sizes = np.array([(photo.width, photo.height) for photo in photos], dtype=np.int64).reshape(-1, 2)
    warnings: list[Warned] = []

    def name(row: int) -> str:
        return f"{files[rows[row][0]]}: object {record[row]}"

    first = _first_pixel(raw, origin, name, warnings)  # VOC includes the last pixel, so the far corner stays
    boxes, keep, odd = checked(raw, image, sizes, name, form="xyxy", origin=first)
    hard = np.array([row[2] for row in rows], dtype=np.bool_)
    if hard.any() and difficult != "keep":
        how = "treated as crowd" if difficult == "ignore" else "left out"
        warnings.append(Warned("difficult", int(hard.sum()), f"{name(int(hard.argmax()))}: {how}"))
        keep = keep & ~hard if difficult == "drop" else keep
    file_names = [photo.file_name for photo in photos]
    folder = folder_with(file_names[0], (root / "JPEGImages", root / "images", root, files[0].parent))
    masks = _InstanceMasks(root / "SegmentationObject", photos, image, np.array(record, dtype=np.int64))
    objects = Objects(
        image=image,
        boxes=boxes,
        labels=np.array([label[row[1]] for row in rows], dtype=np.int64),
        crowd=hard if difficult == "ignore" else None,
        masked=masks.masked,
    ).take(keep)
    ids, stems = image_ids_from_names([path.name for path in files]), [path.stem for path in files]
    table = Table(folder, file_names, sizes, objects, ids, stems, segment=masks)
    fingerprint = digest("voc", [path.name for path in files], *contents, origin, difficult)
    return table.dataset(spec.text, names, fingerprint=fingerprint, warnings=[*warnings, *odd])


def _first_pixel(raw: Floats, choice: str, where: Where, warnings: list[Warned]) -> int:
    """What the data calls its first pixel: 1 in VOC, 0 where a tool wrote plain array coordinates."""
    if choice != "auto":
        return int(choice)
    zero = (raw[:, :2] == 0).any(axis=1)
    if not zero.any():
        return 1
    example = f"{where(int(zero.argmax()))}: starts at 0, so pixels are taken to be counted from 0"
    warnings.append(Warned("zero-based-boxes", int(zero.sum()), example))
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


class _InstanceMasks:
    """Masks in ``SegmentationObject``: pixel value ``k`` of an image's PNG is the ``k``-th object of its XML file."""

    def __init__(self, folder: Path, photos: list[_Photo], image: Ints, record: Ints) -> None:
        self._folder, self._image, self._record = folder, image, record
        self._stems = [photo.path.stem for photo in photos]
        present = {path.stem for path in folder.glob("*.png")} if folder.is_dir() else set()
        drawn = np.array([stem in present for stem in self._stems], dtype=np.bool_)
        self.masked: Bools = drawn[image] if len(image) else np.zeros(0, dtype=np.bool_)

    def __call__(self, row: int, width: int, height: int) -> Segment:
        path = inside(self._folder / f"{self._stems[self._image[row]]}.png", self._folder)
        if image_size(path) != (width, height):
            raise BadMask(f"{path} should have the size of its image, {width}x{height}. Got {image_size(path)}.")
        try:
            with Image.open(path, formats=("PNG",)) as image:
                mask: Bools = np.asarray(image) == self._record[row] + 1
        except (OSError, ValueError, SyntaxError) as error:
            raise BadImage(f"{path} is damaged: {error}.") from error
        return mask
