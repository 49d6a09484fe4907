"""What can be set of ``doctor``: how many images, against what, and what counts as a finding."""

from dataclasses import dataclass
from typing import Annotated

from misdetect.nouns.settings import VIEW, Heading, Range, Share
from misdetect.studies.running import Running

_LOOKING, _RESULTS = Heading("What is compared"), Heading("Results")


@dataclass(frozen=True, kw_only=True)
class DoctorSettings(Running):
    """Is it wired up right? What is sent and what comes back, changed in the ways people get it wrong."""

    truth: Annotated[str | None, _LOOKING] = None
    """Data spec whose annotations are used, joined by image name."""
    reference: Annotated[str | None, _LOOKING] = None
    """Detector spec that is right, such as the float model or the framework original; then no annotations are
    needed."""
    images: Annotated[int, _LOOKING, Range(6, 10_000)] = 48
    """Images that are asked about: a third to choose by, the rest to confirm."""
    score: Annotated[Share, _LOOKING] = 0.3
    """Least score of what the reference sees that counts as an object."""
    seed: Annotated[int, _LOOKING, Range(0)] = 0
    """Of which images are used."""
    margin: Annotated[float, VIEW, _RESULTS, Range(0, 1)] = 0.005
    """Least gain in AP: the interval must lie above it."""
    confidence: Annotated[float, VIEW, _RESULTS, Range(0.5, 0.999)] = 0.9
    """Of the intervals."""
