"""What a TensorFlow Lite file says of itself beside its graph: class names in the zip archive at its end, and how the
image is to be given to it in the metadata inside (``TFLITE_METADATA``, metadata_schema.fbs of TensorFlow Lite Support).

All of it is a stranger's: read within bounds, never written to disk, and what cannot be read is not there.
"""

import struct
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from misdetect.detectors.names import literal
from misdetect.detectors.onnx.metadata import Metadata, as_texts
from misdetect.said.errors import BadSpec

_LIMIT = 4 << 20
_MEMBERS = 100


def metadata_beside(path: Path, spec: str) -> Metadata:
    """What is in the zip archive at the file's end: Ultralytics' metadata, or a list of labels."""
    if not zipfile.is_zipfile(path):
        return Metadata()
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()[:_MEMBERS]
            texts = {info.filename: _text(archive, info) for info in members if info.file_size <= _LIMIT}
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, OSError) as error:
        raise BadSpec(f"{spec!r}: the files inside the model cannot be read ({error}); give names=FILE.") from None
    for text in texts.values():
        if text.lstrip().startswith("{") and (found := Metadata.of(as_texts(literal(text)), spec)).names is not None:
            return found
    lists = [name for name in texts if name.lower().endswith(".txt") and not texts[name].lstrip().startswith("{")]
    labels = [name for name in lists if "label" in name.lower()] or lists
    lines = _lines(texts[labels[0]]) if len(labels) == 1 else []
    return Metadata(tuple(lines) or None)


def _text(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> str:
    with archive.open(info) as file:
        return file.read(_LIMIT).decode("utf-8-sig", errors="replace")


def _lines(text: str) -> Sequence[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


_NAME = b"TFLITE_METADATA"
_GRAPHS, _INPUTS, _CONTENT, _UNITS = 3, 2, 3, 4
"""Fields of the tables, by their place in the schema: the model's graphs, a graph's inputs, what an input is, and what
is done to it."""
_NORMALIZATION, _IMAGE, _RGB = 1, 2, 1
"""Which of a union's tables it is; a colour space."""


def convention_inside(model: Any) -> dict[str, str]:
    """The options ``scale``, ``mean``, ``std`` and ``colour`` that the metadata of ``model`` (the schema's ``Model``)
    states; ``NormalizationOptions`` are in steps of a pixel."""
    named = [model.Metadata(i) for i in range(min(model.MetadataLength(), _MEMBERS))]
    buffer = next((each.Buffer() for each in named if each.Name() == _NAME), None)
    if buffer is None or buffer >= model.BuffersLength() or model.Buffers(buffer).DataIsNone():
        return {}
    try:
        return _convention(model.Buffers(buffer).DataAsNumpy().tobytes())
    except (struct.error, IndexError, ValueError, TypeError, OverflowError):  # offsets that lead nowhere
        return {}


def _convention(data: bytes) -> dict[str, str]:
    from flatbuffers.table import Table

    (root,) = struct.unpack_from("<I", data)
    image = _tables(_tables(Table(data, root), _GRAPHS)[0], _INPUTS)[0]
    options: dict[str, str] = {}
    for unit in _tables(image, _UNITS):
        if (found := _union(unit, _NORMALIZATION)) and (mean := _floats(found, 0)) and (std := _floats(found, 1)):
            options |= {"scale": "1", "mean": mean, "std": std}
    content = _table(image, _CONTENT)
    if content and (properties := _union(content, _IMAGE)) and _byte(properties, 0) == _RGB:
        options["colour"] = "rgb"
    return options


def _offset(table: Any, field: int) -> int:
    return int(table.Offset(4 + 2 * field))


def _byte(table: Any, field: int) -> int:
    at = _offset(table, field)
    return int(table.Bytes[table.Pos + at]) if at else 0


def _table(table: Any, field: int) -> Any:
    at = _offset(table, field)
    return type(table)(table.Bytes, table.Indirect(table.Pos + at)) if at else None


def _tables(table: Any, field: int) -> list[Any]:
    at = _offset(table, field)
    count = min(table.VectorLen(at), _MEMBERS) if at else 0
    return [type(table)(table.Bytes, table.Indirect(table.Vector(at) + 4 * i)) for i in range(count)]


def _union(table: Any, wanted: int) -> Any:
    """The table of the first union of ``table``, if it is the ``wanted`` one."""
    return _table(table, 1) if _byte(table, 0) == wanted else None


def _floats(table: Any, field: int) -> str:
    """One number, or one for each channel, as an option."""
    at = _offset(table, field)
    count = table.VectorLen(at) if at else 0
    if count not in (1, 3):
        return ""
    return ",".join(repr(value) for value in struct.unpack_from(f"<{count}f", table.Bytes, table.Vector(at)))
