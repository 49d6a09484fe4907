"""``Cutout``: an object lifted out of its photo by its mask.

Papers 1 and 4 paste such objects elsewhere. A cutout is cropped tightly to its mask, keeps where it came from and has a
hash, so that a paste of it can be cached. Selecting and pruning a pool of cutouts is the studies' business.
"""

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from misdetect.data.dataset import Dataset, Sample
from misdetect.data.faults import NothingToCut
from misdetect.nouns.boxes import Bools
from misdetect.nouns.picture import Pixels, digest
from misdetect.said.errors import BadArray


@dataclass(frozen=True, eq=False)
class Cutout:
    """An object as ``rgba`` ``[h, w, 4]`` uint8 (alpha 0 or 255), its class ``label``, and where it came from.

    ``data`` is the data's spec, ``sample`` the image's id, ``truth`` the annotation's id, ``at`` the left and top in
    pixels of the crop in that image.
    """

    rgba: Pixels = field(repr=False)
    label: str
    data: str = ""
    sample: str = ""
    truth: int = -1
    at: tuple[int, int] = (0, 0)

    def __post_init__(self) -> None:
        if self.rgba.dtype != np.uint8 or self.rgba.ndim != 3 or self.rgba.shape[2] != 4 or not self.rgba.size:
            raise BadArray(f"Expected a cutout as uint8 of shape [h, w, 4]. Got {self.rgba.dtype} {self.rgba.shape}.")
        own = self.rgba.copy()
        own.flags.writeable = False
        object.__setattr__(self, "rgba", own)

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels."""
        return self.rgba.shape[1], self.rgba.shape[0]

    @property
    def mask(self) -> Bools:
        """Which pixels belong to the object, ``[h, w]`` bool."""
        return np.greater(self.rgba[:, :, 3], 0)

    @property
    def area(self) -> int:
        """Pixels that belong to the object."""
        return int(np.count_nonzero(self.rgba[:, :, 3]))

    @cached_property
    def key(self) -> str:
        """Hash of the content: equal keys mean equal pixels and label."""
        return digest(self.rgba, self.label)


def cut(sample: Sample, index: int, names: Sequence[str], *, data: str = "", image: Pixels | None = None) -> Cutout:
    """Object ``index`` of ``sample``'s truth, cropped to its mask; pixels outside the mask are transparent black.

    ``names`` are the data's. ``image`` saves reading the sample's pixels again when several objects are cut.
    """
    truth = sample.truth
    where = f"Image {sample.id!r}, annotation {int(truth.ids[index]) if truth.ids is not None else index}"
    if truth.masks is None or not truth.masks.has(index):
        raise NothingToCut(f"{where}: has no mask to cut by; use data with masks.")
    mask = truth.masks[index]
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    if not rows.size:
        raise NothingToCut(f"{where}: its mask covers no pixel.")
    top, bottom, left, right = rows[0], rows[-1] + 1, columns[0], columns[-1] + 1
    pixels = sample.image if image is None else image
    if pixels.shape[:2] != mask.shape:
        raise BadArray(f"{where}: the image is {pixels.shape[:2]}, its mask {mask.shape}; expected one size.")
    alpha = mask[top:bottom, left:right]
    rgba = np.zeros((*alpha.shape, 4), dtype=np.uint8)
    rgba[:, :, :3] = pixels[top:bottom, left:right] * alpha[:, :, None]
    rgba[:, :, 3] = alpha * np.uint8(255)
    label = names[int(truth.labels[index])]
    ids = truth.ids
    return Cutout(rgba, label, data, sample.id, index if ids is None else int(ids[index]), (int(left), int(top)))


def cutouts(dataset: Dataset, *, labels: Container[str] | None = None, min_area: float = 1.0) -> Iterator[Cutout]:
    """Every object of ``dataset`` with a mask, image by image, each image read once and only if it has one to cut.

    ``labels`` restricts the classes, ``min_area`` (square pixels, by the annotation) drops smaller objects. Crowd
    regions are no objects and are left out, as are masks that cover no pixel.
    """
    for sample in dataset:
        truth = sample.truth
        if truth.masks is None or truth.crowd is None or truth.areas is None:
            continue
        image: Pixels | None = None
        for index in range(len(truth)):
            wanted = labels is None or dataset.names[int(truth.labels[index])] in labels
            if not wanted or truth.crowd[index] or truth.areas[index] < min_area or not truth.masks.has(index):
                continue
            if image is None:
                image = sample.image
            try:
                yield cut(sample, index, dataset.names, data=dataset.spec, image=image)
            except NothingToCut:
                continue
