"""``Split``: what a hardening learns from, what it is stopped by, and what its final numbers are of: three data sets
that share no photo."""

from collections.abc import Sequence
from dataclasses import dataclass

from misdetect.data import drawn, load_data
from misdetect.data.dataset import Dataset
from misdetect.nouns.labels import Joined
from misdetect.nouns.spec import Spec
from misdetect.said.errors import BadData

_TENTH, _FEWEST = 10, 4


@dataclass(frozen=True, eq=False)
class Split:
    """``train``, ``held_out`` and ``test``; the latter two as given, where they were, so that runs can open them."""

    whole: Dataset
    train: Dataset
    held_out: str | Dataset
    test: str | Dataset

    @property
    def fingerprints(self) -> dict[str, list[str | int | None]]:
        """What identifies each."""
        opened = {"train": self.train, "held_out": load_data(self.held_out), "test": load_data(self.test)}
        return {name: [data.spec, data.fingerprint, len(data), data.part] for name, data in opened.items()}


def divided(data: str | Dataset, names: Sequence[str], held_out: str | None = None, test: str | None = None) -> Split:
    """``data`` to train a detector of the classes ``names`` on, and what it is stopped and tested by: as named, else
    val and test of the same drawn data, else two tenths of ``data`` itself, which are then not trained on."""
    whole = load_data(data)
    if not any(len(sample.truth) for sample in whole):
        raise BadData(f"{whole.spec} has no annotations, so there is nothing to learn.")
    Joined.of(names, whole.names, "the detector", whole.spec)
    if isinstance(data, str) and (own := _own_splits(data)) is not None:
        held_out, test = held_out or own[0], test or own[1]
    missing, size = (held_out is None) + (test is None), len(whole) // _TENTH
    if missing and size < _FEWEST:
        raise BadData(
            f"{whole.spec} has {len(whole)} images, too few to set some aside; name data with --held-out and --test."
        )
    first = len(whole) - missing * size
    aside = [whole[at : at + size] for at in (first, first + size)]
    train = whole[:first] if missing else whole
    return Split(whole, train, held_out or aside.pop(0), test or aside.pop(0))


def _own_splits(text: str) -> tuple[str, str] | None:
    """val and test of drawn data, where ``text`` is its train."""
    spec = Spec.parse(text)
    if spec.target != "train" or not drawn(text):
        return None
    kept = {name: value for name, value in spec.options.items() if name in ("size", "seed")}
    options = "".join(f",{name}={value}" for name, value in kept.items())
    return f"{spec.scheme}:val{options}", f"{spec.scheme}:test{options}"
