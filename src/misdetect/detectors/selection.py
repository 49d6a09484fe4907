"""From dense predictions to ``Candidates``: score threshold, suppression, cap, and the reason for each pair dropped.

For detectors that score every cell or query and then select (YOLOX, and decoded ONNX graphs). Suppression is that of
``boxes.py``; geometry that of ``preprocess.py``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from misdetect.detectors.preprocess import Placement
from misdetect.nouns.boxes import Floats, Ints, clip, nms
from misdetect.nouns.candidates import Candidates, Dropped, Pairs, Reason
from misdetect.nouns.grid import boxes_on_grid, scores_on_grid


@dataclass(frozen=True)
class Selection:
    """What makes a prediction a detection: ``score`` or more, no better box of its class with an IoU above ``nms`` (1:
    no suppression), among the best ``cap``. ``agnostic`` suppresses across classes; ``multilabel`` lets a candidate
    stand for every class above the threshold, not only for its best."""

    score: float
    nms: float
    cap: int
    agnostic: bool = False
    multilabel: bool = False

    def pairs(self, scores: Floats) -> Pairs:
        """The (candidate, label) pairs of ``scores`` ``[K, C]`` that pass the threshold."""
        if self.multilabel:
            return Pairs(*np.nonzero(scores >= self.score))
        labels = scores.argmax(axis=1)
        rows = np.flatnonzero(scores[np.arange(len(scores)), labels] >= self.score)
        return Pairs(rows, labels[rows])

    def rank(self, boxes: Floats, scores: Floats, labels: Ints) -> tuple[Ints, Ints]:
        """Which of ``M`` ``boxes`` stay, by falling score, and who suppressed each of the others (-1: nobody, it is
        over the cap). Decided on the grid: two cells that see the same thing tie, and do not win by the last bits of a
        kernel."""
        ranks = scores_on_grid(scores)
        if self.nms < 1:
            kept, suppressor = nms(boxes_on_grid(boxes), ranks, self.nms, None if self.agnostic else labels)
        else:
            kept, suppressor = np.argsort(-ranks, kind="stable"), np.full(len(ranks), -1)
        return kept[: self.cap], suppressor

    def decide(self, pairs: Pairs, boxes: Floats, scores: Floats) -> tuple[Pairs, Dropped]:
        """Of ``M`` ``pairs`` with their ``boxes`` and ``scores``, those kept (by falling score) and why others are not.

        A pair whose suppressor is itself over the cap ranks below the cap too, and that is its reason.
        """
        kept, suppressor = self.rank(boxes, scores, pairs.label)
        row = np.full(len(scores), -1, dtype=np.int64)
        row[kept] = np.arange(len(kept))
        rest = np.flatnonzero(row < 0)
        by = np.where(suppressor[rest] >= 0, row[suppressor[rest]], -1)
        reason = np.where(by >= 0, int(Reason.SUPPRESSED), int(Reason.CAP))
        return (
            Pairs(pairs.candidate[kept], pairs.label[kept]),
            Dropped(pairs.candidate[rest], pairs.label[rest], reason, by),
        )


@dataclass(frozen=True)
class Dense:
    """The predictions for one image, boxes in pixels of the network's input: ``proposals`` and ``boxes`` ``[K, 4]``,
    ``scores`` ``[K, C]``; where known ``objectness`` ``[K]``, ``class_scores`` ``[K, C]``, ``background`` ``[K]`` and
    ``pyramid`` ``[K]``."""

    proposals: Floats
    boxes: Floats
    scores: Floats
    objectness: Floats | None = None
    class_scores: Floats | None = None
    background: Floats | None = None
    pyramid: Ints | None = None

    def candidates(
        self, how: Selection, where: Placement, width: int, height: int, settings: Mapping[str, Any]
    ) -> Candidates:
        """All of it in pixels of the original image of ``width`` × ``height``.

        Boxes are suppressed as predicted and clipped to the image after it; proposals are not clipped.
        """
        pairs = how.pairs(self.scores)
        kept, dropped = how.decide(pairs, self.boxes[pairs.candidate], self.scores[pairs.candidate, pairs.label])
        background = self.background if self.background is not None else 1 - self.scores.max(axis=1)
        return Candidates(
            proposals=where.to_original(self.proposals),
            refined=clip(where.to_original(self.boxes), width, height),
            scores=self.scores,
            background=background,
            identity=np.arange(len(self.scores)),
            kept=kept,
            dropped=dropped,
            objectness=self.objectness,
            class_scores=self.class_scores,
            pyramid=self.pyramid,
            settings=settings,
        )
