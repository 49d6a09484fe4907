"""The study: one case per image, one question (``Trace`` where the background score is needed, else ``Detect``)."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from misdetect.data.dataset import Dataset
from misdetect.data.opened import Opened
from misdetect.engine.backend import Asking
from misdetect.engine.requests import Case, Detect, Steps, Trace
from misdetect.engine.store import Run
from misdetect.errors import BadData
from misdetect.labels import Joined
from misdetect.protocols import Detector, Traced, require
from misdetect.studies.confusion.cells import read_cell
from misdetect.studies.confusion.rows import SCHEMA, image_rows, labels_of, said_of
from misdetect.studies.confusion.settings import ConfusionSettings


class ConfusionStudy:
    """Where the detections of a detector with class ``names`` on ``opened`` belong. ``how.background`` is settled by
    now."""

    name = "confusion"
    schema: pa.Schema = SCHEMA

    def __init__(self, opened: Opened, names: Sequence[str], how: ConfusionSettings) -> None:
        self._opened, self.names, self.how = opened, tuple(names), how

    @property
    def data(self) -> Dataset:
        """What it looks at."""
        return self._opened.data

    def settings(self) -> dict[str, Any]:
        """What decides the rows, for ``run.json``."""
        return self.how.document()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "joined"}

    @cached_property
    def joined(self) -> Joined:
        """The detector's classes and the data's."""
        return Joined.of(self.names, self.data.names, "the detector", self.data.spec)

    def __len__(self) -> int:
        return len(self.data)

    def cases(self) -> Iterator[Case]:
        """One case per image, named by the sample."""
        return (Case(i, self.data[i].id) for i in range(len(self.data)))

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
