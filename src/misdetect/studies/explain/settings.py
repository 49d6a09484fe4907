"""What can be set of ``explain``: Algorithm 1's thresholds, what counts as a miss, how far to look."""

from dataclasses import dataclass
from typing import Annotated

from misdetect.metrics.mechanisms import Miss, Reading, Thresholds
from misdetect.nouns.settings import RUNNING, VIEW, Heading, Number, Range, Share
from misdetect.studies.running import Running

_RULES, _LOOKING, _RESULTS = Heading("What counts as a miss"), Heading("How far to look"), Heading("Results")


@dataclass(frozen=True, kw_only=True)
class ExplainSettings(Running):
    """Why each object was missed: which part of the detector failed, with the evidence."""

    truth: Annotated[str | None, _RULES] = None
    """Data spec whose annotations are used, joined by image name."""
    loc: Annotated[Share, _RULES] = Thresholds.loc
    """Least IoU of a box that localises an object."""
    cls: Annotated[Share, _RULES] = Thresholds.cls
    """Least score of a box that classifies it."""
    score: Annotated[Share | None, _RULES] = None
    """What counts as reported; by default as --cls."""
    miss: Annotated[Miss, _RULES] = "any"
    """One detection may find several objects (paper 3), or only one: exclusive (AP, TIDE)."""
    reading: Annotated[Reading, _LOOKING] = "auto"
    """What proposals are: boxes (by IoU), or cells of a grid (by their centre)."""
    inside: Annotated[bool | None, _LOOKING] = None
    """Look into the detector; by default if possible."""
    regions: Annotated[Number, _LOOKING] = 20
    """Suspicious regions kept per image."""
    pixels: Annotated[bool, _LOOKING] = True
    """Read the pixels to measure how dark objects are."""
    confidence: Annotated[float, VIEW, _RESULTS, Range(0.01, 0.999)] = 0.9
    """Of the intervals."""
    seed: Annotated[int, VIEW, _RESULTS, Range(0)] = 0
    """Of the images drawn again for the intervals."""
    pictures: Annotated[Number, RUNNING, _RESULTS] = 4
    """Misses drawn per mechanism."""

    @property
    def thresholds(self) -> Thresholds:
        """For ``metrics.mechanisms``."""
        return Thresholds(self.loc, self.cls, self.score)
