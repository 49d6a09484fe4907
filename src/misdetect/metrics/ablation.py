"""Classification-Ablative Validation (paper 5, section 3.1): a run's boxes at the places that a reliable run kept.

A reliable run (the clean image, or the standard detector) says which candidates are worth keeping; the tested run (the
attacked image, or the robust detector) is looked at there. R_idx takes the tested run's own scores, so it shows what
the classifier makes of the right places; R_all the reliable run's, so that only the tested boxes are left to fail;
R_obj and R_conf replace one factor of YOLOX's score. Candidates of both runs are joined by ``Candidates.identity``.
"""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from misdetect.nouns.boxes import Bools, Floats, Ints
from misdetect.nouns.candidates import Candidates, Pairs, Reason
from misdetect.nouns.detections import Detections
from misdetect.nouns.grid import SCORE_STEPS
from misdetect.said.errors import BadArray

Ablation = Literal["vanilla", "r_idx", "r_all", "r_obj", "r_conf"]
ABLATIONS: tuple[Ablation, ...] = get_args(Ablation)
By = Literal["pair", "candidate"]
"""What an identity stands for. ``pair``: (class, prior), as in the paper's SSD: the tested run is asked for the class
that the reliable run kept. ``candidate``: proposal, grid cell or query, which speaks for its own best class."""
_BY_CLASS = ("SSD",)
"""Families whose identity is a pair in the paper."""
_ROUNDED = 2 / SCORE_STEPS
"""How far a score on the grid may be from the product of two factors on the grid: three halves of a step."""


@dataclass(frozen=True, eq=False)
class Ablated:
    """The ``N`` ``detections`` of an ablation, with what the confusion matrix needs of them: ``background`` ``[N]`` and
    ``vectors`` ``[N, C]``. ``kept`` of the reliable run = N + ``absent``; ``stood_in`` of the N are looked at through
    the proposal that suppressed theirs in the tested run's first stage."""

    detections: Detections
    background: Floats
    vectors: Floats
    kept: int
    absent: int = 0
    stood_in: int = 0

    @property
    def best(self) -> Floats:
        """The best score ``[N]`` of each for any class."""
        return np.asarray(self.vectors.max(axis=1, initial=0.0))


def ablate(
    reliable: Candidates, tested: Candidates, how: Ablation, *, stage: Literal[1, 2] = 2, by: By | None = None
) -> Ablated:
    """What ``tested`` has at the places that ``reliable`` kept.

    ``vanilla`` is the tested run's own output. ``stage`` 1 takes the boxes of a two-stage detector's first stage
    instead of the refined ones. ``by`` is that of the paper for the family unless given. ``r_all`` keeps the reliable
    run's labels; the others, by ``candidate``, take the best class of their scores, one detection per candidate.
    """
    if reliable.scores.shape[1] != tested.scores.shape[1]:
        classes = (reliable.scores.shape[1], tested.scores.shape[1])
        raise BadArray(f"Expected runs of the same classes. Got {classes[0]} and {classes[1]}.")
    if stage == 1 and (reliable.first is None or tested.first is None):
        raise BadArray("Stage 1 is that of a two-stage detector; this one shows none.")
    if how == "vanilla":
        reliable = tested
    pairs = reliable.kept
    by = by or identified_by(reliable)
    if how in ("r_idx", "r_obj", "r_conf") and by == "candidate":
        pairs = _once(pairs)
    identity = reliable.identity[pairs.candidate]
    row, stood_in = _counterparts(tested, identity)
    # the first stage has a box for every anchor, so that reliable scores need no counterpart in the second
    there = np.arange(len(pairs)) if stage == 1 and how == "r_all" else np.flatnonzero(row >= 0)
    candidate, row = pairs.candidate[there], row[there]
    vectors, background = _scores(reliable, tested, candidate, row, how)
    label = pairs.label[there]
    if how in ("r_idx", "r_obj", "r_conf") and by == "candidate" and len(there):
        label = vectors.argmax(axis=1)
    boxes = _boxes(tested, identity[there], Pairs(row, label), stage)
    scores = np.clip(vectors[np.arange(len(label)), label], 0, 1)
    return Ablated(
        Detections(boxes, scores, label),
        np.clip(background, 0, 1),
        vectors,
        kept=len(pairs),
        absent=len(pairs) - len(there),
        stood_in=int(stood_in[there].sum()),
    )


