"""Charts as values, for the page and the app to draw: every mark has its number and the filter of the rows behind
it."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from misdetect.metrics.slices import BINS, rate_intervals
from misdetect.nouns.spec import name_of

Document = Mapping[str, Any]
Filter = dict[str, Any]
"""Columns with the values that a row may have there; ``wrong_at`` is a score: errors at that threshold."""
Counted = Callable[..., Counter[tuple[Any, ...]]]
"""Called with names of columns: how many rows of one study have each of the combinations of values that there are, the
first in the rows' order first; scores are rounded to four digits."""
Chart = dict[str, Any]
"""What ``front/`` draws, by its ``kind``; every one has a ``title`` and says what it is ``about``:

- bars: ``marks`` one below the other, to scale (``most``: the whole width), under ``group`` names where they have them;
  ``form`` is how their numbers are written ("percent" of shares in 0..1, "score"; else as they are)
- lines: ``series`` of ``points`` [x, y], with a ``band`` of [x, low, high]; one of a single point marks a place
- shares: a full bar for each of ``rows``, divided into ``parts`` by ``names``
- matrix: ``cells`` by ``rows`` and ``columns``, a histogram in those with ``bins``; or ``views``, matrices by name
- places: ``panels`` of boxes and ellipses as shares of an image
- curves, flow, heat, table: as the studies that make them say
"""
SIZES = BINS["size"][1]
SIZE_NAMES = {"small": "small, < 32² px", "medium": "medium", "large": "large, ≥ 96² px"}
_DRAWN = 4096
"""Images that are drawn again for an interval; where there are more, several are drawn together."""


def about(document: Document, *, text: str) -> str:
    """What the numbers of a chart are of."""
    return f"{called(document)}; {text}"


def called(document: Document) -> str:
    """Detector and data by their names, as a page has them."""
    return f"{name_of(document['detector'] or 'a detector')} on {name_of(document['data'])}"


def mark(name: str, value: float | None, behind: Filter | None = None, **more: Any) -> dict[str, Any]:
    """One mark: what it is called, its number, the filter of the rows behind it, if there are any."""
    return {"name": name, "value": value, "filter": behind, **more}


def cell(value: Any, behind: Filter | None = None, ends: Sequence[float] | None = None) -> dict[str, Any]:
    """A cell of a table: its value, the filter of the rows behind it, its interval."""
    return {"value": value, "filter": behind, "ends": None if ends is None else list(ends)}


Rate = tuple[int, int, float | None, tuple[float, float] | None]


def miss_rates(counted: Counted, column: str, names: Sequence[str]) -> dict[str, Rate]:
    """Of the objects of each name: how many there are, how many are missed, their share, and its interval."""
    rows = [(*key, n) for key, n in counted(column, "image", "outcome").items() if key[-1] != "extra"]
    if not rows:
        return dict.fromkeys(names, (0, 0, None, None))
    among = np.array([[n * (value == name) for name in names] for value, _, _, n in rows], dtype=np.float64)
    lost = among * np.array([[outcome != "found"] for _, _, outcome, _ in rows])
    image = np.unique([image for _, image, _, _ in rows], return_inverse=True)[1].reshape(-1)
    ends = rate_intervals(lost, among, image.astype(np.int64) % _DRAWN)
    counts, misses = (part.sum(axis=0).astype(int).tolist() for part in (among, lost))
    return {  # of 0 or all, images drawn again say nothing
        name: (n, m, m / n if n else None, ends[i] if 0 < m < n else None)
        for i, (name, n, m) in enumerate(zip(names, counts, misses, strict=True))
    }


def sizes(study: str, counted: Counted) -> dict[str, list[dict[str, Any]]]:
    """Cells of a table, by the size of objects: what it is called, how many objects there are, how many of them are
    missed, and their share."""
    found = {}
    for size, (count, lost, rate, ends) in miss_rates(counted, "size", SIZES).items():
        own: Filter = {"study": [study], "size": [size]}
        every, missed = own | {"outcome": ["found", "missed"]}, own | {"outcome": ["missed"]}
        found[size] = [cell(SIZE_NAMES[size], every), cell(count, every), cell(lost, missed), cell(rate, missed, ends)]
    return found
