"""What a checkup says of TIDE's errors."""

from collections.abc import Iterator, Mapping

from misdetect.studies.advice import LEAST
from misdetect.studies.contract import Document, Finding

_TIDE = {
    "Cls": (
        "right boxes with the wrong class cost {points:.1f} points of AP50",
        "Add examples of the classes that are confused; `misdetect confusion` lists the pairs and the objects.",
    ),
    "Loc": (
        "boxes that fit badly cost {points:.1f} points of AP50",
        "Check the annotations' tightness, the input size and the box scaling; quantised weights do this too.",
    ),
    "Both": (
        "boxes that are wrong in place and class cost {points:.1f} points of AP50",
        "Raise the score threshold, and look at the images named as worst.",
    ),
    "Dupe": (
        "second boxes on one object cost {points:.1f} points of AP50",
        "Lower the IoU of the non-maximum suppression.",
    ),
    "Bkg": (
        "boxes where nothing is annotated cost {points:.1f} points of AP50",
        "Add images without objects to the training data, or raise the threshold; check for missing annotations.",
    ),
}


def findings(document: Document, documents: Mapping[str, Document]) -> Iterator[Finding]:
    """The TIDE types that certainly cost something."""
    intervals = document.get("intervals", {}).get("tide", {})
    for kind, (words, advice) in _TIDE.items():
        points, ends = document["tide"].get(kind) or 0.0, intervals.get(kind)
        if points / 100 >= LEAST and ends is not None and ends[0] > 0:
            said = f"{words.format(points=points)} ({ends[0]:.1f} to {ends[1]:.1f})."
            share = ends[0] / 100, ends[1] / 100
            yield Finding(said[0].upper() + said[1:], advice, points / 100, share, "score", kind)
