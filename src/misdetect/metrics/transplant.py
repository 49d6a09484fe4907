"""What a transplanted object T does to the other detections of a scene: the arithmetic of paper 1.

``compare`` takes the detections on the clean image (D_∅) and on the edited one (D_xy) and gives S of eq. 1, the maximal
coverage C_T of eq. 3, the class difference, and what happened to each original detection. Functions of arrays only;
choices that the paper leaves open are in ``Rules`` and explained in docs/definitions.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass
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

    def __getitem__(self, some: slice | Bools) -> "Found":
        return Found(self.boxes[some], self.scores[some], self.labels[some])

    @classmethod
    def joined(cls, images: Sequence[Detections]) -> "Found":
        """The detections of all ``images``, one after the other."""
        boxes, scores, labels = zip(*((one.boxes, one.scores, one.labels) for one in images), strict=True)
        return cls(np.concatenate(boxes), np.concatenate(scores), np.concatenate(labels))


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
    return compare_all(clean, [edited], np.reshape(t_box, (1, 4)), t_label, rules)[0]


def compare_all(
    clean: Detections, edited: Sequence[Detections], t_boxes: Floats, t_label: int, rules: Rules
) -> list[Comparison]:
    """``compare`` for ``P`` positions of T on one image, ``t_boxes`` ``[P, 4]``.

    Their detections are laid side by side, so that all but the matching takes a few calls for all positions together
    instead of a few dozen for each.
    """
    if not edited:
        return []
    firm = clean.scores >= rules.score
    clean_found, found = Found.joined([clean]), Found.joined(edited)
    before, faint = clean_found[firm], clean_found[~firm]
    position = np.repeat(np.arange(len(edited)), [len(one) for one in edited])
    on_t = iou(found.boxes, t_boxes)[np.arange(len(found)), position]
    overlap = iou(before.boxes, found.boxes)
    same_class = before.labels[:, None] == found.labels
    strong = found.scores >= rules.score
    all_bounds, bounds = _bounds(position, len(edited)), _bounds(position[strong], len(edited))
    residue = ((overlap >= rules.on_t) & same_class & ~strong) * found.scores
    confidence = ((on_t >= rules.on_t) & (found.labels == t_label)) * found.scores
    covered, distance = coverage(before.boxes, t_boxes), gaps(before.boxes, t_boxes)
    after, overlap, same_class = found[strong], overlap[:, strong], same_class[:, strong]
    own = own_detections(overlap, on_t[strong], rules.on_t)
    edges = _Edges.of(before, after, overlap, same_class, own, t_label, rules)
    blinking = ~own & _flickers(after.scores, _residue(after, faint, rules.on_t), rules)
    comparisons = []
    for p, (start, stop) in enumerate(all_bounds):
        place = _Place(
            covered[:, p],
            distance[:, p],
            residue[:, start:stop].max(axis=1, initial=0.0),
            float(confidence[start:stop].max(initial=0.0)),
        )
        here = slice(*bounds[p])
        comparisons.append(_compared(before, after[here], edges[here], own[here], blinking[here], place, rules))
    return comparisons


def _bounds(position: Ints, count: int) -> list[tuple[int, int]]:
    """First and last column of each of ``count`` positions, given the ``position`` of each column."""
    ends = np.cumsum(np.bincount(position, minlength=count)).tolist()
    return list(zip([0, *ends], ends, strict=False))


@dataclass(frozen=True, eq=False, slots=True)
class _Place:
    """What is known of a position before anything is matched: coverage by and distance from T ``[N]``, what is left of
    each original below the threshold ``[N]``, and T's own confidence."""

    coverage: Floats
    distance: Floats
    residue: Floats
    confidence: float


@dataclass(frozen=True, eq=False, slots=True)
class _Edges:
    """Weights ``[N, M]`` of the edges between originals and detections, 0 where there is none: ``strict`` between equal
    classes and ``agnostic`` between all, both for eq. 1; ``successor`` between what may have become of an original, and
    ``same_successor`` those of its class. ``rows`` ``[N]`` and ``columns`` ``[M]`` count in eq. 1 under ``rules.own``.
    Whatever ``rules.own`` says, a detection that lies on T does not count as what has become of an original."""

    strict: Floats
    agnostic: Floats
    successor: Floats
    same_successor: Floats
    rows: Bools
    columns: Bools

    @classmethod
    def of(
        cls, before: Found, after: Found, overlap: Floats, same_class: Bools, own: Bools, t_label: int, rules: Rules
    ) -> "_Edges":
        rows, columns = np.ones(len(before), np.bool_), np.ones(len(after), np.bool_)
        if rules.own == "matched":
            columns = ~own
        elif rules.own == "ignore-class":
            rows, columns = before.labels != t_label, after.labels != t_label
        agnostic = overlap * (rows[:, None] & columns)
        successor = np.where(own | (overlap < rules.same), 0.0, overlap)
        return cls(agnostic * same_class, agnostic, successor, successor * same_class, rows, columns)

    def __getitem__(self, here: slice) -> "_Edges":
        return _Edges(
            self.strict[:, here],
            self.agnostic[:, here],
            self.successor[:, here],
            self.same_successor[:, here],
            self.rows,
            self.columns[here],
        )


