"""``Opened``: a data set that every process opens for itself.

A study travels to workers; its data does not. What travels is the spec, and each process opens it when it first looks.
"""

from pathlib import PurePath
from typing import Any

from misdetect.data import load_data
from misdetect.data.dataset import Dataset, Sample
from misdetect.nouns.detections import Truth
from misdetect.nouns.picture import digest
from misdetect.said.errors import BadData


class Opened:
    """``data`` (a spec, or a ``Dataset``), at most ``limit`` images, with the annotations of ``truth`` where given."""

    def __init__(self, data: str | Dataset, limit: int | None = None, truth: str | Dataset | None = None) -> None:
        self._spec, self._limit, self._truth = data, limit, truth
        self._whole: Dataset | None = None
        self._data: Dataset | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_whole": None, "_data": None}

    @property
    def in_memory(self) -> bool:
        """Whether it was given as a ``Dataset``, which no other process can open."""
        return not isinstance(self._spec, str)

    @property
    def whole(self) -> Dataset:
        """All images of the data, beyond the limit too."""
        if self._whole is None:
            self._whole = load_data(self._spec)
        return self._whole

    @property
    def data(self) -> Dataset:
        """The data set, opened when first needed."""
        if self._data is None:
            data = self.whole.limit(self._limit)
            self._data = data if self._truth is None else with_truth(data, load_data(self._truth))
        return self._data


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
