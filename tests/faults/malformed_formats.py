"""Annotation files and stored predictions in which one field is missing, of another type, or absurd.

Every format, every field, every value. What is legal after all is listed by field; all else is bad input.
"""

import json
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from malformed_case import Case, Make
from malformed_masks import mask_cases
from malformed_world import (
    DEEP,
    DIGITS,
    MISSING,
    VOC,
    as_text,
    bikes_document,
    bikes_spec,
    coco,
    coco_document,
    photo,
    results_document,
    score_command,
    yolo_folder,
)

sys.path.insert(0, str(Path(__file__).parents[1] / "data"))
from test_bad_data import ERRORS, OTHERS, TEXTS, WARNINGS, good, write

VALUES: dict[str, Any] = {
    "missing": MISSING,
    "null": None,
    "true": True,
    "no text": "",
    "a word": "seven",
    "nan": math.nan,
    "infinity": math.inf,
    "minus infinity": -math.inf,
    "1e308": 1e308,
    "minus one": -1,
    "a half": 0.5,
    "2**63": 2**63,
    "10**400": 10**400,
    "5,000 digits": DIGITS,
    "a list": [],
    "an object": {},
    "nested": json.loads("[" * 300 + "]" * 300),
    "nested deep": DEEP,
    "a lone surrogate": "\ud800",
    "nul": "a\0b",
    "an escape": "\x1b[2Jx\x9b31m",
}
WORDS = {"no text", "a word", "nul", "an escape"}
"""Values that are text; a lone surrogate is none."""


def with_value(record: Any, path: tuple[Any, ...], value: object) -> None:
    """Set, or for ``MISSING`` remove, what ``path`` leads to."""
    *way, last = path
    for step in way:
        record = record[step]
    if value is MISSING:
        del record[last]
    else:
        record[last] = value


COCO: dict[tuple[Any, ...], set[str]] = {
    ("images",): {"a list"},
    ("annotations",): {"missing", "a list"},
    ("categories",): set(),
    ("images", 0, "id"): WORDS | {"minus one"},
    ("images", 0, "file_name"): {"a word", "an escape"},
    ("images", 0, "width"): {"missing", "null", "no text", "a list", "an object"},
    ("images", 0, "height"): {"missing", "null", "no text", "a list", "an object"},
    ("categories", 0, "id"): set(),
    ("categories", 0, "name"): {"a word", "nul", "an escape"},
    ("annotations", 0, "id"): set(VALUES) - {"nested deep", "5,000 digits", "a lone surrogate"},
    ("annotations", 0, "image_id"): WORDS | {"minus one"},
    ("annotations", 0, "category_id"): set(),
    ("annotations", 0, "bbox"): set(),
    ("annotations", 0, "bbox", 0): {"minus one", "a half"},
    ("annotations", 0, "bbox", 1): {"minus one", "a half"},
    ("annotations", 0, "bbox", 2): {"a half"},
    ("annotations", 0, "bbox", 3): {"a half"},
    ("annotations", 0, "area"): {"missing", "null", "a half"},
    ("annotations", 0, "iscrowd"): {"missing", "null", "true"},
    ("annotations", 0, "segmentation"): {"missing", "null", "a list"},
}
"""By field, the values with which the file can still be read; ``data`` then ends with 0 and a warning at most."""


def coco_cases() -> Iterator[Case]:
    for path, legal in COCO.items():
        for name, value in VALUES.items():

            def make(folder: Path, path: tuple[Any, ...] = path, value: object = value) -> list[str]:
                document = coco_document()
                with_value(document, path, value)
                return ["data", coco(folder, document), "--masks"]

            yield Case("coco", f"{_dotted(path)} is {name}", make, (0,) if name in legal else (2,))


def table_cases() -> Iterator[Case]:
    """What the tests of the readers have, now by way of the command."""
    for name, (change, _, sentence) in ERRORS.items():
        yield Case("coco", f"in the tests: {name}", _changed(change), says=sentence)
    for name, (change, _, _, _) in WARNINGS.items():
        yield Case("coco", f"in the tests: {name}", _changed(change), (0,))
    for name, text in TEXTS.items():
        yield Case("coco", f"text: {name}", lambda folder, text=text: ["data", write(folder, text)])
    for name, (build, _, sentence) in OTHERS.items():
        yield Case("others", name, lambda folder, build=build: ["data", build(folder)], says=sentence)


def _changed(change: Callable[[Any], object]) -> Make:
    def make(folder: Path) -> list[str]:
        document = good()
        change(document)
        return ["data", write(folder, document)]

    return make


def _dotted(path: tuple[Any, ...]) -> str:
    return ".".join(map(str, path))


_HINT = set(VALUES) - {"nested deep", "5,000 digits", "a lone surrogate"}
_BOX = ("1.png", "parts", "bell", "absolute_bounding_box")
BIKES: dict[tuple[Any, ...], set[str]] = {
    ("1.png",): {"missing"},
    ("1.png", "image"): _HINT,
    ("1.png", "image", "width"): _HINT,
    ("1.png", "parts"): {"an object"},
    ("1.png", "parts", "bell"): {"missing"},
    ("1.png", "parts", "bell", "object_state"): set(),
    _BOX: set(),
    (*_BOX, "left"): {"minus one", "a half"},
    (*_BOX, "width"): {"a half"},
}


