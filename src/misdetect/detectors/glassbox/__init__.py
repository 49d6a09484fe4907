"""The glass box: a detector made from the ground truth, with planted faults that a diagnosis has to find again."""

from misdetect.detectors.family import Family
from misdetect.nouns.spec import Spec


def _reach(spec: Spec) -> str | None:
    from misdetect.data import unseen

    _, _, data = spec.text.partition(",data=")
    return None if (place := unseen(data)) is None else f"would be read from {place}, with your credentials"


FAMILY = Family(
    "the ground truth with planted faults, to test diagnoses",
    "Traced",
    "glassbox:none,data=rooms:val",
    "misdetect.detectors.glassbox.detector:load_glassbox",
    reach=_reach,
    place=190,
)
