"""What a hardening is stopped by: AP on held-out photos, and on the same photos attacked, or with inserted objects.

The final numbers are of other photos, see ``testing``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch

from misdetect.data.dataset import Dataset
from misdetect.nouns.detections import Truth
from misdetect.nouns.labels import Joined
from misdetect.nouns.picture import Pixels, digest
from misdetect.nouns.protocols import Detector
from misdetect.suites.harden.adversarial import Adversarial
from misdetect.training.measure import measure_on

ROBUST, EDITED = "robust_AP50", "edited_AP50"
STEPS = 10
"""Of the attack on held-out photos, which is made anew at every check."""


class Pictures:
    """The images of ``data`` in memory, with what a detector of the classes ``names`` shall find in them."""

    def __init__(self, data: Dataset, names: Sequence[str]) -> None:
        self.data, self.names = data, tuple(names)
        self._label = Joined.of(self.names, data.names, "the detector", data.spec).to_detector

    @property
    def fingerprint(self) -> str:
        """A hash of the images and of the classes."""
        return digest(self.data.fingerprint, self.data.limited_to, self.data.part, self.names)

    @cached_property
    def _read(self) -> list[tuple[Pixels, Truth]]:
        return [(sample.image, self._truth(sample.truth)) for sample in self.data]

    def _truth(self, truth: Truth) -> Truth:
        """In the detector's labels; crowds stay, since what is detected there is not wrong."""
        labels = self._label[truth.labels] if len(truth) else truth.labels
        keep = truth.present & (labels >= 0)
        return replace(truth[keep], labels=labels[keep], masks=None)

    @property
    def images(self) -> list[Pixels]:
        """``[H, W, 3]`` each."""
        return [image for image, _ in self._read]

    def measured(self, detector: Detector, images: Sequence[Pixels] | None = None) -> dict[str, float]:
        """COCO's numbers of ``detector`` on them, or on other ``images`` of the same objects."""
        return measure_on(detector, self.images if images is None else images, self.truths)

    @property
    def truths(self) -> list[Truth]:
        """In the detector's labels."""
        return [truth for _, truth in self._read]


@dataclass(frozen=True, eq=False)
class Watched:
    """The check of a hardening: ``AP`` and ``AP50`` on ``photos``, and AP50 on what makes it fail: on ``edited`` photos
    (``edited_AP50``), or on the photos attacked within ``eps``, each by the stronger of cls and loc
    (``robust_AP50``)."""

    photos: Pictures
    edited: Pictures | None = None
    eps: float = 8.0
    name: str = "watched"

    @property
    def objective(self) -> str:
        """The score that a hardening is to raise."""
        return ROBUST if self.edited is None else EDITED

    @property
    def settings(self) -> Mapping[str, Any]:
        """What decides the scores beside the detector."""
        edited = None if self.edited is None else self.edited.fingerprint
        own = {"eps": self.eps, "steps": STEPS} if edited is None else {"edited": edited}
        return {"photos": self.photos.fingerprint, **own}

    def __call__(self, detector: Detector) -> dict[str, float]:
        clean, edited = self.photos.measured(detector), self.edited
        hard = edited.measured(detector) if edited else self.photos.measured(detector, self._attacked(detector))
        known = {"AP": clean.get("AP"), "AP50": clean.get("AP50"), self.objective: hard.get("AP50")}
        return {name: value or 0.0 for name, value in known.items()}  # where nothing is annotated there is none

    def _attacked(self, detector: Detector) -> list[Pixels]:
        change = Adversarial(how="mtd", eps=self.eps, alpha=self.eps / 4, steps=STEPS, clean=0.0, half=False)
        images = [image.astype(np.float32) for image in self.photos.images]
        with torch.random.fork_rng():
            torch.manual_seed(0)
            made, _ = change(detector, images, [truth[~np.asarray(truth.crowd)] for truth in self.photos.truths], 0)
        return [np.rint(image).astype(np.uint8) for image in made]