def bikes_cases() -> Iterator[Case]:
    for path, legal in BIKES.items():
        for name, value in VALUES.items():

            def make(folder: Path, path: tuple[Any, ...] = path, value: object = value) -> list[str]:
                document = bikes_document()
                with_value(document, path, value)
                return ["data", bikes_spec(folder, document)]

            yield Case("delftbikes", f"{_dotted(path)} is {name}", make, (0,) if name in legal else (2,))


TEXT_VALUES: dict[str, bytes] = {
    "nothing": b"",
    "a word": b"seven",
    "nan": b"nan",
    "infinity": b"inf",
    "1e308": b"1e308",
    "1e999": b"1e999",
    "minus one": b"-1",
    "a half": b"0.5",
    "2**64": str(2**64).encode(),
    "5,000 digits": b"9" * 5_000,
    "underscores": b"1_0",
    "other digits": "١٢".encode(),
    "not utf-8": b"\xff\xfe",
    "an escape": b"\x1b[2J",
    "c1": "\x9b31m".encode(),
}
_BROKEN = {"not utf-8", "an escape"}  # no XML at all
VOC_FIELDS: dict[str, tuple[str, set[str]]] = {
    "filename": ("1.png", set(TEXT_VALUES) - _BROKEN - {"5,000 digits"}),
    "width": ("64", {"nothing"}),
    "height": ("48", {"nothing"}),
    "name": ("dog", set(TEXT_VALUES) - _BROKEN - {"nothing"}),
    "difficult": ("0", set(TEXT_VALUES) - _BROKEN),
    "xmin": ("4", {"a half", "minus one"}),
    "ymin": ("6", {"a half", "minus one"}),
    "xmax": ("40", set()),
    "ymax": ("30", set()),
}


def voc_cases() -> Iterator[Case]:
    for field in VOC_FIELDS:
        legal = VOC_FIELDS[field][1]
        for name, value in TEXT_VALUES.items():

            def make(folder: Path, field: str = field, value: bytes = value) -> list[str]:
                photo(folder / "1.png")
                values = [value if f == field else usual.encode() for f, (usual, _) in VOC_FIELDS.items()]
                (folder / "1.xml").write_bytes(VOC.encode() % tuple(values))
                return ["data", f"voc:{folder}"]

            yield Case("voc", f"{field} is {name}", make, (0,) if name in legal else (2,))


YOLO_YAML: dict[str, set[str]] = {
    "names": set(),
    "nc": {"missing"},
    "val": set(),
    # a folder that is not there is passed over; to YAML, NaN and 1e308 are words
    "path": {"missing", "null", "no text", "a word", "an escape", "nan", "infinity", "minus infinity", "1e308"},
}
YOLO_LINE = (
    ("class", "1", {"nothing"}),
    ("x", ".5", {"a half", "nothing", "minus one"}),  # one box outside its image is left out and counted
    ("y", ".5", {"a half", "nothing", "minus one"}),
    ("w", ".2", {"a half", "nothing"}),
    ("h", ".2", {"a half", "nothing"}),
)


def yolo_cases() -> Iterator[Case]:
    for place, (field, _, legal) in enumerate(YOLO_LINE):
        for name, value in TEXT_VALUES.items():

            def make(folder: Path, place: int = place, value: bytes = value) -> list[str]:
                words = [usual.encode() for _, usual, _ in YOLO_LINE]
                words[place] = value
                return ["data", yolo_folder(folder, b" ".join(words)), "--masks"]

            good_value = name in legal and name != "nothing"
            yield Case("yolo", f"{field} is {name}", make, (0,) if good_value else (2,))
    for key, allowed in YOLO_YAML.items():
        for name, value in VALUES.items():

            def make_yaml(folder: Path, key: str = key, value: object = value) -> list[str]:
                settings: dict[str, Any] = {"names": ["dog", "cat"], "nc": 2, "path": ".", "val": "images"}
                with_value(settings, (key,), value)
                return ["data", yolo_folder(folder, settings=settings)]

            yield Case("yolo", f"{key} is {name}", make_yaml, (0,) if name in allowed else (2,))


RESULTS: dict[tuple[Any, ...], set[str]] = {
    (0,): {"missing"},
    (0, "image_id"): set(),
    (0, "category_id"): set(),
    (0, "bbox"): set(),
    (0, "bbox", 0): {"minus one", "a half"},
    (0, "bbox", 1): {"minus one", "a half"},
    (0, "bbox", 2): {"a half"},
    (0, "bbox", 3): {"a half"},
    (0, "score"): {"a half"},
    (0, "segmentation"): set(),  # scored by masks
}


def results_cases() -> Iterator[Case]:
    for path, legal in RESULTS.items():
        for name, value in VALUES.items():

            def make(folder: Path, path: tuple[Any, ...] = path, value: object = value) -> list[str]:
                records = results_document()
                with_value(records, path, value)
                by_mask = ["--masks"] if "segmentation" in path else []
                return [*score_command(folder, records), *by_mask]

            codes = (0,) if name in legal else (2,)
            yield Case("results", f"{_dotted(path)} is {name}", make, codes)
    for name, text in {**TEXTS, "an annotation file": as_text(coco_document()), "words": '["a"]'}.items():
        codes = (0,) if name == "a list" else (2,)
        yield Case("results", f"text: {name}", lambda folder, text=text: score_command(folder, text), codes)


def format_cases() -> Iterator[Case]:
    yield from table_cases()
    yield from coco_cases()
    yield from bikes_cases()
    yield from voc_cases()
    yield from yolo_cases()
    yield from results_cases()
    yield from mask_cases()
