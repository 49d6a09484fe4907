"""Find a failure near a spot: fuzz's adaptive strategy, kept to a part of the photo and to one object.

Rounds are small, since somebody waits. A failure counts as found when null controls have cleared it (it is the object's
doing, not that of pasting) and the annotations do not call it an improvement.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from misdetect.app.table import LEAST_SIDE, Seen, Table
from misdetect.metrics.harm import IMPROVEMENT
from misdetect.studies.fuzz.adaptive import Adaptive
from misdetect.studies.fuzz.reach import Background, Offer
from misdetect.studies.fuzz.rows import Insertion
from misdetect.studies.fuzz.settings import WIDEST

MOST = 80
"""Questions of one search, null controls included."""
_ROUND = 4
"""Places that are tried before the strategy thinks again."""
_SIZES = (1.0, 0.75, 1.3)
"""Sizes that are tried, as shares of the object's."""
_AROUND = 1.0
"""How far from the spot an object may lie, in its own sizes,"""
_OF_PHOTO = 0.12
"""or in the photo's, whichever is more."""


def search(table: Table, asker: str, spot: Insertion, most: int = MOST) -> Iterator[dict[str, Any]]:
    """Look for a failure around ``spot``; yields each place that was tried, with how many questions were asked so far
    (``asked``, of ``of``) and how far the worst-hit detection fell (``fell``, of its score), and last ``end``:
    "found" with the place and its ``row``, "spent", or "nowhere" where the object fits nowhere near."""
    seen = table.seen(asker, spot.image)
    background = around(seen, spot)
    strategy = Adaptive(WIDEST, table.how.rules, table.how.seed)
    strategy.add([background])
    asked, best = 0, 0.0
    while asked < most:
        plan = strategy.plan(_ROUND)
        if not plan:
            break
        rows = []
        for place in plan:
            row = table.attempt(asker, place, background, seen.told)
            rows.append(row)
            asked += row["queries"]
            fell = _fell(row, background)
            best = max(best, fell)
            told = {**_place(place), "asked": asked, "of": most, "fell": fell}
            if any(change["cleared"] and change["harm"] != IMPROVEMENT for change in row["changes"]):
                yield {**told, "end": "found", "row": row}
                return
            yield told
            if asked >= most:
                break
        if len(rows) == len(plan):
            strategy.learn(rows)
    yield {"end": "spent" if asked else "nowhere", "asked": asked, "of": most, "fell": best}


def around(seen: Seen, spot: Insertion) -> Background:
    """The background of ``spot`` as a search sees it: its object only, in a few sizes, near where it lies."""
    whole = seen.background
    (x, y), (width, height) = spot.at, spot.size
    wide, high = max(_AROUND * width, _OF_PHOTO * whole.width), max(_AROUND * height, _OF_PHOTO * whole.height)
    within = (
        max(0, round(x - wide)),
        max(0, round(y - high)),
        min(whole.width, round(x + width + wide)),
        min(whole.height, round(y + height + high)),
    )
    sizes = [(round(width * factor), round(height * factor)) for factor in _SIZES]
    room = within[2] - within[0], within[3] - within[1]
    offers = tuple(
        Offer(spot.cutout, *size, 0, None)
        for size in sizes
        if min(size) >= LEAST_SIDE and size[0] <= room[0] and size[1] <= room[1]
    )
    return replace(whole, offers=offers, within=within)


def _fell(row: Mapping[str, Any], background: Background) -> float:
    """The largest share of its score that a detection lost."""
    scores = background.before.scores
    firm = scores >= background.score
    if row["failed"] is None or not firm.any():
        return 0.0
    left = [stood / score for stood, score, counts in zip(row["standing"], scores, firm, strict=True) if counts]
    return float(max(0.0, 1 - min(left)))


def _place(insertion: Insertion) -> dict[str, int]:
    (x, y), (width, height) = insertion.at, insertion.size
    return {"x": x, "y": y, "width": width, "height": height}
