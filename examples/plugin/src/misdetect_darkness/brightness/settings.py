"""What can be set of ``brightness``."""

from dataclasses import dataclass
from typing import Annotated

from misdetect.nouns.settings import VIEW, Range, Share
from misdetect.said.errors import BadSpec
from misdetect.studies.running import Running


@dataclass(frozen=True, kw_only=True)
class BrightnessSettings(Running):
    """How far images can be darkened before objects are lost."""

    light: tuple[float, ...] = (0.7, 0.5, 0.35, 0.25, 0.15)
    """Shares of its light that an image is shown with, the brightest first."""
    score: Share = 0.5
    """Least score of a detection that finds an object."""
    iou: Share = 0.5
    """Least IoU of one."""
    needed: Annotated[Share, VIEW] = 0.5
    """Objects that are not found down to this light count as lost."""
    confidence: Annotated[float, VIEW, Range(0.01, 0.999)] = 0.9
    """Of the intervals."""

    def __post_init__(self) -> None:
        light = self.light if isinstance(self.light, tuple) else (self.light,)  # one is one word on the command line
        object.__setattr__(self, "light", light)
        super().__post_init__()
        if not all(0 <= each < 1 for each in light) or list(light) != sorted(set(light), reverse=True):
            raise BadSpec(f"light should fall, from below 1 to no less than 0. Got {', '.join(map(str, light))}.")
