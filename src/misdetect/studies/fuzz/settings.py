"""What decides a campaign, apart from detector, data and pool."""

from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

from misdetect.errors import BadSpec
from misdetect.metrics.metamorphic import Oracle

Strategy = Literal["random", "guided", "adaptive"]
STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)
WIDEST = 3
"""The farthest ``reach``: see ``docs/fuzz.md``."""
Destination = Literal["centroid", "centre"] | tuple[int, int]


@dataclass(frozen=True)
class Fuzzing:
    """``queries``: how many the campaign plans with (``None``: all insertions of the strategy). ``per_object``: random
    and guided insertions per detection of a background. ``reach``: 0 is the paper's rule, see ``reach.py``.
    ``backgrounds``: how many images are used. ``min_naturalness``: insertions below it are not asked about.
    ``relocate`` (to ``destination``) and ``shrink``: whether failing cases are moved on and made smaller.
    ``count_flicker``: whether a score that only flickers across the threshold makes a failure."""

    strategy: Strategy = "adaptive"
    queries: int | None = None
    per_object: int = 10
    reach: int = 0
    backgrounds: int | None = None
    min_naturalness: float = 0.0
    relocate: bool = True
    destination: Destination = "centroid"
    shrink: bool = True
    count_flicker: bool = False
    seed: int = 0
    oracle: Oracle = field(default_factory=Oracle)

    def __post_init__(self) -> None:
        if self.strategy not in STRATEGIES:
            raise BadSpec(f"the strategy is one of {', '.join(STRATEGIES)}. Got {self.strategy!r}.")
        if not 0 <= self.reach <= WIDEST:
            raise BadSpec(f"reach goes from 0 (the paper's rule) to {WIDEST}. Got {self.reach}.")
        if self.queries is not None and self.queries < 3:
            raise BadSpec(
                "a campaign needs at least 3 queries: one for a background, an insertion and its control. "
                f"Got {self.queries}."
            )
        if self.per_object < 1 or not 0 <= self.min_naturalness <= 1:
            raise BadSpec(
                "expected at least 1 insertion per object and a naturalness in [0, 1]. "
                f"Got {self.per_object} and {self.min_naturalness}."
            )
        if self.strategy == "adaptive" and self.queries is None:
            raise BadSpec("the adaptive strategy decides what to do with a budget; give it one with --queries N.")

    def document(self) -> dict[str, Any]:
        """For ``run.json``."""
        return asdict(self)
