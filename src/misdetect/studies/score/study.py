"""The study: one case per image, whose rows are what TIDE says of its objects and detections. Nothing is asked.

All images are matched together, and the rows are written as one table; ``run`` gives those of one image, as every study
does.
"""

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute

from misdetect.data.dataset import Dataset
from misdetect.data.opened import Opened
from misdetect.detectors.catalogue import is_stored
from misdetect.detectors.predictions import detection_columns
from misdetect.engine import start_run
from misdetect.engine.backend import Asking
from misdetect.engine.requests import Case, Steps
from misdetect.engine.store import Run
from misdetect.metrics import tide
from misdetect.metrics.columns import DetectionColumns, TruthColumns, truth_columns
from misdetect.metrics.scoring import compared_by
from misdetect.nouns.labels import known_classes
from misdetect.said.errors import BadData
from misdetect.studies.predictions import Predictions
from misdetect.studies.score.export import check_rows_file, exported, write_rows
from misdetect.studies.score.rows import is_numbered, schema, table
from misdetect.studies.score.settings import ScoreSettings


class ScoreStudy:
    """Score ``predictions`` against the truth of ``opened``."""

    name = "score"

    def __init__(self, predictions: Predictions, opened: Opened, how: ScoreSettings) -> None:
        self.predictions, self._opened, self.how = predictions, opened, how

    @property
    def data(self) -> Dataset:
        """The images that are scored."""
        return self._opened.data

    @property
    def schema(self) -> pa.Schema:
        """Columns of its rows."""
        return schema(is_numbered(self.columns[0].images))

    def settings(self) -> dict[str, Any]:
        """What decides the rows, for ``run.json``."""
        return self.how.document()

    @cached_property
    def columns(self) -> tuple[TruthColumns, DetectionColumns]:
        """Both sides; images are in the order in which COCO counts them."""
        known = known_classes(self.predictions.names, self.data.names)
        truth = truth_columns(self.data, masks=self.how.masks).of_labels(known)
        found = detection_columns(self.predictions.stored, truth, self._opened.whole, masks=self.how.masks)
        return compared_by(self.how.masks, truth, found)

    @cached_property
    def table(self) -> pa.Table:
        """All rows, with ``case_index``."""
        assignment = tide.assign(*self.columns, self.how.tide)
        return table(*self.columns, assignment)

    def __len__(self) -> int:
        return len(self.data)

    def cases(self) -> Iterator[Case]:
        """One case per image, named by the sample, in COCO's order."""
        return (Case(i, image.sample) for i, image in enumerate(self.columns[0].images))

    def run(self, case: Case) -> Steps:
        """The rows of one image."""
        yield from ()  # what it asks
        chosen = pa.compute.equal(self.table["case_index"], case.index)
        rows: list[dict[str, Any]] = self.table.filter(chosen).drop_columns("case_index").to_pylist()
        return rows


def prepare(predictions: Predictions, opened: Opened, settings: ScoreSettings, asking: Asking) -> ScoreStudy:
    """Predictions stand where other studies have a detector."""
    return ScoreStudy(predictions, opened, settings)


def run_score(study: ScoreStudy, out: Path) -> Run:
    """Score into ``out``, unless that was done before. What cannot be scored leaves nothing behind."""
    if not len(study):
        raise BadData(f"{study.data.spec} has no images.")
    rows, cases = study.table, list(study.cases())
    run = start_run(study, study.predictions, out)
    try:
        if len(run.done()) < len(cases):
            run.add_table(rows, cases)
        run.note(cases=len(cases), left_out=study.columns[1].left_out, view=study.how.document("view"))
    finally:
        run.close()
    return run


def rebuild(run: Run, data: Dataset) -> ScoreStudy:
    """The study of ``run`` again; its predictions are read again, and must be what they were."""
    known = run.about["identity"]["detector"]
    if not is_stored(known["spec"]):
        raise BadData(f"{run.address} scored a run of detect, which cannot be found again from its own directory.")
    found = Predictions.of(known["spec"], data)
    if found.fingerprint != known["fingerprint"]:
        raise BadData(f"{known['spec']} has changed since {run.address} was scored.")
    return ScoreStudy(found, Opened(data), ScoreSettings.of(run.settings))


def run(predictions: str | Path | Run, data: str | Dataset, how: ScoreSettings, path: Path) -> tuple[Run, Dataset]:
    """Score ``predictions`` (a COCO results file, a ``predictions:`` spec, a run of detect) into ``path``."""
    if how.rows is not None:
        check_rows_file(Path(how.rows))
    opened = Opened(data, how.limit)
    study = ScoreStudy(Predictions.of(predictions, opened.whole), opened, how)
    _ = study.table  # what cannot be scored leaves no directory behind
    found = run_score(study, path)
    if how.rows is not None:
        write_rows(exported(found), Path(how.rows))
    return found, study.data
