"""The rows of a verify run as columns, and what the document is computed from: the parts, with what finds each."""

from functools import cached_property
from typing import Any

import numpy as np

from misdetect.engine.store import Run
from misdetect.metrics import parts as metrics
from misdetect.metrics.ap import average_precision
from misdetect.metrics.bootstrap import REPEATS, resamples
from misdetect.metrics.columns import DetectionColumns, ImageRow, TruthColumns
from misdetect.metrics.parts import Found, Parts, Verified
from misdetect.nouns.boxes import SIDES, Floats, Ints
from misdetect.studies.verify.settings import VerifySettings

WITH, WITHOUT = "with_localisation", "without_localisation"
NUMBERS = ("present_recall", "missing_recall", "f_vv")
"""Those of Table 1."""


class Table:
    """The parts and detections of ``run`` as columns: images and labels are numbered, ``names`` by label."""

    def __init__(self, run: Run) -> None:
        self.how = VerifySettings.of(run.chosen)
        columns = ", ".join(("case_index", "image", "width", "height", "label", "state", "missing", "score", *SIDES))
        found = {
            kind: run.query(f"SELECT {columns} FROM rows WHERE kind = ? ORDER BY case_index, row", [kind]).to_pydict()
            for kind in ("part", "detection")
        }
        part, detection = found["part"], found["detection"]
        self.names = sorted(set(part["label"]))
        place = {name: i for i, name in enumerate(self.names)}
        self.cases, first, image = np.unique(
            np.array(part["case_index"], np.int64), return_index=True, return_inverse=True
        )
        self.named = [part["image"][i] for i in first.tolist()]
        self.states = np.array(part["state"], dtype=object)
        self.sizes = np.array([part["width"], part["height"]], np.float64).T.reshape(-1, 2)
        missing = np.array(part["missing"], np.bool_)
        self.parts = Parts(image.astype(np.int64), _labels(part["label"], place), _boxes(part), missing)
        # detections of parts that are annotated nowhere, or on images without any, can be neither right nor wrong
        where = np.array(detection["case_index"], np.int64)
        known = np.isin(where, self.cases) & np.isin(np.array(detection["label"], dtype=object), self.names)
        rows = np.flatnonzero(known)
        self.image = np.searchsorted(self.cases, where[rows])
        self.label = _labels([detection["label"][i] for i in rows.tolist()], place)
        self.boxes, self.scores = _boxes(detection)[rows], np.array(detection["score"], np.float64)[rows]
        self.found = Found.of(self.parts, self.image, self.label, self.boxes, self.scores)

    @property
    def images(self) -> int:
        """Images with parts; ``named`` has what they are called."""
        return len(self.cases)

    def by_name(self) -> dict[tuple[str, str], tuple[bool, Floats]]:
        """The parts by image and class: whether it is missing, and its box ``[4]``."""
        p = self.parts
        keys = zip(p.image.tolist(), p.label.tolist(), strict=True)
        values = zip(p.missing.tolist(), p.boxes, strict=True)
        return {(self.named[i], self.names[c]): value for (i, c), value in zip(keys, values, strict=True)}

    @cached_property
    def verified(self) -> dict[str, Verified]:
        """With and without localisation."""
        how = self.how
        return {
            WITH: Verified.at(self.parts, self.found, how.present_iou, how.missing_iou),
            WITHOUT: Verified.at(self.parts, self.found, 0.0, 0.0),
        }

    def tally(self, verified: Verified, score: float) -> Floats:
        """The counts ``[images, labels, 4]`` that R_P and R_M are made of."""
        return verified.tally(score, self.images, len(self.names))

    @cached_property
    def draws(self) -> Floats:
        """Images drawn again."""
        return resamples(self.images, REPEATS, self.how.seed)

    @cached_property
    def hallucinated(self) -> tuple[Ints, Ints]:
        """Missing parts that anything is detected of, and the best-scored detection of each, wherever it is."""
        best: dict[int, int] = {}
        for d in np.flatnonzero((self.scores >= self.how.score) & (self.found.part >= 0)).tolist():
            part = int(self.found.part[d])
            if self.parts.missing[part] and (part not in best or self.scores[d] > self.scores[best[part]]):
                best[part] = d
        rows = np.array(sorted(best), dtype=np.int64)
        return rows, np.array([best[row] for row in rows.tolist()], dtype=np.int64)

    @cached_property
    def prior(self) -> Floats:
        """Mean boxes ``[labels, 4]`` of the present parts, as shares of the image."""
        there = ~self.parts.missing
        p = self.parts
        return metrics.mean_boxes(p.label[there], p.boxes[there], self.sizes[there], len(self.names))

    @cached_property
    def average_precision(self) -> tuple[Floats, Floats, dict[str, float | None]]:
        """AP and AP50 of each part, and COCO's numbers, over present parts (Fig. 5). Missing parts are no objects, so
        what is detected of them are false positives, as in the paper's test."""
        there = np.flatnonzero(~self.parts.missing)
        first = np.searchsorted(self.parts.image, np.arange(self.images))
        sizes = self.sizes[first].astype(int).tolist()
        rows = tuple(ImageRow(str(i), i, width, height) for i, (width, height) in enumerate(sizes))
        boxes = self.parts.boxes[there]
        truth = TruthColumns(
            images=rows,
            names=tuple(self.names),
            image=self.parts.image[there],
            label=self.parts.label[there],
            boxes=boxes,
            areas=(boxes[:, 2:] - boxes[:, :2]).prod(axis=1),
            crowd=np.zeros(len(there), np.bool_),
            ids=there,
        )
        found = average_precision(truth, DetectionColumns.of(self.image, self.label, self.boxes, self.scores))
        return found.ap, found.ap50, found.overall


def rates(counts: Floats, beta: float) -> dict[str, Floats]:
    """R_P, R_M and F_vv of ``counts`` ``[..., 4]``, by name."""
    present, missing = metrics.recalls(counts)
    return dict(zip(NUMBERS, (present, missing, metrics.f_vv(present, missing, beta)), strict=True))


def _labels(names: list[str], place: dict[str, int]) -> Ints:
    return np.array([place[name] for name in names], dtype=np.int64)


def _boxes(columns: dict[str, list[Any]]) -> Floats:
    return np.array([columns[side] for side in SIDES], np.float64).T.reshape(-1, 4)
