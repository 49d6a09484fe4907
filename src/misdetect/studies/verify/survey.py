"""What the data says of its parts, read once before anything is asked: who could be a donor, and what is wrong with it.

Data without states, a state that belongs to no group, and a part twice in an image are refused, with counts. Parts of a
class that the detector does not know, and parts without a box, cannot be judged: these are left out, and counted.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from misdetect.data.dataset import Dataset
from misdetect.data.faults import UnknownState
from misdetect.nouns.boxes import Bools, Ints, area
from misdetect.nouns.detections import Truth
from misdetect.said.errors import BadData
from misdetect.studies.verify.settings import VerifySettings

PRESENT, MISSING = "present", "missing"
WHY = ("crowd", "ignored-state", "unknown-class", "no-box")
"""Why a part is not counted."""
DONORS = 8
"""Images per part whose pixels are lent: each has to be read, and a few say as much as many."""


def groups(truth: Truth, known: Bools, how: VerifySettings) -> list[str]:
    """Of each part "present", "missing", or why it is not counted; ``known`` ``[N]``: the detector has its class."""
    if truth.states is None:
        return []
    group = np.array([str(how.group(state)) for state in truth.states])
    left_out = [np.asarray(truth.crowd, np.bool_), group == "ignored", ~known, area(truth.boxes) <= 0]
    found: list[str] = np.select(left_out, WHY, group).tolist()
    return found


@dataclass(frozen=True)
class Survey:
    """``missing``: by label of the data the images (their places) in which that part is missing, in order."""

    missing: dict[int, list[int]] = field(default_factory=dict)

    def donors(self, label: int, image: int) -> list[int]:
        """Other images in which part ``label`` is missing too: a few, spread over the data, that serve everybody."""
        every = self.missing.get(label, [])
        few = every[:: -(-len(every) // DONORS) or 1]
        return [other for other in few if other != image]


def survey(data: Dataset, to_detector: Ints, how: VerifySettings) -> Survey:
    """Look at all annotations of ``data``; ``to_detector[label]`` is -1 where the detector does not know a part."""
    if not len(data):
        raise BadData(f"{data.spec} has no images.")
    missing: dict[int, list[int]] = {}
    unknown: Counter[str] = Counter()
    twice: list[tuple[str, str, int]] = []
    stateless, parts, judged = [], 0, Counter[str]()
    for place, sample in enumerate(data):
        truth = sample.truth
        parts += len(truth)
        if truth.states is None:
            stateless += [sample.id] if len(truth) else []
            continue
        unknown.update(state for state in truth.states if how.group(state) is None)
        seen = Counter(truth.labels[~np.asarray(truth.crowd)].tolist())
        twice += [(sample.id, data.names[label], count) for label, count in seen.items() if count > 1]
        found = groups(truth, to_detector[truth.labels] >= 0, how)
        judged.update(found)
        for label, group in zip(truth.labels.tolist(), found, strict=True):
            if group == MISSING:
                missing.setdefault(label, []).append(place)
    _refuse(data, parts, stateless, unknown, twice)
    if not judged[PRESENT] and not judged[MISSING]:
        raise BadData(f"{data.spec}: none of its {parts} parts can be counted ({_told(judged)}).")
    return Survey(missing)


def _refuse(
    data: Dataset, parts: int, stateless: Sequence[str], unknown: Counter[str], twice: Sequence[tuple[str, str, int]]
) -> None:
    if not parts or stateless:
        where = f"{len(stateless)} of {len(data)} images have" if parts else "it has"
        raise BadData(
            f"{data.spec}: {where} no states of parts; verify needs to know which are there (delftbikes:, bikes:, or "
            "coco: with an attribute such as attributes.state)."
        )
    if unknown:
        raise UnknownState(
            f"{data.spec}: {unknown.total()} of {parts} parts have a state that is neither present nor missing "
            f"({_told(unknown)}); name it with --present, --missing or --ignored."
        )
    if twice:
        image, part, count = twice[0]
        raise BadData(
            f"{data.spec}: a part is annotated more than once in an image, {len(twice)} times in all (first: {part!r} "
            f"{count} times in image {image!r}); a part is verified once per image, so give each its own name."
        )


def _told(counts: Counter[str]) -> str:
    shown = [f"{count} {name!r}" for name, count in counts.most_common(5)]
    return ", ".join(shown) + (", …" if len(counts) > 5 else "")
