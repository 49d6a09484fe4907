"""Masks that are none: run lengths that declare a terabyte, go below zero or never end, polygons to the moon.

Each is met by whoever looks at masks: ``data``, its export, ``pool`` and ``score``.
"""

import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from malformed_case import Case
from malformed_world import coco, coco_document, results_document, score_command

sys.path.insert(0, str(Path(__file__).parents[1] / "data"))
from test_bad_data import MASKS

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
    yield Case(
        "masks", "data: an image that says it is 2**20 x 2**20 too", lambda f: ["data", _vast(f), "--masks"], (0,)
    )
    yield Case("masks", "data --out: an image that says it is 2**20 x 2**20 too", lambda f: _vast_out(f), (2,))


def _vast(folder: Path) -> str:
    """Data in which a mask of a terabyte has the size of its image, as declared."""
    made = coco_document()
    made["images"][0] |= {"width": 2**20, "height": 2**20}
    made["annotations"][0]["segmentation"] = RUNS["2**20 x 2**20"]
    return coco(folder, made)


def _vast_out(folder: Path) -> list[str]:
    return ["data", _vast(folder), "--out", str(folder / "exported")]
