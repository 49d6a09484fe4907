"""``Candidates``: the inside of a detector for one image.

Every box the detector considered, before and after refinement, with all its class scores; which (candidate, label)
pairs it kept; and for each pair that was good enough by score but is not in the output, why it is not. This is what
``explain`` reads (paper 3's proposals, regressed boxes and classifier scores) and what ``attack`` compares (paper 5).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np

from misdetect.nouns.boxes import Floats, Ints
from misdetect.nouns.detections import Detections
from misdetect.said.errors import BadArray


class Reason(IntEnum):
    """Why a (candidate, label) pair above the score threshold is not in the output."""

    TOP_K = 1
    """ranked below a per-level or per-image top-k before suppression"""
    SUPPRESSED = 2
    """suppressed by a kept pair (``by``) in non-maximum suppression"""
    CAP = 3
    """over the detector's maximum number of detections. Also where the suppressor itself fell to that cap: it scores
    no less, so without suppression this pair would have ranked behind it and been over the cap too"""
    TOO_SMALL = 4
    """its box is smaller than the detector's minimum size"""


@dataclass(frozen=True, eq=False)
class Pairs:
    """``(candidate, label)`` index pairs, two ``[M]`` int64 columns."""

    candidate: Ints
    label: Ints

    def __post_init__(self) -> None:
        for name in ("candidate", "label"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype=np.int64).reshape(-1))
        if len(self.candidate) != len(self.label):
            raise BadArray(f"Expected as many candidates as labels. Got {len(self.candidate)} and {len(self.label)}.")

    def __len__(self) -> int:
        return len(self.candidate)


@dataclass(frozen=True, eq=False)
class Dropped(Pairs):
    """Pairs above the score threshold that were not kept: ``reason`` ``[M]`` (``Reason`` values) and ``by`` ``[M]``.

    ``by`` is the row in ``Candidates.kept`` of the suppressor, or -1 where the reason is not suppression.
    """

    reason: Ints
    by: Ints

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("reason", "by"):
            column = np.asarray(getattr(self, name), dtype=np.int64).reshape(-1)
            object.__setattr__(self, name, column)
            if len(column) != len(self):
                raise BadArray(f"Expected {name} to have shape [{len(self)}]. Got {list(column.shape)}.")


@dataclass(frozen=True, eq=False, repr=False)
class Candidates:
    """All ``K`` candidates of one image, over ``C`` classes (no background column).

    ``proposals`` ``[K, 4]`` before and ``refined`` ``[K, 4]`` after regression, corners in pixels of the original
    image; ``scores`` ``[K, C]`` in [0, 1] as the detector ranks them; ``background`` ``[K]`` in [0, 1]; ``identity``
    ``[K]``: the anchor, proposal or query index, the same for the same place in every image of a size; ``kept`` in
    output order; ``dropped``. ``class_boxes`` ``[K, C, 4]`` where the detector regresses one box per class (then
    ``refined`` is that of the best class); ``objectness`` ``[K]`` and ``class_scores`` ``[K, C]`` where the score is a
    product of both; ``pyramid`` ``[K]`` feature level; ``first`` the first stage (RPN) of a two-stage detector;
    ``settings`` the thresholds and caps that decided.
    """

    proposals: Floats
    refined: Floats
    scores: Floats
    background: Floats
    identity: Ints
    kept: Pairs
    dropped: Dropped
    class_boxes: Floats | None = None
    objectness: Floats | None = None
    class_scores: Floats | None = None
    pyramid: Ints | None = None
    first: "Candidates | None" = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        k, c = self.scores.shape if self.scores.ndim == 2 else (-1, -1)
        if k < 0:
            raise BadArray(f"Expected scores to have shape [K, C]. Got {list(self.scores.shape)}.")
        expected: dict[str, tuple[int, ...]] = {
            "proposals": (k, 4),
            "refined": (k, 4),
            "background": (k,),
            "identity": (k,),
            "class_boxes": (k, c, 4),
            "objectness": (k,),
            "class_scores": (k, c),
            "pyramid": (k,),
        }
        for name, shape in expected.items():
            value = getattr(self, name)
            if value is not None and value.shape != shape:
                raise BadArray(f"Expected {name} to have shape {list(shape)}. Got {list(value.shape)}.")
        for what, pairs in (("kept", self.kept), ("dropped", self.dropped)):
            low = min(pairs.candidate.min(), pairs.label.min()) if len(pairs) else 0
            if len(pairs) and (low < 0 or pairs.candidate.max() >= k or pairs.label.max() >= c):
                raise BadArray(f"Expected {what} pairs within {k} candidates and {c} classes.")
        if len(self.dropped) and (self.dropped.by.min() < -1 or self.dropped.by.max() >= len(self.kept)):
            raise BadArray(f"Expected dropped.by to index the {len(self.kept)} kept pairs.")

    def __len__(self) -> int:
        return len(self.scores)

    def __repr__(self) -> str:
        return (
            f"Candidates({len(self)} candidates x {self.scores.shape[1]} classes: "
            f"{len(self.kept)} kept, {len(self.dropped)} dropped above the threshold)"
        )

    def boxes_of(self, pairs: Pairs) -> Floats:
        """The refined boxes ``[M, 4]`` of ``pairs``, those of the pair's class where the detector has one per class."""
        if self.class_boxes is not None:
            return self.class_boxes[pairs.candidate, pairs.label]
        return self.refined[pairs.candidate]

    def select(self) -> Detections:
        """The detector's output, as a selection of candidates."""
        return Detections(self.boxes_of(self.kept), self.scores[self.kept.candidate, self.kept.label], self.kept.label)
