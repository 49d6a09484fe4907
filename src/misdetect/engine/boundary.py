"""The boundary between misdetect and a detector it did not write: nothing a detector returns is taken on trust.

Wrong lengths, NaN, labels without a name and boxes that miss the image altogether become a ``DetectorFailed`` with the
cause. A box that merely sticks out of the image is cut to it and counted, since many detectors do not clip. What is
taken is put on the grid (``grid.py``): studies, cache and journal see no other numbers.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from misdetect.nouns.boxes import Floats, clip
from misdetect.nouns.candidates import Candidates
from misdetect.nouns.detections import Detections, Said
from misdetect.nouns.grid import boxes_on_grid, scores_on_grid
from misdetect.nouns.open_names import OpenNames, numbered, words_of
from misdetect.nouns.picture import Picture, Raw
from misdetect.said.errors import BadArray, DetectorFailed, MisdetectError

_TOLERANCE = 0.5
"""Pixels by which a box may stick out without being counted: regression noise at the border, not a mistake."""
_SCORES = ("scores", "background", "objectness", "class_scores")
_BOXES = ("proposals", "refined", "class_boxes")


def check_batch(answers: object, count: int) -> Sequence[Any]:
    """``answers`` as a sequence of ``count`` entries, or a ``DetectorFailed``."""
    if (
        isinstance(answers, (str, bytes, dict))
        or not hasattr(answers, "__len__")
        or not hasattr(answers, "__getitem__")
    ):
        raise DetectorFailed(f"the detector returned {type(answers).__name__} instead of a list, one entry per image.")
    if len(answers) != count:
        raise DetectorFailed(f"the detector returned {len(answers)} results for {count} images.")
    return answers  # type: ignore[return-value]


def classes_of(names: Sequence[str]) -> int | None:
    """How many classes a detector with ``names`` has; ``None`` where they are open."""
    return None if isinstance(names, OpenNames) else len(names)


def check_detections(answer: object, height: int, width: int, classes: int | None) -> tuple[Detections, int]:
    """``answer`` as ``Detections`` on the grid, inside a ``height`` × ``width`` image, and how many boxes were cut to
    it. What is only taken down (``Said``) stays as it is. ``classes`` as ``classes_of``: where names are open, labels
    are words."""
    if isinstance(answer, Said):
        return answer, 0
    try:
        found = Detections.of(numbered(answer) if classes is None else answer)
        if classes is None:
            words_of(found.labels)
        _check_masks(found, height, width)
    except BadArray as error:
        raise DetectorFailed(f"the detector returned invalid detections: {error}") from error
    except Exception as error:  # the answer is a stranger's object: whatever looking at it may raise
        raise DetectorFailed(
            f"the detector returned {type(answer).__name__}, and reading it raised {type(error).__name__}: {error}"
        ) from error
    if not len(found):
        return found, 0
    if classes is not None and found.labels.max() >= classes:
        raise DetectorFailed(f"the detector returned label {found.labels.max()}, but has only {classes} names.")
    x0, y0, x1, y1 = found.boxes.T
    # only what lies beyond the edge: detectors that clip for themselves leave flat boxes on it
    outside = (x0 > width) | (y0 > height) | (x1 < 0) | (y1 < 0)
    if outside.any():
        box = [round(float(v), 1) for v in found.boxes[int(outside.argmax())]]
        raise DetectorFailed(
            f"the detector returned the box {box}, outside the {width}x{height} image; "
            "boxes are x0, y0, x1, y1 in pixels of the image it was given."
        )
    far = (x0 < -_TOLERANCE) | (y0 < -_TOLERANCE) | (x1 > width + _TOLERANCE) | (y1 > height + _TOLERANCE)
    return on_grid(found, width, height), int(np.count_nonzero(far))


def on_grid(found: Detections, width: float = np.inf, height: float = np.inf) -> Detections:
    """``found`` with its scores and boxes on the grid, cut to an image of ``width`` × ``height`` pixels."""
    return found.instead(boxes=boxes_on_grid(clip(found.boxes, width, height)), scores=scores_on_grid(found.scores))


def recalled(stored: Detections, picture: Picture, classes: int | None) -> Detections | None:
    """An answer from a file, if it could be the detector's: what is stored was checked before, and has not to be cut
    any more."""
    try:
        height, width = _size(picture)
        found, _ = check_detections(stored, height, width, classes)
    except MisdetectError:  # or the picture cannot be drawn: then it cannot be asked about either
        return None
    return found if np.array_equal(clip(stored.boxes, width, height), stored.boxes) else None


def _size(picture: Any) -> tuple[int, int]:
    """Height and width, without drawing where something along the line of edits knows them."""
    below = picture
    while below is not None:
        if isinstance(below, Raw):
            return below.pixels.shape[0], below.pixels.shape[1]
        if hasattr(below, "width"):
            return below.height, below.width
        below = getattr(below, "base", None) or getattr(below, "picture", None)
    drawn = picture.render()
    return drawn.shape[0], drawn.shape[1]


def _check_masks(found: Detections, height: int, width: int) -> None:
    """Masks have the image's size, and those that came encoded can be decoded."""
    masks = found.masks
    if masks is None:
        return
    if (masks.height, masks.width) != (height, width):
        raise BadArray(
            f"Expected masks of the image's size, {width}x{height}. Got masks of {masks.width}x{masks.height}."
        )
    for _ in masks:
        pass


def check_candidates(answer: object, classes: int) -> Candidates:
    """``answer`` on the grid if it is ``Candidates`` over the detector's classes with finite boxes and scores."""
    if not isinstance(answer, Candidates):
        raise DetectorFailed(f"the detector's trace returned {type(answer).__name__} instead of Candidates.")
    if answer.scores.shape[1] != classes:
        raise DetectorFailed(f"the detector's trace has {answer.scores.shape[1]} classes, but {classes} names.")
    for name in (*_BOXES, *_SCORES):
        value = getattr(answer, name)
        if value is not None and not np.isfinite(value).all():
            raise DetectorFailed(f"the detector's trace has {name} that are not finite.")
    return _inside_on_grid(answer)


def _inside_on_grid(inside: Candidates) -> Candidates:
    """All of a trace on the grid; what was kept and dropped the detector has decided before."""
    kinds = ((_BOXES, boxes_on_grid), (_SCORES, scores_on_grid))
    given = [(name, getattr(inside, name), put) for names, put in kinds for name in names]
    columns: dict[str, Any] = {name: put(value) for name, value, put in given if value is not None}
    first = None if inside.first is None else _inside_on_grid(inside.first)
    return replace(inside, first=first, **columns)


def check_gradient(answer: Any, pixels: Floats) -> tuple[float, Floats]:
    """``(loss, slope)`` with a finite loss and a finite slope of the image's shape."""
    try:
        loss, slope = float(answer[0]), np.asarray(answer[1])
        if slope.dtype.kind != "f":
            raise TypeError(f"a gradient of {slope.dtype}")
    except Exception as error:  # as above
        raise DetectorFailed(f"the detector's gradient is not a loss and an array of floats: {error}") from error
    if slope.shape != pixels.shape:
        raise DetectorFailed(f"the detector's gradient has shape {list(slope.shape)}, the image {list(pixels.shape)}.")
    if not (np.isfinite(loss) and np.isfinite(slope).all()):
        raise DetectorFailed("the detector's gradient is not finite.")
    return loss, slope
