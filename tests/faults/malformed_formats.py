"""Annotation files and stored predictions in which one field is missing, of another type, or absurd.

Every format, every field, every value. What is legal after all is listed by field; all else is bad input.
"""

import json
import math
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from malformed_case import Case, Make
from PIL import Image

sys.path.insert(0, str(Path(__file__).parents[1] / "data"))
from test_bad_data import ERRORS, MASKS, OTHERS, TEXTS, WARNINGS, good, write

MISSING = object()
DEEP, DIGITS = "@deep@", "@digits@"
"""Stand for what ``json.dumps`` cannot write: 60,000 lists in each other, and a number of 5,000 digits."""
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


def as_text(document: object) -> str:
    text = json.dumps(document)
    return text.replace(json.dumps(DEEP), "[" * 60_000 + "]" * 60_000).replace(json.dumps(DIGITS), "9" * 5_000)


def with_value(record: Any, path: tuple[Any, ...], value: object) -> None:
    """Set, or for ``MISSING`` remove, what ``path`` leads to."""
    *way, last = path
    for step in way:
        record = record[step]
    if value is MISSING:
        del record[last]
    else:
        record[last] = value


def photo(path: Path, width: int = 64, height: int = 48) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.effect_noise((width, height), 60).convert("RGB").save(path)


