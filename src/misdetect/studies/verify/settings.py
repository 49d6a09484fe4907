"""What can be set of ``verify``: what counts as detected and as missing, the prices, and how causes are looked for."""

from dataclasses import dataclass
from typing import Annotated

from misdetect.compose.cover import Filling
from misdetect.nouns.detections import STATES
from misdetect.nouns.settings import RUNNING, VIEW, Heading, Number, Range, Share
from misdetect.said.errors import BadSpec
from misdetect.studies.running import Running

_STATES, _RULES, _PRICES = Heading("States of parts"), Heading("What counts as detected"), Heading("What mistakes cost")
_CAUSES, _RESULTS = Heading("Why parts are hallucinated"), Heading("Results")


@dataclass(frozen=True, kw_only=True)
class VerifySettings(Running):
    """Are the parts really there? Recall of present and of missing parts, F_vv, and what hallucinations hang on."""

    missing: Annotated[tuple[str, ...], _STATES] = ("absent", "occluded")
    """States of a part that is not there to be seen."""
    present: Annotated[tuple[str, ...], _STATES] = ("intact", "damaged")
    """States of a part that is there, unless they are missing or ignored; DelftBikes' own need not be named."""
    ignored: Annotated[tuple[str, ...], _STATES] = ()
    """States of parts that are not counted at all."""
    score: Annotated[Share, _RULES] = 0.5
    """Least score of a detection; the curves show all others."""
    present_iou: Annotated[Share, _RULES] = 0.5
    """With localisation: least IoU of a detection that finds a present part (T_P)."""
    missing_iou: Annotated[Share, _RULES] = 0.1
    """With localisation: least IoU of a detection that hallucinates a missing part (T_M); 0 asks about classifiers."""
    beta: Annotated[float, VIEW, _PRICES, Range(0.001, 1000)] = 0.1
    """F_vv weighs a hallucinated part 1/β as much as a present one that is not found."""
    false_present: Annotated[float | None, VIEW, _PRICES, Range(0)] = None
    """Price of a missing part that is taken for present; by default 1/β."""
    check: Annotated[float, VIEW, _PRICES, Range(0)] = 1.0
    """Price of a needless check: of a present part that is not found."""
    context: Annotated[bool, _CAUSES] = True
    """Edit the image of every hallucination to see what it hangs on."""
    filling: Annotated[Filling, _CAUSES] = "inpaint"
    """What takes the place of neighbouring parts."""
    reach: Annotated[Share, _CAUSES] = 0.2
    """Neighbours are parts that are as near, as a share of the image's diagonal."""
    shift: Annotated[float, _CAUSES, Range(0.01, 0.5)] = 0.1
    """How far everything is moved, as a share of the image's side."""
    seed: Annotated[int, _CAUSES, Range(0)] = 0
    """Of the choice of donors, of the halves, and of the images drawn again for the intervals."""
    confidence: Annotated[float, VIEW, _RESULTS, Range(0.01, 0.999)] = 0.9
    """Of the intervals."""
    pictures: Annotated[Number, RUNNING, _RESULTS] = 4
    """Hallucinations drawn per cause."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.missing:
            raise BadSpec("missing should name at least one state of parts that are not there.")
        if both := set(self.missing) & set(self.ignored):
            raise BadSpec(f"the state {min(both)!r} cannot be both missing and ignored.")

    def group(self, state: str) -> str | None:
        """ "missing", "ignored" or "present"; ``None`` for a state that nobody named."""
        if state in self.missing:
            return "missing"
        if state in self.ignored:
            return "ignored"
        return "present" if state in self.present or state in STATES else None

    @property
    def false_present_price(self) -> float:
        """What a missing part that is taken for present costs."""
        return 1 / self.beta if self.false_present is None else self.false_present
