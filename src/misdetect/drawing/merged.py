"""A confusion matrix as it is shown, in a page or a file: the classes that are confused most, and the others as one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from misdetect.nouns.boxes import Bools, Floats

Document = Mapping[str, Any]
SHOWN = 16
"""Classes that are shown one by one; where there are more, those that are confused most, and the others together."""


@dataclass(frozen=True, eq=False)
class Shown:
    """The matrix as it is shown: ``names`` of its classes (the last may stand for several), ``counts``
    ``[N + 1, N + 1]`` of detections, ``became`` ``[N, N + 2]`` of objects, ``marked`` ``[N + 1, N + 1]``."""

    names: list[str]
    counts: Floats
    became: Floats
    marked: Bools

    @classmethod
    def of(cls, document: Document, most: int = SHOWN) -> "Shown":
        labels = document["labels"]
        counts, became = np.array(document["counts"], dtype=float), np.array(document["became"], dtype=float)
        place = {name: i for i, name in enumerate(labels)}
        marked = np.zeros(counts.shape, dtype=np.bool_)
        for each in document["policy_dependent"]:
            marked[place[each["actual"]], place[each["predicted"]]] = True
        classes = len(labels) - 1
        if classes <= most:
            return cls(list(labels[:-1]), counts, became.reshape(classes, classes + 2), marked)
        return cls._merged(labels, counts, became, marked, most)

    @classmethod
    def _merged(cls, labels: Sequence[str], counts: Floats, became: Floats, marked: Bools, most: int) -> "Shown":
        """The ``most`` - 1 classes that are confused most, in the data's order, and the others as one."""
        classes = len(labels) - 1
        between = counts[:-1, :-1] * (1 - np.eye(classes))
        weight = between.sum(axis=0) + between.sum(axis=1) + 1e-6 * became.sum(axis=1)
        kept = np.sort(np.argsort(-weight, kind="stable")[: most - 1])
        group = np.full(classes + 2, most - 1)
        group[kept] = np.arange(most - 1)
        group[classes:] = most, most + 1
        join = np.eye(most + 2)[group]  # [C + 2, most + 2]: background and missed stay by themselves
        rows, columns = join[: classes + 1, : most + 1], join[: classes + 1, : most + 1]
        names = [*(labels[i] for i in kept), f"{classes - most + 1} others"]
        return cls(
            names,
            rows.T @ counts @ columns,
            join[:classes, :most].T @ became @ join,
            (rows.T @ marked.astype(float) @ columns) > 0,
        )


def shares(counts: Floats, became: Floats) -> Floats:
    """Each cell ``[N + 1, N + 2]`` as a share of its row with the missed objects; the colour of the absolute view."""
    whole = np.hstack([counts, np.append(became[:, -1], 0)[:, None]])
    return np.asarray(whole / np.maximum(whole.sum(axis=1, keepdims=True), 1))
