"""What a change of detections means against the ground truth: did the detector get worse, or only different?

``scan`` (paper 1) and ``fuzz`` (paper 4) compare what is detected before and after an edit and know nothing of the
truth: a false detection that goes away counts like a true one. Here each detection gets its standing (right, wrong, or
not to be judged), and each change its effect and its harm. Functions of arrays; the changes themselves are found by
``transplant`` and ``metamorphic``.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from misdetect.metrics.matching import Pairs, match_pairs
from misdetect.metrics.transplant import LOST, MOVED, RENAMED, Boxes
from misdetect.nouns.boxes import Bools, Floats, Ints, coverage, iou
from misdetect.nouns.detections import Detections, Truth
from misdetect.said.errors import BadArray

Detected = Boxes | Detections
Rights = NDArray[np.int8]
Words = NDArray[np.object_]

RIGHT, WRONG, UNJUDGED = 1, 0, -1
IN_CROWD = 0.5
"""A detection with at least this share of its box inside a crowd region lies on it."""

NEW = "new"
CHANGES = (LOST, NEW, RENAMED, MOVED)
"""Paper 4's words for the first two are missed and extra."""

LOST_RIGHT, LOST_WRONG = "lost right", "lost wrong"
FOUND_MISSED, NEW_HALLUCINATION = "found missed", "new hallucination"
RENAMED_TO_RIGHT, RENAMED_TO_WRONG = "renamed to right", "renamed to wrong"
EFFECTS = (LOST_RIGHT, LOST_WRONG, FOUND_MISSED, NEW_HALLUCINATION, RENAMED_TO_RIGHT, RENAMED_TO_WRONG, MOVED)
HARMFUL, HARMLESS, IMPROVEMENT, UNKNOWN = HARMS = ("harmful", "harmless", "improvement", "unknown")

_EITHER = slice(None)
_TABLE: tuple[tuple[str, int | slice, int | slice, str, str], ...] = (
    # change, standing before, standing after, effect, harm
    (LOST, RIGHT, _EITHER, LOST_RIGHT, HARMFUL),
    (LOST, WRONG, _EITHER, LOST_WRONG, IMPROVEMENT),
    (NEW, _EITHER, RIGHT, FOUND_MISSED, IMPROVEMENT),
    (NEW, _EITHER, WRONG, NEW_HALLUCINATION, HARMFUL),
    (RENAMED, RIGHT, RIGHT, RENAMED_TO_RIGHT, HARMLESS),
    (RENAMED, WRONG, RIGHT, RENAMED_TO_RIGHT, IMPROVEMENT),
    (RENAMED, RIGHT, WRONG, RENAMED_TO_WRONG, HARMFUL),
    (RENAMED, WRONG, WRONG, RENAMED_TO_WRONG, HARMLESS),
    # whatever the other name is worth, an annotated object is not found any more, or is found that was not
    (RENAMED, RIGHT, UNJUDGED, LOST_RIGHT, HARMFUL),
    (RENAMED, UNJUDGED, RIGHT, FOUND_MISSED, IMPROVEMENT),
    (MOVED, RIGHT, RIGHT, MOVED, HARMLESS),
    (MOVED, WRONG, RIGHT, FOUND_MISSED, IMPROVEMENT),
    (MOVED, RIGHT, WRONG, LOST_RIGHT, HARMFUL),
    (MOVED, WRONG, WRONG, MOVED, HARMLESS),
)


def _lookup() -> tuple[Words, Words]:
    """``_TABLE`` as arrays of effects and harms by change and both standings; -1, not to be judged, is the last."""
    effects, harms = np.full((len(CHANGES), 3, 3), None, object), np.full((len(CHANGES), 3, 3), UNKNOWN, object)
    for change, was, now, effect, harm in _TABLE:
        place = CHANGES.index(change), was, now
        effects[place], harms[place] = effect, harm
    return effects, harms


_EFFECT, _HARM = _lookup()


@dataclass(frozen=True, eq=False)
class Annotations:
    """What is annotated in an image: ``boxes`` ``[T, 4]``, ``labels`` ``[T]`` in the *detector's* numbering (-1 for a
    class that it lacks), ``counted`` ``[T]`` whether it is an object to be found, ``crowd`` ``[T]`` whether it is a
    region that stands for many (never an object itself)."""

    boxes: Floats
    labels: Ints
    counted: Bools
    crowd: Bools

    def __len__(self) -> int:
        return len(self.labels)

    @classmethod
    def of(cls, truth: Truth, to_detector: Ints) -> "Annotations":
        """The annotations of an image, given the detector's label of each of the data's (``labels.Joined``). Parts that
        are not there and crowds are not counted."""
        crowd = np.asarray(truth.crowd, dtype=np.bool_)
        return cls(truth.boxes, to_detector[truth.labels], truth.present & ~crowd, crowd)


