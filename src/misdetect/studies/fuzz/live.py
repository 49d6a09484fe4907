"""One insertion at a time, where a person chooses it: all that the playground has of this room.

An edit is drawn at the workbench of a campaign and judged by its oracle, so what is seen here is what a campaign would
see, pixel for pixel. Nobody is asked here: what has to be asked is yielded, and a failure near a spot is looked for
through ``attempt``, the caller's way of trying one insertion.
"""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from misdetect.compose.fade import Faded
from misdetect.compose.paste import Paste
from misdetect.data.dataset import Sample
from misdetect.data.opened import Opened
from misdetect.engine.requests import Asks
from misdetect.metrics.metamorphic import Verdict, judge
from misdetect.nouns.detections import Detections
from misdetect.nouns.protocols import Detector
from misdetect.pools.pool import Pool
from misdetect.studies.fuzz.cases import Look, Try, changes_of
from misdetect.studies.fuzz.kept import Kept
from misdetect.studies.fuzz.near import LEAST_SIDE, MOST, Attempt, search
from misdetect.studies.fuzz.plan import Row, Task, shows_flicker
from misdetect.studies.fuzz.reach import Background, Offer
from misdetect.studies.fuzz.rows import INSERTION, Insertion
from misdetect.studies.fuzz.settings import WIDEST, FuzzSettings
from misdetect.studies.fuzz.workbench import Workbench

__all__ = ["HOW", "LEAST_SIDE", "MOST", "Changed", "Insertion", "Kept", "Live", "Seen"]
HOW = FuzzSettings(reach=WIDEST, relocate=False, shrink=False)
"""The rules of a campaign, where nothing follows what fails."""
Corner = tuple[int, int]


@dataclass(frozen=True, eq=False)
class Seen:
    """A photo that was looked at: the ``row`` that a campaign keeps of it, its ``background``, and whether the detector
    shows scores so low that flicker can be told (``told``)."""

    row: Row
    background: Background
    told: bool


@dataclass(frozen=True, eq=False)
class Changed:
    """What an insertion changes: the ``verdict`` on the detections ``after`` it, and its ``changes`` as a row keeps
    them, without controls."""

    after: Detections
    verdict: Verdict
    changes: list[dict[str, Any]]


class Live(Workbench):
    """Objects of ``pool`` on the photos of ``opened``, for a detector with class ``names``. Nothing is offered: here a
    person chooses."""

    def __init__(self, opened: Opened, pool: Pool, names: Sequence[str]) -> None:
        super().__init__(opened, pool, names, replace(HOW, reach=0))

    def offers(self, sample: Sample, firm: Detections) -> list[Offer]:
        """None."""
        return []

    def insertion(self, photo: int, cutout: int, at: Corner, size: Corner, opacity: float) -> Insertion:
        """Object ``cutout`` of the pool on ``photo``, at left and top, of width and height in pixels."""
        return Insertion(photo, cutout, at, size, None, WIDEST, opacity)

    def control(self, insertion: Insertion) -> Paste | Faded:
        """The control of an edit: a campaign's first patch, as opaque as the edit is."""
        (patch,) = islice(self.controls(insertion), 1)
        return patch if insertion.opacity == 1 else Faded(patch, insertion.opacity)

    def look(self, photo: int) -> Generator[Asks, Any, Seen]:
        """Ask about a photo as it is."""
        (row,) = yield from Look(photo, twice=False).steps(self)
        background = Background.of_row(row, HOW.score, self.classes)
        return Seen(row, background, shows_flicker([row], HOW.rules))

    def attempt(self, insertion: Insertion, seen: Seen, part: Background) -> Generator[Asks, Any, Row]:
        """The row of a campaign that tries just this on ``part`` of what was ``seen``, controls included."""
        task = Task(INSERTION, insertion, patches=HOW.patches)
        (row,) = yield from Try(task, part, noisy=False, told=seen.told).steps(self)
        return row

    def changed(self, insertion: Insertion, seen: Seen, found: Detections) -> Changed:
        """What is otherwise than on the photo that was ``seen``, where with an edit this is ``found``."""
        after = self.classes.joined(found)
        verdict = judge(seen.background.before, after, insertion.box, HOW.rules)
        return Changed(after, verdict, changes_of(self, seen.background, insertion, verdict))

    def search(self, spot: Insertion, seen: Seen, attempt: Attempt, most: int = MOST) -> Iterator[dict[str, Any]]:
        """Look for a failure around ``spot``; see ``near.search``."""
        return search(spot, seen.background, HOW, attempt, most)

    def keep(self, detector: Detector, folder: Path) -> Kept:
        """Where insertions into photos are kept as a campaign of ``detector``."""
        return Kept(self, HOW, detector, folder)
