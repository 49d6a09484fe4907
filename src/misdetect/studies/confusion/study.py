"""The study: one case per image, one question (``Trace`` where the background score is needed, else ``Detect``)."""

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from misdetect.data.dataset import Dataset
from misdetect.data.opened import Opened
from misdetect.engine.backend import Asking
from misdetect.engine.requests import Case, Detect, Steps, Trace
from misdetect.engine.store import Run
from misdetect.nouns.protocols import Detector, Traced, require
from misdetect.said.errors import BadData
from misdetect.studies.confusion.cells import read_cell
from misdetect.studies.confusion.rows import SCHEMA, image_rows, labels_of, said_of
from misdetect.studies.confusion.settings import ConfusionSettings
from misdetect.studies.joined import ImageStudy


class ConfusionStudy(ImageStudy):
    """Where the detections of a detector with class ``names`` on ``opened`` belong. ``how.background`` is settled by
    now."""

    name = "confusion"
    schema: pa.Schema = SCHEMA

    def __init__(self, opened: Opened, names: Sequence[str], how: ConfusionSettings) -> None:
        super().__init__(opened, names)
        self.how: ConfusionSettings = how

    def run(self, case: Case) -> Steps:
        """Ask once, and say of every object and detection where it is counted."""
        sample, how, names = self.data[case.index], self.how, self.data.names
        if how.mode == "reported":
            inside, found = None, (yield Detect(sample))
        else:
            inside = yield Trace(sample)
            found = inside.select()
        said = said_of(found, inside, self.joined, len(names), how)
        return image_rows(sample, names, self.names, found, said, self.joined, how)


def prepare(detector: Detector, opened: Opened, settings: ConfusionSettings, asking: Asking) -> ConfusionStudy:
    """Settle what background means for this detector; refuse what cannot be compared before anything is asked."""
    mode = settings.background
    if mode in ("hard", "soft"):
        require(detector, Traced, f"confusion --background {mode}", "--background reported takes labels as they are")
    if mode == "auto":
        mode = "hard" if isinstance(detector, Traced) else "reported"
    if not opened.data.names:
        raise BadData(f"{opened.data.spec} has no annotations; a confusion matrix compares with them (--truth SPEC).")
    if settings.cell is not None:
        read_cell(settings.cell, labels_of(opened.data.names))
    study = ConfusionStudy(opened, detector.names, replace(settings, background=mode))
    _ = study.joined
    return study


def rebuild(run: Run, data: Dataset) -> ConfusionStudy:
    """The study of ``run`` again."""
    names = run.about["identity"]["detector"]["names"]
    return ConfusionStudy(Opened(data), names, ConfusionSettings.of(run.settings))
