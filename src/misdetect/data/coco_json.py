"""Reading a COCO annotation file without turning its polygons into Python objects.

Nine tenths of a COCO file are polygon coordinates that most runs never look at. They are lifted out of the text first
and kept as text, so that the parser sees only the rest: opening is faster than ``json.load`` and needs less memory.
Nothing here knows what a record means; that is ``misdetect.data.coco``.
"""

import json
import re
from pathlib import Path
from typing import Any, Final

import numpy as np

from misdetect.data.faults import Malformed
from misdetect.data.untrusted import parse, read_bytes
from misdetect.nouns.boxes import Ints

POLYGONS: Final = "misdetect:polygons"
"""Key of a record whose polygons were lifted out; its value is their number in the ``PolygonText``."""

# A list of lists of numbers after the key. A quote inside a JSON string is always escaped, so the key cannot match
# within one; possessive repeats keep hostile text linear. What is unusual (NaN) does not match and is parsed as usual.
_NUMBERS = rb"[\d\s.,eE+\-]*+"
_SEGMENTATION = re.compile(
    rb'"segmentation"\s*+:\s*+(\[\s*+\[' + _NUMBERS + rb"\](?:\s*+,\s*+\[" + _NUMBERS + rb"\])*+\s*+\])"
)


class PolygonText:
    """The polygons of a file, as JSON text in one block of bytes."""

    def __init__(self, text: bytes, ends: Ints) -> None:
        self._text, self._ends = text, ends

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, index: int) -> list[list[float]]:
        """The polygons number ``index``; a ``ValueError`` if they are not numbers after all."""
        start = int(self._ends[index - 1]) if index else 0
        polygons: list[list[float]] = json.loads(self._text[start : self._ends[index]])
        return polygons


def read_coco(path: Path) -> tuple[dict[str, Any], PolygonText, bytes]:
    """The document of a COCO file, its polygons lifted out, and the file's bytes."""
    data = read_bytes(path, what="a COCO annotation file")
    encoding = json.detect_encoding(data)
    if encoding not in ("utf-8", "utf-8-sig"):
        data = _as_utf8(data, encoding, path)
    blocks: list[bytes] = []

    def lift(found: re.Match[bytes]) -> bytes:
        blocks.append(found[1])
        return b'"segmentation":null,"%b":%d' % (POLYGONS.encode(), len(blocks) - 1)

    rest = _SEGMENTATION.sub(lift, data)
    ends = np.cumsum([len(block) for block in blocks], dtype=np.int64)
    document = parse(rest, path)
    if not isinstance(document, dict):
        raise Malformed(f"{path} should hold a JSON object with 'images' and 'annotations'. Got {_kind(document)}.")
    return document, PolygonText(b"".join(blocks), ends), data


def _as_utf8(data: bytes, encoding: str, path: Path) -> bytes:
    try:
        return data.decode(encoding).encode()
    except UnicodeDecodeError as error:
        raise Malformed(f"{path} is not valid JSON: {error}.") from None


def _kind(value: object) -> str:
    return {list: "a list", str: "a string", type(None): "null"}.get(type(value), "a number")
