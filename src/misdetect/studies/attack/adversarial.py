"""The adversarial images of a run as data: with the annotations of the images that they were made of."""

from misdetect.data.dataset import Dataset, Sample
from misdetect.engine.store import Run
from misdetect.nouns.picture import Pixels, digest
from misdetect.said.errors import BadData, BadSpec
from misdetect.studies.attack.document import settings_of
from misdetect.studies.attack.plan import main_attacks
from misdetect.studies.attack.results import Results, attacked_images
from misdetect.studies.attack.rows import pixels_of


class _Kept:
    """A kept PNG as the source of a sample."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def read(self) -> Pixels:
        return pixels_of(self._data)

    def key(self) -> str:
        return digest(self._data)


def first_loss(run: Run) -> str:
    """The attack whose images are meant where none is named."""
    return main_attacks(settings_of(run))[2].name


def adversarial_images(run: Run, data: Dataset, which: str) -> Dataset:
    """The images that attack ``which`` of ``run`` made of ``data``."""
    how = settings_of(run)
    known = Results(run, how).conditions
    if which not in known:
        raise BadSpec(f"{run.address} has no attack {which!r}; it has {', '.join(known)}.")
    kept = attacked_images(run, which, how)
    if not kept:
        raise BadData(f"{run.address} has kept no images of {which}; run it without --no-keep.")
    place = {sample.id: i for i, sample in enumerate(data)}
    names = list(kept)

    def sample(i: int) -> Sample:
        own = data[place[names[i]]]
        file = (own.file_name or own.id).rpartition(".")[0] or own.id
        return Sample(own.id, _Kept(kept[names[i]]), own.truth, own.width, own.height, own.image_id, f"{file}.png")

    spec = f"{data.spec} attacked ({which}, eps {how.eps:g})"
    fingerprint = digest(data.fingerprint, run.about["id"], which)
    return Dataset(spec, data.names, len(names), sample, fingerprint=fingerprint, category_ids=data.category_ids)
