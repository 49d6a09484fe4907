"""``hfdata:ID-OR-FOLDER[,split=NAME][,boxes=xywh|xyxy|cxcywh][,relative=yes]``: data of the ``datasets`` library.

The layout of its object detection data: a column ``image``, and a column ``objects`` with ``bbox`` and ``category`` per
object. A folder is one that ``save_to_disk`` wrote, one of Parquet files, or images beside a ``metadata.jsonl``;
anything else is an id on the Hub, which the library fetches. No code of a data set is ever run.
"""

import importlib
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from misdetect.data.dataset import Dataset, Warned
from misdetect.data.faults import BadRecord, CornersForSizes, Malformed, RelativeCoordinates, UnknownCategory, told
from misdetect.data.images import FileSource, StoredSource
from misdetect.data.sanity import FORMS, checked
from misdetect.data.table import Load, Objects, Table
from misdetect.nouns.boxes import Bools, Floats, Ints
from misdetect.nouns.picture import digest
from misdetect.nouns.spec import Spec
from misdetect.said.errors import BadImage, BadSpec

_CATEGORIES = ("category", "categories", "label", "labels", "category_id")
"""What data sets call the column of classes, the first being the layout's own."""
_CROWD = ("iscrowd", "is_crowd")
_MEASURED = 100
"""Images whose headers are read at opening, to judge the boxes by, where no column tells their sizes."""


def load_hfdata(spec: Spec) -> Dataset:
    """Open ``hfdata:ID-OR-FOLDER``; see docs/data.md for the options."""
    split = spec.take("split", "")
    form = spec.take("boxes", "xywh", choices=tuple(FORMS))
    relative = spec.take("relative", False)
    spec.finish()
    library = importlib.import_module("datasets")
    rows, root = _opened(library, spec.target, split)
    source = f"hfdata:{spec.target}"
    columns = _Columns(rows, source)
    pictures = _Pictures(rows, root, source, library.Image(decode=False))
    sizes = columns.sizes if relative or columns.sizes.any() else pictures.measured()
    try:
        boxes, keep, odd = checked(columns.raw, columns.image, sizes, columns.where, form=form, relative=relative)
    except CornersForSizes as error:
        raise CornersForSizes(f"{error} Corners are read with the option boxes=xyxy.") from None
    except RelativeCoordinates as error:
        raise RelativeCoordinates(f"{error} Fractions are read with the option relative=yes.") from None
    table = Table(
        root,
        pictures.names,
        columns.sizes,
        Objects(columns.image, boxes, columns.labels, crowd=columns.crowd).take(keep),
        columns.image_ids,
        [str(id) for id in columns.image_ids],
        relative=relative,
        stored=pictures.stored,
    )
    fingerprint = digest("hfdata", form, relative, columns.content, pictures.lengths, pictures.names)
    return table.dataset(
        spec.text,
        columns.names,
        fingerprint=fingerprint,
        category_ids=range(len(columns.names)),
        warnings=[*columns.warnings, *odd],
    )


def _opened(datasets: Any, target: str, split: str) -> tuple[Any, Path]:
    """The rows of one split, and the folder below which its image files must lie."""
    folder = Path(target)
    if not target or "\0" in target:
        raise BadSpec(f"Expected the id of a data set on the Hub, or a folder. Got {target!r}.")
    with told(f"hfdata:{target}", "datasets"):
        datasets.disable_progress_bars()
        if not folder.exists():
            if folder.is_absolute() or target.startswith("."):
                raise Malformed(f"{folder} does not exist; expected a folder, or the id of a data set on the Hub.")
            found, root = datasets.load_dataset(target), Path(datasets.config.HF_CACHE_HOME)
        elif not folder.is_dir():
            raise Malformed(f"{folder} is not a folder; expected one that save_to_disk wrote, or one of Parquet files.")
        else:
            found, root = _folder(datasets, folder), folder
    if isinstance(found, dict):
        found = found[_choose(list(found), split, target)]
    elif split and str(found.split or "") != split:
        raise BadSpec(f"hfdata:{target} has the one split {str(found.split)!r}, not {split!r}.")
    return found, root


def _folder(datasets: Any, folder: Path) -> Any:
    if (folder / "dataset_dict.json").is_file() or (folder / "state.json").is_file():
        return datasets.load_from_disk(str(folder))
    # the builder is named, so that the library does not look in the folder for what to do
    kind = "parquet" if next(folder.rglob("*.parquet"), None) is not None else "imagefolder"
    if kind == "imagefolder" and next(folder.rglob("metadata.*"), None) is None:
        raise Malformed(
            f"{folder} was not written by save_to_disk, and holds neither Parquet files nor a metadata.jsonl."
        )
    if kind == "imagefolder" and next(folder.glob("metadata.*"), None) is not None:
        # one metadata for all: images whose names hold words like "val" are no split without it
        return datasets.load_dataset(kind, data_files={"train": str(folder / "**")})
    return datasets.load_dataset(kind, data_dir=str(folder))


