"""What a checkup says of TIDE's errors."""

from collections.abc import Iterator, Mapping

from misdetect.studies.advice import LEAST, listed
from misdetect.studies.contract import Document, Finding

_TIDE = {
    "Cls": (
        "right boxes with the wrong class cost {points:.1f} points of AP50",
        "Train on more photos of {classes}; `misdetect confusion` lists which classes are taken for which.",
    ),
    "Loc": (
        "boxes that fit badly cost {points:.1f} points of AP50",
        "See whether {classes} are annotated tightly, first in {photos}; quantised weights do this too.",
    ),
    "Both": (
        "boxes that are wrong in place and class cost {points:.1f} points of AP50",
        "Look at {photos}: a higher score threshold leaves most such boxes out.",
    ),
    "Dupe": (
        "second boxes on one object cost {points:.1f} points of AP50",
        "Lower the IoU of the non-maximum suppression; {classes} have most of them.",
    ),
    "Bkg": (
        "boxes where nothing is annotated cost {points:.1f} points of AP50",
        "See whether annotations of {classes} are missing, first in {photos}; else train on photos without them.",
    ),
}
_FEW = 3


def findings(document: Document, documents: Mapping[str, Document]) -> Iterator[Finding]:
    """The TIDE types that certainly cost something."""
    intervals = document.get("intervals", {}).get("tide", {})
    photos = listed([str(each["image"]) for each in document.get("worst_images", [])[:_FEW]])
    for kind, (words, advice) in _TIDE.items():
        points, ends = document["tide"].get(kind) or 0.0, intervals.get(kind)
        if points / 100 >= LEAST and ends is not None and ends[0] > 0:
            said = f"{words.format(points=points)} ({ends[0]:.1f} to {ends[1]:.1f})."
            share = ends[0] / 100, ends[1] / 100
            what = advice.format(
                classes=listed(_classes(document, kind)) or "the objects", photos=photos or "the images"
            )
            yield Finding(said[0].upper() + said[1:], what, points / 100, share, "score", kind)


def _classes(document: Document, kind: str) -> list[str]:
    """The classes with most detections of that type."""
    counts = {name: each["counts"].get(kind, 0) for name, each in document.get("by_class", {}).items()}
    return [name for name in sorted(counts, key=lambda name: (-counts[name], name))[:_FEW] if counts[name]]
