"""A detector beside its reference, object by object: what moved, grew, changed its class or its score, and what kind of
damage that is. No annotations are needed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from misdetect.nouns.boxes import Bools, Floats, Ints, iou, match
from misdetect.studies.doctor.answers import Answer
from misdetect.studies.doctor.observe import Finding, observed

SHOWN = 20
_SURE = 4.0
"""Standard errors by which a median must differ from none."""
_SHIFT, _RESIZE, _SCATTER, _RESCORE = 0.02, 0.03, 0.03, 0.05
"""Shares of an object's size, logarithms of a ratio, and scores, from which on a difference is damage."""
_RENAMED, _LOST = 0.1, 0.1
_LEVELS = 300
"""Distinct values of a coordinate below which it comes from few bits; a float has as many as there are boxes."""


@dataclass(frozen=True, eq=False)
class Pairs:
    """Objects of the reference ``[T]`` with what the detector has in their place: centre shifts as shares of the size
    ``[T, 2]``, logarithms of size ratios ``[T, 2]``, NaN where nothing is there."""

    image: Ints
    box: Floats
    label: Ints
    score: Floats
    partner: Ints
    shift: Floats
    resize: Floats
    partner_label: Ints
    partner_score: Floats

    @property
    def matched(self) -> Bools:
        return self.partner >= 0


