"""What can be said of a miss without looking inside: sweeps of score and IoU over what ``detect`` returns.

A black box shows only what survived suppression, caps and its own score threshold. A surviving box that localises the
object says that proposal and regressor did their work; what suppression took away is gone for good. So a verdict here
is either one of two mechanisms, or "unknown" with the reason why: it never guesses.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from misdetect.metrics.mechanisms import Thresholds
from misdetect.nouns.boxes import Bools, Floats, Ints, iou, sides
from misdetect.nouns.detections import Detections

UNKNOWN = "unknown"
CLOSED = "closed"
"""Where the settings of a detector say why it could not be opened."""
REASONS: dict[str, tuple[str, ...]] = {
    "interclass": ("reported", "hidden"),
    "background": ("right-class", "wrong-class"),
    "discarded": ("score", "taken"),
    UNKNOWN: ("poor-box", "poor-box-other-class", "nothing"),
}
"""``unknown`` is split by what is seen: a box of the class that fits badly (regressor, discarded or proposal), one of
another class, or nothing at all (any mechanism but interclass)."""
_TOUCHES = 0.1
SENTENCE = (
    "The detector cannot be looked into, so mechanisms are read off its output at its lowest threshold: interclass and "
    "background are told only where a box that fits came out, and a better box lost to suppression stays unseen; the "
    "rest is 'unknown'."
)


def judge(
    found: Detections, boxes: Floats, labels: Ints, thresholds: Thresholds, names: Sequence[str]
) -> list[dict[str, Any]]:
    """A verdict for each missed object ``boxes`` ``[M, 4]`` of ``labels`` ``[M]``, from all that was ``found``: the
    columns of its row, the same as from the inside, as far as they are known; classes are called ``names``."""
    overlap = iou(boxes, found.boxes)
    return [
        _judge(found, overlap[i], np.asarray(found.labels == label), thresholds, names)
        for i, label in enumerate(np.asarray(labels).tolist())
    ]


def _judge(found: Detections, overlap: Floats, own: Bools, t: Thresholds, names: Sequence[str]) -> dict[str, Any]:
    fits = overlap >= t.loc
    mine, other = np.flatnonzero(fits & own), np.flatnonzero(fits & ~own)
    own_score = float(found.scores[mine].max(initial=0))
    rival_score = float(found.scores[other].max(initial=0))
    if own_score >= t.cls:  # it came out: either below what is reported, or (exclusive) another object's
        verdict = "discarded", "score" if own_score < t.reported else "taken"
    elif rival_score >= t.cls:
        verdict = "interclass", "reported" if rival_score >= t.reported else "hidden"
    elif mine.size or other.size:
        verdict = "background", "right-class" if own_score >= rival_score else "wrong-class"
    else:
        near = (overlap >= _TOUCHES) & (found.scores >= t.reported)
        verdict = UNKNOWN, "poor-box" if (near & own).any() else "poor-box-other-class" if near.any() else "nothing"
    best = float(overlap.max(initial=0))
    row: dict[str, Any] = dict(zip(("mechanism", "reason"), verdict, strict=True))
    row |= {"refined_iou": best, "own_score": own_score}
    if other.size:
        rival = other[found.scores[other].argmax()]
        row |= {"rival": names[found.labels[rival]], "rival_score": rival_score}
    return row | sides(found.boxes[overlap.argmax()], "refined_") if best > 0 else row
