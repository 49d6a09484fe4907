"""A network in a file as a detector: what all runtimes share.

``detect`` is ``prepare`` (the network's input), ``infer`` (its outputs, by whatever runs it) and ``decode`` for each
batch in turn.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from misdetect.boxes import clip, nms
from misdetect.detections import Detections
from misdetect.detectors.outputs import Array, Decoder, Readout
from misdetect.detectors.preprocess import Placement, Preprocess
from misdetect.detectors.wiring import DEFAULT_BATCH
from misdetect.errors import BadArray, DetectorFailed
from misdetect.grid import boxes_on_grid, scores_on_grid
from misdetect.picture import Pixels, check_pixels


class ExportedDetector:
    """A detector in a file. Each runtime says how a batch is inferred; ``fixed_batch`` is a graph that always wants
    ``batch_size`` images."""

    def __init__(
        self,
        names: Sequence[str],
        preprocess: Preprocess,
        decoder: Decoder,
        *,
        spec: str,
        fingerprint: str,
        settings: dict[str, Any],
        batch_size: int,
        fixed_batch: bool,
    ) -> None:
        self.names = tuple(names)
        self.spec, self.fingerprint, self.settings, self.batch_size = spec, fingerprint, settings, batch_size
        self.images_per_call = batch_size * -(-DEFAULT_BATCH // batch_size)
        self.preprocess, self.decoder = preprocess, decoder
        self._fixed_batch = fixed_batch
        self._buffer = preprocess.buffer(batch_size)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.spec!r})"

    def detect(self, images: Sequence[Pixels]) -> list[Detections]:
        """One ``Detections`` per image ``[H, W, 3]`` uint8 RGB."""
        found: list[Detections] = []
        for start in range(0, len(images), self.batch_size):
            batch = images[start : start + self.batch_size]
            tensor, placements = self.prepare(batch)
            found += self.decode(self.infer(tensor), batch, placements)
        return found

    def prepare(self, images: Sequence[Pixels]) -> tuple[Array, list[Placement]]:
        """The network's input for up to ``batch_size`` images (a view of a buffer that the next call overwrites)."""
        placements = [self.preprocess.apply(check_pixels(image), self._buffer[i])[1] for i, image in enumerate(images)]
        return self._buffer if self._fixed_batch else self._buffer[: len(images)], placements

    def infer(self, tensor: Array) -> list[Array]:
        """The graph's outputs for a prepared batch."""
        raise NotImplementedError

    def decode(
        self, outputs: Sequence[Array], images: Sequence[Pixels], placements: Sequence[Placement]
    ) -> list[Detections]:
        """``Detections`` of each of ``images`` from the outputs of their batch."""
        each = self.decoder.split(outputs, self.batch_size if self._fixed_batch else len(images))
        return [
            self._finish(self.decoder.decode(of_image), image, placement)
            for of_image, image, placement in zip(each, images, placements, strict=False)
        ]

    def _finish(self, found: Readout, image: Pixels, placement: Placement) -> Detections:
        """Suppress, cap, go back to the image's pixels, clip."""
        boxes, scores, labels = found
        threshold, cap = self.settings["nms"], self.settings["max"]
        ranks = scores_on_grid(scores)
        if threshold < 1:
            kept, _ = nms(boxes_on_grid(boxes), ranks, threshold, None if self.settings["agnostic"] else labels)
        else:
            kept = np.argsort(-ranks, kind="stable")
        kept = kept[:cap]
        inside = clip(placement.to_original(boxes[kept]), image.shape[1], image.shape[0])
        try:
            return Detections(inside, scores[kept], labels[kept])
        except BadArray as error:
            raise DetectorFailed(f"{self.spec!r}: the decoded output is no detection: {error}") from error
