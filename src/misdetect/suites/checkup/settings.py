"""What can be set of a checkup."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from misdetect.engine import Progress
from misdetect.nouns.settings import PYTHON, RUNNING, Count, Heading, Number, Range
from misdetect.studies.workforce import Workforce

_HOW = Heading("Running")


@dataclass(frozen=True, kw_only=True)
class CheckupSettings(Workforce):
    """Everything misdetect can say about a detector: every study that it and the data allow, and one report."""

    out: Annotated[Path | None, RUNNING, _HOW] = None
    """Folder for everything that is found; the same command goes on where it was interrupted."""
    minutes: Annotated[float, RUNNING, _HOW, Range(0.1)] = 5
    """About how long it may take; a slow detector is asked less."""
    limit: Annotated[Count | None, RUNNING, _HOW] = None
    """Use only the first N images."""
    cache: Annotated[bool, RUNNING, _HOW] = True
    """Use answers of earlier runs, and remember those of this one."""
    pictures: Annotated[Number, RUNNING, _HOW] = 4
    """Failures drawn of each kind."""
    progress: Annotated[Progress | None, PYTHON] = None
    """Called with cases done, cases in all and counts."""
