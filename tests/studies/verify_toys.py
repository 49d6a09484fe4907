"""A tiny world of parts with states: four pictures of noise with three parts each, and a detector told what to say."""

from dataclasses import dataclass, field

import numpy as np

from misdetect.data.dataset import Dataset, Sample
from misdetect.nouns.detections import Detections, Truth
from misdetect.nouns.picture import digest

NAMES = ("bell", "lock", "saddle")
BOXES = np.array([[4.0, 4, 14, 14], [30, 8, 44, 20], [10, 30, 34, 50]])
STATES = (("intact", "absent", "damaged"), ("absent", "absent", "intact"), ("intact", "intact", "occluded"),
          ("damaged", "absent", "intact"))  # fmt: skip
SIZE = 64


@dataclass(frozen=True)
class Noise:
    seed: int

    def read(self):
        return np.random.default_rng(self.seed).integers(0, 256, (SIZE, SIZE, 3), dtype=np.uint8)

    def key(self):
        return digest("noise", self.seed, SIZE)


def sample(index: int, states=None, labels=(0, 1, 2), boxes=BOXES) -> Sample:
    truth = Truth(boxes, labels, ids=np.arange(len(boxes)) + 10 * index, states=states or STATES[index % 4])
    return Sample(f"p{index}", Noise(index), truth, SIZE, SIZE, image_id=index)


def data(count: int = 4, make=sample, names=NAMES) -> Dataset:
    return Dataset("toys", names, count, make, fingerprint=f"toys {count}")


@dataclass
class Told:
    """Says ``answers[i]`` (boxes, scores, labels) of picture ``i`` as it is, ``edited`` of what it does not know."""

    answers: list
    edited: tuple = ((), (), ())
    names: tuple = NAMES
    asked: list = field(default_factory=list)

    def detect(self, images):
        known = {Noise(i).read().tobytes(): answer for i, answer in enumerate(self.answers)}
        found = []
        for image in images:
            self.asked.append(image)
            boxes, scores, labels = known.get(image.tobytes(), self.edited)
            found.append(
                Detections(np.array(boxes, float).reshape(-1, 4), np.array(scores, float), np.array(labels, int))
            )
        return found
