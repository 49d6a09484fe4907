"""Data that travels with a study, to where its files cannot be seen.

``ship`` makes of a data set a small ``Manifest`` (annotations, and where the bytes of each image lie) and *parcels* of
bytes, whatever format it was read from; equal images are packed once. How parcels travel is not decided here: whoever
opens a manifest says how one is fetched.
"""

import io
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from misdetect.data.dataset import Dataset, Sample
from misdetect.data.images import FileSource, StoredSource, inside, open_image
from misdetect.nouns.detections import Truth
from misdetect.nouns.masks import Masks, Segment
from misdetect.nouns.picture import Pixels, digest
from misdetect.said.errors import BadData, BadImage, MisdetectError

Parcel = NDArray[np.uint8]
"""The bytes of several images, one after the other."""
Fetch = Callable[[int], Parcel]
"""The parcel of that number."""
PARCEL_BYTES = 16 << 20
"""A parcel is full when it has so many."""
MOST_BYTES = 32 << 30
"""Of a data set that is shipped; a larger one belongs on storage that all can see."""
_OPEN = 4
"""Parcels that a worker keeps at hand."""


def _no_truth() -> Truth:
    return Truth(np.zeros((0, 4)), np.zeros(0, dtype=np.int64))


@dataclass(frozen=True)
class _Entry:
    """One image: what its ``Sample`` says of it, and in which parcel its bytes lie. ``problem``: why it cannot be read.
    ``declared``: the size that the annotations declare; ``drawn``: its bytes are pixels of that size, not a file."""

    id: str
    image_id: int | str
    file_name: str
    path: Path
    declared: tuple[int, int] | None
    drawn: bool
    width: int = 0
    height: int = 0
    truth: Truth = field(default_factory=_no_truth)
    parcel: int = 0
    start: int = 0
    stop: int = 0
    problem: BadImage | None = None


@dataclass(frozen=True)
class Manifest:
    """A data set without its pixels."""

    spec: str
    names: tuple[str, ...]
    category_ids: tuple[int, ...]
    fingerprint: str
    limited_to: int | None
    part: str | None
    entries: tuple[_Entry, ...]

    def moved(self, first: int) -> "Manifest":
        """The same, where its parcels are counted from ``first`` on."""
        return replace(self, entries=tuple(replace(each, parcel=each.parcel + first) for each in self.entries))

    def open(self, fetch: Fetch) -> Dataset:
        """The data set again, for whoever can ``fetch`` parcels."""
        kept = lru_cache(_OPEN)(fetch)
        return Dataset(
            self.spec,
            self.names,
            len(self.entries),
            lambda i: _sample(self.entries[i], kept),
            fingerprint=self.fingerprint,
            category_ids=self.category_ids,
            limited_to=self.limited_to,
            part=self.part,
        )


@dataclass(frozen=True)
class _ShippedPixels:
    """Pixels that were drawn at home: ``load`` gives their bytes, rows of width x height x 3."""

    load: Callable[[], bytes]
    width: int
    height: int

    def read(self) -> Pixels:
        """The pixels ``[H, W, 3]`` uint8 RGB."""
        return np.frombuffer(self.load(), np.uint8).reshape(self.height, self.width, 3)

    def key(self) -> str:
        """Hash of the content."""
        return digest(self.read())


def _sample(entry: _Entry, fetch: Fetch) -> Sample:
    def load() -> bytes:
        if entry.problem is not None:
            raise entry.problem
        return fetch(entry.parcel)[entry.start : entry.stop].tobytes()

    def measure() -> tuple[int, int]:
        if entry.problem is not None and not entry.width:
            raise entry.problem
        return entry.width, entry.height

    width, height = entry.width, entry.height
    stored = StoredSource(entry.path, load, entry.declared)
    source = _ShippedPixels(load, width, height) if entry.drawn else stored
    return Sample(entry.id, source, entry.truth, width, height, entry.image_id, entry.file_name, measure)


def has_files(data: Dataset) -> bool:
    """Whether images of ``data`` are files, which another machine may not see."""
    return any(isinstance(sample.source, FileSource) for sample in data[:1])


def ship(data: Dataset, send: Callable[[Parcel], Any]) -> Manifest:
    """The manifest of ``data``, whose parcels are handed to ``send`` one after the other as they are filled."""
    packing, entries = _Packing(send), []
    for sample in data:
        entries.append(packing.entry(sample))
        if packing.bytes > MOST_BYTES:
            raise BadData(
                f"{data.spec} has more than {MOST_BYTES >> 30} GiB of images, too many to ship: put it where every "
                "node can read it."
            )
    packing.close()
    return Manifest(
        data.spec, data.names, data.category_ids, data.fingerprint, data.limited_to, data.part, tuple(entries)
    )  # fmt: skip


class _Packing:
    """Parcels as they are filled."""

    def __init__(self, send: Callable[[Parcel], Any]) -> None:
        self._send = send
        self._open, self._parcel = io.BytesIO(), 0
        self._places: dict[str, tuple[int, int, int]] = {}
        self.bytes = 0

    def entry(self, sample: Sample) -> _Entry:
        source = sample.source
        file = source if isinstance(source, FileSource) else None
        path, declared = (file.path, file.size) if file else (Path(sample.id), None)
        made = _Entry(sample.id, sample.image_id, sample.file_name, path, declared, drawn=file is None)
        try:
            made = replace(made, width=sample.width, height=sample.height, truth=_settled(sample.truth))
            if file is None:
                data = sample.image.tobytes()
            else:
                with open_image(inside(file.path, file.root)) as opened:
                    data = opened.read()
        except BadImage as error:
            return replace(made, problem=error)
        parcel, start, stop = self._place(data)
        return replace(made, parcel=parcel, start=start, stop=stop)

    def _place(self, data: bytes) -> tuple[int, int, int]:
        key = digest(data)
        if key not in self._places:
            start = self._open.tell()
            self._open.write(data)
            self.bytes += len(data)
            self._places[key] = self._parcel, start, start + len(data)
            if self._open.tell() >= PARCEL_BYTES:
                self.close()
        return self._places[key]

    def close(self) -> None:
        """Send what is packed."""
        self._send(np.frombuffer(self._open.getvalue(), np.uint8))
        self._open, self._parcel = io.BytesIO(), self._parcel + 1


def _settled(truth: Truth) -> Truth:
    """``truth`` with masks that hold no promises, which would not travel."""
    if truth.masks is None:
        return truth
    masks = truth.masks
    return replace(truth, masks=Masks([_segment(masks, i) for i in range(len(masks))], masks.height, masks.width))


def _segment(masks: Masks, index: int) -> Segment | Callable[[], Segment]:
    """A mask as it came, or who says why it cannot be read when it is looked at."""
    try:
        return masks.segment(index)
    except MisdetectError as error:
        return partial(_refuse, error)


def _refuse(error: MisdetectError) -> Segment:
    raise error
