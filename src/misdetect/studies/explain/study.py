"""The study: one case per image, one question (``Trace``, or ``Detect`` of a black box), all its rows.

Only one image's inside is held at a time and nothing of it is kept but the rows. ``with_truth`` gives the images of one
data set the annotations of another.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import PurePath
from typing import Any

import numpy as np
import pyarrow as pa

from misdetect.boxes import Ints
from misdetect.data import load_data
from misdetect.data.dataset import Dataset, Sample
from misdetect.detections import Truth
from misdetect.engine.requests import Case, Detect, Steps, Trace
from misdetect.errors import BadData
from misdetect.labels import join_labels
from misdetect.metrics.mechanisms import Miss, Reading, Thresholds
from misdetect.picture import digest
from misdetect.studies.explain.rows import SCHEMA, Seen, image_rows


@dataclass(frozen=True)
class Explaining:
    """What decides the rows, apart from data and detector. ``inside``: look into the detector, or only at its output.
    ``regions``: suspicious regions kept per image. ``pixels``: read them again to measure brightness."""

    thresholds: Thresholds = field(default_factory=Thresholds)
    miss: Miss = "any"
    reading: Reading = "auto"
    inside: bool = True
    regions: int = 20
    pixels: bool = True


class ExplainStudy:
    """Explain what a detector with class ``names`` misses on ``data`` (a spec, or a ``Dataset``), whose annotations are
    those of ``truth`` where that is given."""

    name = "explain"
    schema: pa.Schema = SCHEMA

    def __init__(
        self,
        data: str | Dataset,
        names: Sequence[str],
        explaining: Explaining | None = None,
        limit: int | None = None,
        truth: str | Dataset | None = None,
    ) -> None:
        self._spec, self._truth, self.limit = data, truth, limit
        self.names, self.explaining = tuple(names), explaining or Explaining()
        self._data: Dataset | None = None
        self._joined: tuple[Ints, Ints] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_data": None, "_joined": None}

    @property
    def data(self) -> Dataset:
        """The data set, opened when first needed (a worker opens its own)."""
        if self._data is None:
            data = load_data(self._spec).limit(self.limit)
            self._data = data if self._truth is None else with_truth(data, load_data(self._truth))
        return self._data

    def settings(self) -> dict[str, Any]:
        """What decides the rows, for ``run.json``."""
        truth = None if self._truth is None else load_data(self._truth).fingerprint
        return asdict(self.explaining) | {"truth": truth}

    @property
    def joined(self) -> tuple[Ints, Ints]:
        """For each of the detector's labels the data's (-1: none), and the reverse."""
        if self._joined is None:
            of_data = join_labels(self.names, self.data.names, "the detector", self.data.spec)
            back = np.full(len(self.data.names), -1, dtype=np.int64)
            for label in range(len(of_data) - 1, -1, -1):  # of two of a name the first stands for it
                if of_data[label] >= 0:
                    back[of_data[label]] = label
            self._joined = of_data, back
        return self._joined

    def __len__(self) -> int:
        return len(self.data)

    def cases(self) -> Iterator[Case]:
        """One case per image, named by the sample."""
        return (Case(i, self.data[i].id) for i in range(len(self.data)))

    def run(self, case: Case) -> Steps:
        """Ask once, look, and keep only the rows."""
        sample, how = self.data[case.index], self.explaining
        if how.inside:
            inside = yield Trace(sample)
            found = inside.select()
        else:
            inside, found = None, (yield Detect(sample))
        of_data, back = self.joined
        truth = sample.truth
        labels = back[truth.labels] if len(back) else np.full(len(truth), -1, dtype=np.int64)
        # detections of classes that the data does not have can be neither right nor wrong; without labels all count
        known = of_data[found.labels] >= 0 if self.data.names else np.ones(len(found), np.bool_)
        seen = Seen(sample, truth, labels, self.names, found, known, inside)
        pixels = sample.image if how.pixels and len(truth) else None
        return image_rows(seen, how.thresholds, {"miss": how.miss, "reading": how.reading}, pixels, how.regions)


def with_truth(data: Dataset, truth: Dataset) -> Dataset:
    """The images of ``data`` with the annotations that ``truth`` has for the image of the same name (file name, without
    folders and extension, or id): for photos that were re-encoded, corrupted or moved."""
    by_name: dict[str, int] = {}
    for i, annotated in enumerate(truth):
        for key in _keys(annotated):
            by_name.setdefault(key, i)

    def sample(index: int) -> Sample:
        own = data[index]
        at = next((by_name[key] for key in _keys(own) if key in by_name), None)
        if at is None:
            raise BadData(
                f"{truth.spec} has no annotations for image {own.id!r} of {data.spec}: no image of that name."
            )
        other = truth[at]
        if (other.width, other.height) != (own.width, own.height):
            raise BadData(
                f"image {own.id!r} is {own.width}x{own.height} in {data.spec} but {other.width}x{other.height} in "
                f"{truth.spec}; its annotations cannot be used."
            )
        found: Truth = other.truth
        return Sample(own.id, own.source, found, own.width, own.height, own.image_id, own.file_name)

    return Dataset(
        data.spec,
        truth.names,
        len(data),
        sample,
        fingerprint=digest(data.fingerprint, truth.fingerprint),
        category_ids=truth.category_ids,
    )


def _keys(sample: Sample) -> list[str]:
    named = [PurePath(sample.file_name).stem] if sample.file_name else []
    return [*named, sample.id, PurePath(sample.id).stem]
