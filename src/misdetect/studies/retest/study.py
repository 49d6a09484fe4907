"""The study: one case per photo, and one per insertion of the campaign that is shown again."""

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
from misdetect.nouns.protocols import Detector, Traced
from misdetect.said.errors import BadData
from misdetect.studies.conditions import (
    CLEAN,
    IMAGE,
    SCHEMA,
    Answer,
    Scene,
    detection_rows,
    object_rows,
    own_columns,
)
from misdetect.studies.contract import Edits
from misdetect.studies.joined import JoinedStudy
from misdetect.studies.kinds import kind_of
from misdetect.studies.retest.settings import RetestSettings

INSERTION = "insertion"
_FAINT = 0.2
"""Detections so far below the score that counts are kept of edited photos, to tell flicker from what is gone."""


class RetestStudy(JoinedStudy):
    """Show the photos of ``opened``, and the ``edits`` of an earlier run into them, to a detector with class ``names``;
    ``inside``: it can be looked into."""

    name = "retest"
    schema: pa.Schema = SCHEMA

    def __init__(
        self, opened: Opened, names: Sequence[str], how: RetestSettings, *, inside: bool, edits: Edits | None
    ) -> None:
        super().__init__(opened, names)
        self.how: RetestSettings = how
        self.inside, self.edits = inside, edits

    def settings(self) -> dict[str, Any]:
        """What decides the rows, for ``run.json``; a campaign is known by what it inserts, wherever it lies."""
        campaign = None if self.edits is None else self.edits.key
        return super().settings() | {"inside": self.inside, "campaign": campaign}

    @cached_property
    def _tasks(self) -> list[tuple[int, int | None]]:
        """The photo's index, and the number of the edit, ``None`` for the photo itself."""
        photos: list[tuple[int, int | None]] = [(i, None) for i in range(len(self.data))] if self.how.photos else []
        return photos + ([] if self.edits is None else [(self.edits.photo(n), n) for n in self.edits.numbers])

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
        edits = None if number is None else self.edits
        picture = scene.sample if edits is None else edits.picture(number)
        answer = shown = Answer.of((yield (Trace if self.inside else Detect)(picture)))
        if edits is not None:
            near = answer.found.above(max(self.how.score - _FAINT, 0.0))
            shown = Answer(near[coverage(near.boxes, by=[edits.box(number)])[:, 0] < PART])
        own = own_columns(scene, CLEAN if edits is None else INSERTION)
        found = [*object_rows(scene, answer, answer, self.how), *detection_rows(scene, shown)]
        return [own | row for row in ({"kind": IMAGE}, *found)]


def prepare(detector: Detector, opened: Opened, settings: RetestSettings, asking: Asking) -> RetestStudy:
    """Look inside where that is possible."""
    if not any(len(sample.truth) for sample in opened.data):
        raise BadData(f"{opened.data.spec} has no annotations, so nothing says what should be found.")
    edits = _edits(settings, opened.data)
    study = RetestStudy(opened, detector.names, settings, inside=isinstance(detector, Traced), edits=edits)
    _ = study.joined
    return study


def rebuild(run: Run, data: Dataset) -> RetestStudy:
    """The study of ``run`` again; one with insertions only where its campaign still lies where it was."""
    how = RetestSettings.of({**run.settings, **run.about["view"]})
    names, inside = run.about["identity"]["detector"]["names"], run.settings["inside"]
    return RetestStudy(Opened(data), names, how, inside=inside, edits=_edits(how, data))


def _edits(how: RetestSettings, data: Dataset) -> Edits | None:
    """What the run that is named put into the photos of ``data``."""
    if how.edits is None:
        return None
    run = Run.open(how.edits)
    edits = kind_of(run.study).edits
    if edits is None:
        raise BadData(f"{run.address} is a run of {run.study!r}, which puts nothing into photos.")
    return edits(run, data)
