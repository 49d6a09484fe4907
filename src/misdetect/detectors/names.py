"""Class names: the 80 of COCO, those in a file, and those an export carries in its own metadata.

A label is an index into these names, so their order is part of the detector. A file's order is kept; COCO annotation
files are read in the order of their category ids.
"""

import ast
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from misdetect.data.untrusted import parse, parse_yaml, read_bytes
from misdetect.said.errors import BadSpec

_COCO = (
    "person|bicycle|car|motorcycle|airplane|bus|train|truck|boat|traffic light|fire hydrant|stop sign|parking meter|"
    "bench|bird|cat|dog|horse|sheep|cow|elephant|bear|zebra|giraffe|backpack|umbrella|handbag|tie|suitcase|frisbee|"
    "skis|snowboard|sports ball|kite|baseball bat|baseball glove|skateboard|surfboard|tennis racket|bottle|wine glass|"
    "cup|fork|knife|spoon|bowl|banana|apple|sandwich|orange|broccoli|carrot|hot dog|pizza|donut|cake|chair|couch|"
    "potted plant|bed|dining table|toilet|tv|laptop|mouse|remote|keyboard|cell phone|microwave|oven|toaster|sink|"
    "refrigerator|book|clock|vase|scissors|teddy bear|hair drier|toothbrush"
)
COCO = tuple(_COCO.split("|"))
"""The 80 classes of COCO, in the order of their category ids."""

_UNUSED = {0, 12, 26, 29, 30, 45, 66, 68, 69, 71, 83}
COCO_IDS = tuple(i for i in range(91) if i not in _UNUSED)
"""The category ids of ``COCO``."""

_BY_ID = dict(zip(COCO_IDS, COCO, strict=True))
COCO91 = tuple(_BY_ID.get(i, f"unused {i}") for i in range(91))
"""COCO by category id, for networks (DETR, TensorFlow) whose labels are the ids themselves."""

_LIMIT = 4 << 20  # a list of names is small; anything larger is another kind of file
_METADATA_LIMIT = 1 << 20
_COCO_LIMIT = 1 << 30


def read_names(value: str, spec: str) -> tuple[str, ...]:
    """The names that the option ``names=value`` means: ``coco``, ``coco91``, or a file.

    A file holds one name per line, or is a YAML file with ``names`` (a YOLO ``data.yaml``), or a JSON list of names, or
    COCO JSON with ``categories``, or a label map of TensorFlow (``.pbtxt``), whose names are numbered by their ids.
    """
    if value in ("coco", "coco91"):
        return COCO if value == "coco" else COCO91
    path = Path(value)
    if not path.is_file():
        raise BadSpec(f"{spec!r}: names={value} is neither 'coco', 'coco91' nor a file that exists.")
    ending = path.suffix.lower()
    data = read_bytes(path, what="class names", largest=_COCO_LIMIT if ending == ".json" else _LIMIT)
    if ending == ".json":
        content = parse(data, path)
    elif ending in (".yaml", ".yml"):
        content = parse_yaml(data, path)
    elif ending == ".pbtxt":
        content = _label_map(data.decode("utf-8", errors="replace"), f"{spec!r}: {value}")
    else:
        try:
            content = [line.strip() for line in data.decode("utf-8-sig").splitlines() if line.strip()]
        except UnicodeDecodeError as error:
            raise BadSpec(f"{spec!r}: {value} cannot be read as class names: {error}.") from None
    return _names_in(content, f"{spec!r}: {value}")


_ITEM = re.compile(r"item\s*\{([^{}]*)\}")
_FIELD = re.compile(r"""\b(id|name|display_name)\s*:\s*(?:"([^"]*)"|'([^']*)'|(-?\d{1,9}))""")
_LARGEST_ID = 100_000


def _label_map(text: str, where: str) -> list[str]:
    """The names of a ``.pbtxt`` by their ids; an id that it leaves out is "unused"."""
    by_id: dict[int, str] = {}
    for item in _ITEM.findall(text):
        fields = {name: one or two or number for name, one, two, number in _FIELD.findall(item)}
        name, number = fields.get("display_name") or fields.get("name"), fields.get("id", "")
        if not name or not number.isdecimal() or int(number) > _LARGEST_ID or int(number) in by_id:
            raise BadSpec(f"{where}: expected items with an id of their own and a name. Got {item.strip()!r:.80}.")
        by_id[int(number)] = name
    return [by_id.get(i, f"unused {i}") for i in range(max(by_id, default=-1) + 1)]


def names_in_metadata(metadata: Mapping[str, str], spec: str) -> tuple[str, ...] | None:
    """The names in an ONNX file's metadata (``names``, as Ultralytics writes them), or ``None`` where it has none."""
    text = metadata.get("names", "")
    if not text:
        return None
    where = f"{spec!r}: the names in the file's metadata"
    if len(text) > _METADATA_LIMIT:
        raise BadSpec(f"{where} have {len(text)} characters; give names=FILE.")
    content = literal(text)
    if content is None:
        raise BadSpec(f"{where} are neither JSON nor a Python literal; give names=FILE.")
    return _names_in({"names": content}, where)


def literal(text: str) -> Any | None:
    """The value that ``text`` is as JSON or as a Python literal; ``None`` where it is neither."""
    for read in (json.loads, ast.literal_eval):
        with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
            return read(text)
    return None


def _names_in(content: Any, where: str) -> tuple[str, ...]:
    if isinstance(content, Mapping) and "categories" in content and "names" not in content:
        content = _categories(content["categories"], where)
    if isinstance(content, Mapping) and "names" in content:
        content = content["names"]
    if isinstance(content, Mapping):
        content = _indexed(content, where)
    if not isinstance(content, list | tuple) or not content:
        raise BadSpec(f"{where}: expected a list of class names. Got {type(content).__name__}.")
    for name in content:
        if not isinstance(name, str | int | float) or name == "" or name != name or not _is_text(str(name)):
            raise BadSpec(f"{where}: expected each class name to be text. Got {name!r:.60}.")
    return tuple(str(name) for name in content)


def _is_text(name: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in name)


def _indexed(content: Mapping[Any, Any], where: str) -> list[Any]:
    try:
        by_index = {int(index): name for index, name in content.items()}
    except (TypeError, ValueError, OverflowError):
        raise BadSpec(f"{where}: expected names by number, such as {{0: 'person'}}. Got other keys.") from None
    if sorted(by_index) != list(range(len(content))):
        found = ", ".join(str(index)[:12] for index in sorted(by_index)[:5])
        raise BadSpec(f"{where}: expected the numbers 0 to {len(content) - 1}. Got {found}.")
    return [by_index[i] for i in range(len(by_index))]


def _categories(categories: Any, where: str) -> list[Any]:
    try:
        return [c["name"] for c in sorted(categories, key=lambda c: c["id"])]
    except (TypeError, KeyError):
        raise BadSpec(f"{where}: expected 'categories' to be a list of objects with 'id' and 'name'.") from None
