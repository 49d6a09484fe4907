"""The adaptive strategy: spend the next query where a failure is most likely, given the outcomes so far.

Every answer says how much the score of *each* thing on the background moved, not only whether one fell. So each thing
(a detection that may be missed, a faint box that may become an extra one) has a Gaussian process over what was inserted
where, and its prior (how far scores move, by distance and relative size) is learnt over all backgrounds. A candidate is
worth the expected number of new failures it makes. ``docs/definitions/fuzz.md`` explains it in full.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from misdetect.compose.placement import free
from misdetect.metrics.metamorphic import EXTRA, Oracle
from misdetect.nouns.boxes import Bools, Floats, Ints, area, boxes_of, gaps, iou
from misdetect.studies.fuzz.reach import WIDE, Background, Offer
from misdetect.studies.fuzz.rows import Insertion

_CANDIDATES = 240
"""Places drawn on a background at a time; those that are not free are dropped."""
_NEARBY = 24
"""Variations of the edits that moved a score farthest, considered besides."""
_PER_BACKGROUND = 3
"""Insertions into one background in one round; later ones take the earlier ones' chances into account."""
_STEPS = np.array([0.0, 0.4, 0.8, 1.2, 1.6, 2.0, 2.5, 3.0, 4.0, 6.0])
"""Where the calibration changes from one bin to the next, in standard deviations short of a failure."""
_TRUSTED = 20.0
"""How many outcomes it takes to trust a bin as much as the logistic curve that it starts from."""
_BACK, _FORTH = 0.5, 4.0
"""Movements away from and towards failure are cut here (log-odds)."""
_NOISE = 0.05
"""Variance of the same edit's effect, as a share of the prior's."""
_GAPS = np.array([0.03, 0.1, 0.3, 0.8])
"""Bins of distance, in sizes (roots of the area) of what is inserted."""
_SIZES = np.array([0.5, 3.0, 15.0])
"""Bins of its area over the thing's."""
_FIRST_SPREAD = np.array([0.4, 0.35, 0.2, 0.15, 0.08])[:, None] * np.array([0.5, 1.0, 1.5, 2.0])
"""How far (standard deviation, log-odds) a score moves, by distance and relative size, before anything is known. This
is worth ``_WORTH`` looks."""
_WORTH = 30.0
_OWN_WORTH = 4.0
"""How many looks at a thing it takes to trust its own spread as much as that of its kind."""


def log_odds(scores: Any) -> Floats:
    """log(p / (1 - p)), for scores a little away from 0 and 1."""
    p = np.clip(np.asarray(scores, dtype=np.float64), 0.002, 0.998)
    return np.asarray(np.log(p / (1 - p)))


class Spread:
    """How far scores move towards failure, learnt over all backgrounds: mean and deviation by distance from the
    inserted object (in its own sizes), by relative size, and by whether it is a detection or a faint box."""

    def __init__(self) -> None:
        shape = (2, len(_GAPS) + 1, len(_SIZES) + 1)
        first = np.broadcast_to(_FIRST_SPREAD, shape)
        self._count = np.full(shape, _WORTH)
        self._sum = np.zeros(shape)
        self._square = _WORTH * first**2

    def bins(self, boxes: Floats, things: Floats, faint: Bools) -> tuple[Any, ...]:
        """Where each pair of an inserted box and a thing belongs: indices ``[C, A]``."""
        own = area(boxes)
        distance = gaps(boxes, things) / np.sqrt(own)[:, None]
        relative = own[:, None] / np.maximum(area(things), 1.0)[None, :]
        kind = np.broadcast_to(faint.astype(np.int64)[None, :], distance.shape)
        return kind, np.searchsorted(_GAPS, distance), np.searchsorted(_SIZES, relative)

    def of(self, bins: tuple[Any, ...]) -> tuple[Floats, Floats]:
        """Mean and standard deviation ``[C, A]`` of the movement."""
        mean = self._sum / self._count
        return mean[bins], np.sqrt(np.maximum(self._square / self._count - mean**2, 1e-3))[bins]

    def learn(self, bins: tuple[Any, ...], moved: Floats) -> None:
        """Take down what moved how far."""
        np.add.at(self._count, bins, 1.0)
        np.add.at(self._sum, bins, moved)
        np.add.at(self._square, bins, moved**2)


