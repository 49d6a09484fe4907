"""Joining a detector's classes with the data's: by name, never by number.

Names that are spelt alike are joined first; what is left over is joined where two data sets are known to call one thing
by different names (``ALIASES``). What cannot be joined is listed, both ways, with the nearest names of the other side.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np

from misdetect.nouns.boxes import Bools, Ints
from misdetect.nouns.open_names import OpenNames
from misdetect.said.errors import BadSpec

ALIASES = (
    ("airplane", "aeroplane"),
    ("motorcycle", "motorbike"),
    ("bicycle", "bike"),
    ("couch", "sofa"),
    ("tv", "tvmonitor", "tv monitor", "television", "monitor/tv"),
    ("dining table", "diningtable", "kitchen & dining room table"),
    ("potted plant", "pottedplant", "houseplant"),
    ("cell phone", "mobile phone", "cellphone"),
    ("hair drier", "hair dryer"),
    ("donut", "doughnut"),
    ("skis", "ski"),
    ("sports ball", "ball"),
    ("cow", "cattle"),
    ("laptop", "laptop computer"),
    ("mouse", "computer mouse"),
    ("keyboard", "computer keyboard"),
    ("remote", "remote control"),
    ("microwave", "microwave oven"),
    ("refrigerator", "fridge"),
    ("wine glass", "wineglass"),
    ("handbag", "handbag/satchel"),
    ("traffic light", "trafficlight"),
    ("boat", "boat/ship"),
    ("book", "books"),
    ("tie", "necktie"),
    ("bowl", "bowl/basin"),
    ("hot dog", "hotdog"),
    ("teddy bear", "teddybear"),
    ("person", "human", "pedestrian"),
)
"""One thing by the names that COCO, VOC, Open Images and Objects365 have for it."""


def plain_name(name: str) -> str:
    """``name`` without what does not count when classes are joined."""
    return name.casefold().replace("_", "").replace("-", "").replace(" ", "")


_ONE_NAME = {plain_name(name): plain_name(names[0]) for names in ALIASES for name in names}


def one_name(name: str) -> str:
    """The plain name that all the ``ALIASES`` of ``name`` have in common."""
    return _ONE_NAME.get(plain_name(name), plain_name(name))


@dataclass(frozen=True, eq=False)
class Joined:
    """A detector's and a data set's classes, joined by name: ``to_data[label]`` of each of the detector's labels is the
    data's, ``to_detector[label]`` the reverse; -1 where the other has no such class. Where two classes have one name,
    the first stands for it. A detector with open names has every class of the data, by its exact name; ``words`` are
    then the data's labels by the detector's, and ``to_data`` is empty."""

    to_data: Ints
    to_detector: Ints
    words: Mapping[int, int] | None = None

    @classmethod
    def of(cls, detector_names: Sequence[str], data_names: Sequence[str], detector: str, data: str) -> "Joined":
        """As ``join_labels``, both ways."""
        if isinstance(detector_names, OpenNames):
            numbers = [detector_names.index(name) for name in data_names]
            words = {number: label for label, number in enumerate(numbers)}
            return cls(np.zeros(0, dtype=np.int64), np.array(numbers, dtype=np.int64), words)
        to_data = join_labels(detector_names, data_names, detector, data)
        to_detector = np.full(len(data_names), -1, dtype=np.int64)
        for label in range(len(to_data) - 1, -1, -1):
            if to_data[label] >= 0:
                to_detector[to_data[label]] = label
        return cls(to_data, to_detector)

    @classmethod
    def loosely(cls, detector_names: Sequence[str], data_names: Sequence[str]) -> "Joined":
        """As ``of``, also where not a single name is common: for studies that can do without the truth."""
        try:
            return cls.of(detector_names, data_names, "the detector", "the data")
        except BadSpec:
            to_data, to_detector = (np.full(len(names), -1, dtype=np.int64) for names in (detector_names, data_names))
            return cls(to_data, to_detector)

    def in_data(self, labels: Ints) -> Ints:
        """The data's label of each of the detector's ``labels`` ``[N]``, -1 where it has none."""
        if self.words is None:
            return self.to_data[labels]
        return np.array([self.words.get(label, -1) for label in labels.tolist()], dtype=np.int64)

    def known(self, labels: Ints) -> Bools:
        """Which of the detector's ``labels`` ``[N]`` are of classes that the data has."""
        return self.in_data(labels) >= 0


