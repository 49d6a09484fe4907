"""What can be set of ``retest``."""

from dataclasses import dataclass
from typing import Annotated

from misdetect.metrics.mechanisms import Thresholds
from misdetect.nouns.settings import VIEW, Heading, Range, Share
from misdetect.studies.running import Running

_WHAT, _RULES, _RESULTS = Heading("What is shown"), Heading("What counts as found"), Heading("Results")


@dataclass(frozen=True, kw_only=True)
class RetestSettings(Running):
    """What a detector finds of annotated objects on photos, and beside the objects that a campaign of fuzz inserted."""

    edits: Annotated[str | None, VIEW, _WHAT] = None
    """Run directory of the campaign whose insertions are shown again; none: only the photos."""
    photos: Annotated[bool, _WHAT] = True
    """Show the photos themselves."""
    loc: Annotated[Share, _RULES] = Thresholds.loc
    """Least IoU of a detection that finds an object."""
    score: Annotated[Share, _RULES] = Thresholds.cls
    """Least score of one."""
    seed: Annotated[int, VIEW, _RESULTS, Range(0)] = 0
    """Of the images drawn again for intervals."""
    confidence: Annotated[float, VIEW, _RESULTS, Range(0.01, 0.999)] = 0.9
    """Of the intervals."""

    @property
    def thresholds(self) -> Thresholds:
        """For ``metrics.mechanisms``."""
        return Thresholds(self.loc, self.score)
