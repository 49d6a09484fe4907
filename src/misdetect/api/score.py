"""``score``: AP, AR and TIDE of predictions that are there already."""

from pathlib import Path

from misdetect.api.run import Place, Run
from misdetect.api.studies import DataLike, with_keywords
from misdetect.data import load_data
from misdetect.data.opened import Opened
from misdetect.studies.contract import keep_document
from misdetect.studies.score.export import check_rows_file, exported, write_rows
from misdetect.studies.score.predictions import Predictions
from misdetect.studies.score.settings import ScoreSettings
from misdetect.studies.score.study import ScoreStudy, run_score

PredictionsLike = str | Path | Run
"""A COCO results file, a ``predictions:`` spec, or a run of ``detect`` (or its directory)."""


def _score(predictions: PredictionsLike, truth: DataLike, how: ScoreSettings) -> Run:
    if how.rows is not None:
        check_rows_file(Path(how.rows))
    opened = Opened(load_data(truth), how.limit)
    given = predictions.directory if isinstance(predictions, Run) else predictions
    study = ScoreStudy(Predictions.of(given, opened.whole), opened, how)
    _ = study.table  # what cannot be scored leaves no directory behind
    place = Place(how.out)
    directory = run_score(study, place.path)
    if how.rows is not None:
        write_rows(exported(directory), Path(how.rows))
    return Run(directory, data=study.data, document=keep_document(directory), place=place)


score = with_keywords(_score, ScoreSettings, "score")