def pair(reference: Mapping[int, Answer], detector: Mapping[int, Answer], to_space: Ints, score: float) -> Pairs:
    """Match what the reference sees from ``score`` on with the detector's answers on the same images, by place
    alone."""
    nothing = Answer(np.zeros((0, 4)), np.zeros(0), np.zeros(0, np.int64))
    both = [(image, reference[image], detector[image]) for image in sorted(set(reference) & set(detector))]
    parts = [_beside(*each, to_space, score) for each in ((-1, nothing, nothing), *both)]
    return Pairs(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _beside(image: int, own: Answer, other: Answer, to_space: Ints, score: float) -> tuple[Any, ...]:
    """The columns of ``Pairs`` of one image."""
    rows = np.flatnonzero(own.scores >= score)
    boxes, labels = own.boxes[rows], _mapped(other.labels, to_space)
    overlaps = iou(boxes, _sound(other.boxes))
    same = np.equal.outer(own.labels[rows], labels)
    # of several boxes in one place the one of its class, and of these the surer, is its partner
    weights = np.where(overlaps >= 0.3, overlaps + same + 0.5 * np.clip(other.scores, 0, 1)[None, :], 0)
    first, second = match(weights) if weights.size else (np.zeros(0, np.int64),) * 2
    partner, label = np.full((2, len(rows)), -1, np.int64)
    partner[first], label[first] = second, labels[second]
    mate, surely = np.full((len(rows), 4), np.nan), np.full(len(rows), np.nan)
    mate[first], surely[first] = other.boxes[second], other.scores[second]
    size, new = (np.maximum(each[:, 2:] - each[:, :2], 1e-6) for each in (boxes, mate))
    shift = ((mate[:, :2] + mate[:, 2:]) - (boxes[:, :2] + boxes[:, 2:])) / 2 / size
    about = np.full(len(rows), image), boxes, own.labels[rows], own.scores[rows]
    return *about, partner, shift, np.log(new / size), label, surely


def _sound(boxes: Floats) -> Floats:
    return np.where(np.isfinite(boxes).all(axis=1, keepdims=True), boxes, 0.0)


def _mapped(labels: Ints, to_space: Ints) -> Ints:
    inside = (labels >= 0) & (labels < len(to_space))
    return np.where(inside, to_space[np.clip(labels, 0, max(len(to_space) - 1, 0))], -1)


def _median(values: Floats) -> tuple[float, float]:
    """Median, and its standard error from the spread of the middle."""
    if not len(values):
        return 0.0, np.inf
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    return float(middle), float(max((high - low) / 1.349, 1e-9) * 1.2533 / np.sqrt(len(values)))


def _biased(values: Floats, least: float) -> float | None:
    """The median of ``values`` where it is surely beyond ``least``."""
    middle, error = _median(values)
    return middle if abs(middle) > least and abs(middle) > _SURE * error else None


def damage(pairs: Pairs, before: float) -> list[Finding]:
    """What kind of damage the differences are, the gravest first; none where the two agree."""
    n, matched = len(pairs.image), pairs.matched
    if n < 10:
        return []
    found: list[tuple[float, Finding]] = []

    def add(gravity: float, kind: str, text: str, fix: str) -> None:
        found.append((gravity, observed(kind, text, fix, before)))

    renamed = float((pairs.partner_label[matched] != pairs.label[matched]).mean()) if matched.any() else 0.0
    if renamed > _RENAMED:
        text = f"{renamed:.0%} of the objects have another class than with the reference"
        add(renamed, "renamed", text, "compare the lists of class names and their order")
    for i, (axis, along) in enumerate((("x", "wide"), ("y", "high"))):
        if (moved := _biased(pairs.shift[matched, i], _SHIFT)) is not None:
            text = f"boxes are shifted in {axis} by {moved:+.1%} of their size"
            add(abs(moved), "shifted", text, "compare padding, offsets and rounding")
        if (grown := _biased(pairs.resize[matched, i], _RESIZE)) is not None:
            text = f"boxes are {np.exp(grown):.2f} times as {along} as with the reference"
            add(abs(grown), "resized", text, "compare the input size and how boxes are scaled")
    spread, levels, lost = _scatter(pairs), _levels(pairs), 1 - float(matched.mean())
    if spread > _SCATTER or lost > _LOST:
        text = f"boxes scatter by {spread:.1%} of their size around the reference's, {lost:.0%} of the objects are lost"
        text += f"; numbers take only {levels} values" if levels else ""
        fix = "quantise with a calibration set, per channel, and leave the head in float; or use fp16"
        add(spread + lost, "quantised", f"precision is lost: {text}", fix)
    rescored = _biased(pairs.partner_score[matched] - pairs.score[matched], _RESCORE)
    if rescored is not None and not found:
        text = f"scores differ by {rescored:+.2f} from the reference's, in the same places"
        add(abs(rescored), "rescored", text, "compare sigmoids, objectness and calibration")
    return [finding for _, finding in sorted(found, key=lambda each: -each[0])]


def _scatter(pairs: Pairs) -> float:
    """Half the spread of the middle half of the centre shifts and size ratios, bias taken out."""
    values = np.concatenate([pairs.shift, pairs.resize], axis=1)[pairs.matched]
    if not len(values):
        return 0.0
    low, high = np.quantile(values, [0.25, 0.75], axis=0)
    return float(((high - low) / 2).max())


def _levels(pairs: Pairs) -> int | None:
    """How many values the sizes have, if that is suspiciously few."""
    scores = pairs.partner_score[pairs.matched]
    levels = len(np.unique(np.round(scores, 9)))
    return levels if len(scores) >= 50 and levels < len(scores) / 2 and levels < _LEVELS else None


def comparison(pairs: Pairs, space: Sequence[str], images: Sequence[str]) -> dict[str, Any]:
    """The numbers, and the objects that differ most."""
    matched = pairs.matched
    same = matched & (pairs.partner_label == pairs.label)

    def middle(values: Floats) -> float | None:
        return float(np.median(values)) if len(values) else None

    shift = np.abs(np.concatenate([pairs.shift, pairs.resize], axis=1)).max(axis=1)
    change = np.where(matched, shift + (pairs.partner_label != pairs.label), 2.0)
    order = np.argsort(-change, kind="stable")[:SHOWN]
    return {
        "objects": len(pairs.image),
        "found": int(matched.sum()),
        "same_class": int(same.sum()),
        "shift": [middle(pairs.shift[matched, i]) for i in (0, 1)],
        "size_ratio": [None if (m := middle(pairs.resize[matched, i])) is None else float(np.exp(m)) for i in (0, 1)],
        "scatter": _scatter(pairs),
        "score_change": middle(pairs.partner_score[matched] - pairs.score[matched]),
        "differ_most": [
            {
                "image": images[pairs.image[i]],
                "label": space[pairs.label[i]],
                "box": [round(float(v), 2) for v in pairs.box[i]],
                "became": _name(pairs.partner_label[i], space) if matched[i] else None,
                "score": float(pairs.score[i]),
                "score_now": float(pairs.partner_score[i]) if matched[i] else None,
                "shift": [float(v) for v in pairs.shift[i]] if matched[i] else None,
                "size_ratio": [float(np.exp(v)) for v in pairs.resize[i]] if matched[i] else None,
            }
            for i in order.tolist()
        ],
    }


def _name(label: int, space: Sequence[str]) -> str | None:
    return space[label] if 0 <= label < len(space) else None
