"""Views of runs: figures and pages of every study, and runs side by side. Nothing here asks a detector."""

from pathlib import Path

from misdetect.data.dataset import Dataset
from misdetect.engine.store import Run
from misdetect.report.checkup_comparison import STUDY as CHECKUP
from misdetect.report.compared_page import draw_comparison as draw_checkups
from misdetect.report.comparison import check_folder
from misdetect.studies.contract import Document
from misdetect.studies.documents import data_of
from misdetect.studies.kinds import kind_of


def draw(run: Run, data: Dataset | None, most: int) -> list[Path]:
    """Draw the figures of ``run`` into its directory, at most ``most`` of each kind; ``data`` is what it looked at
    (``None``: it is opened again). Returns the files; none where its study has no figures."""
    figures = kind_of(run.study).figures
    if figures is None or not most:
        return []
    return figures.draw(run, data_of(run) if data is None else data, most)


def draw_comparison(document: Document, folder: Path) -> list[Path]:
    """Draw what can be drawn of runs side by side (``comparison.compare``) into ``folder``; returns the files."""
    check_folder(folder)
    if document["study"] == CHECKUP:
        return draw_checkups(document, folder)
    figures = kind_of(document["study"]).figures
    return [] if figures is None or figures.compared is None else figures.compared(document, folder)
