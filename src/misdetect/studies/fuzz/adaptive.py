"""The adaptive strategy: spend the next query where a failure is most likely, given the outcomes so far.

Every answer says how much the score of *each* thing on the background moved, not only whether one fell. So each thing
(a detection that may be missed, a faint box that may become an extra one) has a Gaussian process over what was inserted
where, and its prior (how far scores move, by distance and relative size) is learnt over all backgrounds. A candidate is
worth the expected number of new failures it makes. ``docs/fuzz.md`` explains it in full.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from misdetect.boxes import Bools, Floats, Ints, area, gaps, intersection, iou
from misdetect.compose.placement import boxes_at, free, ring
from misdetect.metrics.metamorphic import EXTRA, Oracle
from misdetect.studies.fuzz.reach import WIDE, Scene
from misdetect.studies.fuzz.rows import BOX, Insertion

_CANDIDATES = 96
"""Places considered on a background at a time."""
_NEARBY = 24
"""Of these, variations of the edit that moved a score farthest."""
_PER_SCENE = 3
"""Insertions into one background in one round; later ones take the earlier ones' chances into account."""
_STEEP = 1.3
"""A logistic curve of slope 1.7/σ is close to a normal one; scores have heavier tails than that."""
_BACK, _FORTH = 0.5, 4.0
_NOISE = 0.05
_GAPS = np.array([0.05, 0.25, 0.6, 1.2])
_SIZES = np.array([0.5, 2.0])
_FIRST_SPREAD = np.array([0.4, 0.35, 0.2, 0.15, 0.08])[:, None] * np.array([0.5, 1.0, 2.0])
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


@dataclass
class Trust:
    """What a background delivered over what was expected of it: a promise that is not kept counts for less."""

    expected: float = 1.0
    delivered: float = 1.0

    def learn(self, expected: float, delivered: float) -> None:
        """Take down one insertion."""
        self.expected += expected
        self.delivered += delivered

    @property
    def factor(self) -> float:
        """By how much to multiply the next expectation."""
        return self.delivered / self.expected


