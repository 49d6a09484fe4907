"""What can be set of ``attack``: what is attacked, how strongly, where in the image, how its strength is checked."""

from dataclasses import dataclass
from typing import Annotated, Literal

from misdetect.metrics.mechanisms import Thresholds
from misdetect.nouns.settings import RUNNING, VIEW, Count, Heading, Number, Range, Share
from misdetect.said.errors import BadSpec
from misdetect.studies.attack.where import Where
from misdetect.studies.running import Running

Target = Literal["cls", "loc", "all", "cwat"]
"""What an attack raises: a loss of the detector, or ``cwat``, the class-aware mean of ``all``."""
TARGETS: tuple[Target, ...] = ("cls", "loc", "all", "cwat")
MTD = "mtd"
AUTO, NONE = "auto", "none"
_WHAT, _STRENGTH, _RULES = Heading("What is attacked"), Heading("How strongly"), Heading("What counts as found")
_CHECKS, _RESULTS = Heading("Checks of the attack itself"), Heading("Results")


@dataclass(frozen=True, kw_only=True)
class AttackSettings(Running):
    """Which loss breaks a detector, where the confusion goes, and whether the attack was strong enough to say so."""

    truth: Annotated[str | None, _WHAT] = None
    """Data spec whose annotations are used, joined by image name."""
    losses: Annotated[tuple[str, ...] | str, _WHAT] = ("cls", "loc")
    """Losses to raise: cls, loc, all, cwat (class-aware), mtd (per image the worse of cls and loc)."""
    where: Annotated[str, _WHAT] = "image"
    """Pixels that may change: image, inside (objects' boxes), outside[:DISTANCE] (from all of them), patch:WxH."""
    distances: Annotated[tuple[int, ...] | int, _WHAT] = (8, 16, 32, 64)
    """With --where outside: also attack from at least so many pixels away, and plot success against distance."""
    surrogate: Annotated[str | None, _WHAT] = None
    """Take gradients from this detector instead: a transfer attack, which works on any black box."""
    eps: Annotated[float, _STRENGTH, Range(0, 255)] = 8
    """Largest change of a pixel's colour, of 255."""
    alpha: Annotated[float | None, _STRENGTH, Range(0, 255)] = None
    """Change per step; by default a quarter of --eps."""
    steps: Annotated[Count, _STRENGTH] = 20
    """Steps of PGD."""
    random_start: Annotated[bool, _STRENGTH] = True
    """Start from a random point instead of the image itself."""
    restarts: Annotated[Count, _STRENGTH] = 1
    """Starts; of each image the one that loses most objects is kept."""
    momentum: Annotated[Share, _STRENGTH] = 0.0
    """Share of the earlier steps' direction that is kept in each step."""
    decay: Annotated[bool, _STRENGTH] = False
    """Halve the step when the loss stops rising, and go on from the best point (as APGD)."""
    seed: Annotated[int, _STRENGTH, Range(0)] = 0
    """Of noise and random starts, and of the images drawn again for intervals."""
    loc: Annotated[Share, _RULES] = Thresholds.loc
    """Least IoU of a detection that finds an object."""
    score: Annotated[Share, _RULES] = Thresholds.cls
    """Least score of one."""
    ladder: Annotated[Number, _CHECKS] = 16
    """Images on which ever stronger attacks are compared; 0: none, and nothing is said of the attack's strength."""
    transfer: Annotated[str, _CHECKS] = AUTO
    """Detector whose attack must not beat this one's own: a spec, auto (of the zoo), or none."""
    keep: Annotated[bool, _RESULTS] = True
    """Keep the adversarial images; `misdetect export` writes them as COCO."""
    confidence: Annotated[float, VIEW, _RESULTS, Range(0.01, 0.999)] = 0.9
    """Of the intervals."""
    pictures: Annotated[Number, RUNNING, _RESULTS] = 4
    """Images drawn, before and after, per attack."""

    def __post_init__(self) -> None:
        self.take_lists()
        for name in ("losses", "distances"):  # one of them is one word on the command line
            value = getattr(self, name)
            object.__setattr__(self, name, value if isinstance(value, tuple) else (value,))
        super().__post_init__()
        unknown = [loss for loss in self.losses if loss not in (*TARGETS, MTD)]
        if unknown or not self.losses:
            raise BadSpec(
                f"losses should be some of {', '.join(TARGETS)} and {MTD}. Got {', '.join(unknown) or 'none'}."
            )
        if self.alpha == 0:
            raise BadSpec("alpha should be more than 0: steps of no length go nowhere.")
        if any(distance < 0 for distance in self.away):
            raise BadSpec(f"distances should be at least 0. Got {min(self.away)}.")
        Where.parse(self.where)
        _ = self.thresholds

    @property
    def targets(self) -> tuple[Target, ...]:
        """What is attacked by cases of its own, in order: ``mtd`` is chosen from cls and loc."""
        wanted = [t for loss in self.losses for t in (("cls", "loc") if loss == MTD else (loss,))]
        return tuple(dict.fromkeys(wanted))  # type: ignore[arg-type]

    @property
    def away(self) -> tuple[int, ...]:
        """The distances in order."""
        return tuple(sorted({self.distances} if isinstance(self.distances, int) else set(self.distances)))

    @property
    def step(self) -> float:
        """α."""
        return self.eps / 4 if self.alpha is None else self.alpha

    @property
    def thresholds(self) -> Thresholds:
        """For ``metrics.mechanisms``."""
        return Thresholds(self.loc, self.score)