def join_labels(detector_names: Sequence[str], data_names: Sequence[str], detector: str, data: str) -> Ints:
    """For each of the detector's labels the data's label of the same name, or -1 where the data has none.

    Names are compared without regard to case, spaces, hyphens and underscores ("dining_table" is "Dining Table"); those
    that then have no partner by ``ALIASES``. ``detector`` and ``data`` are how the two are called in the message if not
    a single name is common.
    """
    spelt = {plain_name(name): i for i, name in reversed(list(enumerate(data_names)))}
    joined = np.array([spelt.get(plain_name(name), -1) for name in detector_names], dtype=np.int64)
    own = {plain_name(name) for name in detector_names}
    meant = {_ONE_NAME[word]: i for word, i in reversed(list(spelt.items())) if word in _ONE_NAME and word not in own}
    for label in np.flatnonzero(joined < 0).tolist():
        joined[label] = meant.get(_ONE_NAME.get(plain_name(detector_names[label]), ""), -1)
    if len(data_names) and len(joined) and (joined < 0).all():
        raise BadSpec(
            f"{detector} and {data} have no class name in common: the detector knows {_some(detector_names)}, "
            f"the data {_some(data_names)}; labels=FILE of the data spec says which mean the same."
        )
    return joined


def joining(detector_names: Sequence[str], data_names: Sequence[str]) -> dict[str, Any]:
    """How the classes were joined, for documents: how many are ``joined``; ``aliases``, pairs of the detector's and the
    data's name; ``only_detector`` and ``only_data``, each name without a partner with the ``nearest`` of the other's
    names that have none either."""
    theirs = Joined.loosely(detector_names, data_names).to_data.tolist()
    alone = [name for name, label in zip(detector_names, theirs, strict=True) if label < 0]
    known = known_classes(detector_names, data_names).tolist()
    absent = [name for name, is_known in zip(data_names, known, strict=True) if not is_known]
    pairs = [(name, data_names[label]) for name, label in zip(detector_names, theirs, strict=True) if label >= 0]
    return {
        "joined": sum(known),
        "aliases": [[mine, theirs] for mine, theirs in pairs if plain_name(mine) != plain_name(theirs)],
        "only_detector": [{"name": name, "nearest": _nearest(name, absent)} for name in alone],
        "only_data": [{"name": name, "nearest": _nearest(name, alone)} for name in absent],
    }


def known_classes(detector_names: Sequence[str], data_names: Sequence[str]) -> Bools:
    """Which of the data's classes ``[len(data_names)]`` the detector has: objects of the others are counted nowhere."""
    if isinstance(detector_names, OpenNames):
        return np.ones(len(data_names), dtype=np.bool_)
    return Joined.loosely(data_names, detector_names).to_data >= 0


def _nearest(name: str, others: Sequence[str]) -> list[str]:
    """Up to two of ``others`` that look like ``name``."""
    plain = {plain_name(other): other for other in others}
    return [plain[word] for word in get_close_matches(plain_name(name), plain, n=2, cutoff=0.7)]


def told(classes: dict[str, Any]) -> list[str]:
    """``joining`` in words; nothing where every class has its partner."""
    found = []
    if classes["aliases"]:
        pairs = ", ".join(f"{mine} is {theirs}" for mine, theirs in classes["aliases"])
        found.append(f"classes of other names were joined: {pairs}.")
    for key, mine, other, what in (
        ("only_data", "the data", "the detector", "objects"),
        ("only_detector", "the detector", "the data", "detections"),
    ):
        names = [each["name"] + (f" ({each['nearest'][0]}?)" if each["nearest"] else "") for each in classes[key]]
        if names and classes["joined"]:
            count = f"{len(names)} class{'es' * (len(names) > 1)} of {mine}"
            found.append(
                f"{count} that {other} does not have, so that their {what} are not counted: {_some(names, 8)}."
            )
    return found


def _some(names: Sequence[str], most: int = 4) -> str:
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")
