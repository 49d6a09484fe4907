"""What lies behind a mechanism: the particular reason of each miss, and the evidence for it.

Beyond paper 3: a discarded miss names what took the good candidate away (and who suppressed it), a proposal miss
whether the first stage never fitted a box or ranked it too low. ``mechanisms`` has the paper's own algorithm.
"""

from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np

from misdetect.metrics.matching import overlap_of_pairs
from misdetect.metrics.mechanisms import (
    AT_ONCE,
    BACKGROUND,
    DISCARDED,
    INTERCLASS,
    PROPOSAL,
    REGRESSOR,
    Localised,
    Reading,
    Thresholds,
    best_pair,
    checked,
    fitting,
    proposed,
    settled,
)
from misdetect.nouns.boxes import Floats, Ints, iou
from misdetect.nouns.candidates import Candidates, Pairs, Reason

TOP = 3
"""How many of a candidate's best classes are kept as evidence."""
_REASONS = {
    Reason.TOP_K: "top-k",
    Reason.SUPPRESSED: "suppressed",
    Reason.CAP: "cap",
    Reason.TOO_SMALL: "too-small",
}
REASONS: dict[str, tuple[str, ...]] = {
    "proposal": (
        "unfitted",
        "no-cell",
        "ranked-top-k",
        "ranked-suppressed",
        "ranked-cap",
        "ranked-too-small",
        "ranked-score",
    ),
    "regressor": ("seen", "unseen", "class-box"),
    "interclass": ("reported", "hidden"),
    "background": ("right-class", "wrong-class"),
    "discarded": ("suppressed", "top-k", "cap", "score", "too-small", "outvoted", "class-box", "taken"),
}
"""What each mechanism is split into; every miss has exactly one of its mechanism's reasons."""


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """What happened to each of ``M`` missed objects; all columns are ``[M, …]``, indices are -1 where there is none.

    ``mechanism`` indexes ``MECHANISMS``; ``reason`` is one of its ``REASONS``. ``candidate``: the one that the verdict
    rests on, with ``own`` its score for the object's class, ``rival`` and ``rival_score`` the best other class,
    ``background`` its background score, ``top`` and ``top_scores`` its best classes. ``proposal`` and ``refined`` are
    the candidates whose box before and after regression fits best, with ``proposal_iou`` and ``refined_iou``;
    ``localised`` counts the refined boxes that fit. ``suppressor`` is a row of ``Candidates.kept`` and
    ``suppressor_iou`` its box's with the object. ``first_iou`` is the best of all boxes of the first stage,
    ``first_score`` the objectness of the best-scored one that fits (NaN without a first stage or a fit).
    """

    mechanism: Ints
    reason: "np.ndarray[tuple[int], np.dtype[np.object_]]"
    candidate: Ints
    own: Floats
    rival: Ints
    rival_score: Floats
    background: Floats
    top: Ints
    top_scores: Floats
    proposal: Ints
    proposal_iou: Floats
    refined: Ints
    refined_iou: Floats
    localised: Ints
    suppressor: Ints
    suppressor_iou: Floats
    first_iou: Floats
    first_score: Floats

    def __len__(self) -> int:
        return len(self.mechanism)


