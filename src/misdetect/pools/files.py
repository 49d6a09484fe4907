"""A stored pool: ``pool.json``, one RGBA image per object below ``objects/``, and ``pool.png`` to look at.

An image is named by the hash of its content, so no file name is ever read from the JSON, and a file that has changed
is noticed. Everything is checked before it is believed: a pool may come from a stranger.
"""

import json
import re
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from misdetect.data.cutouts import Cutout
from misdetect.data.faults import BadRecord, Malformed
from misdetect.data.images import ImageCorrupt, ImageMissing, inside, pixel_limit
from misdetect.data.untrusted import parse, read_bytes
from misdetect.kept.files import open_regular
from misdetect.nouns.picture import Pixels
from misdetect.pools.sheet import sheet

MAX_PIXELS = 500_000_000
"""Pixels of all objects together; they are held in memory, four bytes each."""
_VERSION = 1
_KEY = re.compile(r"[0-9a-f]{32}")
_PNG = b"\x89PNG\r\n\x1a\n"
_FIELDS: dict[str, type] = {"spec": str, "settings": dict, "extracted": int, "dropped": dict, "notes": list}
_ENTRY: dict[str, type] = {"key": str, "label": str, "data": str, "sample": str, "source": str, "truth": int}


def write_folder(folder: Path, document: dict[str, Any], cutouts: Sequence[Cutout], sources: Sequence[str]) -> None:
    """Fill the empty ``folder`` with a pool; ``document`` holds what ``pool.json`` says beside its objects."""
    (folder / "objects").mkdir()
    entries = []
    for cutout, source in zip(cutouts, sources, strict=True):
        (folder / "objects" / f"{cutout.key}.png").write_bytes(_png(cutout.rgba))
        entry = {name: getattr(cutout, name) for name in _ENTRY if name != "source"}
        entries.append(entry | {"source": source, "at": list(cutout.at), "size": list(cutout.size)})
    text = json.dumps({"version": _VERSION, **document, "objects": entries}, indent=1, allow_nan=False)
    (folder / "pool.json").write_text(text + "\n", encoding="utf-8")
    (folder / "pool.png").write_bytes(_png(sheet(cutouts)))


def read_folder(folder: Path) -> tuple[dict[str, Any], list[Cutout], list[str]]:
    """What ``pool.json`` says beside its objects, the objects, and the keys of the photos they were cut from."""
    path = folder / "pool.json"
    document = parse(read_bytes(path, what="a pool written by misdetect pool"), path)
    if not isinstance(document, dict) or not isinstance(document.get("objects"), list):
        raise Malformed(f"{path} should hold a JSON object with a list 'objects'; is it a pool's?")
    if document.get("version") != _VERSION:
        raise Malformed(
            f"{path} has version {document.get('version')!r}, this misdetect reads {_VERSION}; build the pool again."
        )
    _check(document, _FIELDS, str(path))
    entries = document["objects"]
    left = MAX_PIXELS
    for number, entry in enumerate(entries):
        left -= _check_entry(entry, f"{path}, object {number}")
    if left < 0:
        raise Malformed(f"{path} lists objects of {MAX_PIXELS - left} pixels, more than the {MAX_PIXELS} it may hold.")
    cutouts = [_read(folder, entry) for entry in entries]
    return {name: document[name] for name in _FIELDS}, cutouts, [entry["source"] for entry in entries]


def _check(record: dict[str, Any], expected: dict[str, type], where: str) -> None:
    for name, kind in expected.items():
        value = record.get(name)
        if not isinstance(value, kind) or isinstance(value, bool):
            raise BadRecord(f"{where}: expected {name!r} to be {kind.__name__}. Got {str(value)[:60]!r}.")


def _check_entry(entry: Any, where: str) -> int:
    """Refuse an object's record that does not say what it should; its pixels."""
    if not isinstance(entry, dict):
        raise BadRecord(f"{where}: expected a JSON object. Got {type(entry).__name__}.")
    _check(entry, _ENTRY, where)
    if not _KEY.fullmatch(entry["key"]):
        raise BadRecord(f"{where}: expected 'key' to be 32 hexadecimal digits. Got {entry['key'][:60]!r}.")
    for name, low in (("at", 0), ("size", 1)):
        pair = entry.get(name)
        if not isinstance(pair, list) or len(pair) != 2 or not all(type(v) is int and v >= low for v in pair):
            raise BadRecord(f"{where}: expected {name!r} to be two whole numbers >= {low}. Got {str(pair)[:60]}.")
    pixels: int = entry["size"][0] * entry["size"][1]
    if pixels > pixel_limit():
        raise BadRecord(f"{where}: it has {pixels} pixels, above the limit of {pixel_limit()}.")
    return pixels


def _read(folder: Path, entry: dict[str, Any]) -> Cutout:
    path = folder / "objects" / f"{entry['key']}.png"
    width, height = entry["size"]
    try:
        with open_regular(inside(path, folder)) as file:
            data = file.read(_most_bytes(width, height) + 1)
    except FileNotFoundError:
        raise ImageMissing(f"{path} does not exist, but pool.json lists it; build the pool again.") from None
    except OSError as error:
        raise ImageCorrupt(f"{path} cannot be read: {error.strerror}.") from error
    # the header is compared before anything is decoded: a few bytes may claim to be gigapixels
    claimed = struct.unpack(">II", data[16:24]) if data.startswith(_PNG) and len(data) >= 24 else None
    rgba = _decoded(data) if claimed == (width, height) and len(data) <= _most_bytes(width, height) else None
    if rgba is not None and rgba.shape == (height, width, 4):
        at = entry["at"][0], entry["at"][1]
        cutout = Cutout(rgba, entry["label"], entry["data"], entry["sample"], entry["truth"], at)
        if cutout.key == entry["key"]:
            return cutout
    raise ImageCorrupt(
        f"{path} is not the {width}x{height} image of class {entry['label']!r} that pool.json lists under this key: "
        "one of the two is damaged or was changed; build the pool again."
    )


def _most_bytes(width: int, height: int) -> int:
    """No PNG of this size needs more, even one that does not compress."""
    return 65_536 + 5 * width * height


def _decoded(data: bytes) -> Pixels | None:
    try:
        pixels = cv2.imdecode(np.frombuffer(data, dtype=np.uint8), cv2.IMREAD_UNCHANGED)
    except cv2.error:
        return None
    if pixels is None or pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != 4:
        return None
    rgba: Pixels = cv2.cvtColor(pixels, cv2.COLOR_BGRA2RGBA)
    return rgba


def _png(pixels: Pixels) -> bytes:
    """``[H, W, 3 or 4]`` RGB(A) as PNG."""
    code = cv2.COLOR_RGBA2BGRA if pixels.shape[2] == 4 else cv2.COLOR_RGB2BGR
    return bytes(cv2.imencode(".png", cv2.cvtColor(pixels, code), [cv2.IMWRITE_PNG_COMPRESSION, 6])[1])
