"""Two searches from a failing insertion: relocate it as far as it still fails, and shrink it to the least that does.

Both are generators that are told whether an edit still fails, so that they know neither detector nor oracle.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace

import numpy as np

from misdetect.nouns.boxes import Floats
from misdetect.studies.fuzz.rows import Insertion

MOST_MOVES = 12
"""Questions a relocation asks at most."""
SHRINK_STEPS = 4
"""Halvings of the interval in which the smallest size, and then the lowest opacity, is looked for."""
LEAST = 0.15
"""The smallest size and opacity tried, as a share of the first."""
_LEAST_SIDE = 4

Search = Generator[Insertion, bool, "SearchResult"]
"""Yields an edit, is sent whether it fails, returns what it found."""


@dataclass(frozen=True)
class SearchResult:
    """The ``insertion`` a search ended with and how far it got: ``progress`` of a relocation, 0..1 of the way;
    ``strength`` of a shrunk edit: area times opacity, as a share of the first."""

    insertion: Insertion
    progress: float = 0.0
    strength: float = 1.0


def relocate(start: Insertion, destination: Floats, allowed: Callable[[Insertion], bool]) -> Search:
    """Move ``start`` towards ``destination`` (x, y of the object's centre) as far as it fails: paper 4's search.

    First all the way. Where the object fails, from there half of what is left of the way; where it does not (or may not
    lie there), half-way back to the last place where it did. It ends when a step, or what is left, is shorter than a
    sixth of the object's diagonal.
    """
    half = np.array(start.size) / 2
    origin, goal = np.array(start.at, dtype=np.float64), np.asarray(destination) - half
    whole, short = float(np.hypot(*(goal - origin))), float(np.hypot(*start.size)) / 6
    last, candidate = origin, goal
    reached = start
    for _ in range(MOST_MOVES):
        if float(np.hypot(*(candidate - last))) < short:
            break
        corner = np.rint(candidate).astype(int)
        moved = replace(start, at=(int(corner[0]), int(corner[1])))
        fails = allowed(moved) and (yield moved)
        if fails:
            last, reached = candidate, moved
            if float(np.hypot(*(goal - last))) < short:
                break
            candidate = (last + goal) / 2
        else:
            candidate = (last + candidate) / 2
    progress = float(np.hypot(*(last - origin))) / whole if whole > 0 else 1.0
    return SearchResult(reached, progress=progress)


def shrink(start: Insertion) -> Search:
    """The smallest, then the faintest version of ``start`` around the same centre that still fails."""
    best, factor, opacity = start, 1.0, 1.0
    low = LEAST
    for _ in range(SHRINK_STEPS):
        tried = float(np.sqrt(low * factor))
        smaller = _scaled(start, tried)
        if smaller is None or smaller == best:
            break
        if (yield smaller):
            best, factor = smaller, tried
        else:
            low = tried
    low = 0.0
    for _ in range(SHRINK_STEPS):
        middle = round((low + opacity) / 2, 4)
        if middle < LEAST:
            break
        fainter = replace(best, opacity=middle)
        if (yield fainter):
            best, opacity = fainter, middle
        else:
            low = middle
    area = best.size[0] * best.size[1] / (start.size[0] * start.size[1])
    return SearchResult(best, strength=area * opacity)


def _scaled(start: Insertion, factor: float) -> Insertion | None:
    """``start`` at ``factor`` of its size around its centre: within its own box, so it overlaps nothing new."""
    width, height = (max(1, round(factor * side)) for side in start.size)
    if min(width, height) < _LEAST_SIDE:
        return None
    x, y = start.at[0] + (start.size[0] - width) // 2, start.at[1] + (start.size[1] - height) // 2
    return replace(start, at=(x, y), size=(width, height))