def _compared(
    before: Found, after: Found, edges: _Edges, own: Bools, blinking: Bools, place: _Place, rules: Rules
) -> Comparison:
    """One position; ``blinking``: detections that are only a flicker, if they are new."""
    partner, weights = _partners(edges.strict)
    _, any_weights = _partners(edges.agnostic)
    originals, new = _what_happened(before, edges, place, rules)
    rows, columns = edges.rows, edges.columns
    steady, steady_after = rows & ~originals.flickers, columns & ~(new & blinking)
    held = steady & (partner >= 0)
    held[held] = steady_after[partner[held]]
    allowance = int(rules.own == "minus-one")
    counted_before, counted_after = int(rows.sum()), int(columns.sum()) - allowance
    return Comparison(
        before=before,
        after=after,
        score=match_score(float(weights.sum()), counted_after, counted_before),
        agnostic=match_score(float(any_weights.sum()), counted_after, counted_before),
        least=float(weights[rows].min(initial=1.0)),
        least_agnostic=float(any_weights[rows].min(initial=1.0)),
        settled=match_score(float(weights[held].sum()), int(steady_after.sum()) - allowance, int(steady.sum())),
        settled_least=float(weights[steady].min(initial=1.0)),
        coverage=float(place.coverage.max(initial=0.0)),
        new_classes=np.array(sorted(set(after.labels.tolist()) - set(before.labels.tolist())), dtype=np.int64),
        originals=originals,
        new=new,
        own=own,
        confidence=place.confidence,
    )


def own_detections(overlap: Floats, on_t: Floats, least: float) -> Bools:
    """Which detections ``[M]`` lie on T: IoU ``on_t`` ``[M]`` with T's box of at least ``least``, and more than with
    any original (``overlap`` ``[N, M]``), whatever their class."""
    return np.asarray((on_t >= least) & (on_t > overlap.max(axis=0, initial=0.0)))


def _partners(weights: Floats) -> tuple[Ints, Floats]:
    """For each row of ``weights`` its column in the maximum-weight matching or -1, and the pair's weight or 0."""
    partner, weight = np.full(len(weights), -1, dtype=np.int64), np.zeros(len(weights))
    rows, columns = np.nonzero(weights)
    if len(set(rows.tolist())) < len(rows) or len(set(columns.tolist())) < len(columns):
        rows, columns = match(weights)  # else every edge is in the matching: most scenes are no crowds
    partner[rows], weight[rows] = columns, weights[rows, columns]
    return partner, weight


def _what_happened(before: Found, edges: _Edges, place: _Place, rules: Rules) -> tuple[Originals, Bools]:
    """The outcome of each original, and which of D_xy continue none."""
    partner, weight = _partners(edges.same_successor)
    taken = np.zeros(len(edges.columns), np.bool_)
    taken[partner[partner >= 0]] = True
    left = np.flatnonzero(partner < 0)
    outcome = [KEPT if w >= rules.kept else MOVED for w in weight.tolist()]
    if left.size:
        partner[left], weight[left] = _partners(edges.successor[left] * ~taken)
        for i in left.tolist():
            outcome[i] = LOST if partner[i] < 0 else RENAMED
    gone = np.zeros(len(before), np.bool_)
    gone[left] = True
    flickers = gone & _flickers(before.scores, place.residue, rules)
    originals = Originals(tuple(outcome), partner, weight, place.coverage, place.distance, place.residue, flickers)
    return originals, ~taken


def _residue(of: Found, faint: Found, least: float) -> Floats:
    """For each of ``of`` the best score among ``faint`` boxes of its class with an IoU of at least ``least``, or 0."""
    same = (iou(of.boxes, faint.boxes) >= least) & (of.labels[:, None] == faint.labels[None, :])
    return np.asarray((same * faint.scores[None, :]).max(axis=1, initial=0.0))


def _flickers(scores: Floats, residue: Floats, rules: Rules) -> Bools:
    """Whether a change from ``scores`` above the threshold to ``residue`` below it, or back, would be none at some
    threshold less than a margin away."""
    return (scores < rules.score + rules.margin) | (residue > rules.score - rules.margin)