def diagnose(
    candidates: Candidates,
    boxes: Floats,
    labels: Ints,
    thresholds: Thresholds | None = None,
    reading: Reading = "auto",
) -> Diagnosis:
    """The mechanism of each missed object, as ``mechanisms.attribute`` has it, with reason and evidence."""
    t = thresholds or Thresholds()
    boxes, labels = checked(candidates, boxes, labels)
    fates = _Fates(candidates)
    step = max(1, AT_ONCE // max(len(candidates), 1))
    parts = [
        _chunk(candidates, fates, boxes[i : i + step], labels[i : i + step], t, reading)
        for i in range(0, max(len(boxes), 1), step)
    ]
    if len(parts) == 1:
        return parts[0]
    return Diagnosis(*(np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(Diagnosis)))


class _Fates:
    """What became of (candidate, label) pairs: looked up by number, sorted once per image and only if asked."""

    def __init__(self, candidates: Candidates) -> None:
        self.of, self.classes = candidates, max(candidates.scores.shape[1], 1)

    @cached_property
    def _sorted(self) -> list[tuple[Ints, Ints]]:
        found = []
        for pairs in (self.of.kept, self.of.dropped):
            keys = pairs.candidate * self.classes + pairs.label
            order = np.argsort(keys, kind="stable")
            found.append((order, keys[order]))
        return found

    def row(self, candidate: int, label: int) -> tuple[int, int]:
        """Rows in ``kept`` and in ``dropped``, -1 where the pair is not there."""
        key, found = candidate * self.classes + label, []
        for order, keys in self._sorted:
            at = int(np.searchsorted(keys, key))
            found.append(int(order[at]) if at < len(keys) and keys[at] == key else -1)
        return found[0], found[1]

    def least(self) -> float:
        """The lowest score that any pair passed the detector's own threshold with: nobody else tells where it is."""
        c = self.of
        scores = [c.scores[p.candidate, p.label] for p in (c.kept, c.dropped) if len(p)]
        return float(min((s.min() for s in scores), default=1.0))


def _chunk(c: Candidates, fates: _Fates, boxes: Floats, labels: Ints, t: Thresholds, reading: Reading) -> Diagnosis:
    count = len(boxes)
    if not len(c) or not count:
        return _nothing(c, boxes, t, settled(c, reading))
    before, after = (iou(boxes.astype(others.dtype), others) for others in (c.proposals, c.refined))
    proposal, refined = before.argmax(axis=1), after.argmax(axis=1)
    look = Localised.among(c, boxes, labels, t)
    mechanism = look.mechanism(t)
    lost = np.flatnonzero(mechanism == PROPOSAL)
    how = settled(c, reading) if lost.size else "boxes"  # only of these is it asked what a proposal is
    candidate, seen = _localised(look, mechanism, refined if how == "cells" else proposal), np.zeros(count, np.bool_)
    if lost.size:
        of, k = proposed(c, boxes[lost], t, how)
        best = best_pair(of, (after if how == "cells" else before)[lost[of], k], len(lost))
        reached, k_best = lost[best >= 0], k[best[best >= 0]]
        mechanism[reached], candidate[reached] = REGRESSOR, k_best
        seen[lost[of[(c.scores[k] >= t.cls).any(axis=1)]]] = True
    told = [
        _Verdict.of(c, fates, boxes[i], int(labels[i]), code, int(candidate[i]), bool(seen[i]), t, how)
        for i, code in enumerate(mechanism.tolist())
    ]
    suppressor = np.array([verdict.by for verdict in told], dtype=np.int64)
    each = np.arange(count)
    return Diagnosis(
        mechanism,
        np.array([verdict.reason for verdict in told], dtype=object),
        candidate,
        *_scores_at(c, candidate, labels),
        proposal,
        before[each, proposal].astype(np.float64),
        refined,
        after[each, refined].astype(np.float64),
        np.bincount(look.of, minlength=count),
        suppressor,
        _kept_overlap(c, suppressor, boxes),
        np.array([verdict.first_iou for verdict in told]),
        np.array([verdict.first_score for verdict in told]),
    )


def _localised(look: Localised, mechanism: Ints, otherwise: Ints) -> Ints:
    """The candidate ``[M]`` that a verdict on localised objects rests on: of those that fit the best-scored one for the
    object's class, of interclass misses for any class."""
    found = otherwise.copy()
    for values, where in ((look.own, mechanism >= INTERCLASS), (None, mechanism == INTERCLASS)):
        if where.any():
            scores = look.scores.max(axis=1) if values is None else values
            found[where] = look.candidate[best_pair(look.of, scores, look.count)[where]]
    return found


def _kept_overlap(c: Candidates, rows: Ints, boxes: Floats) -> Floats:
    """IoU ``[M]`` of the kept pairs ``rows`` with ``boxes``, NaN where there is none."""
    found, some = np.full(len(rows), np.nan), rows >= 0
    if not some.any():
        return found
    kept = Pairs(c.kept.candidate[rows[some]], c.kept.label[rows[some]])
    held = c.boxes_of(kept).astype(np.float64).reshape(-1, 4)
    found[some] = overlap_of_pairs(held, boxes[some], np.zeros(len(held), np.bool_))
    return found


@dataclass(frozen=True)
class _Verdict:
    """The particular ``reason`` of one miss, the kept row it is due to (``by``), and what the first stage had."""

    reason: str
    by: int = -1
    first_iou: float = float("nan")
    first_score: float = float("nan")

    @classmethod
    def of(
        cls, c: Candidates, fates: _Fates, box: Floats, label: int, code: int, at: int, seen: bool, t: Thresholds,
        how: Reading,
    ) -> "_Verdict":  # fmt: skip
        if code == DISCARDED:
            return _discarded(c, fates, box, at, label, t)
        if code == INTERCLASS:
            kept, _ = fates.row(at, int(c.scores[at].argmax()))
            return cls("reported" if kept >= 0 and c.scores[at].max() >= t.reported else "hidden")
        if code == BACKGROUND:
            return cls("right-class" if c.scores[at].argmax() == label else "wrong-class")
        if code == PROPOSAL:
            return _first_stage(c, box, t, how)
        if c.class_boxes is not None and len(fitting(box[None], c.class_boxes[:, label], t.loc)[0]):
            return cls("class-box")
        return cls("seen" if seen else "unseen")


def _scores_at(c: Candidates, rows: Ints, labels: Ints) -> tuple[Floats, Ints, Floats, Floats, Ints, Floats]:
    """Own score, best other class and its score, background, the best classes and theirs, at candidates ``rows``."""
    scores = c.scores[rows].astype(np.float64)
    each = np.arange(len(rows))
    own = scores[each, labels]
    others = scores.copy()
    others[each, labels] = -1
    rival = others.argmax(axis=1)
    rival_score = others[each, rival]
    alone = rival_score < 0  # a detector of one class knows no other
    top = np.argsort(-scores, axis=1, kind="stable")[:, :TOP]
    return (
        own,
        np.where(alone, -1, rival),
        np.where(alone, np.nan, rival_score),
        np.asarray(c.background)[rows].astype(np.float64),
        top.astype(np.int64),
        scores[each[:, None], top],
    )


def _discarded(c: Candidates, fates: _Fates, box: Floats, at: int, label: int, t: Thresholds) -> _Verdict:
    """Why the well localised, well classified candidate ``at`` is not in the output."""
    score = c.scores[at, label]
    if score < t.reported:
        return _Verdict("score")
    kept, dropped = fates.row(at, label)
    if kept >= 0:
        own = c.boxes_of(Pairs(np.array([at]), np.array([label])))
        return _Verdict("taken" if len(fitting(box[None], own, t.loc)[0]) else "class-box")
    if dropped >= 0:
        return _Verdict(_REASONS[Reason(int(c.dropped.reason[dropped]))], int(c.dropped.by[dropped]))
    outvoted = c.scores[at].argmax() != label and score >= fates.least()
    return _Verdict("outvoted" if outvoted else "score")


def _first_stage(c: Candidates, box: Floats, t: Thresholds, how: Reading) -> _Verdict:
    """Why nothing was proposed: whether any box of the first stage fitted, and what became of the best-scored one."""
    first = c.first
    if first is None or not len(first):
        return _Verdict("no-cell" if how == "cells" else "unfitted")
    reach = float(iou(box[None].astype(first.refined.dtype), first.refined).max())
    _, rows = fitting(box[None], first.refined, t.loc)
    if not rows.size:
        return _Verdict("unfitted", first_iou=reach)
    scores = first.scores[rows].max(axis=1)
    gone = np.flatnonzero(first.dropped.candidate == rows[scores.argmax()])
    why = _REASONS[Reason(int(first.dropped.reason[gone[0]]))] if gone.size else "score"
    return _Verdict(f"ranked-{why}", first_iou=reach, first_score=float(scores.max()))


def _nothing(c: Candidates, boxes: Floats, t: Thresholds, how: Reading) -> Diagnosis:
    """A detector that considered no box at all: everything is the proposal process's fault."""
    count = len(boxes)
    none, gap, zero = np.full(count, -1, dtype=np.int64), np.full(count, np.nan), np.zeros(count)
    told = [_first_stage(c, box, t, how) for box in boxes]
    return Diagnosis(
        mechanism=np.full(count, PROPOSAL, dtype=np.int64),
        reason=np.array([verdict.reason for verdict in told], dtype=object),
        candidate=none,
        own=zero,
        rival=none,
        rival_score=gap,
        background=gap,
        top=np.zeros((count, 0), dtype=np.int64),
        top_scores=np.zeros((count, 0)),
        proposal=none,
        proposal_iou=zero,
        refined=none,
        refined_iou=zero,
        localised=none + 1,
        suppressor=none,
        suppressor_iou=gap,
        first_iou=np.array([verdict.first_iou for verdict in told]),
        first_score=np.array([verdict.first_score for verdict in told]),
    )