def _choose(splits: list[str], split: str, target: str) -> str:
    """The split that is asked for; else the only one, else the one for validation, else that for tests."""
    usual = next((name for name in ("validation", "val", "test") if name in splits), "")
    chosen = split or (splits[0] if len(splits) == 1 else usual)
    if chosen not in splits:
        raise BadSpec(f"hfdata:{target} has the splits {', '.join(map(str, splits))}; choose with the option split=.")
    return chosen


class _Columns:
    """What the rows say of objects and images, without the images: arrays over all objects, or over all images."""

    def __init__(self, rows: Any, source: str) -> None:
        self._source, self._rows, self.warnings = source, rows, list[Warned]()
        absent = [name for name in ("image", "objects") if name not in rows.column_names]
        if absent:
            raise Malformed(
                f"{source} has the columns {', '.join(rows.column_names)}; expected 'image' and 'objects', with "
                f"'bbox' and 'category' for each object."
            )
        plain = [name for name in ("objects", "width", "height", "image_id") if name in rows.column_names]
        with told(source, "datasets"):
            self._table = rows.select_columns(plain).with_format("arrow")[:]
            self._objects = self._table.column("objects").combine_chunks()
        self.image, fields = self._flat()
        self._category = next((name for name in _CATEGORIES if name in fields), "")
        if "bbox" not in fields or not self._category:
            raise Malformed(f"{source}: 'objects' holds {', '.join(fields)}; expected 'bbox' and 'category'.")
        self.raw = self._numbers(fields["bbox"])
        self.names, self.labels = self._classes(fields[self._category])
        flags = next((fields[name] for name in _CROWD if name in fields), None)
        self.crowd: Bools | None = None
        if flags is not None:
            self.crowd = np.array([flag in (True, 1) for flag in flags.to_pylist()], dtype=np.bool_)
        self.sizes = self._sizes()
        self.image_ids = self._image_ids()
        self.content = [self.raw, self.labels, self.image, self.names, self.sizes]

    def where(self, row: int) -> str:
        """Names object ``row`` for a message."""
        image = int(self.image[row])
        return f"{self._source}: row {image}, object {row - int(np.searchsorted(self.image, image))}"

    def _flat(self) -> tuple[Ints, dict[str, Any]]:
        """For each object the row it belongs to, and its fields: of a struct of lists, or of a list of structs."""
        column = self._objects
        if pa.types.is_struct(column.type):
            names = [field.name for field in column.type if _is_list(field.type)]
            parts = {name: pc.struct_field(column, name) for name in names}
            lengths = [_lengths(part) for part in parts.values()]
            for name, other in zip(names, lengths, strict=True):
                if not np.array_equal(other, lengths[0]):
                    row = int((other != lengths[0]).argmax())
                    raise BadRecord(
                        f"{self._source}: row {row}: 'objects' has {lengths[0][row]} {names[0]!r} but "
                        f"{other[row]} {name!r}."
                    )
            fields = {name: pc.list_flatten(part) for name, part in parts.items()}
            counts = lengths[0] if lengths else np.zeros(len(column), dtype=np.int64)
        elif _is_list(column.type) and pa.types.is_struct(column.type.value_type):
            flat = pc.list_flatten(column)
            fields = {field.name: pc.struct_field(flat, field.name) for field in flat.type}
            counts = _lengths(column)
        else:
            raise Malformed(f"{self._source}: 'objects' should hold 'bbox' and 'category'. Got {column.type}.")
        return np.repeat(np.arange(len(counts)), counts), fields

    def _numbers(self, boxes: Any) -> Floats:
        if not len(boxes):
            return np.zeros((0, 4))
        kind = boxes.type.value_type if _is_list(boxes.type) else None
        if kind is None or not (pa.types.is_floating(kind) or pa.types.is_integer(kind)):
            raise BadRecord(f"{self.where(0)}: 'bbox' should hold four numbers. Got {boxes.type}.")
        four = _lengths(boxes) == 4
        if not four.all():
            row = int((~four).argmax())
            raise BadRecord(f"{self.where(row)}: 'bbox' should hold four numbers. Got {boxes[row].as_py()!r:.60}.")
        flat = pc.list_flatten(boxes).cast(pa.float64())
        return np.asarray(flat.to_numpy(zero_copy_only=False)).reshape(-1, 4)

    def _classes(self, column: Any) -> tuple[list[str], Ints]:
        """Class names and the label of each object: by the feature's own names, by words, or by bare numbers."""
        values = column.to_pylist()
        names = _names_of(self._rows.features["objects"], self._category)
        keys: Sequence[Any] = range(len(names or ()))
        if names is None and all(isinstance(value, str) and value for value in values):
            names = keys = sorted(set(values))
        elif names is None:
            keys = sorted({value for value in values if isinstance(value, int)})
            names = [str(value) for value in keys]
            if names:
                text = f"{self._source}: classes are bare numbers; give them names with labels=FILE"
                self.warnings.append(Warned("no-class-names", len(names), text))
        place = {key: i for i, key in enumerate(keys)}
        for row, value in enumerate(values):
            if not isinstance(value, (int, str)) or value not in place:
                what = f"{value!r:.60}, which is none of the {len(names)} classes"
                raise UnknownCategory(f"{self.where(row)}: {self._category!r} is {what}.")
        return names, np.array([place[value] for value in values], dtype=np.int64)

    def _sizes(self) -> Ints:
        """Width, height of each image where columns tell them, else 0."""
        if not {"width", "height"} <= set(self._table.column_names):
            return np.zeros((self._table.num_rows, 2), dtype=np.int64)
        sides = [self._table.column(name).to_pylist() for name in ("width", "height")]
        for row, pair in enumerate(zip(*sides, strict=True)):
            if not all(type(side) is int and 0 < side <= 1 << 20 for side in pair):
                raise BadRecord(f"{self._source}: row {row}: width and height should be pixels. Got {pair!r:.60}.")
        return np.array(sides, dtype=np.int64).reshape(2, -1).T

    def _image_ids(self) -> list[int | str]:
        """The column ``image_id`` where it tells images apart, else the number of the row."""
        count = self._table.num_rows
        given = self._table.column("image_id").to_pylist() if "image_id" in self._table.column_names else []
        good = all(type(value) in (int, str) for value in given) and len(set(map(str, given))) == count
        return given if good and count else list(range(count))


