"""``brightest:THRESHOLD[,name=CLASS]``: bright spots, found by OpenCV: a detector that needs no training."""

from collections.abc import Sequence

import cv2
import numpy as np

from misdetect.detectors.family import Family
from misdetect.nouns.detections import Detections
from misdetect.nouns.picture import Pixels, digest
from misdetect.nouns.spec import Spec
from misdetect.said.errors import BadSpec

FAMILY = Family(
    "bright spots, by OpenCV",
    "Detector",
    "brightest:200,name=lamp",
    "misdetect_darkness.brightest:load_brightest",
    package="misdetect-darkness",
)


class Brightest:
    """Every connected spot of pixels of at least ``threshold`` (0..255) is an object of the one class ``name``; its
    score is how bright its brightest pixel is."""

    def __init__(self, threshold: int, name: str) -> None:
        self.threshold, self.names = threshold, (name,)
        self.settings = {"threshold": threshold}
        self.fingerprint = digest("brightest", threshold, name)

    def detect(self, images: Sequence[Pixels]) -> list[Detections]:
        """One ``Detections`` per image ``[H, W, 3]``."""
        return [self._spots(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)) for image in images]

    def _spots(self, gray: np.ndarray) -> Detections:
        count, label_of, about, _ = cv2.connectedComponentsWithStats((gray >= self.threshold).astype(np.uint8))
        left, top, width, height = about[1:, :4].T.astype(float)  # the first is everything that is dark
        scores = np.array([gray[label_of == spot].max() / 255 for spot in range(1, count)])
        return Detections(np.stack([left, top, left + width, top + height], 1), scores, np.zeros(count - 1, int))


def load_brightest(spec: Spec) -> Brightest:
    """The detector that ``spec`` names."""
    name = spec.take("name", "bright spot")
    spec.finish()
    if not spec.target.isdecimal() or not 0 < int(spec.target) < 256:
        raise BadSpec(f"{spec.text!r}: the threshold should be from 1 to 255.")
    return Brightest(int(spec.target), name)
