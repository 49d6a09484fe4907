"""The known answer for every object that a planted fault hit: what a diagnosis of the glass box must say.

Follows from what was done to the object and from what became of its own candidates. It is no second diagnosis: paper
3's algorithm appears nowhere here, so that it can be tested against these answers.
"""

from dataclasses import dataclass

import numpy as np

from misdetect.detectors.glassbox.faults import MECHANISMS, Fault, Planted, Treatment
from misdetect.detectors.glassbox.scene import Rows, Scene, Things
from misdetect.nouns.boxes import Bools, Floats, Ints, iou
from misdetect.nouns.candidates import Candidates, Reason

CROWDED = 0.5
"""IoU from which a candidate of another object can stand in for an object's own."""
_TOUCHED = 0.1
"""IoU from which TIDE may take a box for an error about another object."""


@dataclass(frozen=True, eq=False)
class Plan(Rows):
    """What is done to the objects of a scene: ``fault`` ``[N]`` indexes the faults (-1: none) and ``treatment`` ``[N]``
    follows from it; ``near`` ``[N]``: only while an intruder is near; ``targets`` ``[N, 4]`` of a shift; ``taken_for``
    ``[N]``, the label of a renaming."""

    fault: Ints
    treatment: Ints
    near: Bools
    targets: Floats
    taken_for: Ints

    @classmethod
    def idle(cls, things: Things) -> "Plan":
        """Nothing is done to anyone."""
        none = np.zeros(len(things), dtype=np.int64)
        return cls(none - 1, none, none > 0, things.boxes, things.labels)


@dataclass(frozen=True, eq=False)
class Traced:
    """A picture looked at: the ``candidates``, whose they are (``owner`` ``[K]``, -1: background, from ``N`` on:
    hallucinated parts), and what was done to whom."""

    scene: Scene
    plan: Plan
    ghosts: Things
    ghost_fault: Ints
    owner: Ints
    candidates: Candidates


def answers(traced: Traced, faults: tuple[Fault, ...]) -> list[Planted]:
    """The planted answer of every object that was hit or cut off, and of every part that was hallucinated."""
    found = [a for i in range(len(traced.scene.present)) if (a := _answer(traced, i, faults)) is not None]
    shown = traced.owner[traced.candidates.kept.candidate] - len(traced.scene.present)
    for i in range(len(traced.ghosts)):
        if (shown == i).any():
            fault = faults[int(traced.ghost_fault[i])].name
            found.append(Planted(int(traced.ghosts.ids[i]), int(traced.ghosts.labels[i]), fault, "hallucinated", None))
    return found


def _answer(traced: Traced, i: int, faults: tuple[Fault, ...]) -> Planted | None:
    """What was planted for object ``i``; ``None`` where nothing was."""
    things, found = traced.scene.present, traced.candidates
    box, label = things.boxes[i : i + 1], int(things.labels[i])
    boxes, labels = found.boxes_of(found.kept), found.kept.label
    own = traced.owner[found.kept.candidate] == i
    fault, treatment = int(traced.plan.fault[i]), Treatment(int(traced.plan.treatment[i]))
    if fault < 0 and own.any():
        return None
    effect = "vanished" if not own.any() else "moved" if (labels[own] == label).all() else "renamed"
    missed = not ((labels == label) & (iou(boxes, box)[:, 0] >= CROWDED)).any()
    near = _nearest(traced, i, box)

    localised = (traced.owner == i) & (iou(found.refined, box)[:, 0] >= CROWDED)
    mechanism = MECHANISMS.get(treatment)
    if treatment == Treatment.HEALTHY or (treatment == Treatment.SHIFTED and localised.any()):
        mechanism = "discarded"  # a good candidate was there, and top-k or the cap cut it
    # an object that was only cut off has good candidates whatever its neighbours have; any other answer they can blur
    certain = near < CROWDED or treatment == Treatment.HEALTHY
    mechanism = mechanism if missed and certain else None

    cause = _cause(traced, localised, label)
    name = faults[fault].name if fault >= 0 else "cap" if cause == Reason.CAP else "top-k"
    reason = cause if mechanism == "discarded" and near < CROWDED else None
    others = np.delete(np.concatenate([things.boxes, traced.scene.absent.boxes]), i, axis=0)
    alone = max(near, iou(boxes[own], others).max(initial=0)) < _TOUCHED
    tide = _tide(effect, float(iou(boxes[own], box).max(initial=0))) if missed and alone else None
    return Planted(int(things.ids[i]), label, name, effect, mechanism, reason, tide)


def _nearest(traced: Traced, i: int, box: Floats) -> float:
    """The largest IoU of ``box`` with a candidate that another object has in this picture."""
    rows = np.flatnonzero((traced.owner != i) & (traced.owner >= 0))
    found = traced.candidates
    return float(iou(np.concatenate([found.proposals[rows], found.refined[rows]]), box).max(initial=0))


def _cause(traced: Traced, localised: Bools, label: int) -> Reason | None:
    """Why the best-scored of an object's ``localised`` candidates is not in the output."""
    found = traced.candidates
    rows = np.flatnonzero(localised[found.dropped.candidate] & (found.dropped.label == label))
    if not rows.size:
        return None
    best = rows[found.scores[found.dropped.candidate[rows], label].argmax()]
    return Reason(int(found.dropped.reason[best]))


def _tide(effect: str, overlap: float) -> str:
    """TIDE's type of a missed object that nothing else touches; ``overlap`` is that of its own detection."""
    if effect == "moved":
        return "Loc" if overlap >= _TOUCHED else "Miss"
    return "Cls" if effect == "renamed" else "Miss"
