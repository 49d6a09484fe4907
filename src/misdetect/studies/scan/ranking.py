"""Positions in the order of paper 1's figures: by the class-matching criterion |C_xy \\ C_∅|, then greedily.

"Each successive row shows a modified image with a transplanted object, along with detection of objects whose class did
not appear among the detected classes in the previous images." So the next row is the position that adds most classes
not seen in this column so far.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

from misdetect.engine.store import Run


@dataclass(frozen=True)
class Ranked:
    """A position of a pair, the detections there whose classes are new to the column, and what became of the clean
    image's own (``objects``)."""

    x: int
    y: int
    new: tuple[dict[str, Any], ...]
    objects: tuple[dict[str, Any], ...]


def ranked(run: Run, pair: int, most: int = 4, *, condition: str = "object") -> list[Ranked]:
    """At most ``most`` positions of ``pair``, each adding classes that neither the clean image nor an earlier one has;
    ties go to the higher summed score of what is new, then to the upper left."""
    rows = run.query(
        "SELECT x, y, new, objects FROM rows WHERE pair = ? AND condition = ? AND class_difference > 0 ORDER BY y, x",
        [pair, condition],
    ).to_pylist()
    seen = {thing["label"] for row in rows[:1] for thing in row["objects"]}
    chosen: list[Ranked] = []
    while rows and len(chosen) < most:
        best = max(rows, key=partial(_gain, seen=seen))
        fresh = tuple(thing for thing in best["new"] if thing["label"] not in seen)
        if not fresh:
            break
        chosen.append(Ranked(best["x"], best["y"], fresh, tuple(best["objects"])))
        seen = seen | {thing["label"] for thing in fresh}
    return chosen


def _gain(row: dict[str, Any], seen: set[str]) -> tuple[int, float]:
    """How many classes a position would add to those seen, and how surely."""
    fresh = [thing for thing in row["new"] if thing["label"] not in seen]
    return len({thing["label"] for thing in fresh}), sum(thing["score"] for thing in fresh)
