"""The annotations of a whole data set as columns, from which samples are made one at a time.

Every reader ends here. Tens of thousands of objects are a few arrays instead of as many dicts, masks stay in the form
of the file until one is looked at, and an image's header is read only where the annotations do not declare its size.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from misdetect.data.dataset import Dataset, Sample, Warned
from misdetect.data.images import FileSource, ImageMissing, StoredSource
from misdetect.nouns.boxes import Bools, Floats, Ints
from misdetect.nouns.detections import Truth
from misdetect.nouns.masks import Masks, Segment

Load = Callable[[], bytes]
"""Gives the bytes of an encoded image."""
ReadSegment = Callable[[int, int, int], Segment]
"""``(record, width, height)`` to the mask of that record, where ``record`` is its place in the file."""


def _none() -> Ints:
    return np.zeros(0, dtype=np.int64)


@dataclass
class Objects:
    """Columns of ``N`` objects: ``image`` indexes the images, ``boxes`` are corners, ``record`` is the place in the
    file. ``masked`` says which objects have a mask; ``None`` where the data has none at all. Where there are no ids or
    no records, ids are counted from 1, records from 0.
    """

    image: Ints
    boxes: Floats
    labels: Ints
    ids: Ints = field(default_factory=_none)
    record: Ints = field(default_factory=_none)
    crowd: Bools | None = None
    areas: Floats | None = None
    states: tuple[str, ...] | None = None
    masked: Bools | None = None

    def __post_init__(self) -> None:
        count = len(self.boxes)
        self.ids = self.ids if len(self.ids) else np.arange(1, count + 1)
        self.record = self.record if len(self.record) else np.arange(count)
        self.masked = self.masked if self.masked is not None and self.masked.any() else None

    def __len__(self) -> int:
        return len(self.boxes)

    def take(self, rows: Ints | Bools) -> "Objects":
        """The objects at ``rows``, in that order; or those for which ``rows`` is true."""
        rows = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows

        def pick(column: Any) -> Any:
            if isinstance(column, tuple):
                return tuple(column[i] for i in rows)
            return None if column is None else column[rows]

        return Objects(**{name: pick(column) for name, column in vars(self).items()})


@dataclass
class Table:
    """Images and their objects. ``sizes`` ``[M, 2]`` is width, height as declared, 0 where nothing is declared.

    ``image_ids`` is what COCO results call the images, where their names do not say it. ``sample_ids`` is what people
    call them: the name of the file, which is what they open, unless two are called the same.
    ``relative`` boxes are fractions of the image, scaled when a sample is made. ``sizes_are_hints`` marks data whose
    declared sizes are unreliable: the file's own size counts, the declared one only where there is no file. ``stored``
    gives, for the images that lie inside another file, the way to their bytes; ``None`` for those that are files.
    """

    root: Path
    file_names: Sequence[str]
    sizes: Ints
    objects: Objects
    image_ids: Sequence[int | str] = ()
    sample_ids: Sequence[str] = ()
    segment: ReadSegment | None = None
    relative: bool = False
    sizes_are_hints: bool = False
    stored: Callable[[int], Load | None] | None = None

    def __post_init__(self) -> None:
        names = self.file_names
        self.image_ids = self.image_ids or image_ids_from_names(names)
        unique = len(set(names)) == len(names)
        self.sample_ids = self.sample_ids or (names if unique else [str(id) for id in self.image_ids])
        order = np.argsort(self.objects.image, kind="stable")
        if not np.array_equal(order, np.arange(len(order))):
            self.objects = self.objects.take(order)
        self._starts = np.searchsorted(self.objects.image, np.arange(len(self.file_names) + 1))

    def dataset(
        self,
        spec: str,
        names: Sequence[str],
        *,
        fingerprint: str,
        category_ids: Sequence[int] | None = None,
        warnings: Sequence[Warned] = (),
    ) -> Dataset:
        """The data set over this table."""
        return Dataset(
            spec,
            names,
            len(self.file_names),
            self.sample,
            fingerprint=fingerprint,
            category_ids=category_ids,
            warnings=warnings,
        )

    def sample(self, index: int) -> Sample:
        """Image ``index`` with its truth. Reads nothing; where no size is declared, the image's header later."""
        width, height = self.sizes[index].tolist()
        path = self.root / self.file_names[index]
        load = None if self.stored is None else self.stored(index)
        declared = width > 0 and height > 0 and not self.sizes_are_hints
        size = (width, height) if declared else None
        source = FileSource(path, self.root, size) if load is None else StoredSource(path, load, size)
        measure = None if declared else cache(partial(self._measured, index, source))
        return Sample(
            self.sample_ids[index],
            source,
            self._truth(index, width, height) if measure is None else lambda: self._truth(index, *measure()),
            width,
            height,
            self.image_ids[index],
            self.file_names[index],
            measure,
        )

    def _measured(self, index: int, source: FileSource | StoredSource) -> tuple[int, int]:
        """Width and height by the image's header, or as hinted where there is no image."""
        width, height = self.sizes[index].tolist()
        try:
            return source.measure()
        except ImageMissing:
            if width <= 0 or height <= 0:
                raise
            return width, height

    def _truth(self, index: int, width: int, height: int) -> Truth:
        objects, rows = self.objects, slice(self._starts[index], self._starts[index + 1])
        boxes = objects.boxes[rows]
        areas = None if objects.areas is None else objects.areas[rows]
        if self.relative:
            boxes = boxes * [width, height, width, height]
            areas = None if areas is None else areas * (width * height)
        masks = None
        if objects.masked is not None and self.segment is not None:
            records = zip(objects.record[rows].tolist(), objects.masked[rows].tolist(), strict=True)
            promises = [partial(self.segment, record, width, height) if has else None for record, has in records]
            masks = Masks(promises, height, width)
        return Truth(
            boxes,
            objects.labels[rows],
            ids=objects.ids[rows],
            crowd=None if objects.crowd is None else objects.crowd[rows],
            areas=areas,
            states=None if objects.states is None else objects.states[rows],
            masks=masks,
        )


def image_ids_from_names(file_names: Sequence[str]) -> list[int | str]:
    """What COCO results call these images: the number in the name, else the name without suffix, else the whole name.

    One rule for all images of the data, the first under which no two are called the same.
    """
    stems = [Path(name).stem for name in file_names]
    numbers = [int(stem) for stem in stems if stem.isdecimal() and len(stem) < 19]
    if len(set(numbers)) == len(stems):
        return list(numbers)
    return list(stems) if len(set(stems)) == len(stems) else list(file_names)
