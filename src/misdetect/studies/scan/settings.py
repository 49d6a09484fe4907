"""What can be set of ``scan``: what is put in where, what counts, how much is asked, how rates are made of it.

τ, the policy, the average and the confidence only decide how rows are read, so that a finished run can be read in
another way without asking again; an adaptive scan asks until the rates at its τ are known, and there they decide rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from misdetect.engine.store import Run
from misdetect.metrics.transplant import Own, Rules
from misdetect.nouns.settings import RUNNING, VIEW, Count, Heading, Number, Range, Share
from misdetect.said.errors import BadSpec
from misdetect.studies.running import Running

Policy = Literal["body", "caption"]
Average = Literal["positions", "images"]
TAUS = (0.3, 0.5, 0.7, 0.95, 0.99)
"""Those of Table I."""

_WHAT, _COUNTS, _ASKED = Heading("What is put in"), Heading("What counts"), Heading("What is asked")
_RESULTS = Heading("Results")


@dataclass(frozen=True, kw_only=True)
class ScanSettings(Running):
    """Put an object in at every place of a dense grid and watch what happens to the other detections (the paper: object
    transplanting)."""

    pairs: Annotated[Count, _WHAT] = 29
    """Pairs of image and object."""
    step: Annotated[Count, _WHAT] = 10
    """Step of the grid in pixels."""
    image: Annotated[str | None, _WHAT] = None
    """Put the object into this image (its id)."""
    object: Annotated[int | None, _WHAT] = None
    """Put in this object (annotation id)."""
    same_image: Annotated[bool, _WHAT] = False
    """Duplicate an object within its image."""
    min_area: Annotated[Share, _WHAT] = 0.01
    """Least area of the object, share of the image."""
    max_side: Annotated[Share, _WHAT] = 0.5
    """Longest side of the object, share of the image's."""
    seed: Annotated[int, _WHAT, Range(0)] = 0
    """Of the pairs, the control, the order of an adaptive scan and the intervals."""
    score: Annotated[Share, _COUNTS] = Rules.score
    """What counts as a detection."""
    own: Annotated[Own, _COUNTS] = Rules.own
    """What is done about detections of the object itself."""
    margin: Annotated[Share, _COUNTS] = Rules.margin
    """A score this near --score flickers."""
    kept_iou: Annotated[Share, _COUNTS] = Rules.kept
    """IoU with what continues it from which an original is kept."""
    same_iou: Annotated[Share, _COUNTS] = Rules.same
    """IoU from which a detection may continue an original at all."""
    on_t_iou: Annotated[Share, _COUNTS] = Rules.on_t
    """IoU from which a detection lies on the object, and from which a faint box is the same box."""
    control: Annotated[bool, _ASKED] = True
    """Scan the control too: the same shape filled with texture, to tell what any change would do."""
    trace: Annotated[bool | None, _ASKED] = None
    """Look inside where objects are lost; by default if possible."""
    adaptive: Annotated[bool, _ASKED] = False
    """Ask only where it tells something."""
    precision: Annotated[float, _ASKED, Range(0.01, 100)] = 2.5
    """Adaptive: points to know the rates by."""
    tau: Annotated[tuple[float, ...], VIEW, _RESULTS] = TAUS
    """Thresholds on S, how well the other detections survive (0 to 1), separated by commas."""
    policy: Annotated[Policy, VIEW, _RESULTS] = "body"
    """The threshold is put on S (eq. 1), or on the least IoU (the caption of Table I)."""
    average: Annotated[Average, VIEW, _RESULTS] = "positions"
    """What counts the same in a rate."""
    confidence: Annotated[float, VIEW, _RESULTS, Range(0.01, 0.999)] = 0.9
    """Of the intervals."""
    pictures: Annotated[Number, RUNNING, _RESULTS] = 3
    """Draw maps and strips of the N worst pairs."""
    interference: Annotated[Number, RUNNING, _RESULTS] = 0
    """Take N wrong detections apart (Fig. 3)."""

    def __post_init__(self) -> None:
        self.take_lists()
        numbers = isinstance(self.tau, tuple) and all(isinstance(t, (int, float)) for t in self.tau)
        if not numbers or not self.tau or not all(0 < t <= 1 for t in self.tau):
            raise BadSpec(f"tau takes numbers above 0 and up to 1, separated by commas. Got {self.tau!r}.")
        object.__setattr__(self, "tau", tuple(sorted({float(t) for t in self.tau})))
        super().__post_init__()

    @property
    def rules(self) -> Rules:
        """For ``metrics.transplant``."""
        return Rules(self.score, self.own, self.margin, self.kept_iou, self.same_iou, self.on_t_iou)

    @property
    def faint(self) -> tuple[float, float]:
        """What lies below the first is firmly no detection."""
        return self.score - self.margin, self.score

    @property
    def wanted(self) -> int:
        """How many pairs that makes: named by hand, there is one."""
        return 1 if self.image is not None and (self.object is not None or self.same_image) else self.pairs


def stored(settings: ScanSettings, search: Mapping[str, Any] | None) -> dict[str, Any]:
    """The settings that decide the rows, as ``run.json`` has them; ``search`` is how an adaptive scan goes about it."""
    found = settings.document()
    del found["precision"]  # it is part of ``search``, and decides nothing without one
    return {**found, "adaptive": search}


def settings_of(run: Run) -> ScanSettings:
    """How ``run`` was made and is shown."""
    found = run.chosen
    search = found.pop("adaptive")
    decided = {name: search[name] for name in ("precision", "tau", "policy")} if search else {}
    return ScanSettings.of({**found, **decided, "adaptive": bool(search)})
