"""What a transplanted object T does to the other detections of a scene: the arithmetic of paper 1.

``compare`` takes the detections on the clean image (D_∅) and on the edited one (D_xy) and gives S of eq. 1, the maximal
coverage C_T of eq. 3, the class difference, and what happened to each original detection. Functions of arrays only;
choices that the paper leaves open are in ``Rules`` and explained in docs/definitions.md.
"""

from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np

from misdetect.boxes import Bools, Floats, Ints, coverage, gaps, iou, match
from misdetect.detections import Detections
from misdetect.errors import BadSpec

Own = Literal["minus-one", "matched", "ignore-class"]
OWN: tuple[Own, ...] = get_args(Own)
KEPT, MOVED, RENAMED, LOST = OUTCOMES = ("kept", "moved", "renamed", "lost")


@dataclass(frozen=True)
class Rules:
    """The choices behind ``compare``.

    ``score``: what counts as a detection. ``own``: what is done about T's own detections: "minus-one" (the paper:
    one detection is free), "matched" (those that lie on T are taken out), "ignore-class" (T's class is taken out on
    both sides). ``margin``: a score this close to ``score`` flickers. ``kept`` and ``same``: IoU from which an original
    is kept, and from which it is at least the same thing. ``on_t``: IoU from which a detection lies on T, and from
    which a box below the threshold is the same box.
    """

    score: float = 0.5
    own: Own = "minus-one"
    margin: float = 0.05
    kept: float = 0.7
    same: float = 0.3
    on_t: float = 0.5

    def __post_init__(self) -> None:
        if self.own not in OWN:
            raise BadSpec(f"own should be one of {', '.join(OWN)}. Got {self.own!r}.")
        for name in ("score", "margin", "kept", "same", "on_t"):
            if not 0 <= getattr(self, name) <= 1:
                raise BadSpec(f"{name} should lie in [0, 1]. Got {getattr(self, name)}.")


@dataclass(frozen=True, eq=False, slots=True)
class Found:
    """Some of a detector's ``boxes`` ``[N, 4]`` with ``scores`` and ``labels`` ``[N]``: ``Detections`` whose checks
    need not be repeated at each of thousands of positions."""

    boxes: Floats
    scores: Floats
    labels: Ints

    def __len__(self) -> int:
        return len(self.scores)

    @classmethod
    def where(cls, detections: Detections, chosen: Bools) -> "Found":
        """Those of ``detections`` that are ``chosen``."""
        return cls(detections.boxes[chosen], detections.scores[chosen], detections.labels[chosen])


@dataclass(frozen=True, eq=False)
class Originals:
    """What happened to each of the ``N`` original detections: ``outcome`` (``OUTCOMES``), ``partner`` the index in D_xy
    of what it has become or -1, ``iou`` with it (0 if lost), ``coverage`` by T's box, ``distance`` in pixels from T's
    box (0 where they touch), ``residue`` the best score below the threshold that its class still has in its place, and
    ``flickers``: gone, but there at some threshold within the margin."""

    outcome: tuple[str, ...]
    partner: Ints
    iou: Floats
    coverage: Floats
    distance: Floats
    residue: Floats
    flickers: Bools


@dataclass(frozen=True, eq=False)
class Comparison:
    """One position of T. ``before`` D_∅ and ``after`` D_xy, both above the threshold; ``score`` is S, ``agnostic`` S
    with edges between all classes, ``least`` and ``least_agnostic`` the smallest IoU an original has with its partner
    (the reading of Table I's caption), ``settled`` and ``settled_least`` the same without changes that only flicker.
    ``new``: which of ``after`` continue no original; ``own``: which lie on T."""

    before: Found
    after: Found
    score: float
    agnostic: float
    least: float
    least_agnostic: float
    settled: float
    settled_least: float
    coverage: float
    new_classes: Ints
    originals: Originals
    new: Bools
    own: Bools
    confidence: float
    """the best score, at any threshold, of T's own class on T; 0 where there is none"""


def match_score(weight: float, after: int, before: int) -> float:
    """Eq. 1 for a matching of total ``weight`` between ``after`` (T's allowance subtracted) and ``before`` boxes.

    0/0 is 1: nothing was there and nothing more is there than T may account for, so nothing is affected.
    """
    most = max(after, before)
    return weight / most if most > 0 else 1.0


