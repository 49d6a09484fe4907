"""The insertions of a campaign, shown again: to a detector that was hardened since, say."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from misdetect.data.dataset import Dataset
from misdetect.engine.store import Run
from misdetect.nouns.picture import Picture, digest
from misdetect.studies.fuzz.campaign import rebuild
from misdetect.studies.fuzz.results import Campaign
from misdetect.studies.fuzz.rows import Insertion
from misdetect.studies.fuzz.workbench import Workbench


@dataclass(frozen=True, eq=False)
class Insertions:
    """Insertions by the number of their case, drawn at ``bench``."""

    made: Mapping[int, Insertion]
    bench: Workbench

    @property
    def numbers(self) -> Sequence[int]:
        """Of all cases, in order."""
        return sorted(self.made)

    @property
    def key(self) -> str:
        """What is inserted where."""
        shown = {str(number): insertion.columns() for number, insertion in self.made.items()}
        return digest(self.bench.pool.fingerprint, json.dumps(shown, sort_keys=True))

    def photo(self, number: int) -> int:
        """The index of its background."""
        return self.made[number].image

    def box(self, number: int) -> tuple[int, int, int, int]:
        """Where the object lies: x0, y0, x1, y1 in pixels."""
        return self.made[number].box

    def picture(self, number: int) -> Picture:
        """The synthetic image."""
        return self.bench.picture(self.made[number])


def edits(run: Run, data: Dataset) -> Insertions:
    """The insertions of ``run`` that were asked about."""
    asked = Campaign.of(run).asked
    return Insertions({row["case_index"]: Insertion.of_row(row) for row in asked}, rebuild(run, data).bench)
