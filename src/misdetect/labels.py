"""Joining a detector's classes with the data's: by name, never by number."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from misdetect.boxes import Ints
from misdetect.errors import BadSpec


def join_labels(detector_names: Sequence[str], data_names: Sequence[str], detector: str, data: str) -> Ints:
    """For each of the detector's labels the data's label of the same name, or -1 where the data has none.

    Names are compared without regard to case, spaces, hyphens and underscores ("dining_table" is "Dining Table").
    ``detector`` and ``data`` are how the two are called in the message if not a single name is common.
    """
    where = {plain_name(name): i for i, name in reversed(list(enumerate(data_names)))}
    joined = np.array([where.get(plain_name(name), -1) for name in detector_names], dtype=np.int64)
    if len(data_names) and len(joined) and (joined < 0).all():
        raise BadSpec(
            f"{detector} and {data} have no class name in common: the detector knows {_some(detector_names)}, "
            f"the data {_some(data_names)}."
        )
    return joined


@dataclass(frozen=True, eq=False)
class Joined:
    """A detector's and a data set's classes, joined by name: ``to_data[label]`` of each of the detector's labels is the
    data's, ``to_detector[label]`` the reverse; -1 where the other has no such class. Where two classes have one name,
    the first stands for it."""

    to_data: Ints
    to_detector: Ints

    @classmethod
    def of(cls, detector_names: Sequence[str], data_names: Sequence[str], detector: str, data: str) -> "Joined":
        """As ``join_labels``, both ways."""
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
            return cls(*(np.full(len(names), -1, dtype=np.int64) for names in (detector_names, data_names)))


def plain_name(name: str) -> str:
    """``name`` without what does not count when classes are joined."""
    return name.casefold().replace("_", "").replace("-", "").replace(" ", "")


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:4]) + (", …" if len(names) > 4 else "")