def compare(clean: Detections, edited: Detections, t_box: Floats, t_label: int, rules: Rules) -> Comparison:
    """Compare the detections on the ``clean`` image and on the ``edited`` one (T's box at ``t_box``, x0 y0 x1 y1).

    Both come with whatever scores the detector reports; ``rules.score`` is applied here, so that what lies just below
    it can be told from what is gone. ``t_label`` is T's class for the detector, -1 where it has none.
    """
    firm_before, firm_after = clean.scores >= rules.score, edited.scores >= rules.score
    before, after = Found.where(clean, firm_before), Found.where(edited, firm_after)
    faint_before, faint_after = Found.where(clean, ~firm_before), Found.where(edited, ~firm_after)
    on_t = iou(edited.boxes, t_box[None])[:, 0]
    confidence = float(edited.scores[(on_t >= rules.on_t) & (edited.labels == t_label)].max(initial=0.0))
    overlap = iou(before.boxes, after.boxes)
    own = own_detections(overlap, on_t[firm_after], rules.on_t)

    rows, columns = np.ones(len(before), np.bool_), np.ones(len(after), np.bool_)
    if rules.own == "matched":
        columns = ~own
    elif rules.own == "ignore-class":
        rows, columns = before.labels != t_label, after.labels != t_label
    allowance = int(rules.own == "minus-one")
    same_class = before.labels[:, None] == after.labels[None, :]
    allowed = rows[:, None] & columns[None, :]
    partner, weights = _partners(overlap * (same_class & allowed))
    _, any_weights = _partners(overlap * allowed)

    originals, new = _what_happened(before, after, overlap, own, t_box, rules)
    residue = _residue(before, faint_after, rules.on_t)
    gone = np.array([outcome in (RENAMED, LOST) for outcome in originals.outcome], dtype=np.bool_)
    flickers = gone & _flickers(before.scores, residue, rules)
    blinks = new & ~own & _flickers(after.scores, _residue(after, faint_before, rules.on_t), rules)
    steady, steady_after = rows & ~flickers, columns & ~blinks
    held = steady & (partner >= 0)
    held[held] = steady_after[partner[held]]
    return Comparison(
        before=before,
        after=after,
        score=match_score(float(weights.sum()), int(columns.sum()) - allowance, int(rows.sum())),
        agnostic=match_score(float(any_weights.sum()), int(columns.sum()) - allowance, int(rows.sum())),
        least=float(weights[rows].min(initial=1.0)),
        least_agnostic=float(any_weights[rows].min(initial=1.0)),
        settled=match_score(float(weights[held].sum()), int(steady_after.sum()) - allowance, int(steady.sum())),
        settled_least=float(weights[steady].min(initial=1.0)),
        coverage=float(originals.coverage.max(initial=0.0)),
        new_classes=np.setdiff1d(after.labels, before.labels),
        originals=replace(originals, residue=residue, flickers=flickers),
        new=new,
        own=own,
        confidence=confidence,
    )


def own_detections(overlap: Floats, on_t: Floats, least: float) -> Bools:
    """Which detections ``[M]`` lie on T: IoU ``on_t`` ``[M]`` with T's box of at least ``least``, and more than with
    any original (``overlap`` ``[N, M]``), whatever their class."""
    return np.asarray((on_t >= least) & (on_t > overlap.max(axis=0, initial=0.0)))


def _partners(weights: Floats) -> tuple[Ints, Floats]:
    """For each row of ``weights`` its column in the maximum-weight matching or -1, and the pair's weight or 0."""
    partner, weight = np.full(len(weights), -1, dtype=np.int64), np.zeros(len(weights))
    rows, columns = match(weights)
    partner[rows], weight[rows] = columns, weights[rows, columns]
    return partner, weight


def _what_happened(
    before: Found, after: Found, overlap: Floats, own: Bools, t_box: Floats, rules: Rules
) -> tuple[Originals, Bools]:
    """The outcome of each original, and which of ``after`` continue none. Whatever ``rules.own`` says, a detection that
    lies on T does not count as what has become of an original."""
    possible = np.where(own[None, :] | (overlap < rules.same), 0.0, overlap)
    same_class = before.labels[:, None] == after.labels[None, :]
    partner, weight = _partners(possible * same_class)
    outcome = np.array(OUTCOMES, dtype=object)[np.where(weight >= rules.kept, 0, np.where(partner >= 0, 1, 3))]
    taken = np.zeros(len(after), np.bool_)
    taken[partner[partner >= 0]] = True
    new = ~taken
    left = np.flatnonzero(partner < 0)
    if left.size:
        other, other_weight = _partners(possible[left] * ~taken)
        found = other >= 0
        outcome[left[found]] = RENAMED
        partner[left[found]], weight[left[found]] = other[found], other_weight[found]
    covered, distance = coverage(before.boxes, t_box[None])[:, 0], gaps(before.boxes, t_box[None])[:, 0]
    nothing = np.zeros(len(before))
    return Originals(tuple(outcome.tolist()), partner, weight, covered, distance, nothing, nothing > 0), new


def _residue(of: Found, faint: Found, least: float) -> Floats:
    """For each of ``of`` the best score among ``faint`` boxes of its class with an IoU of at least ``least``, or 0."""
    same = (iou(of.boxes, faint.boxes) >= least) & (of.labels[:, None] == faint.labels[None, :])
    return np.asarray((same * faint.scores[None, :]).max(axis=1, initial=0.0))


def _flickers(scores: Floats, residue: Floats, rules: Rules) -> Bools:
    """Whether a change from ``scores`` above the threshold to ``residue`` below it, or back, would be none at some
    threshold less than a margin away."""
    return (scores < rules.score + rules.margin) | (residue > rules.score - rules.margin)
