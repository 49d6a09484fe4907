"""The inside of a detector around an inserted object, as a page shows it: candidates, who suppressed whom, and what
became of the originals that were lost. The chain of suppressions is scan's."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from misdetect.metrics.transplant import KEPT, LOST
from misdetect.nouns.boxes import Bools, Floats, Ints, iou, sides
from misdetect.nouns.candidates import Candidates, Pairs, Reason
from misdetect.nouns.detections import Detections
from misdetect.studies.suppression import explain_losses

_MOST = 40
"""Candidates shown, the best first; their suppressors come on top."""
_FEW = 4
"""Of what one box suppressed, so many are shown."""
_LEAST = 0.05
"""Lowest score of a candidate that is shown."""
_AROUND = 0.5
"""How far around the object candidates are shown, in its own sizes."""
_REASONS = {
    Reason.TOP_K: "below a top-k",
    Reason.SUPPRESSED: "suppressed",
    Reason.CAP: "over the cap",
    Reason.TOO_SMALL: "too small",
}


def inside_of(
    clean: Candidates,
    edited: Candidates,
    pasted: Sequence[float],
    before: Detections,
    lost: Sequence[int],
    names: Sequence[str],
    score: float,
) -> dict[str, Any]:
    """``candidates`` near the object at ``pasted`` (x0, y0, x1, y1) or near an original that is lost, each with its
    ``fate`` and the number of its suppressor in this list (``by``) and their ``overlap``; ``losses``: the fate, the
    mechanism and the chain of each original ``before`` whose row is in ``lost``. ``score``: what is a detection."""
    near = _near(pasted, before.boxes[list(lost)])
    return {
        "candidates": _candidates(edited, near, names),
        "losses": _losses(clean, edited, before, lost, names, score),
    }


def _near(pasted: Sequence[float], lost: Floats) -> Floats:
    """The boxes ``[N, 4]`` in which candidates are looked for."""
    x0, y0, x1, y1 = pasted
    wide, high = _AROUND * (x1 - x0), _AROUND * (y1 - y0)
    return np.concatenate([[[x0 - wide, y0 - high, x1 + wide, y1 + high]], lost])


def _candidates(inside: Candidates, near: Floats, names: Sequence[str]) -> list[dict[str, Any]]:
    kept, dropped = inside.kept, inside.dropped
    pairs = Pairs(
        np.concatenate([kept.candidate, dropped.candidate]), np.concatenate([kept.label, dropped.label])
    )  # fmt: skip
    boxes, scores = inside.boxes_of(pairs), inside.scores[pairs.candidate, pairs.label]
    by = np.concatenate([np.full(len(kept), -1), dropped.by])
    shown = _shown(boxes, scores, by, near)
    place = {row: number for number, row in enumerate(shown)}
    found = []
    for row in shown:
        reason = None if row < len(kept) else Reason(int(dropped.reason[row - len(kept)]))
        suppressor = int(by[row])
        found.append(
            {
                "box": boxes[row].tolist(),
                "label": names[int(pairs.label[row])],
                "score": float(scores[row]),
                "fate": "kept" if reason is None else _REASONS[reason],
                "by": place.get(suppressor) if suppressor >= 0 else None,
                "overlap": float(iou(boxes[[row]], boxes[[suppressor]])[0, 0]) if suppressor >= 0 else None,
            }
        )
    return found


def _shown(boxes: Floats, scores: Floats, by: Ints, near: Floats) -> list[int]:
    """The rows that are shown, the best first, and then those that suppressed any of them: what has its centre near,
    and of what one box suppressed only the best few (kept pairs come first)."""
    centres = (boxes[:, None, :2] + boxes[:, None, 2:]) / 2
    inside: Bools = np.all((centres >= near[:, :2]) & (centres <= near[:, 2:]), axis=2).any(axis=1)
    good = np.flatnonzero((scores >= _LEAST) & inside)
    few: Counter[int] = Counter()
    best: list[int] = []
    for row in good[np.argsort(-scores[good], kind="stable")].tolist():
        few[int(by[row])] += by[row] >= 0
        if few[int(by[row])] <= _FEW and len(best) < _MOST:
            best.append(row)
    return list(dict.fromkeys([*best, *(int(by[row]) for row in best if by[row] >= 0)]))


def _losses(
    clean: Candidates,
    edited: Candidates,
    before: Detections,
    lost: Sequence[int],
    names: Sequence[str],
    score: float,
) -> list[dict[str, Any]]:
    outcomes = [LOST if row in lost else KEPT for row in range(len(before))]
    things: list[dict[str, Any]] = [
        {**sides(box), "outcome": outcome, "fate": None, "chain": None, "mechanism": None}
        for box, outcome in zip(before.boxes.tolist(), outcomes, strict=True)
    ]
    explain_losses(things, before.labels, names, clean, edited, score)
    return [
        {
            "label": names[int(before.labels[row])],
            "box": before.boxes[row].tolist(),
            **{name: things[row][name] for name in ("fate", "mechanism", "chain")},
        }
        for row in lost
    ]
