"""A data set laid out for training: all pixels in one memory-mapped array, all boxes in another.

Drawing or decoding an image takes longer than training on it, so it happens once; later trainings on the same data map
the same file. Images of several sizes, or too many to lay out, are read as they are needed (``batches.py``).
"""

import json
import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

import numpy as np
from numpy.lib.format import open_memmap
from numpy.typing import NDArray

from misdetect.data import load_data
from misdetect.kept.files import write_atomically
from misdetect.nouns.boxes import Floats, Ints
from misdetect.nouns.detections import Truth
from misdetect.nouns.picture import digest
from misdetect.said.errors import BadData
from misdetect.training.batches import Batch, places, varied

_CHUNK = 250


@dataclass(frozen=True, eq=False)
class TrainingImages:
    """``Batches`` of images of one size: ``pixels`` ``[N, H, W, 3]`` uint8; image ``i`` has rows ``starts[i]`` to
    ``starts[i+1]`` of boxes and labels. ``content`` is a hash of all these, made from them where it is not given."""

    names: tuple[str, ...]
    pixels: NDArray[np.uint8]
    boxes: Floats
    labels: Ints
    starts: Ints
    spec: str = "memory:"
    content: str | None = None
    flip: bool = True

    def __len__(self) -> int:
        return len(self.pixels)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the images, the objects, and whether they are mirrored."""
        held = (np.asarray(self.pixels), self.boxes, self.labels, self.starts)
        return digest(self.content or digest(*held), self.flip)

    def truth(self, index: int) -> tuple[Floats, Ints]:
        """Boxes ``[M, 4]`` and labels ``[M]`` of image ``index``."""
        chosen = slice(self.starts[index], self.starts[index + 1])
        return self.boxes[chosen], self.labels[chosen]

    def whole(self) -> "TrainingImages":
        """The same images for a classifier: every class that is in an image, once, boxed by the whole of it. The AP of
        such boxes is that of the classes."""
        height, width = self.pixels.shape[1:3]
        image = np.repeat(np.arange(len(self)), np.diff(self.starts))
        pairs = np.unique(np.stack([image, self.labels], axis=1), axis=0)
        starts = np.searchsorted(pairs[:, 0], np.arange(len(self) + 1))
        boxes = np.tile(np.array([0.0, 0.0, width, height]), (len(pairs), 1))
        content = None if self.content is None else digest(self.content, "whole")
        return replace(self, boxes=boxes, labels=pairs[:, 1], starts=starts, content=content)

    def batch(self, step: int, size: int, seed: int) -> Batch:
        """Batch ``step``, see ``Batches``."""
        indices = places(len(self), step, size, seed)
        return varied(lambda i: (self.pixels[i], Truth(*self.truth(i))), indices, (seed, step, 1), self.flip)


def training_images(
    spec: str,
    folder: Path,
    *,
    states: Sequence[str] | None = None,
    flip: bool = True,
    workers: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> TrainingImages:
    """The data ``spec`` laid out in ``folder``, made there first if need be; all images must be of one size.

    Crowd regions are left out, and with ``states`` every object in another state (paper 2 trains on present parts).
    """
    data = load_data(spec)
    if not len(data):
        raise BadData(f"{spec} has no images to train on.")
    content = digest(data.fingerprint, len(data), states)
    place = folder / content
    if not (place / "done.json").exists():
        place.mkdir(parents=True, exist_ok=True)
        _lay_out(spec, place, states, workers, progress)
    table = np.load(place / "objects.npy")
    return TrainingImages(
        data.names,
        np.load(place / "pixels.npy", mmap_mode="r"),
        table[:, :4],
        table[:, 4].astype(np.int64),
        np.load(place / "starts.npy"),
        data.spec,
        content,
        flip,
    )


def _lay_out(
    spec: str, place: Path, states: Sequence[str] | None, workers: int, progress: Callable[[int, int], None] | None
) -> None:
    data = load_data(spec)
    height, width = data[0].image.shape[:2]
    pixels = open_memmap(place / "pixels.npy", mode="w+", dtype=np.uint8, shape=(len(data), height, width, 3))
    objects: list[Floats] = []
    starts = [0]
    for start, images, tables in _chunks(partial(_read, spec, states, (height, width)), len(data), workers):
        pixels[start : start + len(images)] = images
        for table in tables:
            objects.append(table)
            starts.append(starts[-1] + len(table))
        if progress is not None:
            progress(start + len(images), len(data))
    pixels.flush()
    np.save(place / "objects.npy", np.concatenate(objects))
    np.save(place / "starts.npy", np.array(starts))
    write_atomically(place / "done.json", json.dumps({"spec": spec, "images": len(data)}).encode())


Chunk = tuple[int, NDArray[np.uint8], list[Floats]]


def _chunks(read: Callable[[int], Chunk], count: int, workers: int) -> Iterator[Chunk]:
    """Chunks of the data in order, read by ``workers`` processes."""
    begins = range(0, count, _CHUNK)
    if workers == 1:
        yield from map(read, begins)
        return
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        yield from pool.imap(read, begins)


def _read(spec: str, states: Sequence[str] | None, size: tuple[int, int], start: int) -> Chunk:
    data = load_data(spec)
    images, tables = [], []
    for index in range(start, min(start + _CHUNK, len(data))):
        sample = data[index]
        image, truth = sample.image, sample.truth
        if image.shape[:2] != size:
            raise BadData(
                f"{spec}: images of one size can be laid out; {sample.id} has {image.shape[:2]}, the first one {size}; "
                "DatasetBatches takes them as they are."
            )
        keep = ~np.asarray(truth.crowd)
        if states is not None and truth.states is not None:
            keep &= np.isin(np.array(truth.states, dtype=str), states)
        images.append(image)
        tables.append(np.concatenate([truth.boxes[keep], truth.labels[keep, None]], axis=1))
    return start, np.stack(images), tables
