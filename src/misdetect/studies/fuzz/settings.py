"""What can be set of ``fuzz``: what is inserted where, when that is a failure, and what it may cost."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

from misdetect.kept.budget import Budget
from misdetect.metrics.control import Control
from misdetect.metrics.metamorphic import Oracle
from misdetect.nouns.protocols import Detector
from misdetect.nouns.settings import RUNNING, VIEW, Count, Heading, Number, Range, Share
from misdetect.pools.pool import Pool
from misdetect.said.errors import BadSpec
from misdetect.studies.running import Running, budget_file

StrategyName = Literal["random", "guided", "adaptive"]
STRATEGIES: tuple[StrategyName, ...] = get_args(StrategyName)
WIDEST = 3
"""The farthest ``reach``: see ``docs/definitions/fuzz.md``."""
Destination = Literal["centroid", "centre"] | tuple[int, int]

_INSERTING, _RULES = Heading("What is inserted, and where"), Heading("What counts as a failure")
_BUDGET, _RESULTS = Heading("Budget"), Heading("Results")


@dataclass(frozen=True, kw_only=True)
class FuzzSettings(Running):
    """Insert objects beside others and see which detections that breaks, within a budget."""

    pool: Annotated[str | Path | Pool | None, _INSERTING] = None
    """Objects to insert: a folder of `misdetect pool`, or a data spec; by default the data itself."""
    segmenter: Annotated[str | None, _INSERTING] = None
    """Detector whose masks cut the objects out, of the data or of --pool."""
    strategy: Annotated[StrategyName, _INSERTING] = "adaptive"
    """Where the next object goes."""
    reach: Annotated[int | None, Range(0, WIDEST), _INSERTING] = None
    """Widen what may go where: 0 the paper's rule, 1 other sizes too, 2 other classes, 3 wider rings; by default 0, of
    adaptive 3."""
    per_object: Annotated[Count, _INSERTING] = 10
    """Random and guided insertions per detection."""
    backgrounds: Annotated[Count | None, _INSERTING] = None
    """Images to insert into; by default one per 10 queries."""
    min_naturalness: Annotated[Share, _INSERTING] = 0.0
    """Insertions with a smaller HOG intersection are not asked about."""
    relocate: Annotated[bool, _INSERTING] = True
    """Move failing objects on."""
    destination: Annotated[Destination, _INSERTING] = "centroid"
    """Where to: centroid (of the detections), centre, or X,Y in pixels."""
    shrink: Annotated[bool, _INSERTING] = True
    """Reduce failures to the least edit that still fails."""
    embedding: Annotated[str | None, _INSERTING] = None
    """Similarity by python:module:function instead of a hash."""
    seed: Annotated[int, Range(0), _INSERTING] = 0
    """Of everything that is drawn at random."""
    oracle: Annotated[Literal["paper", "strict"], _RULES] = "paper"
    """mAP below 100 %, or anything that is not matched one to one."""
    iou: Annotated[Share, _RULES] = Oracle.iou
    """From where two boxes are the same, also a detection's and an annotation's."""
    score: Annotated[Share, _RULES] = Oracle.score
    """What counts as a detection."""
    flicker: Annotated[Share, _RULES] = Oracle.flicker
    """A score this near --score flickers."""
    count_flicker: Annotated[bool, _RULES] = False
    """Flicker makes a failure too."""
    corner: Annotated[float, Range(0), _RULES] = Oracle.corner
    """Detections whose top-left lies within so many pixels of the inserted object's are its own."""
    near: Annotated[Share, _RULES] = Oracle.near
    """IoU from which a box of the same class is the original, moved."""
    patches: Annotated[Count, _RULES] = Control.most
    """Ask about a failure with so many patches of the background's texture, at most."""
    chance: Annotated[float, _RULES, Range(0.01, 0.99)] = Control.chance
    """It is the object's doing where a patch makes it with a chance below this."""
    sure: Annotated[float, _RULES, Range(0.5, 0.999)] = Control.sure
    """How probable that has to be."""
    queries: Annotated[Annotated[int, Range(1)] | None, RUNNING, _BUDGET] = None
    """Ask at most N times, controls included."""
    usd: Annotated[float | None, Range(0), RUNNING, _BUDGET] = None
    """Spend at most so many dollars."""
    price: Annotated[float | None, Range(0), RUNNING, _BUDGET] = None
    """Dollars per query; by default what the detector's spec says."""
    minutes: Annotated[float | None, Range(0), RUNNING, _BUDGET] = None
    """Stop after so many minutes."""
    confidence: Annotated[float, VIEW, _RESULTS, Range(0.01, 0.999)] = 0.9
    """Of the intervals."""
    pictures: Annotated[Number, RUNNING, _RESULTS] = 12
    """Failures drawn, the worst first."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.rules  # refuses what does not go together
        least = 3 + self.control.fewest
        if self.queries is not None and self.queries < least:
            raise BadSpec(
                f"queries should be at least {least}: a background, asked about twice, an insertion, and the "
                f"{self.control.fewest} patches that it takes to clear a failure. Got {self.queries}."
            )

    @property
    def rules(self) -> Oracle:
        """For ``metrics.metamorphic``."""
        return Oracle(self.score, self.iou, self.oracle == "strict", self.flicker, self.corner, self.near)

    @property
    def faint(self) -> tuple[float, float]:
        """What lies below the first is firmly no detection."""
        return self.rules.low, self.score

    @property
    def control(self) -> Control:
        """For ``metrics.control``."""
        return Control(self.patches, self.chance, self.sure)

    @property
    def allowed(self) -> int:
        """``reach`` as it is used: the adaptive strategy is ours and takes what it can, the others are the paper's."""
        return self.reach if self.reach is not None else WIDEST if self.strategy == "adaptive" else 0

    def settled(self, detector: Detector, out: Path) -> Self:
        """With the price that the detector's own spec names, where none is given."""
        limits: dict[str, Any] = dict(getattr(detector, "limits", None) or {})
        price = self.price if self.price is not None else float(limits.get("price") or 0.0)
        if self.usd is not None and price == 0:
            raise BadSpec("a budget in dollars (--usd) needs the price of one query: give --price as well.")
        return replace(super().settled(detector, out), price=price, reach=self.allowed)

    @property
    def limited(self) -> bool:
        """A campaign counts what it asks, whatever limits it."""
        return True

    def budget(self, out: Path) -> Budget:
        """Every query is counted, also where nothing limits them: ``cost`` in the document."""
        return Budget(self.queries, self.usd, self.price or 0.0, self.minutes, budget_file(out))
