"""``hfdata:ID-OR-FOLDER[,split=NAME][,boxes=xywh|xyxy|cxcywh][,relative=yes]``: data of the ``datasets`` library.

The layout of its object detection data: a column ``image``, and a column ``objects`` with ``bbox`` and ``category`` per
object. A folder is one that ``save_to_disk`` wrote, one of Parquet files, or images beside a ``metadata.jsonl``;
anything else is an id on the Hub, which the library fetches. No code of a data set is ever run.
"""

import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from misdetect.data.dataset import Dataset, Warned
from misdetect.data.faults import BadRecord, CornersForSizes, Malformed, RelativeCoordinates, UnknownCategory
from misdetect.data.images import image_size, inside
from misdetect.data.sanity import check_frame, check_numbers, odd_boxes
from misdetect.data.table import Load, Objects, Table
from misdetect.nouns.boxes import Bools, Floats, Ints, cxcywh_to_xyxy, xywh_to_xyxy, xyxy_to_xywh
from misdetect.nouns.picture import digest
from misdetect.nouns.spec import Spec
from misdetect.said.errors import BadImage, BadSpec, MisdetectError, MissingExtra

_CATEGORIES = ("category", "categories", "label", "labels", "category_id")
"""What data sets call the column of classes, the first being the layout's own."""
_CROWD = ("iscrowd", "is_crowd")
_MEASURED = 100
"""Images whose headers are read at opening, to judge the boxes by, where no column tells their sizes."""