class Calibration:
    """How often a thing that was so many standard deviations short of failing did fail, and by the inserted object's
    doing: learnt, apart for detections and faint boxes, since neither are scores normal nor all failures attributable.
    """

    def __init__(self) -> None:
        middle = np.concatenate([[-0.5], (_STEPS[:-1] + _STEPS[1:]) / 2, [8.0]])
        self._tries = np.full((2, len(middle)), _TRUSTED)
        self._hits = _TRUSTED / (1 + np.exp(1.5 * middle)) * np.ones((2, 1))

    def chances(self, short: Floats, faint: Bools) -> Floats:
        """Probability of each of ``short`` ``[C, A]``."""
        table = self._hits / self._tries
        return np.asarray(table[faint.astype(np.int64)[None, :], np.searchsorted(_STEPS, short)])

    def learn(self, short: Floats, faint: Bools, live: Bools, hit: Bools) -> None:
        """Take down which of the things ``[A]`` that were ``live`` were ``hit``."""
        where = faint.astype(np.int64)[live], np.searchsorted(_STEPS, short[live])
        np.add.at(self._tries, where, 1.0)
        np.add.at(self._hits, where, hit[live].astype(np.float64))


@dataclass(eq=False)
class Target:
    """A background under attack. Things ``[A]``: ``boxes``, their ``index`` among the detections, ``faint`` (to be made
    an extra) or not (to be missed), ``start`` in log-odds, ``need``: how far it has to move, ``weight``: how much a
    failure would still be worth. Tried edits ``[n]``: ``tried`` boxes, ``kinds`` (cutouts), ``moved`` ``[n, A]``.
    ``awaited``: planned, not answered yet, how ``short`` each is expected to leave the things and what it is worth.
    ``expected`` and ``delivered``: the failures that its insertions were worth, and those that they made."""

    background: Background
    index: Ints
    boxes: Floats
    labels: NDArray[np.object_]
    faint: Bools
    start: Floats
    need: Floats
    weight: Floats
    tried: Floats = field(default_factory=lambda: np.zeros((0, 4)))
    kinds: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    moved: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    awaited: dict[Insertion, tuple[Floats, float]] = field(default_factory=dict)
    visits: int = 0
    expected: float = 1.0
    delivered: float = 1.0

    @classmethod
    def of(cls, background: Background, oracle: Oracle) -> "Target":
        boxes, scores, labels = background.before.boxes, background.before.scores, background.before.labels
        detected = scores >= oracle.score
        same = (iou(boxes, boxes) >= oracle.iou) & (labels[:, None] == labels[None, :])
        faint = (scores <= oracle.low) & ~(same & detected[None, :]).any(axis=1)  # not a second box of a detection
        goal = np.full(len(scores), oracle.high)
        if not oracle.strict:  # mAP minds an extra one only above a detection of its class
            weakest = np.where(detected, scores, np.inf)
            rival = np.where(labels[:, None] == labels[None, :], weakest[None, :], np.inf).min(axis=1, initial=np.inf)
            goal, faint = np.maximum(goal, rival), faint & (rival < np.inf)
        index = np.flatnonzero((scores >= oracle.high) | faint)
        start, is_faint = log_odds(scores[index]), faint[index]
        need = np.where(is_faint, log_odds(np.minimum(goal[index], 1.0)) - start, start - log_odds(oracle.low))
        names = np.array(background.names, dtype=object)
        return cls(
            background, index, boxes[index], names[index], is_faint, start, need, np.ones(len(index)),
            moved=np.zeros((0, len(index))),
        )  # fmt: skip

    def record(self, insertion: Insertion, standing: Floats) -> Floats:
        """Take down an answer (``standing`` of all detections); how far each thing moved towards failure."""
        now = log_odds(standing[self.index])
        moved: Floats = np.where(self.faint, now - self.start, self.start - now)
        moved = np.clip(moved, -_BACK, _FORTH)  # how far something moves away from failing says little
        self.tried = np.vstack([self.tried, np.array(insertion.box, dtype=np.float64)])
        self.kinds = np.append(self.kinds, insertion.cutout)
        self.moved = np.vstack([self.moved, moved])
        return moved


