"""Views of runs: figures and pages of every study, and runs side by side. Nothing here asks a detector."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from misdetect.data.dataset import Dataset
from misdetect.engine.store import Run
from misdetect.report.comparison import check_folder
from misdetect.studies.contract import Document, data_of

_FIGURES = {
    "confusion": "misdetect.report.confusion:draw",
    "attack": "misdetect.report.attack:draw",
    "explain": "misdetect.report.explain:draw",
    "fuzz": "misdetect.report.fuzz:draw",
    "scan": "misdetect.report.scan:draw",
    "verify": "misdetect.report.verify:draw",
}
"""``draw(run, data, most)`` of each study that has figures: the files it wrote into the run directory."""
_COMPARED = {
    "checkup": "misdetect.report.compared_page:draw_comparison",
    "explain": "misdetect.report.explain:draw_comparison",
    "verify": "misdetect.report.verify:draw_comparison",
}
"""``draw(document, folder)`` of each study that has figures of runs side by side."""


def draw(run: Run, data: Dataset | None, most: int) -> list[Path]:
    """Draw the figures of ``run`` into its directory, at most ``most`` of each kind; ``data`` is what it looked at
    (``None``: it is opened again). Returns the files; none where its study has no figures."""
    if run.study not in _FIGURES or not most:
        return []
    module, _, name = _FIGURES[run.study].partition(":")
    function: Callable[[Run, Dataset, int], list[Path]] = getattr(import_module(module), name)
    return function(run, data_of(run) if data is None else data, most)


def draw_comparison(document: Document, folder: Path) -> list[Path]:
    """Draw what can be drawn of runs side by side (``comparison.compare``) into ``folder``; returns the files."""
    check_folder(folder)
    if document["study"] not in _COMPARED:
        return []
    module, _, name = _COMPARED[document["study"]].partition(":")
    function: Callable[[Document, Path], list[Path]] = getattr(import_module(module), name)
    return function(document, folder)