class _Pictures:
    """The column ``image``: bytes inside the data, or files below the folder ``root``."""

    def __init__(self, rows: Any, root: Path, source: str, undecoded: Any) -> None:
        self._source, self._root = source, root
        self.names: list[str] = []
        self.lengths: list[int] = []
        """Bytes of each image inside the data, 0 where it is a file: with the names they stand for the content."""
        with told(source, "datasets"):
            self._rows = rows.select_columns(["image"]).cast_column("image", undecoded)
            for batch in self._rows.with_format("arrow").iter(batch_size=1000):
                column = batch.column("image").combine_chunks()
                self.names += pc.struct_field(column, "path").to_pylist()
                self.lengths += pc.fill_null(pc.binary_length(pc.struct_field(column, "bytes")), 0).to_pylist()
        self.names = [self._named(row, name) for row, name in enumerate(self.names)]

    def _named(self, row: int, path: str | None) -> str:
        """The image's name below the folder; one that leads out of it stays as it is, and is refused when read."""
        if self.lengths[row]:
            return PurePath(path).name if path and PurePath(path).name else f"{row:06d}.png"
        if not path:
            raise BadRecord(f"{self._source}: row {row}: 'image' holds neither an image nor the path of one.")
        top = self._root.resolve()
        return PurePath(path).relative_to(top).as_posix() if PurePath(path).is_relative_to(top) else path

    def stored(self, row: int) -> Load | None:
        """The way to the bytes of an image that lies inside the data."""
        return partial(self._load, row) if self.lengths[row] else None

    def _load(self, row: int) -> bytes:
        with told(self._source, "datasets"):
            return bytes(self._rows[row]["image"]["bytes"])

    def measured(self) -> Ints:
        """Width and height of each image, 0 where unknown: by the headers of the first, which is enough to see that all
        boxes are in other coordinates."""
        sizes = np.zeros((len(self.names), 2), dtype=np.int64)
        for row in range(min(_MEASURED, len(sizes))):
            path, load = self._root / self.names[row], self.stored(row)
            with suppress(BadImage):  # said when it is looked at
                sizes[row] = (FileSource(path, self._root) if load is None else StoredSource(path, load)).measure()
        return sizes


def _names_of(feature: Any, key: str) -> list[str] | None:
    """The names of a ClassLabel at ``objects.key``, in whichever of the library's ways the lists are declared."""
    for _ in range(4):
        names = getattr(feature, "names", None)
        if names is not None:
            return [str(name) for name in names]
        inner = feature.get(key) if isinstance(feature, dict) else getattr(feature, "feature", None)
        feature = feature[0] if inner is None and isinstance(feature, list) and feature else inner
    return None


def _lengths(lists: Any) -> Ints:
    """How many entries each list has; none where it is null."""
    return np.asarray(pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False), dtype=np.int64)


def _is_list(kind: Any) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))
