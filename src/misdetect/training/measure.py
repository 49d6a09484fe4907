"""AP of a detector on laid-out images, by the project's own scoring; nothing is trained here."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from misdetect.boxes import area
from misdetect.detections import Detections
from misdetect.errors import BadArray
from misdetect.metrics.ap import average_precision
from misdetect.metrics.columns import DetectionColumns, ImageRow, TruthColumns
from misdetect.protocols import Detector
from misdetect.training.images import TrainingImages

MEASURED = ("AP", "AP50", "AP75", "APs", "APm", "AR100")


def measure(detector: Detector, images: TrainingImages, *, limit: int | None = None) -> dict[str, float]:
    """COCO's numbers in [0, 1] of ``detector`` on the first ``limit`` of ``images``."""
    if tuple(detector.names) != images.names:
        raise BadArray(f"Expected a detector of {', '.join(images.names)}. Got {', '.join(detector.names)}.")
    count = len(images) if limit is None else min(limit, len(images))
    found: list[Detections] = []
    for start in range(0, count, 64):
        found += detector.detect([images.pixels[i] for i in range(start, min(start + 64, count))])
    detections = DetectionColumns.of(
        np.repeat(np.arange(count), [len(one) for one in found]),
        np.concatenate([one.labels for one in found]),
        np.concatenate([one.boxes for one in found]),
        np.concatenate([one.scores for one in found]),
    )
    overall = average_precision(_truth(images, count), detections).overall
    return {name: round(value, 4) for name in MEASURED if (value := overall[name]) is not None}


@dataclass(frozen=True, eq=False)
class HeldOut:
    """The check of a training: AP and AP50 on the first ``count`` of ``images``."""

    images: TrainingImages
    count: int
    name: str = "measure"

    @property
    def settings(self) -> Mapping[str, Any]:
        """What decides the scores beside the detector."""
        return {"data": self.images.spec, "fingerprint": self.images.fingerprint, "images": self.count}

    def __call__(self, detector: Detector) -> dict[str, float]:
        scores = measure(detector, self.images, limit=self.count)
        return {name: scores[name] for name in ("AP", "AP50") if name in scores}


def _truth(images: TrainingImages, count: int) -> TruthColumns:
    height, width = images.pixels.shape[1:3]
    last = int(images.starts[count])
    boxes = np.asarray(images.boxes[:last], dtype=np.float64)
    return TruthColumns(
        images=tuple(ImageRow(str(i), i, width, height) for i in range(count)),
        names=images.names,
        image=np.repeat(np.arange(count), np.diff(images.starts[: count + 1])),
        label=images.labels[:last],
        boxes=boxes,
        areas=area(boxes),
        crowd=np.zeros(last, dtype=np.bool_),
        ids=np.arange(last),
    )