@dataclass(frozen=True, eq=False)
class Standing:
    """Of each detection ``[N]``: ``object``, the row of the annotated object that it is matched to or -1, and
    ``right``: ``RIGHT``, ``WRONG`` or ``UNJUDGED``."""

    object: Ints
    right: Rights

    def at(self, rows: Ints) -> Rights:
        """``right`` of these ``rows``, ``UNJUDGED`` where the row is -1: there is no detection."""
        return np.append(self.right, np.int8(UNJUDGED))[rows]


def standing_of(found: Detected, known: Bools, truth: Annotations, least: float = 0.5) -> Standing:
    """The standing of the detections ``found`` on a clean image.

    A detection is *right* if it is matched to an annotated object: greedily by falling score, the same class, an IoU
    of at least ``least``, each object once. It cannot be judged if the data does not know its class (``known``
    ``[N]``), or if it is unmatched and lies on a crowd region of its class (``IN_CROWD``) or on an annotation of its
    class that is not counted (IoU of at least ``least``). Else it is *wrong*.
    """
    return _standing(found, known, truth, np.ones((len(found), len(truth)), np.bool_), least)


def standing_after(
    found: Detected,
    known: Bools,
    own: Bools,
    truth: Annotations,
    clean: Standing,
    partner: Ints,
    least: float = 0.5,
) -> Standing:
    """The standing of the detections ``found`` ``[M]`` on an edited image, given the ``clean`` one's.

    As ``standing_of``, but an object that a clean detection has found is kept for what has become of that detection
    (``partner`` ``[N]``: its row in ``found``, -1 where it is lost). So a second detection of such an object is wrong
    however high its score, and only objects that no clean detection found can be found anew. Detections of the pasted
    object itself (``own`` ``[M]``) take no object and are not judged.
    """
    finder = np.flatnonzero(clean.object >= 0)
    free = np.ones((len(found), len(truth)), np.bool_)
    free[:, clean.object[finder]] = np.arange(len(found))[:, None] == partner[finder]
    return _standing(found, known & ~own, truth, free, least)


def _standing(found: Detected, judged: Bools, truth: Annotations, free: Bools, least: float) -> Standing:
    """The standing of those ``judged`` ``[N]``, which may take an object where ``free`` ``[N, T]``."""
    overlap = iou(found.boxes, truth.boxes)
    same = judged[:, None] & (found.labels[:, None] == truth.labels)
    able = same & free & truth.counted & ~truth.crowd
    detection, row = np.divmod(np.arange(overlap.size), max(len(truth), 1))
    no_crowd = np.zeros(len(truth), np.bool_)  # crowds have a threshold of their own, and come below
    pairs = Pairs(detection, row, overlap.reshape(-1))
    taken = match_pairs(pairs, found.scores, able.reshape(-1), no_crowd, len(truth), least).truth_of
    in_crowd = truth.crowd & (coverage(found.boxes, by=truth.boxes) >= IN_CROWD)
    not_counted = ~truth.crowd & ~truth.counted & (overlap >= least)
    excused = (same & (in_crowd | not_counted)).any(axis=1)
    right = np.where(taken >= 0, RIGHT, np.where(judged & ~excused, WRONG, UNJUDGED))
    return Standing(taken, right.astype(np.int8))


def effects_of(
    changes: Sequence[str], was: Rights, now: Rights, covered: Floats | float = 0.0, hidden: float = 0.5
) -> tuple[Words, Words]:
    """The effect (one of ``EFFECTS``, or ``None``) and the harm (one of ``HARMS``) of each of ``K`` ``changes``.

    ``changes`` are of ``CHANGES``: a detection is lost, new, renamed (another class) or moved (its class, another box).
    ``was`` and ``now`` ``[K]`` are the standings before and after; ``now`` is not looked at for what is lost, nor
    ``was`` for what is new. Losing what was right is harmful, losing what was wrong an improvement. Something new that
    is right was missed before, an improvement; something new that is wrong is a hallucination, harmful. What is renamed
    is harmful if it was right and is wrong now, an improvement if it is the other way round, else harmless. What moves
    away from its object counts as lost, what moves onto a missed one as found; other moves are harmless.

    What was right and gets a name that cannot be judged (the data lacks it) counts as lost, the other way round as
    found. Else, where a standing that is looked at cannot be judged, the effect is ``None`` and the harm unknown.
    ``covered`` ``[K]`` is the share of the object's box that the pasted object covers: more than ``hidden`` of it, and
    the object is not expected to be found, so that losing it ("lost right") is harmless.
    """
    strange = [change for change in changes if change not in CHANGES]
    if strange:
        raise BadArray(f"Expected changes to be among {', '.join(CHANGES)}. Got {strange[0]!r}.")
    place = np.array([CHANGES.index(change) for change in changes], dtype=np.int64), was, now
    effect, harm = _EFFECT[place], _HARM[place]
    harm[(effect == LOST_RIGHT) & (np.asarray(covered) > hidden)] = HARMLESS
    return effect, harm
