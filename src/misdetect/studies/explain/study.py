"""The study: one case per image, one question (``Trace``, or ``Detect`` of a black box), all its rows.

Only one image's inside is held at a time and nothing of it is kept but the rows.
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from misdetect.data.dataset import Dataset
from misdetect.data.opened import Opened
from misdetect.engine.backend import Asking
from misdetect.engine.boundary import on_grid
from misdetect.engine.requests import Case, Detect, Steps, Trace
from misdetect.engine.store import Run
from misdetect.nouns.open_names import names_in
from misdetect.nouns.protocols import Detector, Traced, as_white_box, require
from misdetect.studies.explain import outside
from misdetect.studies.explain.rows import SCHEMA, Seen, image_rows
from misdetect.studies.explain.settings import ExplainSettings
from misdetect.studies.joined import ImageStudy


class ExplainStudy(ImageStudy):
    """Explain what a detector with class ``names`` misses on ``opened``. ``how.inside`` is settled by now."""

    name = "explain"
    schema: pa.Schema = SCHEMA

    def __init__(self, opened: Opened, names: Sequence[str], how: ExplainSettings) -> None:
        super().__init__(opened, names)
        self.how: ExplainSettings = replace(how, inside=bool(how.inside), score=how.thresholds.reported)

    def run(self, case: Case) -> Steps:
        """Ask once, look, and keep only the rows."""
        sample, how = self.data[case.index], self.how
        if how.inside:
            inside = yield Trace(sample)
            found = on_grid(inside.select())  # again, in double precision
        else:
            inside, found = None, (yield Detect(sample))
        truth, joined = sample.truth, self.joined
        labels = joined.to_detector[truth.labels] if self.data.names else np.full(len(truth), -1, dtype=np.int64)
        # detections of classes that the data does not have can be neither right nor wrong; without labels all count
        known = joined.known(found.labels) if self.data.names else np.ones(len(found), np.bool_)
        seen = Seen(sample, labels, self.names, self.data.names, found, known, inside, how)
        return image_rows(seen, sample.image if how.pixels and len(truth) else None)


def asked(detector: Any, how: ExplainSettings) -> Any:
    """``detector`` as a white box where it can be opened; else as it is, with the reason among its ``settings``."""
    if how.inside is False:
        return detector
    found, why = as_white_box(detector)
    if why is not None:
        found = copy(detector)
        found.settings = {**detector.settings, outside.CLOSED: why}
    return found


def prepare(detector: Detector, opened: Opened, settings: ExplainSettings, asking: Asking) -> ExplainStudy:
    """Look inside where that is possible, unless told otherwise."""
    if settings.inside:
        require(detector, Traced, "explain --inside", "leave it out; what the output alone tells is reported then")
    inside = isinstance(detector, Traced) if settings.inside is None else settings.inside
    study = ExplainStudy(opened, detector.names, replace(settings, inside=inside))
    _ = study.joined  # two that have no class in common are refused before anything is asked
    return study


def rebuild(run: Run, data: Dataset) -> ExplainStudy:
    """The study of ``run`` again."""
    return ExplainStudy(Opened(data), names_in(run.about["identity"]["detector"]), ExplainSettings.of(run.settings))
