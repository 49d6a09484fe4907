"""What can be set of ``confusion``: the thresholds of the matrix, how detections are matched, what background means."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal, Self

from misdetect.metrics.confusion import Mode, Policy
from misdetect.nouns.protocols import Detector
from misdetect.nouns.settings import RUNNING, VIEW, Heading, Number, Range, Share
from misdetect.studies.running import Running

_RULES, _RESULTS = Heading("What is counted where"), Heading("Results")


@dataclass(frozen=True, kw_only=True)
class ConfusionSettings(Running):
    """What each object was taken for: the detection confusion matrix, and the objects behind its cells."""

    truth: Annotated[str | None, _RULES] = None
    """Data spec whose annotations are used, joined by image name."""
    iou: Annotated[float, _RULES, Range(0.01, 1)] = 0.5
    """Least IoU at which a detection belongs to an object; below it, to the background."""
    score: Annotated[Share, _RULES] = 0.3
    """Detections that score less are in no cell."""
    policy: Annotated[Policy, _RULES] = "paper"
    """Which object a detection belongs to: that with the largest IoU (paper), one to one by falling score (greedy), or
    one to one with the largest sum of IoUs (optimal)."""
    background: Annotated[Mode | Literal["auto"], _RULES] = "auto"
    """When a detection is predicted background: where that outscores every class (hard), in part (soft), never
    (reported); auto is hard for detectors that show their background score."""
    cell: Annotated[str | None, VIEW, _RESULTS] = None
    """List what is behind one cell, ACTUAL,PREDICTED: chair,sofa or background,chair or chair,missed; worst first."""
    listed: Annotated[Number, VIEW, _RESULTS] = 20
    """How many of them."""
    confidence: Annotated[float, VIEW, _RESULTS, Range(0.01, 0.999)] = 0.9
    """Of the intervals."""
    seed: Annotated[int, VIEW, _RESULTS, Range(0)] = 0
    """Of the images drawn again for the intervals."""
    pictures: Annotated[Number, RUNNING, _RESULTS] = 4
    """Cells of which the worst are drawn, beside the matrix; 0: no picture at all."""

    def settled(self, detector: Detector, out: Path) -> Self:
        """Stored predictions are looked up by this process; there is nothing to divide among workers."""
        found = super().settled(detector, out)
        return replace(found, workers=1, cluster=None, ship_data=False) if getattr(detector, "stored", False) else found

    @property
    def mode(self) -> Mode:
        """For ``metrics.confusion``; only once ``auto`` is settled."""
        assert self.background != "auto"
        return self.background
