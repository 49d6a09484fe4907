"""A whole data set's truths and detections as flat columns: what the metrics compute on.

One entry per object or detection, grouped by image, so that thousands of images are scored by a few array operations.
No pixels are read. This is not a file reader: truths come from a ``Dataset``, detections from whoever has them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from misdetect.data.dataset import Dataset, Sample
from misdetect.nouns.boxes import Bools, Floats, Ints, area, as_boxes
from misdetect.nouns.detections import Truth
from misdetect.nouns.masks import Masks
from misdetect.said.errors import BadArray


@dataclass(frozen=True)
class ImageRow:
    """What is kept of one image: its file name (or id), its id in results files, its size in pixels, its sample's id
    where it has one."""

    name: str
    image_id: int | str
    width: int
    height: int
    sample: str = ""


@dataclass(frozen=True, eq=False)
class TruthColumns:
    """Every annotated object of the data, sorted by ``image``.

    ``image`` ``[T]`` indexes ``images``, ``label`` ``[T]`` indexes ``names``, ``boxes`` ``[T, 4]`` are corners in
    pixels, ``areas`` ``[T]`` square pixels, ``crowd`` ``[T]``, ``ids`` ``[T]`` as in the data, ``segments`` compressed
    run lengths per object (``None`` where the data has no masks).
    """

    images: tuple[ImageRow, ...]
    names: tuple[str, ...]
    image: Ints
    label: Ints
    boxes: Floats
    areas: Floats
    crowd: Bools
    ids: Ints
    segments: list[Any] | None = None

    @classmethod
    def of_image(cls, sample: Sample, rows: Ints, labels: Ints, names: Sequence[str]) -> "TruthColumns":
        """Some annotations (``rows`` of the truth) of one image; ``labels`` index ``names``."""
        truth = sample.truth
        return cls(
            images=(ImageRow(sample.file_name, sample.image_id, sample.width, sample.height, sample.id),),
            names=tuple(names),
            image=np.zeros(len(rows), np.int64),
            label=labels,
            boxes=truth.boxes[rows],
            areas=np.asarray(truth.areas)[rows],
            crowd=np.asarray(truth.crowd, dtype=np.bool_)[rows],
            ids=np.asarray(truth.ids)[rows],
        )

    def __len__(self) -> int:
        return len(self.boxes)

    @classmethod
    def of(
        cls,
        images: tuple[ImageRow, ...],
        names: Sequence[str],
        truths: Sequence[Truth],
        segments: list[Any] | None = None,
    ) -> "TruthColumns":
        """From what is annotated in each of ``images``."""

        def joined(name: str, dtype: type, *shape: int) -> Any:
            parts = [getattr(t, name) for t in truths]
            return np.concatenate(parts).astype(dtype) if parts else np.zeros(shape, dtype)

        return cls(
            images=images,
            names=tuple(names),
            image=np.repeat(np.arange(len(truths)), [len(t) for t in truths]).astype(np.int64),
            label=joined("labels", np.int64, 0),
            boxes=joined("boxes", np.float64, 0, 4),
            areas=joined("areas", np.float64, 0),
            crowd=joined("crowd", np.bool_, 0),
            ids=joined("ids", np.int64, 0),
            segments=segments,
        )

    def of_labels(self, wanted: Bools) -> "TruthColumns":
        """Only the objects of the labels that are ``wanted`` ``[len(names)]``; all images and names stay."""
        if wanted.all():
            return self
        chosen = np.flatnonzero(wanted[self.label])
        columns = {name: getattr(self, name)[chosen] for name in ("image", "label", "boxes", "areas", "crowd", "ids")}
        segments = None if self.segments is None else [self.segments[i] for i in chosen]
        return replace(self, **columns, segments=segments)


@dataclass(frozen=True, eq=False)
class DetectionColumns:
    """Every detection of the data, sorted by ``image``, in the file's order within each.

    ``image`` and ``label`` ``[D]`` index the truth's ``images`` and ``names``; ``boxes`` ``[D, 4]`` are corners in
    pixels, ``scores`` ``[D]``, ``areas`` ``[D]`` square pixels (of the box, or of the mask where only masks were
    stored), ``ids`` ``[D]`` positions in the file, from 0. ``left_out`` counts detections of images that are not being
    scored.
    """

    image: Ints
    label: Ints
    boxes: Floats
    scores: Floats
    areas: Floats
    ids: Ints
    segments: list[Any] | None = None
    left_out: int = field(default=0)

    def __len__(self) -> int:
        return len(self.boxes)

    @classmethod
    def of(
        cls,
        image: ArrayLike,
        label: ArrayLike,
        boxes: ArrayLike,
        scores: ArrayLike,
        *,
        areas: ArrayLike | None = None,
        ids: ArrayLike | None = None,
        segments: Sequence[Any] | None = None,
        left_out: int = 0,
    ) -> "DetectionColumns":
        """From columns in any order of images; ``areas`` default to the boxes', ``ids`` to the positions given."""
        corners = as_boxes(boxes, what="detection boxes").astype(np.float64)
        where = np.asarray(image, dtype=np.int64).reshape(-1)
        columns: dict[str, Any] = {
            "label": np.asarray(label, dtype=np.int64).reshape(-1),
            "scores": np.asarray(scores, dtype=np.float64).reshape(-1),
            "areas": area(corners) if areas is None else np.asarray(areas, dtype=np.float64),
            "ids": np.arange(len(corners)) if ids is None else np.asarray(ids, dtype=np.int64),
        }
        for name, column in {"image": where, **columns}.items():
            if len(column) != len(corners):
                raise BadArray(
                    f"Expected {name} to have one entry for each of {len(corners)} boxes. Got {len(column)}."
                )
        order = np.argsort(where, kind="stable")
        picked = None if segments is None else [segments[i] for i in order]
        return cls(
            where[order],
            boxes=corners[order],
            segments=picked,
            left_out=left_out,
            **{name: column[order] for name, column in columns.items()},
        )


def truth_columns(dataset: Dataset, *, masks: bool = False) -> TruthColumns:
    """The truths of ``dataset`` as columns; with ``masks`` also its segments, where every object has one.

    Parts whose state says that they are not there are no objects: what is detected in their place is wrong.
    Images are ordered by their ``image_id`` where all are numbers, as COCO does: among equal scores the order of images
    decides which detection counts first.
    """
    samples = list(dataset)
    if all(isinstance(s.image_id, int) for s in samples):
        samples.sort(key=lambda s: int(s.image_id))
    truths = [s.truth if s.truth.states is None else s.truth[s.truth.present] for s in samples]
    segments: list[Any] | None = None
    if masks:
        parts = [_segments(t.masks, len(t)) for t in truths]
        segments = [s for part in parts for s in part]
        segments = None if any(s is None for s in segments) else segments
    images = tuple(ImageRow(s.file_name or s.id, s.image_id, s.width, s.height, s.id) for s in samples)
    return TruthColumns.of(images, dataset.names, truths, segments)


def _segments(masks: Masks | None, count: int) -> list[Any]:
    """Compressed run lengths of ``count`` objects, ``None`` where one has no mask."""
    if masks is None:
        return [None] * count
    return [masks.rle(i) if masks.has(i) else None for i in range(count)]