def load_hfdata(spec: Spec) -> Dataset:
    """Open ``hfdata:ID-OR-FOLDER``; see docs/data.md for the options."""
    split = spec.take("split", "")
    form = spec.take("boxes", "xywh", choices=("xywh", "xyxy", "cxcywh"))
    relative = spec.take("relative", False)
    spec.finish()
    rows, root = _opened(spec.target, split)
    columns = _Columns(rows, spec.target)
    pictures = _Pictures(rows, root, spec.target)
    frame = np.ones((len(columns.raw), 2)) if relative else _frame(columns, pictures)
    boxes = _checked(columns, frame, form, relative)
    keep, odd = odd_boxes(boxes, frame, columns.where, tolerance=0.01 if relative else 1.0)
    objects = Objects(
        image=columns.image,
        boxes=boxes,
        labels=columns.labels,
        ids=np.arange(1, len(boxes) + 1, dtype=np.int64),
        record=np.arange(len(boxes)),
        crowd=columns.crowd,
    ).take(np.flatnonzero(keep))
    table = Table(
        root,
        pictures.names,
        columns.image_ids,
        columns.sizes,
        objects,
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


def _frame(columns: "_Columns", pictures: "_Pictures") -> Floats:
    """Width and height of each object's image, 0 where unknown. Where no column tells them, the headers of the first
    images do, which is enough to see that all boxes are in other coordinates."""
    sizes = columns.sizes
    if not sizes.any():
        first = [pictures.measured(row) for row in range(min(_MEASURED, len(sizes)))]
        sizes = np.concatenate([np.array(first, dtype=np.int64).reshape(-1, 2), sizes[len(first) :]])
    return sizes[columns.image].astype(np.float64)


def _library() -> Any:
    try:
        return importlib.import_module("datasets")
    except ImportError:
        raise MissingExtra.named("hfdata:", "hfdata") from None


@contextmanager
def _told(target: str) -> Iterator[None]:
    """What goes wrong inside the library, as one sentence."""
    try:
        yield
    except MisdetectError:
        raise
    except Exception as error:  # it raises its own, those of its file systems, of Arrow and of HTTP
        why = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        raise Malformed(f"hfdata:{target} cannot be opened by the datasets library: {why:.300}.") from error


def is_fetched(target: str) -> bool:
    """Whether ``target`` is a folder, or was fetched from the Hub before."""
    home = os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface"
    hub = Path(os.environ.get("HF_HUB_CACHE") or Path(home) / "hub")
    return Path(target).exists() or (hub / f"datasets--{target.replace('/', '--')}").is_dir()


def _opened(target: str, split: str) -> tuple[Any, Path]:
    """The rows of one split, and the folder below which its image files must lie."""
    datasets, folder = _library(), Path(target)
    if not target or "\0" in target:
        raise BadSpec(f"Expected the id of a data set on the Hub, or a folder. Got {target!r}.")
    with _told(target):
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

    def __init__(self, rows: Any, target: str) -> None:
        self._target, self._rows, self.warnings = target, rows, list[Warned]()
        absent = [name for name in ("image", "objects") if name not in rows.column_names]
        if absent:
            raise Malformed(
                f"hfdata:{target} has the columns {', '.join(rows.column_names)}; expected 'image' and 'objects', with "
                f"'bbox' and 'category' for each object."
            )
        plain = [name for name in ("objects", "width", "height", "image_id") if name in rows.column_names]
        with _told(target):
            self._table = rows.select_columns(plain).with_format("arrow")[:]
            self._objects = self._table.column("objects").combine_chunks()
        self.image, fields = self._flat()
        self._category = next((name for name in _CATEGORIES if name in fields), "")
        if "bbox" not in fields or not self._category:
            raise Malformed(f"hfdata:{target}: 'objects' holds {', '.join(fields)}; expected 'bbox' and 'category'.")
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
        return f"hfdata:{self._target}: row {image}, object {row - int(np.searchsorted(self.image, image))}"

    def _flat(self) -> tuple[Ints, dict[str, Any]]:
        """For each object the row it belongs to, and its fields: of a struct of lists, or of a list of structs."""
        import pyarrow as pa
        import pyarrow.compute as pc

        column = self._objects
        if pa.types.is_struct(column.type):
            names = [field.name for field in column.type if _is_list(field.type)]
            parts = {name: pc.struct_field(column, name) for name in names}
            lengths = [_lengths(part) for part in parts.values()]
            for name, other in zip(names, lengths, strict=True):
                if not np.array_equal(other, lengths[0]):
                    row = int((other != lengths[0]).argmax())
                    raise BadRecord(
                        f"hfdata:{self._target}: row {row}: 'objects' has {lengths[0][row]} {names[0]!r} but "
                        f"{other[row]} {name!r}."
                    )
            fields = {name: pc.list_flatten(part) for name, part in parts.items()}
            counts = lengths[0] if lengths else np.zeros(len(column), dtype=np.int64)
        elif _is_list(column.type) and pa.types.is_struct(column.type.value_type):
            flat = pc.list_flatten(column)
            fields = {field.name: pc.struct_field(flat, field.name) for field in flat.type}
            counts = _lengths(column)
        else:
            raise Malformed(f"hfdata:{self._target}: 'objects' should hold 'bbox' and 'category'. Got {column.type}.")
        return np.repeat(np.arange(len(counts)), counts), fields

    def _numbers(self, boxes: Any) -> Floats:
        import pyarrow as pa
        import pyarrow.compute as pc

        lengths = _lengths(boxes) if _is_list(boxes.type) else None
        flat = None if lengths is None else pc.list_flatten(boxes)
        numeric = flat is not None and (pa.types.is_floating(flat.type) or pa.types.is_integer(flat.type))
        if len(boxes) and (not numeric or lengths is None):
            raise BadRecord(f"{self.where(0)}: 'bbox' should hold four numbers. Got {boxes.type}.")
        if not len(boxes) or lengths is None or flat is None:
            return np.zeros((0, 4))
        four = lengths == 4
        if not four.all():
            row = int((~four).argmax())
            raise BadRecord(f"{self.where(row)}: 'bbox' should hold four numbers. Got {boxes[row].as_py()!r:.60}.")
        numbers: Floats = flat.cast(pa.float64()).to_numpy(zero_copy_only=False).reshape(-1, 4)
        return numbers

    def _classes(self, column: Any) -> tuple[list[str], Ints]:
        """Class names and the label of each object: by the feature's own names, by words, or by bare numbers."""
        values = column.to_pylist()
        known = _names_of(self._rows.features["objects"], self._category)
        if known is not None:
            names: list[str] = known
            place: dict[Any, int] = {i: i for i in range(len(names))}
        elif all(isinstance(value, str) and value for value in values):
            names = sorted(set(values))
            place = {name: i for i, name in enumerate(names)}
        else:
            numbers = sorted({value for value in values if isinstance(value, int)})
            names, place = [str(value) for value in numbers], {value: i for i, value in enumerate(numbers)}
            if names:
                text = f"hfdata:{self._target}: classes are bare numbers; give them names with labels=FILE"
                self.warnings.append(Warned("no-class-names", len(names), text))
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
                raise BadRecord(
                    f"hfdata:{self._target}: row {row}: width and height should be pixels. Got {pair!r:.60}."
                )
        return np.array(sides, dtype=np.int64).reshape(2, -1).T

    def _image_ids(self) -> list[int | str]:
        """The column ``image_id`` where it tells images apart, else the number of the row."""
        count = self._table.num_rows
        given = self._table.column("image_id").to_pylist() if "image_id" in self._table.column_names else []
        good = all(type(value) in (int, str) for value in given) and len(set(map(str, given))) == count
        return given if good and count else list(range(count))


class _Pictures:
    """The column ``image``: bytes inside the data, or files below the folder ``root``."""

    def __init__(self, rows: Any, root: Path, target: str) -> None:
        import pyarrow.compute as pc

        self._target, self._root = target, root
        self.names: list[str] = []
        self.lengths: list[int] = []
        """Bytes of each image inside the data, 0 where it is a file: with the names they stand for the content."""
        with _told(target):
            self._rows = rows.select_columns(["image"]).cast_column("image", _library().Image(decode=False))
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
            raise BadRecord(f"hfdata:{self._target}: row {row}: 'image' holds neither an image nor the path of one.")
        top = self._root.resolve()
        return str(PurePath(path).relative_to(top)) if PurePath(path).is_relative_to(top) else path

    def stored(self, row: int) -> Load | None:
        """The way to the bytes of an image that lies inside the data."""
        return partial(self._load, row) if self.lengths[row] else None

    def _load(self, row: int) -> bytes:
        with _told(self._target):
            return bytes(self._rows[row]["image"]["bytes"])

    def measured(self, row: int) -> tuple[int, int]:
        """Width and height by the header of image ``row``; 0 where it cannot be read, which is said when it is."""
        path, load = self._root / self.names[row], self.stored(row)
        try:
            return image_size(inside(path, self._root)) if load is None else image_size(path, data=load())
        except BadImage:
            return 0, 0


def _checked(columns: _Columns, frame: Floats, form: str, relative: bool) -> Floats:
    """The boxes as corners, if they are in the coordinates that the options say; ``frame`` as in ``check_frame``."""
    raw = columns.raw
    boxes = {"xywh": xywh_to_xyxy, "xyxy": lambda same: same, "cxcywh": cxcywh_to_xyxy}[form](raw)
    sides = xyxy_to_xywh(raw) if form == "xyxy" else raw
    check_numbers(sides, columns.where)
    try:
        check_frame(sides, boxes, frame, columns.where, relative=relative, corners=form == "xyxy")
    except CornersForSizes as error:
        raise CornersForSizes(f"{error} Corners are read with the option boxes=xyxy.") from None
    except RelativeCoordinates as error:
        raise RelativeCoordinates(f"{error} Fractions are read with the option relative=yes.") from None
    return np.asarray(boxes, dtype=np.float64)


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
    import pyarrow.compute as pc

    return np.asarray(pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False), dtype=np.int64)


def _is_list(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))