@dataclass(frozen=True, eq=False)
class _Options:
    """Candidates ``[C]`` on one background: how ``short`` each leaves each thing ``[C, A]``, their ``likeness``
    ``[C, C]`` to each other, and how much is left of each, ``fresh`` ``[C]``, beside those whose answer is awaited."""

    insertions: list[Insertion]
    short: Floats
    likeness: Floats
    fresh: Floats


class Adaptive:
    """Plans rounds of insertions up to ``reach``, and is to ``learn`` from the rows of each, if
    some rounds later. The same seed and order of rounds and rows give the same plans."""

    def __init__(self, reach: int, oracle: Oracle, seed: int) -> None:
        self._targets: dict[int, Target] = {}
        self._reach, self._oracle, self._seed = reach, oracle, seed
        self._spread = Spread()
        self._calibration = Calibration()
        self._options: dict[int, _Options] = {}

    def add(self, backgrounds: Iterable[Background]) -> None:
        """Insert into ``backgrounds`` too."""
        self._targets |= {each.image: Target.of(each, self._oracle) for each in backgrounds if each.offers}

    def plan(self, most: int) -> list[Insertion]:
        """Up to ``most`` insertions, the most promising first."""
        best: list[tuple[float, float, int, int]] = []
        for image, target in self._targets.items():
            if image not in self._options:
                self._options[image] = self._look_around(target)
            seldom = 1 + 1 / np.sqrt(1 + len(target.tried))  # what was seldom tried is tried sooner
            appeal = target.delivered / target.expected * seldom  # a promise that is not kept counts for less
            best += [(-appeal * w, w, image, chosen) for w, chosen in self._chosen(target, self._options[image])]
        best = sorted(best)[:most]
        plan = []
        for _, worth, image, chosen in best:
            options = self._options[image]
            insertion = options.insertions[chosen]
            self._targets[image].awaited[insertion] = options.short[chosen], worth
            plan.append(insertion)
        for *_, image, _ in best:  # what is awaited there changes what is expected there, as will what is learnt
            self._options.pop(image, None)
        return plan

    def learn(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Take in the rows of insertions, in order."""
        for row in rows:
            insertion = Insertion.of_row(row)
            target = self._targets[insertion.image]
            self._options.pop(insertion.image, None)
            short, expected = target.awaited.pop(insertion)
            if row["failed"] is None:  # not asked, being unnatural
                continue
            moved = target.record(insertion, np.array(row["standing"], dtype=np.float64))
            bins = self._spread.bins(target.tried[-1:], target.boxes, target.faint)
            self._spread.learn(bins, moved[None, :])
            live = target.weight > 0
            hit = self._hits(target, row["changes"])
            self._calibration.learn(short, target.faint, live, hit)
            target.expected += expected
            target.delivered += float((hit & live).sum())

    def _hits(self, target: Target, changes: Sequence[Mapping[str, Any]]) -> Bools:
        """Which things ``[A]`` failed by the inserted object's doing. What was found is worth nothing a second time;
        what the control does too is worth half as much."""
        hits = np.zeros(len(target.index), dtype=np.bool_)
        for change in changes:
            if change["flickers"] or not change["counts"]:
                continue
            if change["type"] == EXTRA:
                overlap = iou(target.boxes, boxes_of([change]))[:, 0]
                same = target.faint & (target.labels == change["label"]) & (overlap >= 0.3)
            else:
                same = ~target.faint & (target.index == self._detection(target, change["thing"]))
            target.weight[same] *= 0.0 if change["cleared"] else 0.5
            hits |= same & change["cleared"]
        return hits

    @staticmethod
    def _detection(target: Target, thing: int) -> int:
        """Index among all detections of number ``thing`` above the threshold."""
        return int(np.flatnonzero(target.background.before.scores >= target.background.score)[thing])

    def _look_around(self, target: Target) -> "_Options":
        """Places to choose from, drawn anew after each visit, from the seed."""
        generator = np.random.default_rng([self._seed, 6, target.background.image, target.visits])
        target.visits += 1
        inside = target.background.within is not None
        drawn = _inside(target.background, generator) if inside else _beside(target, self._reach, generator)
        found = [*drawn, *_nearby(target, generator)]
        edits = _edits(found)
        fresh: Floats = (1 - _alike(*edits, *_edits(target.awaited))).prod(axis=1)
        return _Options(found, self._short(target, *edits), _alike(*edits, *edits), fresh)

    def _short(self, target: Target, boxes: Floats, kinds: Ints) -> Floats:
        """How many standard deviations ``[C, A]`` each thing is expected to fall short of failing."""
        mean, spread = self._spread.of(self._spread.bins(boxes, target.boxes, target.faint))
        certain = np.zeros(len(boxes))
        if len(target.tried):
            past_mean, past_spread = self._spread.of(self._spread.bins(target.tried, target.boxes, target.faint))
            inner = _alike(target.tried, target.kinds, target.tried, target.kinds) + _NOISE * np.eye(len(target.tried))
            cross = _alike(boxes, kinds, target.tried, target.kinds)
            surprise = (target.moved - past_mean) / past_spread
            own = (_OWN_WORTH + (np.clip(surprise, -4, 4) ** 2).sum(axis=0)) / (_OWN_WORTH + len(surprise))
            solved = np.linalg.solve(inner, np.column_stack([surprise, cross.T]))
            things = target.moved.shape[1]
            mean = mean + spread * (cross @ solved[:, :things])
            spread = spread * np.sqrt(own)
            certain = np.einsum("cn,nc->c", cross, solved[:, things:])
        deviation = spread * np.sqrt(np.clip(1 - certain, _NOISE, 1.0))[:, None]
        return np.asarray((target.need - mean) / deviation)

    def _chosen(self, target: Target, options: "_Options") -> Iterable[tuple[float, int]]:
        """The best few of one background: each is worth the new failures expected of it, given those before it."""
        weight = target.weight.copy()
        for short, _ in target.awaited.values():
            weight *= 1 - self._calibration.chances(short[None, :], target.faint)[0]
        chances = self._calibration.chances(options.short, target.faint)
        allowed = options.fresh.copy()
        for _ in range(min(_PER_BACKGROUND, len(chances))):
            worth = allowed * (chances @ weight)
            best = int(worth.argmax())
            if worth[best] <= 0:
                return
            yield float(worth[best]), best
            weight *= 1 - chances[best]
            allowed *= 1 - options.likeness[best]


def _edits(insertions: Collection[Insertion]) -> tuple[Floats, Ints]:
    """The boxes ``[N, 4]`` and kinds (cutouts) ``[N]`` of ``insertions``."""
    boxes = np.array([insertion.box for insertion in insertions], dtype=np.float64).reshape(-1, 4)
    return boxes, np.array([insertion.cutout for insertion in insertions], dtype=np.int64)


def _alike(boxes: Floats, kinds: Ints, others: Floats, other_kinds: Ints) -> Floats:
    """How much edits are expected to do the same, in [0, 1]: the kernel of the process."""
    centres, other_centres = (boxes[:, :2] + boxes[:, 2:]) / 2, (others[:, :2] + others[:, 2:]) / 2
    size, other_size = np.sqrt(area(boxes)), np.sqrt(area(others))
    apart = ((centres[:, None] - other_centres[None]) ** 2).sum(axis=2) / (size[:, None] * other_size[None, :]) / 0.36
    larger = np.log(size[:, None] / other_size[None, :]) ** 2 / 0.16
    same = np.where(kinds[:, None] == other_kinds[None, :], 1.0, 0.7)
    return np.asarray(same * np.exp(-0.5 * (apart + larger)))


def _beside(target: Target, reach: int, generator: np.random.Generator) -> list[Insertion]:
    """Candidates in rings around things that are still worth something, for random offers, large ones more often."""
    background = target.background
    promising = np.flatnonzero(target.weight > 0)
    offers = [offer for offer in background.offers if offer.reach <= reach]
    if not promising.size or not offers:
        return []
    odds = np.exp(-0.7 * target.need[promising])  # things that need little come up more often
    things = generator.choice(promising, size=_CANDIDATES, p=odds / odds.sum())
    sizes = np.array([offer.size for offer in offers], dtype=np.float64)
    chosen = generator.choice(len(offers), size=_CANDIDATES, p=sizes.prod(axis=1) / sizes.prod(axis=1).sum())
    if reach < 3:  # only beside its own label, as the paper has it, or with a label that the image does not have
        labels = np.array([offer.label for offer in offers], dtype=object)
        absent = np.array([offer.label is None for offer in offers])
        fits = (labels[chosen] == target.labels[things]) | absent[chosen]
        things, chosen = things[fits], chosen[fits]
    wide = generator.choice([0.05, 0.2, 1.0, WIDE if reach >= 3 else 1.0], size=len(things), p=[0.5, 0.25, 0.15, 0.1])
    corners = _rings(target.boxes[things], sizes[chosen], wide, generator)
    return _placed(background, [offers[i] for i in chosen.tolist()], corners, target.index[things])


def _inside(background: Background, generator: np.random.Generator) -> list[Insertion]:
    """Candidates anywhere in the part of the background that is to be kept to, for random offers, beside no detection
    in particular."""
    assert background.within is not None
    x0, y0, x1, y1 = background.within
    chosen = generator.integers(len(background.offers), size=_CANDIDATES)
    sizes = np.array([offer.size for offer in background.offers])[chosen]
    room = np.maximum(np.array([x1 - x0, y1 - y0]) - sizes, 0)
    corners: Ints = np.array([x0, y0]) + generator.integers(0, room + 1)
    nobody = np.full(_CANDIDATES, -1, dtype=np.int64)
    return _placed(background, [background.offers[i] for i in chosen.tolist()], corners, nobody)


def _rings(around: Floats, sizes: Floats, wide: Floats, generator: np.random.Generator) -> Ints:
    """A place ``[N, 2]`` in the ring around each of ``around`` ``[N, 4]``: as ``placement.ring``, all at once, and
    uniform over its four sides instead of its area."""
    half, half_own = (around[:, 2:] - around[:, :2]) / 2, sizes / 2
    inner, outer = half + half_own, half + (1 + wide)[:, None] * half_own
    inside = generator.uniform(-1, 1, sizes.shape) * outer
    beyond = generator.choice([-1.0, 1.0], len(sizes))[:, None] * generator.uniform(inner, outer)
    across = generator.integers(0, 2, len(sizes))[:, None] == np.array([0, 1])
    offset = np.where(across, beyond, inside)
    return np.rint((around[:, :2] + around[:, 2:]) / 2 + offset - half_own).astype(np.int64)


def _nearby(target: Target, generator: np.random.Generator) -> list[Insertion]:
    """Variations of the edits that came closest to a failure: a little aside, with any offer."""
    if not len(target.tried):
        return []
    background, live = target.background, target.weight > 0
    share = np.where(live, target.moved / np.maximum(target.need, 0.05), -np.inf)
    if not live.any() or share.max() < 0.2:
        return []
    rows = np.argsort(-share.max(axis=1), kind="stable")[np.arange(_NEARBY) % 3 % len(share)]
    kinds = np.array([offer.cutout for offer in background.offers])
    sizes = np.array([offer.size for offer in background.offers], dtype=np.int64)
    same = (kinds[None, :] == target.kinds[rows, None]) | (generator.random(_NEARBY) < 0.3)[:, None]
    chosen = np.where(same, generator.random(same.shape), -1.0).argmax(axis=1)
    boxes = target.tried[rows]
    centres = (boxes[:, :2] + boxes[:, 2:]) / 2 + generator.normal(0, 0.2, (_NEARBY, 2)) * (boxes[:, 2:] - boxes[:, :2])
    corners: Ints = np.rint(centres - sizes[chosen] / 2).astype(np.int64)
    beside = target.index[share[rows].argmax(axis=1)]
    return _placed(background, [background.offers[i] for i in chosen.tolist()], corners, beside)


def _placed(background: Background, offers: Sequence[Offer], corners: Ints, beside: Ints) -> list[Insertion]:
    """``offers`` ``[N]`` at ``corners`` ``[N, 2]`` ``beside`` detections ``[N]`` (-1: none) that may lie there."""
    sizes = np.array([offer.size for offer in offers], dtype=np.int64).reshape(-1, 2)
    boxes = np.concatenate([corners, corners + sizes], axis=1).astype(np.float64)
    allowed = free(boxes, background.firm, background.width, background.height)
    if background.within is not None:
        part = np.array(background.within)
        allowed &= (boxes[:, :2] >= part[:2]).all(axis=1) & (boxes[:, 2:] <= part[2:]).all(axis=1)
    good = np.flatnonzero(allowed).tolist()
    places, things = corners.tolist(), [None if thing < 0 else thing for thing in beside.tolist()]
    return [
        Insertion(
            background.image, offers[i].cutout, (places[i][0], places[i][1]), offers[i].size, things[i], offers[i].reach
        )
        for i in good
    ]
