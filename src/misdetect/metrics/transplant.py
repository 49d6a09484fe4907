"""What a transplanted object T does to the other detections of a scene: the arithmetic of paper 1.

``compare_all`` takes the detections on the clean image (D_∅) and on edited ones (D_xy) and gives S of eq. 1, the
maximal coverage C_T of eq. 3, the class difference, and what happened to each original detection. Functions of arrays
only; choices that the paper leaves open are in ``Rules`` and explained in docs/definitions/scan.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from misdetect.metrics.matching import overlap_of_pairs
from misdetect.nouns.boxes import Bools, Floats, Ints, coverage, gaps, iou, match
from misdetect.nouns.detections import Detections
from misdetect.nouns.settings import Settings, Share

Own = Literal["minus-one", "matched", "ignore-class"]
KEPT, MOVED, RENAMED, LOST = OUTCOMES = ("kept", "moved", "renamed", "lost")
PART = 0.5
"""A detection with at least this share of its box inside T's box lies on a part of T, if it continues no original."""


@dataclass(frozen=True)
class Rules(Settings):
    """The choices behind ``compare_all``.

    ``score``: what counts as a detection. ``own``: what is done about T's own detections: "minus-one" (the paper:
    one detection is free), "matched" (those that lie on T are taken out), "ignore-class" (T's class is taken out on
    both sides). ``margin``: a score this close to ``score`` flickers. ``kept`` and ``same``: IoU from which an original
    is kept, and from which it is at least the same thing. ``on_t``: IoU from which a detection lies on T, and from
    which a box below the threshold is the same box.
    """

    score: Share = 0.5
    own: Own = "minus-one"
    margin: Share = 0.05
    kept: Share = 0.7
    same: Share = 0.3
    on_t: Share = 0.5


@dataclass(frozen=True, eq=False, slots=True)
class Boxes:
    """Some of a detector's ``boxes`` ``[N, 4]`` with ``scores`` and ``labels`` ``[N]``: ``Detections`` whose checks
    need not be repeated at each of thousands of positions."""

    boxes: Floats
    scores: Floats
    labels: Ints

    def __len__(self) -> int:
        return len(self.scores)

    def __getitem__(self, some: slice | Bools) -> "Boxes":
        return Boxes(self.boxes[some], self.scores[some], self.labels[some])

    @classmethod
    def joined(cls, images: Sequence[Detections]) -> "Boxes":
        """The detections of all ``images``, one after the other."""
        boxes, scores, labels = zip(*((one.boxes, one.scores, one.labels) for one in images), strict=True)
        return cls(np.concatenate(boxes), np.concatenate(scores), np.concatenate(labels))


@dataclass(frozen=True, eq=False)
class Originals:
    """What happened to each of the ``N`` original detections: ``outcome`` (``OUTCOMES``), ``partner`` the index in D_xy
    of what it has become or -1, ``iou`` with it (0 if lost), ``coverage`` by T's box, ``distance`` in pixels from T's
    box (0 where they touch), ``score_left`` the best score below the threshold that its class still has in its place,
    and ``flickers``: gone, but there at some threshold within the margin."""

    outcome: tuple[str, ...]
    partner: Ints
    iou: Floats
    coverage: Floats
    distance: Floats
    score_left: Floats
    flickers: Bools


@dataclass(frozen=True, eq=False)
class Comparison:
    """One position of T. ``before`` D_∅ and ``after`` D_xy, both above the threshold; ``score`` is S, ``agnostic`` S
    with edges between all classes, ``least`` and ``least_agnostic`` the smallest IoU an original has with its partner
    (the reading of Table I's caption), ``settled`` and ``settled_least`` the same without changes that only flicker.
    ``new``: which of ``after`` continue no original of their class (so what an original was renamed to is among them);
    ``blinks``: which of these are no change at some threshold within the margin; ``own``: which lie on T; ``on_parts``:
    which lie on T or on a part of it (``PART``) and continue no original of any class. ``scene`` is S of all originals
    with the detections of ``on_parts`` taken out and nothing subtracted, whatever ``rules.own`` says: the effect of T
    on the scene, apart from what is detected on T itself. ``scene_settled`` is the same without changes that only
    flicker."""

    before: Boxes
    after: Boxes
    score: float
    agnostic: float
    least: float
    least_agnostic: float
    settled: float
    settled_least: float
    scene: float
    scene_settled: float
    coverage: float
    new_classes: Ints
    originals: Originals
    new: Bools
    blinks: Bools
    own: Bools
    on_parts: Bools
    confidence: float
    """the best score, at any threshold, of T's own class on T; 0 where there is none"""


