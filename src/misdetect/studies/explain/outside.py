"""What can be said of a miss without looking inside: sweeps of score and IoU over what ``detect`` returns.

A black box shows only what survived suppression, caps and its own score threshold. A surviving box that localises the
object says that proposal and regressor did their work; what suppression took away is gone for good. So a verdict here
is either one of two mechanisms, or "unknown" with the reason why: it never guesses.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from misdetect.metrics.mechanisms import Thresholds
from misdetect.nouns.boxes import Floats, Ints, iou, sides
from misdetect.nouns.detections import Detections

UNKNOWN = "unknown"
CLOSED = "closed"
"""Where the settings of a detector say why it could not be opened."""
REASONS: dict[str, tuple[str, ...]] = {
    "interclass": ("reported", "hidden"),
    "background": ("right-class", "wrong-class"),
    "calibration": ("score", "taken"),
    UNKNOWN: ("poor-box", "poor-box-other-class", "nothing"),
}
"""``unknown`` is split by what is seen: a box of the class that fits badly (regressor, calibration or proposal), one of
another class, or nothing at all (any mechanism but interclass)."""
_TOUCHES = 0.1
SENTENCE = (
    "The detector cannot be looked into, so mechanisms are read off its output at its lowest threshold: interclass and "
    "background are told only where a box that fits came out, and a better box lost to suppression stays unseen; the "
    "rest is 'unknown'."
)


@dataclass(frozen=True)
class Outside:
    """The verdict on one miss: its ``mechanism`` or "unknown", the ``reason``, and the detection it rests on."""

    mechanism: str
    reason: str
    overlap: float
    own_score: float
    rival: int
    rival_score: float
    box: tuple[float, ...] | None

    def columns(self, names: Sequence[str]) -> dict[str, Any]:
        """The row's columns: the same as from the inside, as far as they are known."""
        row: dict[str, Any] = {
            "mechanism": self.mechanism,
            "reason": self.reason,
            "refined_iou": self.overlap,
            "own_score": self.own_score,
        }
        if self.rival >= 0:
            row |= {"rival": names[self.rival], "rival_score": self.rival_score}
        if self.box is not None:
            row |= sides(self.box, "refined_")
        return row


def judge(found: Detections, boxes: Floats, labels: Ints, thresholds: Thresholds) -> list[Outside]:
    """A verdict for each missed object ``boxes`` ``[M, 4]`` of ``labels`` ``[M]``, from all that was ``found``."""
    overlap = iou(boxes, found.boxes)
    return [
        _judge(found, overlap[i], np.asarray(found.labels == label), thresholds)
        for i, label in enumerate(np.asarray(labels).tolist())
    ]


def _judge(found: Detections, overlap: Floats, own: "np.ndarray[Any, np.dtype[np.bool_]]", t: Thresholds) -> Outside:
    fits = overlap >= t.loc
    mine, other = np.flatnonzero(fits & own), np.flatnonzero(fits & ~own)
    own_score = float(found.scores[mine].max(initial=0))
    best = int(other[found.scores[other].argmax()]) if other.size else -1
    rival_score = float(found.scores[best]) if best >= 0 else 0.0
    if own_score >= t.cls:  # it came out: either below what is reported, or (exclusive) another object's
        verdict = "calibration", "score" if own_score < t.reported else "taken"
    elif rival_score >= t.cls:
        verdict = "interclass", "reported" if rival_score >= t.reported else "hidden"
    elif mine.size or other.size:
        verdict = "background", "right-class" if own_score >= rival_score else "wrong-class"
    else:
        near = overlap >= _TOUCHES
        touching = near & own & (found.scores >= t.reported)
        strange = near & (found.scores >= t.reported)
        verdict = UNKNOWN, "poor-box" if touching.any() else "poor-box-other-class" if strange.any() else "nothing"
    at = int(overlap.argmax()) if len(overlap) and overlap.max() > 0 else -1
    return Outside(
        *verdict,
        overlap=float(overlap.max(initial=0)),
        own_score=own_score,
        rival=int(found.labels[best]) if best >= 0 else -1,
        rival_score=rival_score,
        box=None if at < 0 else tuple(found.boxes[at].tolist()),
    )