@dataclass(eq=False)
class _Prey:
    """A background under attack. Things ``[A]``: ``boxes``, their ``index`` among the detections, ``faint`` (to be made
    an extra) or not (to be missed), ``start`` in log-odds, ``need``: how far it has to move, ``weight``: how much a
    failure would still be worth. Tried edits ``[n]``: ``tried`` boxes, ``kinds`` (cutouts), ``moved`` ``[n, A]``."""

    scene: Scene
    index: Ints
    boxes: Floats
    labels: Ints
    faint: Bools
    start: Floats
    need: Floats
    weight: Floats
    tried: Floats = field(default_factory=lambda: np.zeros((0, 4)))
    kinds: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    moved: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    visits: int = 0
    trust: Trust = field(default_factory=Trust)

    @classmethod
    def of(cls, scene: Scene, oracle: Oracle) -> "_Prey":
        boxes, scores, labels = scene.before.boxes, scene.before.scores, scene.before.labels
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
        return cls(
            scene, index, scene.before.boxes[index], scene.before.labels[index], is_faint, start, need,
            np.ones(len(index)), moved=np.zeros((0, len(index))),
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


class Adaptive:
    """Plans rounds of insertions for ``scenes`` up to ``reach``; ``learn`` from the rows of each round before the next
    ``plan``. The same seed and rows give the same plans."""

    def __init__(self, scenes: Iterable[Scene], reach: int, oracle: Oracle, seed: int) -> None:
        self._prey = {scene.image: _Prey.of(scene, oracle) for scene in scenes if scene.offers}
        self._reach, self._seed = reach, seed
        self._spread = Spread()
        self._round = 0
        self._expected: dict[Insertion, float] = {}
        self._known: dict[int, tuple[list[Insertion], Floats, Floats]] = {}

    def plan(self, most: int) -> list[Insertion]:
        """Up to ``most`` insertions, the most promising first."""
        self._round += 1
        best: list[tuple[float, int, Insertion]] = []
        for image, prey in self._prey.items():
            if image not in self._known:
                self._known[image] = self._candidates(prey)
            best += [(-value, image, chosen) for value, chosen in self._chosen(prey, *self._known[image])]
        best.sort(key=lambda item: item[:2])
        for worth, image, insertion in best[:most]:
            self._known.pop(image, None)
            self._expected[insertion] = -worth / self._prey[image].trust.factor
        return [insertion for _, _, insertion in best[:most]]

    def learn(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Take in the rows of insertions, in order."""
        for row in rows:
            prey = self._prey[row["image"]]
            if row["standing"] is None:  # not asked, being unnatural
                continue
            insertion = Insertion.of_row(row)
            moved = prey.record(insertion, np.array(row["standing"], dtype=np.float64))
            bins = self._spread.bins(prey.tried[-1:], prey.boxes, prey.faint)
            self._spread.learn(bins, moved[None, :])
            left = prey.weight.copy()
            self._discount(prey, row["changes"])
            prey.trust.learn(self._expected.pop(insertion, 0.0), float((left - prey.weight)[prey.weight == 0].sum()))

    def _discount(self, prey: _Prey, changes: Sequence[Mapping[str, Any]]) -> None:
        """What was found is worth nothing a second time; what the control does too is worth half as much."""
        for change in changes:
            if change["flickers"] or not change["counts"]:
                continue
            if change["type"] == EXTRA:
                box = np.array([[change[name] for name in BOX]])
                hit = prey.faint & (prey.labels == change["label"]) & (intersection(prey.boxes, box)[:, 0] > 0)
            else:
                hit = ~prey.faint & (prey.index == self._detection(prey, change["thing"]))
            prey.weight[hit] *= 0.0 if change["attributable"] else 0.5

    @staticmethod
    def _detection(prey: _Prey, thing: int) -> int:
        """Index among all detections of number ``thing`` above the threshold."""
        return int(np.flatnonzero(prey.scene.before.scores >= prey.scene.score)[thing])

    def _candidates(self, prey: _Prey) -> tuple[list[Insertion], Floats, Floats]:
        """Places to choose from, with what is expected of each: probabilities of failure ``[C, A]`` and likeness
        ``[C, C]``. Drawn anew after each visit, from the seed."""
        generator = np.random.default_rng([self._seed, 6, prey.scene.image, prey.visits])
        prey.visits += 1
        found = [*_beside(prey, self._reach, generator), *_nearby(prey, generator)]
        if not found:
            return [], np.zeros((0, 0)), np.zeros((0, 0))
        boxes = np.array([insertion.box for insertion in found], dtype=np.float64)
        kinds = np.array([insertion.cutout for insertion in found], dtype=np.int64)
        return found, self._chances(prey, boxes, kinds), _alike(boxes, kinds, boxes, kinds)

    def _chances(self, prey: _Prey, boxes: Floats, kinds: Ints) -> Floats:
        """Probability ``[C, A]`` that each thing fails under each candidate."""
        mean, spread = self._spread.of(self._spread.bins(boxes, prey.boxes, prey.faint))
        certain = np.zeros(len(boxes))
        if len(prey.tried):
            past_mean, past_spread = self._spread.of(self._spread.bins(prey.tried, prey.boxes, prey.faint))
            inner = _alike(prey.tried, prey.kinds, prey.tried, prey.kinds) + _NOISE * np.eye(len(prey.tried))
            cross = _alike(boxes, kinds, prey.tried, prey.kinds)
            surprise = (prey.moved - past_mean) / past_spread
            own = (_OWN_WORTH + (np.clip(surprise, -4, 4) ** 2).sum(axis=0)) / (_OWN_WORTH + len(surprise))
            solved = np.linalg.solve(inner, np.column_stack([surprise, cross.T]))
            things = prey.moved.shape[1]
            mean = mean + spread * (cross @ solved[:, :things])
            spread = spread * np.sqrt(own)
            certain = np.einsum("cn,nc->c", cross, solved[:, things:])
        deviation = spread * np.sqrt(np.clip(1 - certain, _NOISE, 1.0))[:, None]
        return np.asarray(1 / (1 + np.exp(np.clip(_STEEP * (prey.need - mean) / deviation, -50, 50))))

    def _chosen(
        self, prey: _Prey, found: list[Insertion], chances: Floats, likeness: Floats
    ) -> Iterable[tuple[float, Insertion]]:
        """The best few of one background: each is worth the new failures expected of it, given those before it."""
        weight = prey.weight.copy()
        allowed = np.ones(len(found))
        for _ in range(min(_PER_SCENE, len(found))):
            worth = allowed * (chances @ weight)
            best = int(worth.argmax())
            if worth[best] <= 0:
                return
            yield float(worth[best]) * prey.trust.factor, found[best]
            weight *= 1 - chances[best]
            allowed *= 1 - likeness[best]


def _alike(boxes: Floats, kinds: Ints, others: Floats, other_kinds: Ints) -> Floats:
    """How much edits are expected to do the same, in [0, 1]: the kernel of the process."""
    centres, other_centres = (boxes[:, :2] + boxes[:, 2:]) / 2, (others[:, :2] + others[:, 2:]) / 2
    size, other_size = np.sqrt(area(boxes)), np.sqrt(area(others))
    apart = ((centres[:, None] - other_centres[None]) ** 2).sum(axis=2) / (size[:, None] * other_size[None, :]) / 0.36
    larger = np.log(size[:, None] / other_size[None, :]) ** 2 / 0.16
    same = np.where(kinds[:, None] == other_kinds[None, :], 1.0, 0.7)
    return np.asarray(same * np.exp(-0.5 * (apart + larger)))


def _beside(prey: _Prey, reach: int, generator: np.random.Generator) -> list[Insertion]:
    """Candidates in rings around things that are still worth something, for random offers."""
    scene = prey.scene
    promising = np.flatnonzero(prey.weight > 0)
    if not promising.size:
        return []
    odds = np.exp(-0.7 * prey.need[promising])  # things that need little come up more often
    found: list[Insertion] = []
    for thing in generator.choice(promising, size=_CANDIDATES - _NEARBY, p=odds / odds.sum()).tolist():
        label = int(prey.labels[thing])
        offers = [o for o in scene.offers if o.level <= reach and (reach >= 3 or o.label in (label, -1))]
        if not offers:
            continue
        offer = offers[int(generator.integers(len(offers)))]
        target = int(prey.index[thing])
        wide = WIDE if reach >= 3 and generator.random() < 0.2 else generator.choice([0.3, 1.0])
        placed = scene.place(offer, target, ring(prey.boxes[thing], offer.size, generator, count=6, wide=float(wide)))
        if placed is not None:
            found.append(placed)
    return found


def _nearby(prey: _Prey, generator: np.random.Generator) -> list[Insertion]:
    """Variations of the edits that came closest to a failure: a little aside, with any offer."""
    if not len(prey.tried):
        return []
    scene, live = prey.scene, prey.weight > 0
    share = np.where(live, prey.moved / np.maximum(prey.need, 0.05), -np.inf)
    if not live.any() or share.max() < 0.2:
        return []
    rows = np.argsort(-share.max(axis=1), kind="stable")[:3]
    found = []
    for turn in range(_NEARBY):
        box = prey.tried[rows[turn % len(rows)]]
        kind = int(prey.kinds[rows[turn % len(rows)]])
        same = [offer for offer in scene.offers if offer.cutout == kind]
        choices = same if generator.random() < 0.7 and same else list(scene.offers)
        offer = choices[int(generator.integers(len(choices)))]
        size = box[2:] - box[:2]
        centre = (box[:2] + box[2:]) / 2 + generator.normal(0, 0.2, 2) * size
        corners: Ints = np.rint(centre[None] - np.array(offer.size) / 2).astype(np.int64)
        if free(boxes_at(corners, offer.size), scene.firm, scene.width, scene.height)[0]:
            at = (int(corners[0, 0]), int(corners[0, 1]))
            target = int(prey.index[int(share[rows[turn % len(rows)]].argmax())])
            found.append(Insertion(scene.image, offer.cutout, at, offer.size, target, offer.level))
    return found
