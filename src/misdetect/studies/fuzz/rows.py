"""The rows of a campaign: one per background, insertion, relocation and shrunk case, in one schema.

A row holds everything that planning goes by, so that a resumed campaign plans the same, and everything that is needed
to draw and replay the case. Classes are named in rows and numbered where they are compared; ``Classes`` translates.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from misdetect.metrics.control import Control
from misdetect.metrics.metamorphic import Change
from misdetect.nouns.boxes import SIDES, boxes_of, sides
from misdetect.nouns.detections import Detections
from misdetect.studies.columns import box

CLEAN, INSERTION, RELOCATION, SHRINKING = PHASES = ("clean", "insertion", "relocation", "shrinking")
WATCH = 0.1
"""Detections on the background are remembered from this score on (or the campaign's own threshold less the margin)."""

_detection = [*box(), ("score", pa.float64()), ("label", pa.string())]
_judged = [*_detection, ("object", pa.int64()), ("right", pa.bool_())]
_offer = [*((name, pa.int32()) for name in ("cutout", "width", "height", "reach")), ("label", pa.string())]
_change = [
    ("type", pa.string()),
    ("thing", pa.int32()),
    ("label", pa.string()),
    ("became", pa.string()),
    *box(),
    ("score", pa.float64()),
    ("after", pa.float64()),
    ("flickers", pa.bool_()),
    ("counts", pa.bool_()),
    ("patches", pa.list_(pa.bool_())),  # of the null control: does each make the same failure? null: not asked
    ("cleared", pa.bool_()),
    ("attributable", pa.bool_()),
    ("object", pa.int64()),
    ("effect", pa.string()),
    ("harm", pa.string()),
]
SCHEMA = pa.schema(
    [
        ("phase", pa.string()),
        ("image", pa.string()),
        ("number", pa.int32()),  # of the image in the data
        ("queries", pa.int32()),
        ("budget", pa.int64()),  # with which it was planned
        # of a background
        ("detections", pa.list_(pa.struct(_judged))),
        ("offers", pa.list_(pa.struct(_offer))),
        ("least", pa.float64()),  # the lowest score that the detector is known to report
        ("differs", pa.bool_()),
        ("noise", pa.bool_()),
        # of an edit
        ("cutout", pa.int32()),
        ("label", pa.string()),
        ("source", pa.string()),
        *((name, pa.int32()) for name in ("x", "y", "width", "height")),
        ("opacity", pa.float64()),
        ("beside", pa.int32()),
        ("reach", pa.int32()),
        ("dropped", pa.int32()),
        ("origin", pa.int64()),
        ("progress", pa.float64()),
        ("strength", pa.float64()),
        ("naturalness", pa.float64()),
        # what came of it
        ("failed", pa.bool_()),
        ("flicker", pa.bool_()),
        ("null_failed", pa.bool_()),
        ("attributable", pa.bool_()),
        ("standing", pa.list_(pa.float64())),
        ("found", pa.list_(pa.struct(_detection))),  # on the synthetic image, where it fails
        ("changes", pa.list_(pa.struct(_change))),
    ]
)


@dataclass(frozen=True)
class Insertion:
    """An object of the pool on a background: ``image`` and ``cutout`` are indices, ``at`` left and top and ``size``
    width and height in pixels; ``beside`` is the one of the background's detections it was put beside, if any;
    ``reach`` the least that allows it. ``dropped`` says how many draws before it (and after the last one) found no
    place; it is no part of the edit."""

    image: int
    cutout: int
    at: tuple[int, int]
    size: tuple[int, int]
    beside: int | None = None
    reach: int = 0
    opacity: float = 1.0
    dropped: int = field(default=0, compare=False)

    @property
    def box(self) -> tuple[int, int, int, int]:
        """x0, y0, x1, y1 in pixels."""
        return *self.at, self.at[0] + self.size[0], self.at[1] + self.size[1]

    def columns(self) -> dict[str, Any]:
        """As columns of a row."""
        (x, y), (width, height) = self.at, self.size
        own = {"number": self.image, "cutout": self.cutout, "x": x, "y": y, "width": width, "height": height}
        return own | {"beside": self.beside, "reach": self.reach, "opacity": self.opacity}

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> "Insertion":
        """From the columns of a row."""
        at, size = (row["x"], row["y"]), (row["width"], row["height"])
        return cls(row["number"], row["cutout"], at, size, row["beside"], row["reach"], row["opacity"])


class Classes:
    """The classes of a detector, by number and by ``names``. Where two have one name, the first number stands for both,
    since rows could not tell them apart."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self._numbers = {name: i for i, name in reversed(list(enumerate(self.names)))}
        self._first = np.array([self._numbers[name] for name in self.names], dtype=np.int64)

    def name(self, number: int) -> str | None:
        """Of class ``number``; ``None`` of -1, no class."""
        return self.names[number] if number >= 0 else None

    def number(self, name: str | None) -> int:
        """Of the class called ``name``; -1 of ``None``."""
        return -1 if name is None else self._numbers[name]

    def joined(self, found: Detections) -> Detections:
        """``found`` with classes of one name made one."""
        if len(self._numbers) == len(self.names):
            return found
        return Detections(found.boxes, found.scores, self._first[found.labels], found.masks)

    def records(self, found: Detections) -> list[dict[str, Any]]:
        """``found`` as the list that a row keeps."""
        columns = zip(found.boxes.tolist(), found.scores.tolist(), found.labels.tolist(), strict=True)
        return [{**sides(box), "score": score, "label": self.names[label]} for box, score, label in columns]

    def detections(self, records: Sequence[Mapping[str, Any]]) -> Detections:
        """The detections that a row keeps."""
        return Detections(
            boxes_of(records),
            np.array([record["score"] for record in records], dtype=np.float64),
            np.array([self._numbers[record["label"]] for record in records], dtype=np.int64),
        )

    def change_record(self, change: Change) -> dict[str, Any]:
        """``change`` as a row keeps it, without what the controls and the truth say of it."""
        return {
            "type": change.type,
            "thing": change.thing if change.thing >= 0 else None,
            "label": self.name(change.label),
            "became": self.name(change.became),
            **sides(change.box),
            "score": change.score,
            "after": change.after,
            "flickers": change.flickers,
            "counts": change.counts,
        }

    def change(self, record: Mapping[str, Any]) -> Change:
        """The change that a row's record stands for."""
        x0, y0, x1, y1 = (record[name] for name in SIDES)
        return Change(
            record["type"],
            -1 if record["thing"] is None else record["thing"],
            self.number(record["label"]),
            self.number(record["became"]),
            (x0, y0, x1, y1),
            record["score"],
            record["after"],
            record["flickers"],
            record["counts"],
        )


@dataclass
class Evidence:
    """What is known of the ``changes`` of one insertion: ``patches``, of each change whether each patch of the null
    control makes it too; ``again``: what the same question changed when it was asked a second time; ``told``: whether
    the detector shows scores low enough to tell a failure from flicker."""

    changes: Sequence[Change]
    control: Control
    told: bool
    again: Sequence[Change] | None = None
    patches: list[list[bool]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.patches = [[] for _ in self.changes]

    def add(self, control: Sequence[Change]) -> None:
        """Take down what one more patch changed."""
        for change, seen in zip(self.changes, self.patches, strict=True):
            seen.append(any(change.same_as(other) for other in control))

    def holds(self, change: Change) -> bool:
        """Whether ``change`` is a failure, does not flicker, and repeats where it was asked about again."""
        repeats = self.again is None or any(change.same_as(other) for other in self.again)
        return change.counts and not change.flickers and repeats

    def cleared(self, number: int) -> bool | None:
        """Whether change ``number`` is none that patches make; ``None`` as long as another patch may tell."""
        seen = self.patches[number]
        return self.control.clear(len(seen), sum(seen)) if seen else None

    def records(self) -> Iterator[dict[str, Any]]:
        """What a row keeps of each change. ``cleared``: it holds, and patches do not make it."""
        for number, change in enumerate(self.changes):
            real = self.holds(change) and self.cleared(number) is True
            yield {"patches": self.patches[number] or None, "cleared": real, "attributable": real and self.told}