def match_score(weight: float, after: int, before: int) -> float:
    """Eq. 1 for a matching of total ``weight`` between ``after`` (T's allowance subtracted) and ``before`` boxes.

    0/0 is 1: nothing was there and nothing more is there than T may account for, so nothing is affected.
    """
    most = max(after, before)
    return weight / most if most > 0 else 1.0


def compare_all(
    clean: Detections, edited: Sequence[Detections], t_boxes: Floats, t_label: int, rules: Rules
) -> list[Comparison]:
    """Compare the detections on the ``clean`` image and on the ``edited`` ones, for ``P`` positions of T on it: T's
    boxes ``t_boxes`` ``[P, 4]``, x0 y0 x1 y1.

    Both come with whatever scores the detector reports; ``rules.score`` is applied here, so that what lies just below
    it can be told from what is gone. ``t_label`` is T's class for the detector, -1 where it has none. The detections of
    all positions are laid side by side, so that all but the matching takes a few calls for all positions together
    instead of a few dozen for each.
    """
    if not edited:
        return []
    firm = clean.scores >= rules.score
    clean_found, found = Boxes.joined([clean]), Boxes.joined(edited)
    before, faint = clean_found[firm], clean_found[~firm]
    position = np.repeat(np.arange(len(edited)), [len(one) for one in edited])
    t_boxes = np.asarray(t_boxes, dtype=np.float64)
    on_t = overlap_of_pairs(found.boxes, t_boxes[position], np.zeros(len(found), np.bool_))
    overlap = iou(before.boxes, found.boxes)
    same_class = before.labels[:, None] == found.labels
    strong = found.scores >= rules.score
    all_bounds, bounds = _bounds(position, len(edited)), _bounds(position[strong], len(edited))
    score_left = ((overlap >= rules.on_t) & same_class & ~strong) * found.scores
    confidence = ((on_t >= rules.on_t) & (found.labels == t_label)) * found.scores
    covered, distance = coverage(before.boxes, t_boxes), gaps(before.boxes, t_boxes)
    after, overlap, same_class = found[strong], overlap[:, strong], same_class[:, strong]
    own = own_detections(overlap, on_t[strong], rules.on_t)
    inside = overlap_of_pairs(after.boxes, t_boxes[position[strong]], np.ones(len(after), np.bool_)) >= PART
    edges = _Edges.of(before, after, overlap, same_class, own, t_label, rules)
    blinking = ~own & _flickers(after.scores, _score_left(after, faint, rules.on_t), rules)
    on_t_or_part, most_covered = own | inside, covered.max(axis=0, initial=0.0).tolist()
    comparisons = []
    for p, (start, stop) in enumerate(all_bounds):
        here = slice(*bounds[p])
        place = _Place(
            covered[:, p],
            most_covered[p],
            distance[:, p],
            score_left[:, start:stop].max(axis=1, initial=0.0),
            float(confidence[start:stop].max(initial=0.0)),
            own[here],
            on_t_or_part[here],
            blinking[here],
        )
        comparisons.append(_compared(before, after[here], edges[here], place, rules))
    return comparisons


def _bounds(position: Ints, count: int) -> list[tuple[int, int]]:
    """First and last column of each of ``count`` positions, given the ``position`` of each column."""
    ends = np.cumsum(np.bincount(position, minlength=count)).tolist()
    return list(zip([0, *ends], ends, strict=False))