def identified_by(candidates: Candidates) -> By:
    """What an identity stands for in the paper, for the family of ``candidates``."""
    return "pair" if candidates.settings.get("family") in _BY_CLASS else "candidate"


def factored(candidates: Candidates) -> bool:
    """Whether the score is objectness times class score, as YOLOX's: then R_obj and R_conf mean something."""
    objectness, classes = candidates.objectness, candidates.class_scores
    if objectness is None or classes is None:
        return False
    return bool(np.allclose(candidates.scores, objectness[:, None] * classes, atol=_ROUNDED))


def _once(pairs: Pairs) -> Pairs:
    """The first pair of each candidate, in the order of the output."""
    first = np.sort(np.unique(pairs.candidate, return_index=True)[1])
    return Pairs(pairs.candidate[first], pairs.label[first])


def _counterparts(tested: Candidates, identity: Ints) -> tuple[Ints, Bools]:
    """The tested run's candidate of each ``identity``, -1 where it has none; and which are stand-ins.

    A proposal that the tested first stage suppressed is represented by the one that suppressed it: the two overlap so
    much that the detector takes them for one.
    """
    row = _rows_of(tested.identity, identity)
    stood_in = np.zeros(len(row), np.bool_)
    first, lost = tested.first, np.flatnonzero(row < 0)
    if first is None or not lost.size:
        return row, stood_in
    by_suppression = first.dropped.reason == int(Reason.SUPPRESSED)
    dropped = first.identity[first.dropped.candidate[by_suppression]]
    suppressor = first.identity[first.kept.candidate[first.dropped.by[by_suppression]]]
    place = _rows_of(dropped, identity[lost])
    known = place >= 0
    row[lost[known]] = _rows_of(tested.identity, suppressor[place[known]])
    stood_in[lost] = row[lost] >= 0
    return row, stood_in


def _rows_of(among: Ints, wanted: Ints) -> Ints:
    """Where each of ``wanted`` is among the distinct values ``among``, -1 where it is not."""
    order = np.argsort(among, kind="stable")
    place = np.searchsorted(among, wanted, sorter=order)
    padded = np.append(order, -1)[np.minimum(place, len(among))]
    same = np.zeros(len(wanted), np.bool_)
    inside = padded >= 0
    same[inside] = among[padded[inside]] == wanted[inside]
    return np.where(same, padded, -1).astype(np.int64)


def _scores(
    reliable: Candidates, tested: Candidates, candidate: Ints, row: Ints, how: Ablation
) -> tuple[Floats, Floats]:
    """Scores ``[N, C]`` and background ``[N]`` of the reliable run's ``candidate`` and the tested run's ``row``."""
    if how == "r_all":
        return reliable.scores[candidate].astype(np.float64), reliable.background[candidate].astype(np.float64)
    if how in ("vanilla", "r_idx"):
        return tested.scores[row].astype(np.float64), tested.background[row].astype(np.float64)
    if not factored(reliable) or not factored(tested):
        raise BadArray(f"{how} needs scores that are objectness times class score, as YOLOX's are.")
    of_object, of_class, m, n = (reliable, tested, candidate, row)
    if how == "r_conf":
        of_object, of_class, m, n = (tested, reliable, row, candidate)
    assert of_object.objectness is not None
    assert of_class.class_scores is not None
    vectors = of_object.objectness[m].astype(np.float64)[:, None] * of_class.class_scores[n]
    return vectors, 1 - vectors.max(axis=1, initial=0.0)


def _boxes(tested: Candidates, identity: Ints, pairs: Pairs, stage: int) -> Floats:
    """The tested run's boxes: refined, or those of its first stage, which has every anchor."""
    if stage == 2:
        return tested.boxes_of(pairs)
    assert tested.first is not None
    return tested.first.refined[_rows_of(tested.first.identity, identity)]
