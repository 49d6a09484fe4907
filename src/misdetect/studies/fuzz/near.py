"""Find a failure near a spot: the adaptive strategy, kept to a part of the photo and to one object.

Rounds are small, since somebody waits. A failure counts as found when controls have cleared it (it is the object's
doing, not that of pasting) and the annotations do not call it an improvement.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from misdetect.metrics.harm import IMPROVEMENT
from misdetect.studies.fuzz.adaptive import Adaptive
from misdetect.studies.fuzz.failures import counted
from misdetect.studies.fuzz.reach import Background, Offer
from misdetect.studies.fuzz.rows import Insertion
from misdetect.studies.fuzz.settings import WIDEST, FuzzSettings

MOST = 80
"""Questions of one search, controls included."""
_ROUND = 4
"""Places that are tried before the strategy thinks again."""
_AROUND = ((1.0, 0.12, (1.0, 0.75, 1.3)), (2.0, 0.3, (1.0, 0.75, 0.5)), (0.0, 1.0, (1.0, 0.75, 0.5, 0.35)))
"""How far from the spot an object may lie, in its own sizes or in shares of the photo's, whichever is more, and at
which shares of its size; where there is no free place, so far as the next one says."""
LEAST_SIDE = 4
"""Pixels of the shorter side of an object, at least."""
Attempt = Callable[[Insertion, Background], Mapping[str, Any]]
"""The row of a campaign that tries an insertion into a background."""


def search(
    spot: Insertion, whole: Background, how: FuzzSettings, attempt: Attempt, most: int = MOST
) -> Iterator[dict[str, Any]]:
    """Look for a failure around ``spot`` on the background ``whole``; yields each place that was tried, with how many
    questions were asked so far (``asked``, of ``of``) and how far the worst-hit detection fell (``fell``, of its
    score), and last ``end``: "found" with the place and its ``row``, "spent" with how many places had failures that
    were not the object's doing or no harm (``shared``), "nowhere" where the object fits nowhere, "nothing" where
    nothing is detected that could be lost."""
    if not len(whole.firm):
        yield {"end": "nothing", "asked": 0, "of": most}
        return
    background, strategy, plan = _begin(whole, spot, how)
    asked, best, shared = 0, 0.0, 0
    while asked < most and plan:
        rows = []
        for place in plan:
            row = attempt(place, background)
            rows.append(row)
            asked += row["queries"]
            fell = _fell(row, background)
            best = max(best, fell)
            told = {**_place(place), "asked": asked, "of": most, "fell": fell}
            if any(change["cleared"] and change["harm"] != IMPROVEMENT for change in row["changes"]):
                yield {**told, "end": "found", "row": row}
                return
            shared += bool(counted(row, how.count_flicker))
            yield told
            if asked >= most:
                break
        if asked < most:
            strategy.learn(rows)
            plan = strategy.plan(_ROUND)
    yield {"end": "spent" if asked else "nowhere", "asked": asked, "of": most, "fell": best, "shared": shared}


def _begin(whole: Background, spot: Insertion, how: FuzzSettings) -> tuple[Background, Adaptive, list[Insertion]]:
    """The nearest part of the photo with room, a strategy for it, and the first places."""
    for reach in _AROUND:
        background = around(whole, spot, *reach)
        strategy = Adaptive(WIDEST, how.rules, how.seed)
        strategy.add([background])
        plan = strategy.plan(_ROUND)
        if plan:
            break
    return background, strategy, plan


def around(whole: Background, spot: Insertion, own: float, share: float, sizes: Sequence[float]) -> Background:
    """``whole`` as a search near ``spot`` sees it: its object only, at ``sizes`` (shares of its own), within ``own``
    times its sides or a ``share`` of the photo's from where it lies."""
    (x, y), (width, height) = spot.at, spot.size
    wide, high = max(own * width, share * whole.width), max(own * height, share * whole.height)
    within = (
        max(0, round(x - wide)),
        max(0, round(y - high)),
        min(whole.width, round(x + width + wide)),
        min(whole.height, round(y + height + high)),
    )
    room = within[2] - within[0], within[3] - within[1]
    tried = [(round(width * size), round(height * size)) for size in sizes]
    fitting = [size for size in tried if min(size) >= LEAST_SIDE and size[0] <= room[0] and size[1] <= room[1]]
    return replace(whole, offers=tuple(Offer(spot.cutout, *size, 0, None) for size in fitting), within=within)


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