@dataclass(frozen=True, eq=False, slots=True)
class _Place:
    """What is known of a position before anything is matched. Of each original ``[N]``: ``coverage`` by T (and the
    largest), ``distance`` from T, ``score_left`` below the threshold. T's own ``confidence``. Of D_xy ``[M]``: which
    lie on T, which on T or a part of it unless they continue an original, which only flicker if they are new."""

    coverage: Floats
    most_covered: float
    distance: Floats
    score_left: Floats
    confidence: float
    own: Bools
    on_t_or_part: Bools
    blinking: Bools


@dataclass(frozen=True, eq=False, slots=True)
class _Edges:
    """Weights ``[N, M]`` of the edges between originals and detections, 0 where there is none: ``strict`` between equal
    classes and ``agnostic`` between all, both for eq. 1; ``scene`` between equal classes with all originals, for eq. 1
    without T; ``successor`` between what may have become of an original, and ``same_successor`` those of its class.
    ``rows`` ``[N]`` and ``columns`` ``[M]`` count in eq. 1 under ``rules.own``. Whatever ``rules.own`` says, a
    detection that lies on T does not count as what has become of an original."""

    strict: Floats
    agnostic: Floats
    scene: Floats
    successor: Floats
    same_successor: Floats
    rows: Bools
    columns: Bools

    @classmethod
    def of(
        cls, before: Boxes, after: Boxes, overlap: Floats, same_class: Bools, own: Bools, t_label: int, rules: Rules
    ) -> "_Edges":
        rows, columns = np.ones(len(before), np.bool_), np.ones(len(after), np.bool_)
        if rules.own == "matched":
            columns = ~own
        elif rules.own == "ignore-class":
            rows, columns = before.labels != t_label, after.labels != t_label
        agnostic = overlap * (rows[:, None] & columns)
        strict = agnostic * same_class
        scene = overlap * same_class if rules.own == "ignore-class" else strict
        successor = np.where(own | (overlap < rules.same), 0.0, overlap)
        return cls(strict, agnostic, scene, successor, successor * same_class, rows, columns)

    def __getitem__(self, here: slice) -> "_Edges":
        return _Edges(
            self.strict[:, here],
            self.agnostic[:, here],
            self.scene[:, here],
            self.successor[:, here],
            self.same_successor[:, here],
            self.rows,
            self.columns[here],
        )


def _compared(before: Boxes, after: Boxes, edges: _Edges, place: _Place, rules: Rules) -> Comparison:
    """One position."""
    partner, weights = _partners(edges.strict)
    _, any_weights = _partners(edges.agnostic)
    originals, new, continuing = _what_happened(before, edges, place, rules)
    rows, columns, flickers, blinks = edges.rows, edges.columns, originals.flickers, new & place.blinking
    on_parts = place.on_t_or_part & ~continuing
    scene_partner, scene_weights = _without_parts(partner, weights, edges, on_parts)
    # of a handful of boxes count_nonzero takes a fraction of what sum and any take
    allowance, parts = int(rules.own == "minus-one"), int(np.count_nonzero(on_parts))
    counted_before, counted_after = int(np.count_nonzero(rows)), int(np.count_nonzero(columns)) - allowance
    score = settled = match_score(float(weights.sum()), counted_after, counted_before)
    scene = scene_settled = match_score(float(scene_weights.sum()), len(after) - parts, len(before))
    least = settled_least = float(weights[rows].min(initial=1.0))
    if np.count_nonzero(flickers) or np.count_nonzero(blinks):
        steady = ~flickers
        settled = _settled(partner, weights, rows & steady, columns & ~blinks, allowance)
        scene_settled = _settled(scene_partner, scene_weights, steady, ~(on_parts | blinks), 0)
        settled_least = float(weights[rows & steady].min(initial=1.0))
    return Comparison(
        before=before,
        after=after,
        score=score,
        agnostic=match_score(float(any_weights.sum()), counted_after, counted_before),
        least=least,
        least_agnostic=float(any_weights[rows].min(initial=1.0)),
        settled=settled,
        settled_least=settled_least,
        scene=scene,
        scene_settled=scene_settled,
        coverage=place.most_covered,
        new_classes=np.array(sorted(set(after.labels.tolist()) - set(before.labels.tolist())), dtype=np.int64),
        originals=originals,
        new=new,
        blinks=blinks,
        own=place.own,
        on_parts=on_parts,
        confidence=place.confidence,
    )


