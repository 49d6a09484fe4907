"""What can be set of ``score``: what is compared, and the caps and conventions of AP and TIDE."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from misdetect.metrics.tide import Classes, TideSettings, Ties
from misdetect.nouns.settings import RUNNING, VIEW, Count, Heading, Settings

_WHAT, _TIDE, _RESULTS = Heading("What is compared"), Heading("TIDE"), Heading("Results")


@dataclass(frozen=True, kw_only=True)
class ScoreSettings(Settings):
    """AP, AR and TIDE errors of stored predictions."""

    masks: Annotated[bool, _WHAT] = False
    """Compare masks instead of boxes; both sides need them."""
    max_detections: Annotated[Count, VIEW, _WHAT] = 100
    """AP and AR: best N detections per image and class."""
    tide_cap: Annotated[Count | None, _TIDE] = None
    """TIDE: best N detections per image; tidecv has 100."""
    tide_classes: Annotated[Classes, VIEW, _TIDE] = "all"
    """TIDE: average over all classes seen (tidecv), or those with objects (COCO)."""
    tide_ties: Annotated[Ties, VIEW, _TIDE] = "errors-first"
    """TIDE: order of equal scores after a fix, as tidecv has it or as in the file."""
    limit: Annotated[Count | None, RUNNING, _WHAT] = None
    """Use only the first N images; predictions of the others are left out and counted."""
    out: Annotated[Path | None, RUNNING, _RESULTS] = None
    """Run directory. Without one nothing is kept."""
    rows: Annotated[Path | None, RUNNING, _RESULTS] = None
    """Write a row per object and detection: FILE.parquet, .csv or .json."""

    @property
    def tide(self) -> TideSettings:
        """For ``metrics.tide``."""
        return TideSettings(cap=self.tide_cap, classes=self.tide_classes, ties=self.tide_ties)
