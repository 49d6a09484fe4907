"""What is drawn for a row: the picture behind it, with what was detected before and after.

Boxes are lists: the four sides, the class, the score, and what became of it: "kept", "moved", "lost", "new", or "own"
for what was put in itself.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from misdetect.data.dataset import Dataset
from misdetect.nouns.boxes import SIDES, Bools, boxes_of, iou
from misdetect.nouns.picture import Pixels

_SAME = 0.5
"""IoU from which on two detections of a class are one."""
Row = dict[str, Any]
Box = list[Any]
Scene = dict[str, Any]


class Stage(Protocol):
    """The edited pictures of one run."""

    def load(self, keys: Sequence[str] | None = None) -> None:
        """Read the rows of the scenes of ``keys``, or all there are; only those are known from then on."""
        ...

    def scene(self, key: str) -> Scene | None:
        """Boxes ``before`` and ``after``, the box that was ``inserted`` if any, and the ``image``."""
        ...

    def pictures(self, key: str) -> tuple[Pixels, Pixels] | None:
        """The photo and the edited picture."""
        ...


def paired(before: Sequence[Row], after: Sequence[Row], inserted: Sequence[float] | None) -> dict[str, list[Box]]:
    """Detections before and after: lost or new where the other side has none of their class in their place."""
    first, last = boxes_of(before), boxes_of(after)
    names = [np.array([each["label"] for each in side], dtype=object) for side in (before, after)]
    on: Bools = np.asarray(iou(first, last) >= _SAME) & np.asarray(names[0][:, None] == names[1][None, :], np.bool_)
    put = np.array([] if inserted is None else [inserted], dtype=np.float64).reshape(-1, 4)
    own: Bools = np.asarray((iou(last, put) >= _SAME).any(axis=1))
    kept, stays = np.asarray(on.any(axis=1)), np.asarray(on.any(axis=0))
    return {
        "before": [box(each, each["score"], "kept" if kept[i] else "lost") for i, each in enumerate(before)],
        "after": [
            box(each, each["score"], "kept" if stays[i] else "own" if own[i] else "new") for i, each in enumerate(after)
        ],
    }


def box(each: Row, score: float | None, state: str) -> Box:
    return [*sides_of(each), each["label"], None if score is None else round(score, 3), state]


def sides_of(each: Row) -> list[float]:
    return [round(each[side], 1) for side in SIDES]


def among(value: str, asked: Sequence[Any] | None) -> str:
    """That ``value`` is one of the parameter's, which is a list; anything where nothing is asked for."""
    return "true" if asked is None else f"{value} IN (SELECT unnest(?))"


def places(data: Dataset) -> dict[str, int]:
    """Where in ``data`` each image is."""
    return {sample.id: i for i, sample in enumerate(data)}
