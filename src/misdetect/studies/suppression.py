"""Does non-maximum suppression explain a lost object? The chain of paper 1's discussion, read inside the detector.

A candidate that survived on the clean image may now be suppressed by another, which was itself suppressed before by a
third that T covers now, and so on. ``explain_losses`` writes for every lost original what became of its candidate
(``fate``), where it was suppressed the chain of who made room for whom (``chain``), and the mechanism that paper 3's
Algorithm 1 names for it on the edited image (``mechanism``).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from misdetect.metrics.mechanisms import MECHANISMS, Thresholds, attribute
from misdetect.metrics.transplant import LOST
from misdetect.nouns.boxes import Floats, Ints, boxes_of, iou
from misdetect.nouns.candidates import Candidates, Pairs, Reason

SUPPRESSED, BELOW_SCORE, TOP_K, CAP, TOO_SMALL, ELSEWHERE, GONE = FATES = (
    "suppressed",
    "score",
    "top-k",
    "cap",
    "too-small",
    "elsewhere",
    "gone",
)
"""What became of the candidate: suppressed by another; its score fell below the study's threshold; it fell to a cap; it
is still in the output, but its box is now too far off, or lies on T; nothing of the kind is there any more."""
_FATE_OF = {Reason.SUPPRESSED: SUPPRESSED, Reason.TOP_K: TOP_K, Reason.CAP: CAP, Reason.TOO_SMALL: TOO_SMALL}
_SAME_PLACE = 0.5
_LEAST = 1e-6
_LONGEST = 5


def explain_losses(
    objects: Sequence[dict[str, Any]],
    labels: Ints,
    names: Sequence[str],
    clean: Candidates,
    edited: Candidates,
    score: float,
) -> None:
    """Fill ``fate``, ``chain`` and ``mechanism`` of the lost ones among ``objects``, the originals of a row, given the
    detector's inside on both images. ``labels`` ``[N]`` are the originals', indices into the detector's ``names``.
    ``score`` is the study's threshold, which may be above the detector's own; it is also Algorithm 1's θ_cls.
    """
    lost = [i for i, thing in enumerate(objects) if thing["outcome"] == LOST]
    if not lost:
        return
    boxes = boxes_of(objects[i] for i in lost)
    mechanisms = attribute(edited, boxes, labels[lost], Thresholds(cls=max(score, _LEAST)))
    for i, box, mechanism in zip(lost, boxes, mechanisms, strict=True):
        thing = objects[i]
        thing["mechanism"] = MECHANISMS[mechanism]
        start = _kept_pair(clean, box, int(labels[i]))
        if start is not None:
            thing["fate"], thing["chain"] = _fate(start, box, clean, edited, score, names)


def _kept_pair(inside: Candidates, box: Floats, label: int) -> int | None:
    """Row in ``kept`` of the detection of ``label`` at ``box``: what the detector reported, before clipping."""
    rows = np.flatnonzero(inside.kept.label == label)
    if not rows.size:
        return None
    overlap = iou(box[None], inside.boxes_of(Pairs(inside.kept.candidate[rows], inside.kept.label[rows])))[0]
    return int(rows[overlap.argmax()]) if overlap.max() >= _SAME_PLACE else None


def _fate(
    row: int, box: Floats, clean: Candidates, edited: Candidates, score: float, names: Sequence[str]
) -> tuple[str, list[str] | None]:
    label = int(clean.kept.label[row])
    candidate = _same_candidate(int(clean.identity[clean.kept.candidate[row]]), label, box, edited)
    if candidate is None:
        return GONE, None
    dropped = edited.dropped
    at = np.flatnonzero((dropped.candidate == candidate) & (dropped.label == label))
    if edited.scores[candidate, label] < score:
        return BELOW_SCORE, None
    if not at.size:
        return ELSEWHERE, None
    fate = _FATE_OF[Reason(int(dropped.reason[at[0]]))]
    if fate != SUPPRESSED or dropped.by[at[0]] < 0:
        return fate, None
    return fate, _chain(int(dropped.by[at[0]]), clean, edited, names)


def _same_candidate(identity: int, label: int, box: Floats, inside: Candidates) -> int | None:
    """The candidate with this identity; where its place has changed (proposals of a two-stage detector are numbered
    anew in every image), the best-scored one of ``label`` that lies on ``box``."""
    rows = np.flatnonzero(inside.identity == identity)
    boxes = inside.refined if inside.class_boxes is None else inside.class_boxes[:, label]
    if rows.size and iou(box[None], boxes[rows])[0].max() >= _SAME_PLACE:
        return int(rows[0])
    near = np.flatnonzero(iou(box[None], boxes)[0] >= _SAME_PLACE)
    return int(near[inside.scores[near, label].argmax()]) if near.size else None


def _chain(by: int, clean: Candidates, edited: Candidates, names: Sequence[str]) -> list[str]:
    """Who suppresses now, why it did not before, and so on: one clause per link."""
    links: list[str] = []
    seen: set[int] = set()
    while len(links) < _LONGEST:
        candidate, label = int(edited.kept.candidate[by]), int(edited.kept.label[by])
        if candidate in seen:
            break
        seen.add(candidate)
        place = [round(float(v)) for v in edited.boxes_of(Pairs(np.array([candidate]), np.array([label])))[0]]
        links.append(f"{names[label]} at {place}, score {edited.scores[candidate, label]:.2f}")
        rows = np.flatnonzero(clean.identity == edited.identity[candidate])
        if not rows.size:
            links.append("not considered on the clean image")
            break
        before = clean.dropped
        at = np.flatnonzero((before.candidate == rows[0]) & (before.label == label))
        if not at.size:
            was_kept = ((clean.kept.candidate == rows[0]) & (clean.kept.label == label)).any()
            score = float(clean.scores[rows[0], label])
            links.append("kept on the clean image too" if was_kept else f"on the clean image its score was {score:.2f}")
            break
        if before.reason[at[0]] != Reason.SUPPRESSED or before.by[at[0]] < 0:
            links.append(f"on the clean image it fell to {_FATE_OF[Reason(int(before.reason[at[0]]))]}")
            break
        holder = int(before.by[at[0]])
        holder_candidate, holder_label = int(clean.kept.candidate[holder]), int(clean.kept.label[holder])
        links.append(f"on the clean image suppressed by {names[holder_label]}")
        now = np.flatnonzero(
            (edited.identity[edited.dropped.candidate] == clean.identity[holder_candidate])
            & (edited.dropped.label == holder_label)
        )
        if not now.size or edited.dropped.reason[now[0]] != Reason.SUPPRESSED or edited.dropped.by[now[0]] < 0:
            break
        by = int(edited.dropped.by[now[0]])
    return links
