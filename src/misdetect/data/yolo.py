"""``yolo:data.yaml[,split=val]`` or ``yolo:DIR``: YOLO label files, one line per object, boxes or polygons.

Coordinates are fractions of the image, so an image's header is read when its sample is made, and never at opening. The
yaml may put images anywhere it names, but no image or label file may leave the folders that it names.
"""

import os
from pathlib import Path
from typing import Any

import numpy as np

from misdetect.data.dataset import Dataset, Warned
from misdetect.data.faults import BadRecord, Malformed, UnknownCategory
from misdetect.data.images import ImageOutside, inside, list_images
from misdetect.data.sanity import checked
from misdetect.data.shapes import polygon_area
from misdetect.data.table import Objects, Table
from misdetect.data.untrusted import parse_number, parse_yaml, read_bytes
from misdetect.nouns.boxes import Floats, Ints
from misdetect.nouns.masks import Segment
from misdetect.nouns.picture import digest
from misdetect.nouns.spec import Spec


def load_yolo(spec: Spec) -> Dataset:
    """Open ``yolo:data.yaml[,split=val]``; the split is a key of the yaml: train, val or test."""
    path = Path(spec.target)
    split = spec.take("split", "val", choices=("train", "val", "test"))
    spec.finish()
    settings, data = _read_yaml(path)
    names = _names(settings, path)
    files, root = _images(settings, split, path)
    labels = [_label_path(file) for file in files]
    texts = [_read_labels(label) for label in labels]
    lines = _Lines(labels, texts, len(names), boxes_only="kpt_shape" in settings)
    file_names = [file.relative_to(root).as_posix() for file in files]
    sizes = np.zeros((len(files), 2), dtype=np.int64)
    boxes, keep, odd = checked(lines.raw, lines.image, sizes, lines.where, form="cxcywh", relative=True)
    if (named := settings.get("path")) is not None and not (path.parent / named).is_dir():
        said = f"{path}: its 'path' {named!r:.80} is no folder here; its own folder is taken"
        odd.append(Warned("no-such-path", 1, said))
    bare = [label for label, text in zip(labels, texts, strict=True) if text is None]
    if bare:
        odd.append(Warned("no-label-file", len(bare), f"{bare[0]}: taken to mean that nothing is in the image"))
    masked = np.array([polygon is not None for polygon in lines.polygons], dtype=np.bool_)
    objects = Objects(lines.image, boxes, lines.labels, areas=lines.areas, masked=masked).take(keep)
    table = Table(root, file_names, sizes, objects, segment=lines.segment, relative=True)
    fingerprint = digest("yolo", data, split, file_names, *(text or b"" for text in texts))
    return table.dataset(spec.text, names, fingerprint=fingerprint, category_ids=range(len(names)), warnings=odd)


class _Lines:
    """All label lines of the data as columns. ``raw`` is centre x, y, width, height as fractions of the image."""

    def __init__(self, paths: list[Path], texts: list[bytes | None], classes: int, *, boxes_only: bool) -> None:
        self._paths = paths
        self._place: list[tuple[int, int]] = []
        self.polygons: list[Floats | None] = []
        labels: list[int] = []
        rows: list[Floats] = []
        areas: list[float] = []
        for i, text in enumerate(texts):
            for number, line in enumerate((text or b"").decode("utf-8", "replace").splitlines(), start=1):
                if not line.strip():
                    continue
                label, values = _numbers(line, f"{paths[i]}, line {number}")
                if not 0 <= label < classes:
                    raise UnknownCategory(
                        f"{paths[i]}, line {number}: class {label:g} is not among the {classes} names of the yaml."
                    )
                polygon = None if len(values) == 4 or boxes_only else values
                box = values[:4] if polygon is None else _box_of(polygon)
                self._place.append((i, number))
                self.polygons.append(polygon)
                labels.append(label)
                rows.append(box)
                areas.append(float(box[2] * box[3]) if polygon is None else polygon_area(polygon))
        self.raw: Floats = np.array(rows, dtype=np.float64).reshape(-1, 4)
        self.labels: Ints = np.array(labels, dtype=np.int64)
        self.image: Ints = np.array([i for i, _ in self._place], dtype=np.int64)
        self.areas: Floats = np.array(areas, dtype=np.float64)

    def where(self, row: int) -> str:
        """Names line ``row`` for a message."""
        image, number = self._place[row]
        return f"{self._paths[image]}, line {number}"

    def segment(self, row: int, width: int, height: int) -> Segment:
        """The polygon of line ``row`` in pixels."""
        polygon = self.polygons[row]
        return None if polygon is None else [(polygon.reshape(-1, 2) * [width, height]).reshape(-1).tolist()]


def _numbers(line: str, where: str) -> tuple[int, Floats]:
    """Class and coordinates of one line: four for a box, an even number of at least six for a polygon."""
    words = line.split()
    try:
        values = np.array([parse_number(word) for word in words])
    except ValueError:
        raise BadRecord(f"{where}: expected numbers separated by spaces. Got {line!r:.60}.") from None
    if len(values) < 5 or len(values) % 2 == 0:
        hint = " (a score, as in predictions, does not belong in labels)" if len(values) == 6 else ""
        raise BadRecord(
            f"{where}: expected a class with 4 numbers (a box) or 6, 8, 10, … (a polygon). "
            f"Got {len(values)} numbers{hint}."
        )
    if not np.isfinite(values[0]) or values[0] != int(values[0]):
        raise BadRecord(f"{where}: the class should be a whole number. Got {words[0]!r:.40}.")
    return int(values[0]), values[1:]


