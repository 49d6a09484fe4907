"""AP of a detector on images in memory, by the project's own scoring; nothing is trained here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from misdetect.metrics.ap import average_precision
from misdetect.metrics.columns import DetectionColumns, ImageRow, TruthColumns
from misdetect.nouns.boxes import area
from misdetect.nouns.detections import Truth
from misdetect.nouns.picture import Pixels
from misdetect.nouns.protocols import Detector
from misdetect.said.errors import BadArray
from misdetect.training.images import TrainingImages

MEASURED = ("AP", "AP50", "AP75", "APs", "APm", "AR100")
_AT_ONCE = 64


def measure(detector: Detector, images: TrainingImages, *, limit: int | None = None) -> dict[str, float]:
    """COCO's numbers in [0, 1] of ``detector`` on the first ``limit`` of ``images``."""
    if tuple(detector.names) != images.names:
        raise BadArray(f"Expected a detector of {', '.join(images.names)}. Got {', '.join(detector.names)}.")
    count = len(images) if limit is None else min(limit, len(images))
    return measure_on(detector, list(images.pixels[:count]), [Truth(*images.truth(i)) for i in range(count)])


def measure_on(detector: Detector, images: Sequence[Pixels], truths: Sequence[Truth]) -> dict[str, float]:
    """COCO's numbers in [0, 1] of ``detector`` on ``images``; labels of ``truths`` index its names."""
    found = [
        answer
        for start in range(0, len(images), _AT_ONCE)
        for answer in detector.detect(images[start : start + _AT_ONCE])
    ]
    detections = DetectionColumns.of(
        np.repeat(np.arange(len(found)), [len(one) for one in found]),
        np.concatenate([one.labels for one in found]),
        np.concatenate([one.boxes for one in found]),
        np.concatenate([one.scores for one in found]),
    )
    rows = tuple(ImageRow(str(i), i, image.shape[1], image.shape[0]) for i, image in enumerate(images))
    truth = TruthColumns.of(rows, detector.names, truths)
    truth = replace(truth, areas=area(truth.boxes))  # whatever is masked: detectors are compared by boxes
    overall = average_precision(truth, detections).overall
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
