"""The score of stored predictions: COCO's AP and AR, TIDE, the same per class and per image.

Joins ``ap`` and ``tide`` into one JSON-able document with every cap and threshold beside the numbers. It reads no files
and draws nothing: see ``studies/score``. Undefined values are ``None``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from misdetect.metrics import tide
from misdetect.metrics.ap import AREA_RANGES, IOU_THRESHOLDS, ApResult, average_precision
from misdetect.metrics.columns import DetectionColumns, TruthColumns
from misdetect.metrics.degenerate import Degenerate, degenerate
from misdetect.metrics.tide import DETECTION_TYPES, MAIN, SPECIAL, Assignment, TideResult, TideSettings
from misdetect.nouns.boxes import Bools, Ints
from misdetect.said.errors import BadArray

FALSE = (tide.CLS, tide.LOC, tide.BOTH, tide.DUPE, tide.BKG)
LOST = (tide.COVERED_CLS, tide.COVERED_LOC, tide.MISS)


@dataclass(frozen=True, eq=False)
class Score:
    """Everything computed for one set of predictions; ``document`` is a view of it."""

    truth: TruthColumns
    detections: DetectionColumns
    masks: bool
    max_detections: int
    ap: ApResult
    tide_settings: TideSettings
    assignment: Assignment
    tide: TideResult

    def document(self, *, worst: int = 10) -> dict[str, Any]:
        """The JSON document: ``ap``, ``tide``, ``counts``, ``by_class``, ``settings``, ``worst_images``, ``notes``."""
        return {
            "ap": self.ap.overall,
            "by_class": self.by_class(),
            "counts": self.counts(),
            "degenerate": self.degenerate(),
            "notes": self.notes(),
            "settings": self.settings(),
            "tide": {name: self.tide.delta[name] for name in (*MAIN, *SPECIAL)},
            "tide_base": self.tide.base,
            "worst_images": self.worst_images(worst),
        }

    def degenerate(self) -> Degenerate | None:
        """Whether nothing is found at all, or the same on every image, where there is something to find."""
        d = self.detections
        if not (~self.truth.crowd).any():
            return None
        return degenerate(d.image, d.boxes, d.scores, d.label, len(self.truth.images))

    def counts(self) -> dict[str, int]:
        """Images, objects (without crowd regions), detections, and how many of each TIDE type."""
        return {
            "crowd": int(self.truth.crowd.sum()),
            "detections": len(self.detections),
            "images": len(self.truth.images),
            "left_out": self.detections.left_out,
            "objects": int((~self.truth.crowd).sum()),
            **self.assignment.counts(),
        }

    def settings(self) -> dict[str, Any]:
        """Every cap and threshold behind the numbers."""
        return {
            "area_ranges": {name: list(bounds) for name, bounds in AREA_RANGES.items()},
            "detection_caps": [min(1, self.max_detections), min(10, self.max_detections), self.max_detections],
            "iou_thresholds": list(IOU_THRESHOLDS),
            "iou_type": "segm" if self.masks else "bbox",
            "max_detections": self.max_detections,
            "max_detections_per": "image and class",
            "recall_thresholds": len(tide.RECALLS),
            "tide_background_iou": self.tide_settings.background,
            "tide_cap": self.tide_settings.cap,
            "tide_cap_per": "image",
            "tide_classes": self.tide_settings.classes,
            "tide_foreground_iou": self.tide_settings.foreground,
            "tide_ties": self.tide_settings.ties,
        }

    def by_class(self) -> dict[str, dict[str, Any]]:
        """Per class: AP, AP50, objects, detections, TIDE counts, and the change of its AP by each TIDE oracle."""
        count = len(self.truth.names)
        a, t, d = self.assignment, self.truth, self.detections

        def tally(labels: Ints, chosen: Bools) -> list[int]:
            found: list[int] = np.bincount(labels[chosen], minlength=count).tolist()
            return found

        objects, detected = tally(t.label, ~t.crowd), tally(d.label, np.ones(len(d), np.bool_))
        errors = {name: tally(d.label, a.detection_type == DETECTION_TYPES.index(name)) for name in ("TP", *MAIN[:5])}
        errors["Miss"] = tally(t.label, a.truth_type == tide.MISS)
        return {
            name: {
                "AP": _known(self.ap.ap[c]),
                "AP50": _known(self.ap.ap50[c]),
                "counts": {kind: errors[kind][c] for kind in errors},
                "detections": detected[c],
                "objects": objects[c],
                "tide": {k: _known(v[c]) if objects[c] else None for k, v in self.tide.delta_by_class.items()},
            }
            for c, name in enumerate(distinct(t.names))
        }

    def worst_images(self, count: int | None = 10) -> list[dict[str, Any]]:
        """Images with any error, worst first: ``cost`` = objects not found + summed scores of false detections."""
        a, t, d = self.assignment, self.truth, self.detections
        images = len(t.images)
        lost = np.bincount(t.image[np.isin(a.truth_type, LOST)], minlength=images)
        false = np.isin(a.detection_type, FALSE)
        wrong = np.bincount(d.image[false], minlength=images)
        cost = lost + np.bincount(d.image[false], weights=d.scores[false], minlength=images)
        objects = np.bincount(t.image[~t.crowd], minlength=images)
        order = np.argsort(-cost, kind="stable")
        order = order[(lost + wrong)[order] > 0][:count]
        return [
            {
                "cost": float(cost[i]),
                "false_detections": int(wrong[i]),
                "image": t.images[i].name,
                "image_id": t.images[i].image_id,
                "not_found": int(lost[i]),
                "objects": int(objects[i]),
            }
            for i in order.tolist()
        ]

    def notes(self) -> list[str]:
        """Sentences about what the caps and the definition did to these numbers."""
        found = [*self._cap_notes()]
        absent = np.bincount(self.truth.label[~self.truth.crowd], minlength=len(self.truth.names)) == 0
        seen = np.bincount(self.detections.label, minlength=len(self.truth.names)) > 0
        if self.tide.base is not None and self.tide_settings.classes == "all" and (absent & seen).any():
            found.append(
                f"{int((absent & seen).sum())} classes have detections but no objects: TIDE counts them with AP 0, "
                f"so its base ({self.tide.base:.1f}) is not AP50; --tide-classes with-truth leaves them out."
            )
        found += self._tie_notes()
        if self.detections.left_out:
            found.append(f"{self.detections.left_out} predictions are of images outside the limit and were left out.")
        return found

    def _cap_notes(self) -> list[str]:
        classes, cap, found = max(len(self.truth.names), 1), self.max_detections, []
        cells = np.bincount(self.detections.image * classes + self.detections.label)
        if (cut := int(np.maximum(cells - cap, 0).sum())) > 0:
            found.append(
                f"AP and AR leave out {cut} detections beyond the best {cap} of their image and class; "
                f"--max-detections changes that."
            )
        real = ~self.truth.crowd
        cells = np.bincount(self.truth.image[real] * classes + self.truth.label[real])
        if (crowded := int((cells > cap).sum())) > 0:
            found.append(
                f"{crowded} times an image has more than {cap} objects of one class, so AR100 cannot reach 1; "
                f"--max-detections changes that."
            )
        if (capped := int((self.assignment.detection_type == tide.CAPPED).sum())) > 0:
            found.append(
                f"TIDE leaves out {capped} detections beyond the best {self.tide_settings.cap} of their image."
            )
        return found

    def _tie_notes(self) -> list[str]:
        if self.tide_settings.ties == "file" or self.tide.base is None:
            return []
        d, correct = self.detections, self.assignment.detection_type == tide.TP
        order = np.lexsort((d.scores, d.label))
        same = (np.diff(d.scores[order]) == 0) & (np.diff(d.label[order]) == 0)
        if not (same & (correct[order][1:] != correct[order][:-1])).any():
            return []
        other = tide.costs(self.assignment, self.truth, d, replace(self.tide_settings, ties="file")).delta
        gaps = {k: abs((other[k] or 0) - (self.tide.delta[k] or 0)) for k in other}
        worst = max(gaps, key=lambda k: gaps[k])
        if gaps[worst] < 0.05:
            return []
        return [
            f"Many scores are equal, and how ties are ordered moves TIDE: {worst} is {self.tide.delta[worst]:.2f} as "
            f"tidecv counts (errors first) and {other[worst]:.2f} in the file's order (--tide-ties file)."
        ]


def score(
    truth: TruthColumns,
    detections: DetectionColumns,
    *,
    masks: bool = False,
    max_detections: int = 100,
    tide_settings: TideSettings | None = None,
    assignment: Assignment | None = None,
) -> Score:
    """Score ``detections`` against ``truth``: by boxes, or by ``masks`` where both sides have segments.

    ``max_detections`` caps AP and AR per image and class (COCO); ``TideSettings.cap`` caps TIDE per image (tidecv).
    ``assignment``: that of TIDE, where it is known already.
    """
    truth, detections = compared_by(masks, truth, detections)
    settings = tide_settings or TideSettings()
    max_detections = min(max_detections, 1 << 31)  # more than all there are, and still a number for everybody
    ap = average_precision(truth, detections, max_detections=max_detections, masks=masks)
    assignment = assignment or tide.assign(truth, detections, settings)
    result = tide.costs(assignment, truth, detections, settings)
    return Score(truth, detections, masks, max_detections, ap, settings, assignment, result)


def compared_by(
    masks: bool, truth: TruthColumns, detections: DetectionColumns
) -> tuple[TruthColumns, DetectionColumns]:
    """Both sides with their segments, which must be there, or (without ``masks``) without."""
    if masks and (truth.segments is None or detections.segments is None):
        side = "truth" if truth.segments is None else "predictions"
        raise BadArray(f"Scoring masks needs a mask for every object and detection; the {side} have boxes without one.")
    if masks:
        return truth, detections
    return replace(truth, segments=None), replace(detections, segments=None)


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def distinct(names: Sequence[str]) -> list[str]:
    """Names usable as keys: a name that occurs twice gets its label index."""
    twice = {n for n in names if list(names).count(n) > 1}
    return [f"{n} ({i})" if n in twice else n for i, n in enumerate(names)]
