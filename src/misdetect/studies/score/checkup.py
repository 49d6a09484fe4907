"""What a checkup does with score: it scores what detect found, and bootstraps the costs of TIDE's errors."""

from typing import Any

from misdetect.engine.store import Run
from misdetect.studies.contract import Document, Examined, InCheckup
from misdetect.studies.score.costs import tide_intervals


def _settings(examined: Examined) -> dict[str, Any] | None:
    return {} if examined.annotated else None


def _more(run: Run) -> Document:
    return {"intervals": {"tide": tide_intervals(run)}}


CHECKUP = InCheckup(30, _settings, more=_more)
