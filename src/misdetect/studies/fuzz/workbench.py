"""``Workbench``: what a case needs wherever it runs: photos, objects to insert, the pictures made of both, classes and
truth. It travels to workers; each opens the data for itself. What is inserted where is not decided here.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from misdetect.compose.fade import Faded
from misdetect.compose.naturalness import Naturalness
from misdetect.compose.paste import Paste, resized
from misdetect.compose.texture import elsewhere, texture
from misdetect.data.cutouts import Cutout
from misdetect.data.dataset import Dataset, Sample
from misdetect.data.opened import Opened
from misdetect.nouns.boxes import Bools
from misdetect.nouns.detections import Detections
from misdetect.nouns.labels import Joined
from misdetect.pools.pool import Pool
from misdetect.pools.similarity import Similarity
from misdetect.studies.fuzz.reach import Offer, companions, offers
from misdetect.studies.fuzz.rows import Classes, Insertion
from misdetect.studies.fuzz.settings import FuzzSettings
from misdetect.studies.fuzz.truth import Judge

_OPEN = 64
_DRAWS = 200
"""Places drawn for the patches of a control; each is used once."""
_KEPT = 64 << 20
"""Bytes of histograms of backgrounds that are kept, for naturalness: about a hundred photos, or two of a camera."""


class Workbench:
    """The images of ``opened``, the objects of ``pool`` and a detector with class ``names``, which is known to report
    scores ``shown_from`` on (``None``: not known), as ``how`` has it."""

    def __init__(
        self,
        opened: Opened,
        pool: Pool,
        names: Sequence[str],
        how: FuzzSettings,
        shown_from: float | None = None,
    ) -> None:
        self.shown_from = () if shown_from is None else (shown_from,)
        self.opened, self.pool, self.classes, self.how = opened, pool, Classes(names), how
        self._similarity = Similarity(pool, how.embedding)
        self._together = self._companions() if how.allowed >= 2 else {}
        self._forget()

    def _forget(self) -> None:
        self.sample = lru_cache(_OPEN)(self._open)
        self._cutout = lru_cache(4 * _OPEN)(self._make_cutout)
        self._naturalness: dict[int, Naturalness] = {}

    def __getstate__(self) -> dict[str, Any]:
        left_out = ("joined", "sample", "_cutout", "_naturalness")
        return {name: value for name, value in self.__dict__.items() if name not in left_out}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    @property
    def data(self) -> Dataset:
        """What backgrounds are taken from."""
        return self.opened.data

    @cached_property
    def joined(self) -> Joined:
        """The detector's classes and the data's. With none in common nothing can be judged, but all can be tested."""
        return Joined.loosely(self.classes.names, self.data.names)

    def _open(self, image: int) -> Sample:
        """The last few backgrounds stay open, so that their files are hashed once."""
        return self.data[image]

    def _companions(self) -> dict[str, list[str]]:
        """Which labels occur together, by the detector's names."""
        together = companions(self.data)
        return {
            name: together.get(self.data.names[other], [])
            for name, other in zip(self.classes.names, self.joined.to_data.tolist(), strict=True)
            if other >= 0
        }

    def offers(self, sample: Sample, firm: Detections) -> list[Offer]:
        """What the pool has for ``sample``, on which ``firm`` was detected."""
        if not len(firm):
            return []
        return offers(
            sample, firm, self.classes.names, self.pool, self._similarity, self.how.allowed, self._together
        )  # fmt: skip

    def judge(self, image: int) -> Judge:
        """Who knows what is really in an image."""
        return Judge(self.sample(image).truth, self.joined, self.how.iou)

    def shape(self, insertion: Insertion) -> Bools:
        """Which pixels ``[height, width]`` of its box the object covers."""
        return self._cutout(insertion.cutout, insertion.size).mask

    def picture(self, insertion: Insertion) -> Paste | Faded:
        """The synthetic image."""
        cutout = self._cutout(insertion.cutout, insertion.size)
        paste = Paste(self.sample(insertion.image), cutout, insertion.at)
        return paste if insertion.opacity == 1 else Faded(paste, insertion.opacity)

    def controls(self, insertion: Insertion) -> Iterator[Paste]:
        """Its controls: the same shape at the same place with pixels from elsewhere in the background, each from
        another place there; an object so large that there is only one other place has only one."""
        sample, shape = self.sample(insertion.image), self._cutout(insertion.cutout, insertion.size)
        generator = np.random.default_rng([self.how.seed, 7, insertion.image, *insertion.at, *insertion.size])
        used = set[tuple[int, int]]()
        for _ in range(_DRAWS):
            corner = elsewhere(sample.width, sample.height, insertion.box, generator)
            if corner not in used:
                used.add(corner)
                yield Paste(sample, texture(sample, shape, corner), insertion.at)

    def _make_cutout(self, index: int, size: tuple[int, int]) -> Cutout:
        return resized(self.pool[index], size)

    def naturalness(self, insertion: Insertion, picture: Paste | Faded) -> float:
        """How natural the ``picture`` of an insertion is; the histograms of the first backgrounds are kept."""
        natural = self._naturalness.get(insertion.image)
        if natural is None:
            keep = sum(known.nbytes for known in self._naturalness.values()) < _KEPT
            natural = self._naturalness[insertion.image] = Naturalness(self.sample(insertion.image), keep)
        return natural.of(picture.part(insertion.box), insertion.at)

    def columns(self, insertion: Insertion) -> dict[str, Any]:
        """What a row says of an edit."""
        cutout = self.pool[insertion.cutout]
        own = {"image": self.sample(insertion.image).id, "label": cutout.label, "source": cutout.sample}
        return own | insertion.columns()


def merged(*parts: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Records of equal number joined into one each."""
    return [{key: value for part in row for key, value in part.items()} for row in zip(*parts, strict=True)]
