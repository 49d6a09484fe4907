"""The metamorphic relation of paper 4: an object inserted beside the others must not change what is detected of them.

``judge`` takes the detections on the background (the reference) and on the synthetic image, leaves out those of the
inserted object, and lists each change: its type, whether the oracle counts it, and whether it is only a score that
flickers across the threshold. Functions of arrays; choices are in ``Oracle`` and explained in docs/definitions/fuzz.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from misdetect.nouns.boxes import Bools, Floats, Ints, iou, match
from misdetect.nouns.detections import Detections
from misdetect.nouns.settings import Settings, Share
from misdetect.said.errors import BadSpec

MISSED, EXTRA, RENAMED, MOVED = TYPES = ("missed", "extra", "renamed", "moved")


@dataclass(frozen=True)
class Oracle(Settings):
    """When is a synthetic image a failure?

    ``score``: what counts as a detection. ``iou``: from where two boxes are the same. ``strict``: originals and
    detections are matched one to one, and every extra detection counts, not only those that lower mAP. ``flicker``: a
    score this close to ``score`` flickers. ``corner``: detections whose top-left lies within this many pixels of the
    inserted object's are its own. ``near``: IoU from which a box of the same class is the original moved, not another.
    """

    score: Share = 0.5
    iou: Share = 0.5
    strict: bool = False
    flicker: Share = 0.05
    corner: float = 10.0
    near: Share = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.near > self.iou or self.iou == 0:
            raise BadSpec(f"iou should be above 0 and at least {self.near:g} (near). Got {self.iou}.")

    @property
    def low(self) -> float:
        """A score below this is firmly no detection."""
        return self.score - self.flicker

    @property
    def high(self) -> float:
        """A score from here on is firmly a detection."""
        return self.score + self.flicker


@dataclass(frozen=True)
class Change:
    """One difference. ``thing``: index of the original among the reference's detections above the threshold, -1 for an
    ``extra`` one. ``label`` of the original (of the extra), ``became`` the label it was renamed to or -1, ``box`` of
    the original (of the extra). ``score`` on the background and ``after`` on the synthetic image; where it is none of
    its own, the best score that its class has in its place, whoever else it may belong to, or 0. ``flickers``: only
    just; ``counts``: the oracle minds it."""

    type: str
    thing: int
    label: int
    became: int
    box: tuple[float, float, float, float]
    score: float
    after: float
    flickers: bool
    counts: bool

    def same_as(self, other: "Change") -> bool:
        """Whether both are the same failure of the same background: same type and object; extras by class and place."""
        if self.type != other.type or self.thing != other.thing:
            return False
        return self.type != EXTRA or same_extra(self.label, self.box, other.label, other.box)


def same_extra(label: int | str, box: Sequence[float], other_label: int | str, other_box: Sequence[float]) -> bool:
    """Whether two extra detections on one background are one: the same class (by number or by name), an IoU of at least
    one half."""
    return label == other_label and float(iou([box], [other_box])[0, 0]) >= 0.5


def inserted(boxes: Floats, pasted: Floats, corner: float) -> Bools:
    """Which of ``boxes`` ``[N, 4]`` are detections of the object inserted at ``pasted`` ``[4]``: the top-left corner
    closer than ``corner`` pixels in x and in y, or the centre inside ``pasted``."""
    near = (np.abs(boxes[:, :2] - pasted[:2]) < corner).all(axis=1)
    centre = (boxes[:, :2] + boxes[:, 2:]) / 2
    inside = ((centre >= pasted[:2]) & (centre <= pasted[2:])).all(axis=1)
    return np.asarray(near | inside)


def _own(boxes: Floats, overlap: Floats, pasted: Floats, oracle: Oracle) -> Bools:
    """Which of ``boxes`` ``[M, 4]``, with IoU ``overlap`` ``[N, M]`` to the originals, are detections of the object
    inserted at ``pasted`` ``[4]``.

    One that lies on an original (IoU at least ``oracle.iou``, and more than with the inserted object) is not: the rule
    of paper 4's code would take small neighbours for the object itself and call them missed.
    """
    own = inserted(boxes, pasted, oracle.corner)
    if own.any():
        most = overlap.max(axis=0, initial=0.0)
        own &= ~((most >= oracle.iou) & (most > iou(pasted[None], boxes)[0]))
    return own


@dataclass(frozen=True, eq=False)
class Fates:
    """Who became what: ``found`` ``[M]`` are the detections above the threshold on the synthetic image, ``own`` ``[M]``
    those of the inserted object itself; ``partner`` of each original ``[N]`` and ``now`` of each change ``[K]`` are the
    rows of ``found`` that they continue as, -1 for none."""

    found: Detections
    own: Bools
    partner: Ints
    now: Ints


@dataclass(frozen=True, eq=False)
class Verdict:
    """What an inserted object did: each of the ``changes``, originals first, in their order; ``standing`` ``[N]``, the
    best score that each of the background's detections still has, at any threshold, 0 if none; and, where there are
    changes, the ``fates`` behind them."""

    changes: list[Change]
    standing: Floats
    fates: Fates | None = None


def judge(before: Detections, after: Detections, pasted: Sequence[float], oracle: Oracle) -> Verdict:
    """What the object inserted at ``pasted`` (x0, y0, x1, y1) changed.

    ``before`` and ``after`` come with whatever scores the detector reports, so that what lies just below the threshold
    can be told from what is gone.
    """
    overlap = iou(before.boxes, after.boxes)
    firm = np.flatnonzero(before.scores >= oracle.score)
    kept = ~_own(after.boxes, overlap[firm], np.asarray(pasted, dtype=np.float64), oracle)
    same = kept & (overlap >= oracle.iou) & (before.labels[:, None] == after.labels)
    left: Floats = (same * after.scores).max(axis=1, initial=0.0)
    above = after.scores >= oracle.score
    found = np.flatnonzero(kept & above)
    possible = (overlap * same)[np.ix_(firm, found)]
    originals, partners = match(possible) if oracle.strict else _voc_match(possible, after.scores[found])
    if len(originals) == len(firm) and len(partners) == len(found):
        return Verdict([], left)
    between = overlap[np.ix_(firm, found)]
    there: Floats = (same * before.scores[:, None]).max(axis=0, initial=0.0)
    stood = left[firm], there[found]
    changes, now = _changes(before[firm], after[found], stood, between, originals, partners, oracle)
    return Verdict(changes, left, _fates(after[above], kept[above], len(firm), originals, partners, changes, now))


def _fates(
    seen: Detections, kept: Bools, firm: int, originals: Ints, partners: Ints, changes: list[Change], now: list[int]
) -> Fates:
    """``partners`` and ``now`` count those that are ``kept``; here they become rows of all that is ``seen``."""
    place = np.append(np.flatnonzero(kept), -1)
    places = place[np.array(now, dtype=np.int64)]
    partner = np.full(firm, -1, dtype=np.int64)
    partner[originals] = place[partners]
    for change, row in zip(changes, places.tolist(), strict=True):
        if change.type != EXTRA:
            partner[change.thing] = row
    return Fates(seen, ~kept, partner, places)


def compare(before: Detections, after: Detections, pasted: Sequence[float], oracle: Oracle) -> list[Change]:
    """The changes that ``judge`` sees."""
    return judge(before, after, pasted, oracle).changes


def _changes(
    reference: Detections,
    found: Detections,
    stood: tuple[Floats, Floats],
    overlap: Floats,
    originals: Ints,
    partners: Ints,
    oracle: Oracle,
) -> tuple[list[Change], list[int]]:
    """What became of the originals in ``reference`` and where ``found`` comes from, given who is whose partner; and
    which of ``found`` each change is about now, -1 for none. ``stood``: the best score that the class of each original
    has in its place now, and that of each of ``found`` had before."""
    lost = np.setdiff1d(np.arange(len(reference)), originals)
    spare = np.setdiff1d(np.arange(len(found)), partners)
    changes, now = _lost(reference, found, stood[0], overlap, lost, spare, oracle)
    weakest = _weakest_kept(found, partners)
    for i in spare[~np.isin(spare, now)].tolist():
        label, score, was = int(found.labels[i]), float(found.scores[i]), float(stood[1][i])
        counts = oracle.strict or score > weakest.get(label, np.inf)
        flickers = score < oracle.high or was > oracle.low
        changes.append(Change(EXTRA, -1, label, -1, _box(found, i), was, score, flickers, counts))
        now.append(i)
    return changes, now


def _voc_match(possible: Floats, scores: Floats) -> tuple[Ints, Ints]:
    """PASCAL VOC's matching: in order of falling score each detection (column) claims the original (row) it overlaps
    most, and has none if that one is taken. Originals and detections that belong together."""
    if not possible.size:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    order = np.argsort(-scores, kind="stable")
    order = order[possible[:, order].max(axis=0) > 0]
    originals, first = np.unique(possible[:, order].argmax(axis=0), return_index=True)
    return originals, order[first]


def _lost(
    reference: Detections,
    found: Detections,
    score_left: Floats,
    overlap: Floats,
    lost: Ints,
    spare: Ints,
    oracle: Oracle,
) -> tuple[list[Change], list[int]]:
    """What became of the originals that nothing matches, and which of ``found`` took the place of each, or -1."""
    changes, now = [], list[int]()
    for i in lost.tolist():
        label, score, left = int(reference.labels[i]), float(reference.scores[i]), float(score_left[i])
        free = np.array([j for j in spare.tolist() if j not in now], dtype=np.int64)
        same = found.labels[free] == label
        near = np.where(same, overlap[i, free] >= oracle.near, overlap[i, free] >= oracle.iou)
        type_, became, other = MISSED, -1, -1
        if near.any():
            other = int(free[np.argmax(np.where(near, overlap[i, free], -1.0))])
            renamed = int(found.labels[other]) != label
            type_, became = (RENAMED, int(found.labels[other])) if renamed else (MOVED, -1)
        flickers = score < oracle.high or left > oracle.low
        changes.append(Change(type_, i, label, became, _box(reference, i), score, left, flickers, True))
        now.append(other)
    return changes, now


def _weakest_kept(found: Detections, partners: Ints) -> dict[int, float]:
    """The lowest score of a detection that continues an original, by class. An extra one of the same class lowers mAP
    exactly if it ranks above it: every-point AP forgives what comes after the last hit."""
    weakest: dict[int, float] = {}
    for label, score in zip(found.labels[partners].tolist(), found.scores[partners].tolist(), strict=True):
        weakest[label] = min(score, weakest.get(label, np.inf))
    return weakest


def _box(detections: Detections, i: int) -> tuple[float, float, float, float]:
    x0, y0, x1, y1 = detections.boxes[i].tolist()
    return x0, y0, x1, y1
