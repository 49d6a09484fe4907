"""What can be set when a pool is built: where objects come from, and which are good enough to be inserted."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from misdetect.nouns.settings import PYTHON, RUNNING, Count, Heading, Number, Settings, Share
from misdetect.pools.pool import SEGMENTED, Progress
from misdetect.pools.refine import Refinement

_SOURCE, _CRITERIA, _HOW = Heading("Where objects come from"), Heading("Which are kept"), Heading("Running")


@dataclass(frozen=True, kw_only=True)
class PoolSettings(Settings):
    """Cut out, refine and store the objects that fuzz inserts into photos.

    Criteria are applied in this order, and an object counts for the first one it fails: min-side, max-side, border,
    component, solidity, and of what is left keep and few.
    """

    segmenter: Annotated[str | None, _SOURCE] = None
    """Detector whose masks cut the objects out; by default the data's own masks do."""
    score: Annotated[Share, _SOURCE] = SEGMENTED
    """Least score of a segmenter's object."""
    min_side: Annotated[Number, _CRITERIA] = Refinement.min_side
    """Least pixels of the shorter side."""
    max_side: Annotated[Share, _CRITERIA] = Refinement.max_side
    """Largest share of the image's width and height."""
    border: Annotated[Number, _CRITERIA] = Refinement.border
    """Least distance to the image's edge, in pixels."""
    component: Annotated[Share, _CRITERIA] = Refinement.component
    """Largest share of a second piece in an object's area."""
    solidity: Annotated[Share, _CRITERIA] = Refinement.solidity
    """Least share of an object in its convex hull."""
    keep: Annotated[Share, _CRITERIA] = Refinement.keep
    """Share of each class kept, the largest."""
    few: Annotated[Number, _CRITERIA] = Refinement.few
    """A class with fewer objects is kept whole."""
    out: Annotated[Path | None, RUNNING, _HOW] = None
    """The new folder to write: pool.json, objects/ and pool.png. Without one nothing is kept."""
    limit: Annotated[Count | None, RUNNING, _HOW] = None
    """Use only the first N images."""
    cache: Annotated[bool, RUNNING, _HOW] = True
    """Use answers of earlier runs of the segmenter, and remember those of this one."""
    progress: Annotated[Progress | None, PYTHON] = None
    """Called with images done and images in all."""

    @property
    def refinement(self) -> Refinement:
        """For ``pool.refine``."""
        return Refinement.of(self.document())
