"""Data that is already in memory: pairs of an image and what is in it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from misdetect.data.dataset import Dataset, Sample
from misdetect.nouns.detections import Truth
from misdetect.nouns.picture import Pixels, Raw, check_pixels, digest
from misdetect.said.errors import BadData


class _Held:
    """Pixels as the source of a sample."""

    def __init__(self, pixels: Pixels) -> None:
        self._raw = Raw(pixels)

    def read(self) -> Pixels:
        return self._raw.pixels

    def key(self) -> str:
        return self._raw.key


def from_pairs(pairs: Iterable[tuple[Any, Any]], names: Sequence[str] | None = None) -> Dataset:
    """A data set of ``(image, truth)`` pairs: uint8 RGB arrays ``[H, W, 3]``, and a ``Truth`` or a dict of its fields.

    Labels are names, or indices into ``names``, which names that are not among them are added to.
    """
    held = [(check_pixels(np.asarray(image)), truth) for image, truth in pairs]
    known = _names((truth for _, truth in held), list(names or ()))
    samples, first = [], 1
    for i, (pixels, truth) in enumerate(held):
        made = _truth(truth, known, first, i)
        first += len(made)
        samples.append(Sample(f"image-{i:06d}", _Held(pixels), made, pixels.shape[1], pixels.shape[0], i + 1))
    fingerprint = digest("memory", known, [(s.key, s.truth.boxes, s.truth.labels) for s in samples])
    return Dataset("memory:", known, len(samples), samples.__getitem__, fingerprint=fingerprint)


def _names(truths: Iterable[Any], known: list[str]) -> list[str]:
    """``known``, and the class names that occur as labels and are not among them, sorted."""
    found = {label for truth in truths if isinstance(truth, Mapping) for label in truth.get("labels", ())}
    words = sorted({label for label in found if isinstance(label, str)} - set(known))
    if not known and len(words) < len(found):
        raise BadData("labels are numbers here, and nothing says what they mean: load_data(pairs, names=[…]) does.")
    return [*known, *words]


def _truth(truth: Any, names: Sequence[str], first: int, index: int) -> Truth:
    fields = {"boxes": truth.boxes, "labels": truth.labels} if isinstance(truth, Truth) else dict(truth)
    if isinstance(truth, Truth):
        fields |= {name: getattr(truth, name) for name in ("crowd", "areas", "states", "masks")}
    labels = [names.index(label) if isinstance(label, str) else int(label) for label in fields.pop("labels")]
    if any(not 0 <= label < len(names) for label in labels):
        raise BadData(f"pair {index} has the label {max(labels)}, but there are only {len(names)} names.")
    ids = fields.pop("ids", None)
    return Truth(labels=labels, ids=np.arange(first, first + len(labels)) if ids is None else ids, **fields)  # type: ignore[arg-type]
