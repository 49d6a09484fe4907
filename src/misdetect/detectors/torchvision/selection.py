"""How a torchvision model gets from scored boxes to its output, with the reason for everything it leaves out.

The models select inside ``postprocess_detections`` and forget what they dropped. ``select`` makes the same choice with
the same operators (torchvision's own ``batched_nms``) and then looks up who suppressed whom; it knows no networks.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from misdetect.detectors.torch_detector import as_array
from misdetect.nouns.boxes import Bools, Floats, Ints, iou
from misdetect.nouns.candidates import Dropped, Pairs, Reason

_BLOCK = 1 << 21  # overlaps computed at once while looking for suppressors


@dataclass
class Shortlist:
    """(candidate, label) pairs above the score threshold, on their way to suppression.

    ``candidate``, ``label`` and ``scores`` ``[M]`` and ``boxes`` ``[M, 4]`` are those still in; ``out`` collects the
    pairs that left before suppression, with the reason. ``group`` ``[M]``: only pairs of one group suppress each other.
    """

    candidate: Tensor
    label: Tensor
    scores: Tensor
    boxes: Tensor
    group: Tensor
    out: list[tuple[Reason, Tensor, Tensor]] = field(default_factory=list)

    @classmethod
    def join(cls, parts: list["Shortlist"]) -> "Shortlist":
        """The shortlists of several levels or classes, one after the other."""
        return cls(
            torch.cat([part.candidate for part in parts]),
            torch.cat([part.label for part in parts]),
            torch.cat([part.scores for part in parts]),
            torch.cat([part.boxes for part in parts]),
            torch.cat([part.group for part in parts]),
            [item for part in parts for item in part.out],
        )

    def without_small(self, size: float) -> "Shortlist":
        """Those with both sides ``>= size``; the others leave as ``TOO_SMALL``."""
        sides = self.boxes[:, 2:] - self.boxes[:, :2]
        small = (sides < size).any(dim=1)
        if not bool(small.any()):
            return self
        stay = torch.where(~small)[0]
        out = [*self.out, (Reason.TOO_SMALL, self.candidate[small], self.label[small])]
        return Shortlist(
            self.candidate[stay], self.label[stay], self.scores[stay], self.boxes[stay], self.group[stay], out
        )


def select(shortlist: Shortlist, *, nms: float, cap: int, first_label: int = 0) -> tuple[Pairs, Dropped]:
    """What suppression at IoU > ``nms`` and a maximum of ``cap`` keep of ``shortlist``, in output order,
    and what they drop.

    Labels below ``first_label`` (a background column) compete but are not reported; the others are counted from it.
    """
    from torchvision.ops import boxes as box_ops

    survivors = as_array(box_ops.batched_nms(shortlist.boxes, shortlist.scores, shortlist.group, nms))
    count = len(shortlist.scores)
    rank = np.full(count, -1, dtype=np.int64)
    rank[survivors] = np.arange(len(survivors))
    lost = np.flatnonzero(rank < 0)
    by = np.full(count, -1, dtype=np.int64)
    if len(lost):
        by[lost] = rank[_suppressors(as_array(shortlist.boxes), as_array(shortlist.group), survivors, lost, nms)]
    over = np.where(rank < 0, by, rank) >= cap
    by[over] = -1
    reason = np.where(over, Reason.CAP, Reason.SUPPRESSED)
    dropped = np.flatnonzero((rank < 0) | over)
    candidate, label = as_array(shortlist.candidate), as_array(shortlist.label)
    kept = survivors[:cap]
    early = [(as_array(c), as_array(la), int(why)) for why, c, la in shortlist.out]
    return _counted_from(
        first_label,
        Pairs(candidate[kept], label[kept]),
        Dropped(
            _joined([candidate[dropped]] + [c for c, _, _ in early]),
            _joined([label[dropped]] + [la for _, la, _ in early]),
            _joined([reason[dropped]] + [np.full(len(c), why) for c, _, why in early]),
            _joined([by[dropped]] + [np.full(len(c), -1) for c, _, _ in early]),
        ),
    )


def _joined(columns: list[Any]) -> Ints:
    return np.concatenate(columns).astype(np.int64, copy=False)


def _counted_from(first: int, kept: Pairs, dropped: Dropped) -> tuple[Pairs, Dropped]:
    if first == 0:
        return kept, dropped
    stay: Bools = kept.label >= first
    row = np.append(np.cumsum(stay) - 1, -1)  # a suppressor has its victim's label, so it stays if the victim does
    real: Bools = dropped.label >= first
    return Pairs(kept.candidate[stay], kept.label[stay] - first), Dropped(
        dropped.candidate[real], dropped.label[real] - first, dropped.reason[real], row[dropped.by[real]]
    )


def _suppressors(boxes: Floats, group: Ints, survivors: Ints, lost: Ints, threshold: float) -> Ints:
    """For each of ``lost`` the first survivor (by score) of its group that overlaps it more than ``threshold``.

    ``batched_nms`` may shift boxes far away from each other before comparing, so its overlaps are rounded a little
    differently; where no overlap exceeds the threshold here, the largest one is meant.
    """
    result = np.zeros(len(lost), dtype=np.int64)
    by_group = np.argsort(group[survivors], kind="stable")
    sorted_groups = group[survivors][by_group]
    order = np.argsort(group[lost], kind="stable")
    for members in np.split(order, np.flatnonzero(np.diff(group[lost][order])) + 1):
        start, stop = np.searchsorted(sorted_groups, [group[lost[members[0]]], group[lost[members[0]]] + 1])
        rivals = survivors[by_group[start:stop]]
        step = max(1, _BLOCK // len(rivals))
        for begin in range(0, len(members), step):
            block = members[begin : begin + step]
            overlaps = iou(boxes[lost[block]], boxes[rivals])
            beyond = overlaps > np.float64(threshold)
            found = np.where(beyond.any(axis=1), beyond.argmax(axis=1), overlaps.argmax(axis=1))
            result[block] = rivals[found]
    return result