# COCO: two images of 64x48, two classes, four objects
def coco_document() -> dict[str, Any]:
    return {
        "images": [{"id": i, "file_name": f"{i}.png", "width": 64, "height": 48} for i in (1, 2)],
        "categories": [{"id": 5, "name": "dog"}, {"id": 7, "name": "cat"}],
        "annotations": [
            {
                "id": 10 + i,
                "image_id": 1 + i % 2,
                "category_id": (5, 7)[i // 2],
                "bbox": [4 + 8 * i, 6, 20, 24],
                "area": 400,
                "iscrowd": 0,
                "segmentation": [[4, 6, 24, 6, 24, 30, 4, 30]],
            }
            for i in range(4)
        ],
    }


def coco(folder: Path, document: object) -> str:
    """``document`` (or its text) as a COCO file beside its photos; its spec."""
    for name in ("1.png", "2.png"):
        photo(folder / "images" / name)
    path = folder / "instances.json"
    path.write_text(document if isinstance(document, str) else as_text(document), encoding="utf-8")
    return f"coco:{path}"


_NUMBERED = {"2**63"}
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


# DelftBikes
def bikes_document() -> dict[str, Any]:
    box = {"left": 4, "top": 6, "width": 20, "height": 24}
    parts = {name: {"object_state": "intact", "absolute_bounding_box": dict(box)} for name in ("bell", "saddle")}
    return {"1.png": {"image": {"width": 64, "height": 48}, "parts": parts}}


def bikes_spec(folder: Path, document: object) -> str:
    photo(folder / "images" / "1.png")
    (folder / "bikes.json").write_text(as_text(document))
    return f"delftbikes:{folder / 'bikes.json'}"


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


# VOC and YOLO hold text
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
VOC = (
    "<annotation><filename>%s</filename><size><width>%s</width><height>%s</height></size><object><name>%s</name>"
    "<difficult>%s</difficult><bndbox><xmin>%s</xmin><ymin>%s</ymin><xmax>%s</xmax><ymax>%s</ymax></bndbox></object></annotation>"
)
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


def yolo_folder(folder: Path, line: bytes = b"0 .5 .5 .2 .2", settings: object = None) -> str:
    photo(folder / "images" / "1.png")
    (folder / "labels").mkdir()
    (folder / "labels" / "1.txt").write_bytes(line)
    usual = {"names": ["dog", "cat"], "nc": 2, "path": ".", "val": "images"}
    text = as_text(usual if settings is None else settings)  # JSON is YAML too, but for escapes in pairs
    text = re.sub(r"\\ud[89ab]..\\ud[c-f]..", lambda pair: json.loads(f'"{pair[0]}"'), text)
    (folder / "data.yaml").write_text(text, encoding="utf-8")
    return f"yolo:{folder / 'data.yaml'}"


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


# Stored predictions
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


def results_document() -> list[dict[str, Any]]:
    return [
        {
            "image_id": 1 + i % 2,
            "category_id": (5, 7)[i // 2],
            "bbox": [4 + 8 * i, 6, 20, 24],
            "score": 0.9 - 0.1 * i,
            "segmentation": [[4, 6, 24, 6, 24, 30, 4, 30]],
        }
        for i in range(4)
    ]


def score_command(folder: Path, records: object) -> list[str]:
    """``score`` of ``records`` (or their text)."""
    truth = coco(folder, coco_document())
    text = records if isinstance(records, str) else as_text(records)
    (folder / "results.json").write_text(text, encoding="utf-8")
    return ["score", "--truth", truth, "--predictions", str(folder / "results.json")]


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


# Masks
RUNS: dict[str, object] = {
    "2**20 x 2**20": {"size": [2**20, 2**20], "counts": [0, 2**40]},
    "2**20 x 2**20, compressed": {"size": [2**20, 2**20], "counts": "0" + "o" * 8 + "1"},
    "its size, 2**40 pixels": {"size": [48, 64], "counts": [0, 2**40]},
    "2**31 pixels": {"size": [48, 64], "counts": [0, 2**31]},
    "2**32 pixels": {"size": [48, 64], "counts": [0, 2**32 + 3072]},
    "2**63 pixels": {"size": [48, 64], "counts": [0, 2**63]},
    "10**30 pixels": {"size": [48, 64], "counts": [0, 10**30]},
    "many too many": {"size": [48, 64], "counts": [2**31] * 64},
    "negative": {"size": [48, 64], "counts": [-1, 3073]},
    "negative later": {"size": [48, 64], "counts": [3000, -5, 77]},
    "fractions": {"size": [48, 64], "counts": [0.5, 3071.5]},
    "nan": {"size": [48, 64], "counts": [math.nan]},
    "too few": {"size": [48, 64], "counts": [5]},
    "none": {"size": [48, 64], "counts": []},
    "null": {"size": [48, 64], "counts": None},
    "no text": {"size": [48, 64], "counts": ""},
    "compressed, endless": {"size": [48, 64], "counts": "o" * 40},
    "compressed, huge": {"size": [48, 64], "counts": "0" + "o" * 5 + "O"},
    "compressed, half a number": {"size": [48, 64], "counts": "P"},
    "compressed, below zero": {"size": [48, 64], "counts": "0OO0"},
    "compressed, junk": {"size": [48, 64], "counts": "\x7f\x01 ~~"},
    "compressed, not ascii": {"size": [48, 64], "counts": "é漢"},
    "compressed, many": {"size": [48, 64], "counts": "00" * 500_000},
    "nested": {"size": [48, 64], "counts": [[1], [2]]},
    "words": {"size": [48, 64], "counts": ["a"]},
    "size of one": {"size": [48], "counts": [0, 3072]},
    "size of words": {"size": ["48", "64"], "counts": [0, 3072]},
    "size negative": {"size": [-48, -64], "counts": [0, 3072]},
    "size fractions": {"size": [48.5, 64], "counts": [0, 3072]},
    "size swapped": {"size": [64, 48], "counts": [0, 3072]},
    "size zero": {"size": [0, 0], "counts": []},
    "size nan": {"size": [math.nan, 64], "counts": [0, 3072]},
    "odd polygon": [[1, 2, 3, 4, 5, 6, 7]],
    "polygon of nothing": [[]],
    "polygon of a point": [[1, 2]],
    "polygon to the moon": [[0, 0, 1e12, 0, 1e12, 1e12]],
    "polygon of 1e308": [[0, 0, 1e308, 0, 1e308, 1e308]],
    "polygon of nan": [[0, 0, math.nan, 0, 9, 9]],
    "polygon of 10**400": [[0, 0, 10**400, 0, 9, 9]],
    "polygon below": [[-1e9, -1e9, 5, 5, 9, 9]],
    "polygon of a million": [[float(i % 60) for i in range(1_000_000)]],
    "a hundred thousand polygons": [[1, 1, 9, 1, 9, 9]] * 100_000,
    "polygon of words": [["a", "b", "c", "d", "e", "f"]],
    "polygon, flat": [1, 2, 30, 4, 30, 30],
    "polygons, nested": [[[1, 2, 3, 4, 5, 6]]],
}
_READ = {
    "none",
    "no text",
    "polygon of nothing",
    "polygon of a point",
    "polygon of a million",
    "polygon, flat",
    "a hundred thousand polygons",
    "too few",
}
_REFUSED = {"null", "polygon of nan", "polygon of words", "polygons, nested"}
"""Refused at opening; what else is wrong is seen when a mask is looked at, and ``data`` counts it."""


def mask_cases() -> Iterator[Case]:
    for name, segment in {**RUNS, **MASKS}.items():
        if isinstance(segment, str):
            continue

        def document(segment: object = segment) -> dict[str, Any]:
            made = coco_document()
            made["annotations"][0]["segmentation"] = segment
            return made

        def look(folder: Path, document: Callable[[], Any] = document) -> list[str]:
            return ["data", coco(folder, document()), "--masks"]

        def write_out(folder: Path, document: Callable[[], Any] = document) -> list[str]:
            return ["data", coco(folder, document()), "--out", str(folder / "exported")]

        def cut(folder: Path, document: Callable[[], Any] = document) -> list[str]:
            data = coco(folder, document())
            return ["pool", "--data", data, "--out", str(folder / "objects"), "--min-side", "0", "--no-cache"]

        def compare(folder: Path, segment: object = segment) -> list[str]:
            records = results_document()
            records[0]["segmentation"] = segment
            return [*score_command(folder, records), "--masks"]

        def bare(folder: Path, segment: object = segment) -> list[str]:
            records = results_document()
            records[0]["segmentation"] = segment
            del records[0]["bbox"]
            return score_command(folder, records)

        fine = name in _READ
        yield Case("masks", f"data: {name}", look, (2,) if name in _REFUSED else (0,))
        yield Case("masks", f"data --out: {name}", write_out, (0,) if fine else (2,), ("exported",))
        yield Case("masks", f"pool: {name}", cut, (0, 2), ("objects",))
        scored = fine and name != "polygon, flat"  # in results, four numbers in a row are a box
        yield Case("masks", f"score --masks: {name}", compare, (0,) if scored else (2,))
        yield Case("masks", f"score, no box: {name}", bare, (0, 2) if isinstance(segment, dict) else (2,))


def format_cases() -> Iterator[Case]:
    yield from table_cases()
    yield from coco_cases()
    yield from bikes_cases()
    yield from voc_cases()
    yield from yolo_cases()
    yield from results_cases()
    yield from mask_cases()
