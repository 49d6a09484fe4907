"""The study: one case per image; a question about it as it is, and about edits of it where parts are hallucinated.

Of stored predictions nothing can be asked: these are read, and no edits are made.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import pyarrow as pa

from misdetect.data.dataset import Dataset
from misdetect.data.opened import Opened
from misdetect.detectors.catalogue import is_stored
from misdetect.engine.backend import Asking
from misdetect.engine.requests import Case, Detect, Steps
from misdetect.engine.store import Run
from misdetect.nouns.detections import Detections
from misdetect.nouns.protocols import Detector
from misdetect.said.errors import BadData
from misdetect.studies.joined import ImageStudy
from misdetect.studies.predictions import Predictions
from misdetect.studies.verify.context import Context, Donors, translated
from misdetect.studies.verify.rows import SCHEMA, Looked
from misdetect.studies.verify.settings import VerifySettings
from misdetect.studies.verify.survey import survey


class VerifyStudy(ImageStudy):
    """Verify the parts of ``opened`` with a detector of the classes ``names``, or with ``stored`` predictions."""

    name = "verify"
    schema: pa.Schema = SCHEMA

    def __init__(
        self, opened: Opened, names: Sequence[str], how: VerifySettings, stored: Predictions | None = None
    ) -> None:
        super().__init__(opened, names)
        self.how: VerifySettings = how
        self.stored = stored
        self.survey = survey(self.data, self.joined.to_detector, how)

    @cached_property
    def donors(self) -> Donors:
        """Who lends pixels where parts are missing."""
        return Donors(self.data, self.survey, self.how.seed)

    def run(self, case: Case) -> Steps:
        """Ask, note every part and detection, and look into what was hallucinated."""
        sample = self.data[case.index]
        if self.stored is not None:
            found: Detections = self.stored.stored.for_sample(sample, self.data)
        else:
            found = translated((yield Detect(sample)), self.joined.to_data)
        looked = Looked(case.index, sample, self.data.names, self.joined.to_detector, found, self.how)
        rows = looked.rows()
        if self.how.context:
            rows += yield from Context(looked, self.donors, self.joined.to_data).rows()
        return rows


def prepare(detector: Detector | Predictions, opened: Opened, settings: VerifySettings, asking: Asking) -> VerifyStudy:
    """Bad data is refused before anything is asked; so are predictions of other images."""
    if not isinstance(detector, Predictions):
        return VerifyStudy(opened, detector.names, settings)
    stored = detector.stored
    stored.check(opened.whole)
    if strange := stored.results.images - {sample.image_id for sample in opened.whole}:
        raise BadData(
            f"{stored.results.path} has predictions on {len(strange)} images that {opened.whole.spec} does not have, "
            f"such as {min(strange, key=str)!r}; verify them against the data that was predicted on."
        )
    return VerifyStudy(opened, detector.names, settings, detector)


def stored(spec: str, data: Dataset, settings: VerifySettings) -> tuple[Predictions, VerifySettings]:
    """The predictions of ``predictions:FILE``, which cannot be asked about edits."""
    return Predictions.of(spec, data), replace(settings, context=False, workers=1, cluster=None, ship_data=False)


def rebuild(run: Run, data: Dataset) -> VerifyStudy:
    """The study of ``run`` again; stored predictions are read again, and must be what they were."""
    known, how = run.about["identity"]["detector"], VerifySettings.of(run.settings)
    if not is_stored(known["spec"]):
        return VerifyStudy(Opened(data), known["names"], how)
    stored = Predictions.of(known["spec"], data)
    if stored.fingerprint != known["fingerprint"]:
        raise BadData(f"{known['spec']} has changed since {run.address} was made.")
    return VerifyStudy(Opened(data), known["names"], how, stored)
