"""The adversarial images that a run kept: one by one, and as data, with the annotations of the images that they were
made of."""

from misdetect.data.dataset import Dataset, Sample
from misdetect.drawing.scenes import places
from misdetect.engine.store import Run
from misdetect.nouns.picture import Pixels, digest
from misdetect.said.errors import BadData, BadSpec
from misdetect.studies.attack.document import settings_of
from misdetect.studies.attack.plan import main_attacks
from misdetect.studies.attack.results import Results, attacked_images
from misdetect.studies.attack.rows import pixels_of
from misdetect.studies.contract import Document, Hidden, Inserted


class _Kept:
    """A kept PNG as the source of a sample."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def read(self) -> Pixels:
        return pixels_of(self._data)

    def key(self) -> str:
        return digest(self._data)


def kept_image(run: Run, image: str, attack: str) -> Pixels | None:
    """What ``attack`` made of ``image``; ``None`` where that was not kept."""
    kept = run.query(
        "SELECT png FROM rows WHERE kind = 'image' AND image = ? AND condition = ? AND png IS NOT NULL", [image, attack]
    ).to_pylist()
    return pixels_of(kept[0]["png"]) if kept else None


def first_loss(run: Run) -> str:
    """The attack whose images are meant where none is named."""
    return main_attacks(settings_of(run))[2].name


class AdversarialImages:
    """The images that attack ``which`` of ``run`` made of ``data``."""

    def __init__(self, run: Run, data: Dataset, which: str) -> None:
        how = settings_of(run)
        known = Results(run, how).conditions
        if which not in known:
            raise BadSpec(f"{run.address} has no attack {which!r}; it has {', '.join(known)}.")
        self.which, self._data, self._eps, self._id = which, data, how.eps, run.about["id"]
        self._kept = attacked_images(run, which, how)
        if not self._kept:
            raise BadData(f"{run.address} has kept no images of {which}; run it without --no-keep.")
        self._place = places(data)

    @property
    def backgrounds(self) -> list[str]:
        """The photo that each image was made of."""
        return list(self._kept)

    def dataset(self) -> Dataset:
        """The images, with the annotations of their photos."""
        data, names = self._data, self.backgrounds

        def sample(i: int) -> Sample:
            own = data[self._place[names[i]]]
            file = (own.file_name or own.id).rpartition(".")[0] or own.id
            kept = _Kept(self._kept[names[i]])
            return Sample(own.id, kept, own.truth, own.width, own.height, own.image_id, f"{file}.png")

        spec = f"{data.spec} attacked ({self.which}, eps {self._eps:g})"
        fingerprint = digest(data.fingerprint, self._id, self.which)
        return Dataset(spec, data.names, len(names), sample, fingerprint=fingerprint, category_ids=data.category_ids)

    def about(self, i: int) -> Document:
        """Nothing more than its photo's record says."""
        return {}


def images(run: Run, data: Dataset, which: str | None, inserted: Inserted, hidden: Hidden) -> AdversarialImages:
    """The images of attack ``which``, by default the first loss; nothing was inserted, and nothing is hidden."""
    return AdversarialImages(run, data, which or first_loss(run))
