"""A multi-label classifier behind the access levels: its answer for a class is a box around the whole image.

Paper 2 sets such a classifier (MCML) beside its detectors. A class is reported where its probability reaches the score
threshold; the box says nothing of where. So a classifier can be asked whatever does not look at positions: ``verify``
without localisation, with no level and no code of its own.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from misdetect.detectors.preprocess import PRESETS, Placement, Preprocess
from misdetect.detectors.preprocess_torch import canvas_of
from misdetect.detectors.selection import Dense, Selection
from misdetect.detectors.torch_detector import TorchDetector, as_array
from misdetect.nouns.candidates import Candidates
from misdetect.nouns.detections import Truth
from misdetect.said.errors import BadArray


class ClassifierDetector(TorchDetector):
    """A ``Trainable`` detector around ``module``, which turns images ``[N, 3, S, S]`` into logits ``[N, C]``.

    Images are RGB in 0..1, normalised by ImageNet's mean and deviation, stretched to a square of ``size`` pixels.
    A trace has one candidate, the image itself. Training minimises binary cross-entropy over the classes that are
    annotated anywhere in the image; there is nothing to localise, so that loss is 0.
    """

    def __init__(
        self, module: nn.Module, names: Sequence[str], *, size: int, score: float = 0.01, spec: str = "classifier",
        batch_size: int = 1,
    ) -> None:  # fmt: skip
        super().__init__(module, names, spec=spec, settings={"size": size, "score": score}, batch_size=batch_size)
        self.convention = Preprocess(width=size, height=size, **PRESETS["detr"])
        self.selection = Selection(score, 1.0, len(self.names), multilabel=True)

    def _trace(self, images: list[Tensor]) -> list[Candidates]:
        logits, where = self._logits(images)
        height, width = images[0].shape[1:]
        whole = np.array([[0.0, 0.0, self.convention.width, self.convention.height]])
        return [
            Dense(whole, whole, scores[None]).candidates(self.selection, where[i], width, height, self.settings)
            for i, scores in enumerate(as_array(logits.sigmoid()).astype(np.float64))
        ]

    def _image_losses(self, images: list[Tensor], truths: Sequence[Truth]) -> tuple[Tensor, Tensor]:
        logits, _ = self._logits(images)
        each = F.binary_cross_entropy_with_logits(logits, self._targets(truths, logits), reduction="none")
        return each.mean(dim=1), each.new_zeros(len(each))

    def _training_losses(self, images: list[Tensor], truths: Sequence[Truth]) -> dict[str, Tensor]:
        logits, _ = self._logits(images)
        return {"classification": F.binary_cross_entropy_with_logits(logits, self._targets(truths, logits))}

    def _logits(self, images: list[Tensor]) -> tuple[Tensor, list[Placement]]:
        """Logits ``[N, C]`` of ``images`` (of any sizes), and where each lies on the canvas."""
        x, places = canvas_of(images, self.convention)
        logits: Tensor = self.module(x)
        if logits.shape != (len(images), len(self.names)):
            raise BadArray(
                f"Expected logits of shape [{len(images)}, {len(self.names)}], one per class of {self.spec}. Got "
                f"{list(logits.shape)}."
            )
        return logits, places

    def _targets(self, truths: Sequence[Truth], like: Tensor) -> Tensor:
        targets = torch.zeros_like(like)
        for row, truth in enumerate(truths):
            targets[row, torch.from_numpy(truth.labels[~np.asarray(truth.crowd)]).to(like.device)] = 1
        return targets
