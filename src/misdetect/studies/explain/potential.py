"""What solving a mechanism would buy: recall and AP after an oracle has fixed all misses of that mechanism.

As TIDE does for its error types: each fixed object gets one right detection, and the errors about it (Cls, Loc, Both)
go. The detection scores what the detector already gave: the lost candidate's own score (discarded), the rival's
(interclass), else the least score that is reported. AP is that of the reported detections, not of all.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from misdetect.metrics.ap import average_precision
from misdetect.metrics.columns import DetectionColumns, ImageRow, TruthColumns
from misdetect.nouns.boxes import Bools, Floats, Ints, area, boxes_of

_ERRORS = ("Cls", "Loc", "Both")


@dataclass(frozen=True, eq=False)
class World:
    """All objects (crowds last in each image's order) and reported detections of a run, as columns for AP.

    ``lost`` ``[T]`` holds the mechanism of each missed object, "" else; ``fix`` ``[T]`` the score of its fix; ``about``
    ``[D]`` the row of the object that an erroneous detection is about, -1 for none.
    """

    truth: TruthColumns
    detections: DetectionColumns
    lost: NDArray[np.object_]
    fix: Floats
    about: Ints

    def fixed(self, chosen: Bools) -> DetectionColumns:
        """The detections after the objects ``chosen`` ``[T]`` have been fixed."""
        d, t = self.detections, self.truth
        stays = ~((self.about >= 0) & chosen[self.about])
        rows = np.flatnonzero(chosen)
        return DetectionColumns.of(
            np.concatenate([d.image[stays], t.image[rows]]),
            np.concatenate([d.label[stays], t.label[rows]]),
            np.concatenate([d.boxes[stays], t.boxes[rows]]),
            np.concatenate([d.scores[stays], self.fix[rows]]),
        )


def world(objects: Sequence[dict[str, Any]], detections: Sequence[dict[str, Any]], reported: float) -> World:
    """The ``World`` of a run's rows: ``objects`` are those that count and ignored crowds."""
    images = sorted({row["image"] for row in (*objects, *detections)})
    names = sorted({row["label"] for row in (*objects, *detections) if row["label"] is not None})
    place, label_of = {name: i for i, name in enumerate(images)}, {name: i for i, name in enumerate(names)}
    objects = sorted((o for o in objects if o["label"] is not None), key=lambda row: place[row["image"]])
    detections = sorted(detections, key=lambda row: place[row["image"]])
    row_of = {(o["image"], o["id"]): i for i, o in enumerate(objects)}
    boxes = boxes_of(objects)
    areas = np.array([o["area"] for o in objects], dtype=np.float64)
    truth = TruthColumns(
        images=tuple(ImageRow(name, i, 1, 1) for i, name in enumerate(images)),
        names=tuple(names),
        image=np.array([place[o["image"]] for o in objects], dtype=np.int64),
        label=np.array([label_of[o["label"]] for o in objects], dtype=np.int64),
        boxes=boxes,
        areas=np.where(np.isnan(areas), area(boxes), areas),
        crowd=np.array([o["kind"] == "ignored" for o in objects], dtype=np.bool_),
        ids=np.arange(len(objects)),
    )
    found = DetectionColumns.of(
        [place[d["image"]] for d in detections],
        [label_of[d["label"]] for d in detections],
        boxes_of(detections),
        [d["score"] for d in detections],
    )
    wrong = [row_of.get((d["image"], d["matched"]), -1) if d["tide"] in _ERRORS else -1 for d in detections]
    fix = [max(reported, _score(o)) for o in objects]
    return World(
        truth,
        found,
        np.array([o["mechanism"] or "" for o in objects], dtype=object),
        np.array(fix, dtype=np.float64),
        np.array(wrong, dtype=np.int64),
    )


def _score(row: dict[str, Any]) -> float:
    column = {"discarded": "own_score", "interclass": "rival_score"}.get(row["mechanism"] or "")
    return float(row[column] or 0) if column else 0.0


def potential(w: World, mechanisms: Sequence[str]) -> dict[str, dict[str, Any]]:
    """For each of ``mechanisms``, for "all" of them and for "none" (as it is): ``recall``, ``AP`` and ``AP50`` in 0..1
    after the fix, what they gain, and how many objects were ``fixed``. ``None`` without objects."""
    counted = ~w.truth.crowd
    objects, misses = int(counted.sum()), int((w.lost != "").sum())
    every: dict[str, Bools] = {"none": np.zeros(len(w.lost), np.bool_)}
    every |= {name: np.asarray(w.lost == name) for name in mechanisms}
    every["all"] = np.asarray(w.lost != "")
    result: dict[str, dict[str, Any]] = {}
    for name, chosen in every.items():
        fixed = int(chosen.sum())
        if name not in ("none", "all") and not fixed:
            result[name] = {**result["none"], "fixed": 0}
            continue
        ap = average_precision(w.truth, w.fixed(chosen), max_detections=1000).overall
        recall = (objects - misses + fixed) / objects if objects else None
        result[name] = {"AP": ap["AP"], "AP50": ap["AP50"], "recall": recall, "fixed": fixed}
    before = result["none"]
    for entry in result.values():
        for key in ("AP", "AP50", "recall"):
            known = entry[key] is not None and before[key] is not None
            entry[f"{key}_gain"] = entry[key] - before[key] if known else None
    return result