def _settled(partner: Ints, weights: Floats, steady: Bools, steady_after: Bools, allowance: int) -> float:
    """S of a matching if only originals ``steady`` ``[N]`` and detections ``steady_after`` ``[M]`` count."""
    held = steady & (partner >= 0)
    held[held] = steady_after[partner[held]]
    return match_score(float(weights[held].sum()), int(steady_after.sum()) - allowance, int(steady.sum()))


def _without_parts(partner: Ints, weights: Floats, edges: _Edges, on_parts: Bools) -> tuple[Ints, Floats]:
    """The best matching of all originals with what is not ``on_parts``. Mostly it is that of ``edges.strict``, which is
    given: if that one leaves out no original, and nothing that it chose is taken out."""
    if edges.rows.all() and not np.count_nonzero(on_parts[partner[partner >= 0]]):
        return partner, weights
    return _partners(edges.scene * ~on_parts)


def own_detections(overlap: Floats, on_t: Floats, least: float) -> Bools:
    """Which detections ``[M]`` lie on T: IoU ``on_t`` ``[M]`` with T's box of at least ``least``, and more than with
    any original (``overlap`` ``[N, M]``), whatever their class."""
    return np.asarray((on_t >= least) & (on_t > overlap.max(axis=0, initial=0.0)))


def _partners(weights: Floats) -> tuple[Ints, Floats]:
    """For each row of ``weights`` its column in the maximum-weight matching or -1, and the pair's weight or 0."""
    partner, weight = np.full(len(weights), -1, dtype=np.int64), np.zeros(len(weights))
    rows, columns = weights.nonzero()
    if len(set(rows.tolist())) < len(rows) or len(set(columns.tolist())) < len(columns):
        rows, columns = match(weights)  # else every edge is in the matching: most scenes are no crowds
    partner[rows], weight[rows] = columns, weights[rows, columns]
    return partner, weight


def _what_happened(before: Boxes, edges: _Edges, place: _Place, rules: Rules) -> tuple[Originals, Bools, Bools]:
    """The outcome of each original, which of D_xy continue none of their class, and which continue one of any."""
    partner, weight = _partners(edges.same_successor)
    taken = np.zeros(len(edges.columns), np.bool_)
    taken[partner[partner >= 0]] = True
    new = ~taken
    left = np.flatnonzero(partner < 0)
    outcome = [KEPT if w >= rules.kept else MOVED for w in weight.tolist()]
    if left.size:
        partner[left], weight[left] = _partners(edges.successor[left] * new)
        taken[partner[partner >= 0]] = True
        for i in left.tolist():
            outcome[i] = LOST if partner[i] < 0 else RENAMED
    gone = np.zeros(len(before), np.bool_)
    gone[left] = True
    flickers = gone & _flickers(before.scores, place.score_left, rules)
    originals = Originals(tuple(outcome), partner, weight, place.coverage, place.distance, place.score_left, flickers)
    return originals, new, taken


def _score_left(of: Boxes, faint: Boxes, least: float) -> Floats:
    """For each of ``of`` the best score among ``faint`` boxes of its class with an IoU of at least ``least``, or 0."""
    same = (iou(of.boxes, faint.boxes) >= least) & (of.labels[:, None] == faint.labels[None, :])
    return np.asarray((same * faint.scores[None, :]).max(axis=1, initial=0.0))


def _flickers(scores: Floats, score_left: Floats, rules: Rules) -> Bools:
    """Whether a change from ``scores`` above the threshold to ``score_left`` below it, or back, would be none at some
    threshold less than a margin away."""
    return (scores < rules.score + rules.margin) | (score_left > rules.score - rules.margin)
