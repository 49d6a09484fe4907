"""The charts of a page, as values: each study makes its own. What draws them is the front end (``front/*.js``)."""

from misdetect.data.dataset import Dataset
from misdetect.drawing.values import Chart, Counted
from misdetect.engine.store import Run
from misdetect.studies.contract import Document
from misdetect.studies.kinds import kind_of


def charts_of(study: str, run: Run, document: Document, counted: Counted, data: Dataset | None) -> list[Chart]:
    """The charts of one study, whose rows are ``counted``; without ``data`` no maps."""
    made = kind_of(study).charts
    return [] if made is None else made(run, document, counted, data)
