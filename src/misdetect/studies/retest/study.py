"""The study: one case per photo, and one per insertion of the campaign that is shown again."""

import json
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa

from misdetect.data.dataset import Dataset
from misdetect.data.opened import Opened
from misdetect.engine.backend import Asking
from misdetect.engine.requests import Case, Detect, Steps, Trace
from misdetect.engine.store import Run
from misdetect.metrics.transplant import PART
from misdetect.nouns.boxes import coverage
from misdetect.nouns.detections import Detections
from misdetect.nouns.picture import digest
from misdetect.nouns.protocols import Detector, Traced
from misdetect.said.errors import BadData
from misdetect.studies.attack.rows import IMAGE, SCHEMA, Answer, Scene, detection_rows, object_rows, own_columns
from misdetect.studies.fuzz.campaign import rebuild as fuzz_study
from misdetect.studies.fuzz.failing import check_study
from misdetect.studies.fuzz.results import Campaign
from misdetect.studies.fuzz.rows import Insertion
from misdetect.studies.joined import JoinedStudy
from misdetect.studies.retest.settings import RetestSettings

CLEAN, INSERTION = "clean", "insertion"
_FAINT = 0.2
"""Detections so far below the score that counts are kept of edited photos, to tell flicker from what is gone."""


class RetestStudy(JoinedStudy):
    """Show the photos of ``opened`` and the ``insertions`` of ``campaign`` into them (by their numbers there) to a
    detector with class ``names``; ``inside``: it can be looked into."""

    name = "retest"
    schema: pa.Schema = SCHEMA

    def __init__(
        self, opened: Opened, names: Sequence[str], how: RetestSettings, *, inside: bool, campaign: Run | None
    ) -> None:
        super().__init__(opened, names)
        self.how: RetestSettings = how
        self.inside = inside
        self._campaign: str | None = None
        self.bench, self.insertions = None, dict[int, Insertion]()
        if campaign is not None:
            check_study(campaign)
            self.bench = fuzz_study(campaign, opened.data).bench
            asked = Campaign.of(campaign).asked
            self.insertions = {row["case_index"]: Insertion.of_row(row) for row in asked}
            shown = {str(number): insertion.columns() for number, insertion in self.insertions.items()}
            self._campaign = digest(self.bench.pool.fingerprint, json.dumps(shown, sort_keys=True))

    def settings(self) -> dict[str, Any]:
        """What decides the rows, for ``run.json``; a campaign is known by what it inserts, wherever it lies."""
        return super().settings() | {"inside": self.inside, "campaign": self._campaign}

    @cached_property
    def _tasks(self) -> list[tuple[int, int | None]]:
        """Photos, and insertions by their numbers: the photo's index, and the insertion's number."""
        photos: list[tuple[int, int | None]] = [(i, None) for i in range(len(self.data))] if self.how.photos else []
        return photos + [(insertion.image, number) for number, insertion in sorted(self.insertions.items())]

    def __len__(self) -> int:
        return len(self._tasks)

    def cases(self) -> Iterator[Case]:
        """Called ``IMAGE/clean`` and ``IMAGE/insertion-N``."""
        for index, (image, number) in enumerate(self._tasks):
            what = CLEAN if number is None else f"{INSERTION}-{number}"
            yield Case(index, f"{self.data[image].id}/{what}", (image, number))

    def image_of(self, case: Case) -> str:
        """The photo of a case, to name it by if it fails."""
        return str(self.data[case.content[0]].id)

    def run(self, case: Case) -> Steps:
        """Ask once; the detections on an inserted object itself are nobody's mistake and are left out."""
        image, number = case.content
        scene = Scene.of(self.data[image], self.joined, self.data.names)
        picture: Any = scene.sample
        if number is not None:
            assert self.bench is not None
            picture = self.bench.picture(self.insertions[number])
        answer = Answer.of((yield (Trace if self.inside else Detect)(picture)))
        own = own_columns(scene, CLEAN if number is None else INSERTION)
        rows = [{"kind": IMAGE}, *object_rows(scene, answer, answer, self.how)]
        if number is None:
            rows += detection_rows(scene, answer, self.how)
        else:
            beside = self._beside(answer.found, self.insertions[number])
            rows += detection_rows(scene, Answer(beside), self.how)
        return [own | row for row in rows]

    def _beside(self, found: Detections, insertion: Insertion) -> Detections:
        near = found.above(max(self.how.score - _FAINT, 0.0))
        return near[coverage(near.boxes, by=[insertion.box])[:, 0] < PART]


def prepare(detector: Detector, opened: Opened, settings: RetestSettings, asking: Asking) -> RetestStudy:
    """Look inside where that is possible."""
    if not any(len(sample.truth) for sample in opened.data):
        raise BadData(f"{opened.data.spec} has no annotations, so nothing says what should be found.")
    campaign = None if settings.edits is None else Run.open(settings.edits)
    study = RetestStudy(
        opened, detector.names, settings, inside=isinstance(detector, Traced), campaign=campaign
    )  # fmt: skip
    _ = study.joined
    return study


def rebuild(run: Run, data: Dataset) -> RetestStudy:
    """The study of ``run`` again; one with insertions only where its campaign still lies where it was."""
    how = RetestSettings.of({**run.settings, **run.about["view"]})
    campaign = None if how.edits is None else Run.open(how.edits)
    names, inside = run.about["identity"]["detector"]["names"], run.settings["inside"]
    return RetestStudy(Opened(data), names, how, inside=inside, campaign=campaign)
