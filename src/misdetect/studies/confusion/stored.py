"""Stored predictions where a detector is expected: the matrix of a results file, or of a run of ``detect``.

They answer about the images of their data and about no other; nothing is asked of a model.
"""

from collections.abc import Sequence
from pathlib import Path

from misdetect.data.dataset import Dataset, Sample
from misdetect.engine.store import Run
from misdetect.nouns.detections import Detections
from misdetect.nouns.picture import Picture, Pixels
from misdetect.said.errors import BadData
from misdetect.studies.confusion.settings import ConfusionSettings
from misdetect.studies.predictions import Predictions


class StoredDetector:
    """What ``given`` (a ``predictions:`` spec, a run of ``detect``) has for the images of ``data``."""

    batch_size, stored = 64, True

    def __init__(self, given: str | Path | Run, data: Dataset) -> None:
        predictions = Predictions.of(given, data)
        self._data, self._stored = data, predictions.stored
        self._stored.check(data)
        self.names, self.spec, self.fingerprint = data.names, predictions.spec, predictions.fingerprint

    def detect(self, images: Sequence[Pixels]) -> list[Detections]:
        """Pixels say nothing here."""
        raise BadData(f"{self.spec} are stored predictions, which cannot look at a new image.")

    def detect_pictures(self, pictures: Sequence[Picture], images: Sequence[Pixels] | None = None) -> list[Detections]:
        """The stored detections of each picture, which must be an image of the data."""
        return [self._of(picture) for picture in pictures]

    def _of(self, picture: Picture) -> Detections:
        if not isinstance(picture, Sample):
            raise BadData(f"{self.spec} are stored predictions, which cannot look at a new image.")
        return self._stored.for_sample(picture, self._data)


def stored(
    given: str | Path | Run, data: Dataset, settings: ConfusionSettings
) -> tuple[StoredDetector, ConfusionSettings]:
    """What stands for the detector where predictions are given."""
    return StoredDetector(given, data), settings
