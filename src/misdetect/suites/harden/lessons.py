"""``Lessons``: the synthetic images of campaigns, as data to train on."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from misdetect.data.dataset import Dataset, Sample
from misdetect.engine.store import Run
from misdetect.nouns.picture import digest
from misdetect.said.errors import BadData
from misdetect.studies.contract import Inserted
from misdetect.studies.kinds import kind_of


@dataclass(frozen=True, eq=False)
class Lessons:
    """A campaign of insertions: its ``run``, its ``photos``, and the ids of those that may be trained on."""

    run: Run
    photos: Dataset
    trained: frozenset[str]

    @classmethod
    def of(cls, run: Run, photos: Dataset, train: Dataset) -> "Lessons":
        """Of a campaign whose photos are among those of ``train``; a ``BadData`` where none is: the annotations of
        failures are those of their photos."""
        known = {sample.id: sample for sample in train}
        found = frozenset(sample.id for sample in photos if sample.id in known)
        first = next((sample for sample in photos if sample.id in found), None)
        if first is None or known[first.id].key != first.key:
            raise BadData(
                f"the failures of {run.address} are of photos of {photos.spec}, which are not among those that are "
                f"trained on ({train.spec}); fuzz the detector on these."
            )
        return cls(run, photos, found)

    def images(self, which: str, inserted: Inserted) -> Dataset:
        """Its synthetic images: those that fail ("all"), or "any" of them."""
        images = kind_of(self.run.study).images
        assert images is not None, "as harden has seen to"
        try:
            made = images(self.run, self.photos, which, inserted, "drop")
        except BadData:
            raise BadData(f"{self.run.address} has no failures to learn from; fuzz with more --queries.") from None
        chosen = [i for i, photo in enumerate(made.backgrounds) if photo in self.trained]
        if not chosen:
            raise BadData(f"the failures of {self.run.address} are all of photos that are set aside, not trained on.")
        return made.dataset().subset(chosen)


def images_of(lessons: Sequence[Lessons], which: str, inserted: Inserted) -> Dataset:
    """The synthetic images of all ``lessons``."""
    return concatenated([each.images(which, inserted) for each in lessons])


def drawn_from(data: Dataset, count: int, seed: int) -> Dataset:
    """``count`` images of ``data`` by chance, all where it has no more."""
    order = np.random.default_rng(seed).permutation(len(data))
    return data.subset(sorted(order[:count].tolist()))


def concatenated(parts: Sequence[Dataset]) -> Dataset:
    """The images of ``parts``, which have the same classes, one after the other."""
    first, ends = parts[0], list(accumulate(map(len, parts)))

    def sample(i: int) -> Sample:
        part = bisect_right(ends, i)
        return parts[part][i - (ends[part - 1] if part else 0)]

    known = digest([(part.fingerprint, part.limited_to, part.part, len(part)) for part in parts])
    return Dataset(
        first.spec, first.names, ends[-1], sample, fingerprint=first.fingerprint, category_ids=first.category_ids,
        part=known,
    )  # fmt: skip
