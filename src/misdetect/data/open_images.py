"""``openimages:FILE[,images=DIR][,classes=FILE][,depictions=keep|ignore|drop]``: boxes of Open Images, as CSV.

One row per box, in fractions of the image; the files of the training set have millions of rows, so they are read by
columns. Only images that are in the folder count, and of these only those that the file has rows for: of the others
nobody has looked for objects. Nothing here knows the hierarchy of classes.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b, file_digest
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from misdetect.data.dataset import Dataset, Warned
from misdetect.data.faults import BadRecord, Malformed, UnknownCategory
from misdetect.data.images import image_folder, list_images
from misdetect.data.sanity import checked
from misdetect.data.table import Objects, Table
from misdetect.kept.files import open_regular
from misdetect.nouns.boxes import Bools, Ints
from misdetect.nouns.picture import digest
from misdetect.nouns.spec import Spec
from misdetect.said.errors import MisdetectError

_CORNERS = ("XMin", "YMin", "XMax", "YMax")
_TEXT = ("ImageID", "LabelName")
_FLAGS = ("IsGroupOf", "IsDepiction")


def load_open_images(spec: Spec) -> Dataset:
    """Open ``openimages:FILE``; see docs/data.md for the options."""
    path, given, classes = Path(spec.target), spec.take("images", ""), spec.take("classes", "")
    depictions = spec.take("depictions", "keep", choices=("keep", "ignore", "drop"))
    spec.finish()
    rows, hashed = _read(path, (*_TEXT, *_CORNERS), _FLAGS)
    ids, image_of = _encoded(rows["ImageID"])
    labels, label_of = _encoded(rows["LabelName"])
    root = image_folder(given, path, (f"{name}.jpg" for name in ids), path.stem.split("-")[0])
    file_names, place, warnings = _present(root, ids, image_of, path)
    names, name_of, described, found = _names(path, classes, labels)
    warnings += found
    image = place[image_of]
    here = np.flatnonzero(image >= 0)

    def where(row: int) -> str:
        return f"{path}, line {here[row] + 2}"

    raw = np.column_stack([rows[name].to_numpy() for name in _CORNERS])[here]
    sizes = np.zeros((len(file_names), 2), dtype=np.int64)
    boxes, keep, odd = checked(raw, image[here], sizes, where, form="xyxy", relative=True)
    crowd, drawn = (_flag(rows, name)[here] for name in _FLAGS)
    if drawn.any() and depictions != "keep":
        how = "treated as crowd" if depictions == "ignore" else "left out"
        warnings.append(Warned("depiction", int(drawn.sum()), f"{where(int(drawn.argmax()))}: {how}"))
        keep, crowd = (keep & ~drawn, crowd) if depictions == "drop" else (keep, crowd | drawn)
    labelled = name_of[label_of[here]]
    objects = Objects(image[here], boxes, labelled, ids=here + 1, record=here, crowd=crowd).take(keep)
    table = Table(root, file_names, sizes, objects, relative=True)
    fingerprint = digest("openimages", hashed, described, depictions, file_names)
    return table.dataset(spec.text, names, fingerprint=fingerprint, warnings=[*warnings, *odd])


def _read(path: Path, needed: tuple[str, ...], optional: tuple[str, ...] = ()) -> tuple[dict[str, Any], str]:
    """Columns of a CSV with a header, and a hash of its bytes; corners are numbers, all else is text."""
    with _readable(f"{path} cannot be read as a CSV of Open Images"), open_regular(path) as file:
        hashed = file_digest(file, lambda: blake2b(digest_size=16)).hexdigest()
        file.seek(0)
        header = file.readline(1 << 16).decode("utf-8-sig", "replace").strip().split(",")
        absent = [name for name in needed if name not in header]
        if absent:
            raise Malformed(
                f"{path} should start with a line of column names, {', '.join(needed)}, as the boxes of Open Images "
                f"do. It lacks {', '.join(absent)}."
            )
        file.seek(0)
        columns = [*needed, *(name for name in optional if name in header)]
        types = {name: pa.float64() if name in _CORNERS else pa.string() for name in columns}
        how = csv.ConvertOptions(include_columns=columns, column_types=types, strings_can_be_control=False)
        table = csv.read_csv(file, convert_options=how)
    found = {name: table.column(name) for name in columns}
    for name, column in found.items():
        blank = pc.or_kleene(pc.is_null(column), pc.equal(column, "")) if name in _TEXT else pc.is_null(column)
        if pc.any(blank).as_py():
            line = int(blank.to_numpy().argmax()) + 2
            what = "a name" if name in _TEXT else "a number"
            raise BadRecord(f"{path}, line {line}: {name!r} should be {what}.")
    return found, hashed


@contextmanager
def _readable(sentence: str) -> Iterator[None]:
    """``sentence`` with the reason, where a file cannot be read, or not as CSV."""
    try:
        yield
    except MisdetectError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise Malformed(f"{sentence}: {why}.") from None


def _encoded(column: Any) -> tuple[list[str], Ints]:
    """The distinct values, sorted, and for each row which one it has."""
    encoded = column.combine_chunks().dictionary_encode()
    encoded = encoded.chunk(0) if isinstance(encoded, pa.ChunkedArray) else encoded
    values = encoded.dictionary.to_pylist()
    order = sorted(range(len(values)), key=values.__getitem__)
    rank = np.empty(len(values), dtype=np.int64)
    rank[order] = np.arange(len(values))
    return [values[i] for i in order], rank[encoded.indices.to_numpy()]


def _flag(rows: dict[str, Any], name: str) -> Bools:
    """A column of 0, 1 and -1 (unknown) as yes and no; no where the file has no such column."""
    if name not in rows:
        return np.zeros(len(rows["ImageID"]), dtype=np.bool_)
    return np.asarray(pc.equal(rows[name], "1").to_numpy())


def _present(root: Path, ids: list[str], image_of: Ints, path: Path) -> tuple[list[str], Ints, list[Warned]]:
    """File names of the images that the folder has and the file speaks of, for each of ``ids`` its place among them (-1
    where there is none), and how many there are without the other."""
    if not root.is_dir():
        raise Malformed(f"{root} is not a folder; expected the images of {path}.")
    files = {PurePath(name).stem: name for name in reversed(list_images(root))}
    held = np.array([name in files for name in ids], dtype=np.bool_)
    if not ids:
        raise Malformed(f"{path} holds no boxes, only a line of column names.")
    if not held.any():
        raise Malformed(f"{root} holds none of the {len(ids)} images of {path}; name their folder with images=.")
    place = np.where(held, np.cumsum(held) - 1, -1)
    file_names = [files[name] for name in ids if name in files]
    warnings = []
    if not held.all():
        rows = int((place[image_of] < 0).sum())
        example = f"{path}: image {ids[int((~held).argmax())]!r} is not in {root}; left out"
        warnings.append(Warned("unknown-image", rows, example))
    if unspoken := sorted(set(files) - set(ids)):
        example = f"{root / files[unspoken[0]]}: {path.name} has no row for it, so nobody looked; left out"
        warnings.append(Warned("image-without-rows", len(unspoken), example))
    return file_names, place, warnings


def _names(path: Path, classes: str, labels: list[str]) -> tuple[list[str], Ints, list[list[str]], list[Warned]]:
    """Class names, for each of ``labels`` (such as /m/01g317) the place of its name, the list as it was read, and what
    is odd. The list is ``classes``, else the one file beside ``path`` that is called so."""
    beside = sorted(path.parent.glob("*class-descriptions*.csv"))
    if not classes and len(beside) != 1:
        found = Warned("no-class-names", len(labels), f"{path}: {labels[0]!r} and so on; name their list with classes=")
        return labels, np.arange(len(labels)), [], [found]
    source = Path(classes) if classes else beside[0]
    described = _descriptions(source)
    names = list(dict.fromkeys(name for _, name in described))
    place = {label: names.index(name) for label, name in described}
    for label in labels:
        if label not in place:
            raise UnknownCategory(f"{path}: the class {label!r} is not in {source}; choose the list with classes=.")
    twice = len(described) - len(names)
    warnings = [Warned("duplicate-category-name", twice, f"{source}: merged")] if twice else []
    return names, np.array([place[label] for label in labels], dtype=np.int64), described, warnings


def _descriptions(path: Path) -> list[list[str]]:
    """Pairs of label and name; a header, as newer lists have one, is not a pair."""
    with _readable(f"{path} should hold lines such as '/m/01g317,Person'"), open_regular(path, 64 << 20) as file:
        how = csv.ReadOptions(column_names=["label", "name"])
        text = csv.ConvertOptions(
            column_types={"label": pa.string(), "name": pa.string()}, strings_can_be_control=False
        )
        pairs = csv.read_csv(file, read_options=how, convert_options=text).to_pylist()
    rows = [[pair["label"], pair["name"]] for pair in pairs]
    rows = rows[1:] if rows and rows[0] == ["LabelName", "DisplayName"] else rows
    if not rows or not all(label and name for label, name in rows):
        raise Malformed(f"{path} should hold lines such as '/m/01g317,Person', a label and its name.")
    return rows