def _box_of(polygon: Floats) -> Floats:
    """Centre, width, height of a polygon's bounding box."""
    points = polygon.reshape(-1, 2)
    low, high = points.min(axis=0), points.max(axis=0)
    return np.concatenate([(low + high) / 2, high - low])


def _read_yaml(path: Path) -> tuple[dict[str, Any], bytes]:
    """What the yaml says; of a folder with ``classes.txt`` and ``images``, as labelling tools export it, the same."""
    if path.is_dir():
        data = read_bytes(path / "classes.txt", what="class names, one per line")
        names = [line.strip() for line in data.decode("utf-8", "replace").splitlines() if line.strip()]
        return {
            "names": names,
            "train": "images",
            "val": "images",
            "test": "images",
            "path": os.path.abspath(path),
        }, data
    data = read_bytes(path, what="a YOLO data.yaml")
    settings = parse_yaml(data, path)
    if not isinstance(settings, dict):
        raise Malformed(f"{path} should map 'names', 'train', 'val', … to values, as YOLO's data.yaml does.")
    return settings, data


def _names(settings: dict[str, Any], path: Path) -> list[str]:
    """Class names, from a list or from a map of number to name."""
    names = settings.get("names")
    if isinstance(names, dict):
        if sorted(names, key=str) != sorted(range(len(names)), key=str):
            raise Malformed(f"{path}: 'names' should number the classes 0 to {len(names) - 1} without a gap.")
        names = [names[i] for i in range(len(names))]
    if not isinstance(names, list) or not names or not all(isinstance(n, (str, int, float, bool)) for n in names):
        raise Malformed(f"{path}: 'names' should list the class names. Got {names!r:.60}.")
    texts = [str(name) for name in names]
    if len(set(texts)) < len(texts):
        raise Malformed(f"{path}: 'names' lists a name twice; classes are told apart by name.")
    count = settings.get("nc", len(texts))
    if count != len(texts):
        raise Malformed(f"{path}: 'nc' is {count!r:.20}, but 'names' has {len(texts)} entries.")
    return texts


def _images(settings: dict[str, Any], split: str, path: Path) -> tuple[list[Path], Path]:
    """The image files of a split, in order, and the folder that holds them all."""
    entries = settings.get(split)
    if not entries:
        listed = ", ".join(key for key in ("train", "val", "test") if settings.get(key)) or "none"
        raise Malformed(f"{path} has no {split!r} images (it has: {listed}); choose with the option split=.")
    here, given = Path(os.path.abspath(path.parent)), settings.get("path")
    if given is not None and (not isinstance(given, str) or "\0" in given):
        raise Malformed(f"{path}: 'path' should name a folder. Got {given!r:.60}.")
    base = here / (given or "")
    if not base.is_dir():
        base = here  # yamls travel; the folder they name often does not
    files: list[Path] = []
    for entry in entries if isinstance(entries, list) else [entries]:
        if not isinstance(entry, str) or not entry or "\0" in entry:
            raise Malformed(f"{path}: {split!r} should name folders or lists of images. Got {entry!r:.60}.")
        files += _entry(entry, base, path)
    if not files:
        raise Malformed(f"{path}: {split!r} names no image.")
    files = [Path(os.path.abspath(file)) for file in files]
    return files, Path(os.path.commonpath([file.parent for file in files]))


def _entry(entry: str, base: Path, path: Path) -> list[Path]:
    """Images of one entry: a folder, or a text file with one path per line, relative to its folder or the base."""
    found = base / entry
    if not found.exists() and entry.startswith("../"):
        found = base / entry[3:]  # written by tools that count from a sub-folder of the data
    if found.is_dir():
        return [found / name for name in list_images(found)]
    if found.suffix != ".txt":
        raise Malformed(f"{path}: {found} is neither a folder of images nor a .txt list of them.")
    text = read_bytes(found, what="a list of images, one per line").decode("utf-8", "replace")
    files = []
    for line in filter(None, map(str.strip, text.splitlines())):
        beside, below = found.parent / line, base / line
        file = beside if beside.exists() or not below.exists() else below
        if "\0" in line or not any(_real(file).is_relative_to(_real(top)) for top in (base, found.parent)):
            raise ImageOutside(f"{found}: {line!r:.80} leaves the folder of the data; it must be a path inside it.")
        files.append(file)
    return files


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _label_path(image: Path) -> Path:
    """``…/images/…/name.jpg`` → ``…/labels/…/name.txt``; without an ``images`` folder, beside the image."""
    parts = list(image.parts)
    for i in range(len(parts) - 2, -1, -1):
        if parts[i] == "images":
            parts[i] = "labels"
            break
    return Path(*parts).with_suffix(".txt")


def _read_labels(path: Path) -> bytes | None:
    """A label file's bytes; no file means no object. A link that leads elsewhere is refused."""
    if path.is_symlink():
        inside(path, path.parent)
    return read_bytes(path, what="YOLO labels") if path.exists() else None
