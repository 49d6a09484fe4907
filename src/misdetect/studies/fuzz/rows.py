"""The rows of a campaign: one per background, insertion, relocation and shrunk case, in one schema; and its ledger.

A row holds everything that planning goes by, so that a resumed campaign plans the same, and everything that is needed
to draw and replay the case. Classes are named in rows and numbered where they are compared; ``Classes`` translates.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from misdetect.engine.store import Run
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
    ("patches", pa.list_(pa.bool_())),  # of the control: does each make the same failure? null: not asked
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
        ("control_failed", pa.bool_()),
        ("attributable", pa.bool_()),
        ("standing", pa.list_(pa.float64())),
        ("found", pa.list_(pa.struct(_detection))),  # on the synthetic image, where it fails
        ("changes", pa.list_(pa.struct(_change))),
    ]
)

_MEASURED = ("score", "after", "flickers", "counts")
"""What a row has of a change as it is."""
_PLACE = """struct_pack(inserted := label, box := [x, y, x + width, y + height], opacity := opacity,
    naturalness := naturalness)"""


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
        own = {name: getattr(change, name) for name in ("type", *_MEASURED)}
        numbers = {"label": self.name(change.label), "became": self.name(change.became)}
        return own | numbers | sides(change.box) | {"thing": change.thing if change.thing >= 0 else None}

    def change(self, record: Mapping[str, Any]) -> Change:
        """The change that a row's record stands for."""
        thing = -1 if record["thing"] is None else record["thing"]
        x0, y0, x1, y1 = (record[name] for name in SIDES)
        label, became = self.number(record["label"]), self.number(record["became"])
        measured = {name: record[name] for name in _MEASURED}
        return Change(record["type"], thing, label, became, (x0, y0, x1, y1), **measured)


def ledger(run: Run) -> str:
    """Each insertion beside each detection of ``score`` or more on its background, and what became of that detection.
    One row per extra detection, and a control row for each change whose control was asked, by its first patch:
    there the same happens, or what was detected is found. Relocations and shrunk cases are searches that start from
    these, and are left out."""
    return f"""
        WITH clean AS (SELECT image, unnest(detections) AS d, generate_subscripts(detections, 1) AS place
            FROM rows WHERE phase = 'clean'),
        firm AS (SELECT *, row_number() OVER (PARTITION BY image ORDER BY place) - 1 AS thing
            FROM clean WHERE d.score >= {float(run.settings["score"])!r}),
        inserted AS (SELECT case_index, "case", image, standing, CAST(to_json({_PLACE}) AS VARCHAR) AS evidence
            FROM rows WHERE phase = 'insertion' AND failed IS NOT NULL),
        changed AS (SELECT case_index, unnest(changes) AS c, generate_subscripts(changes, 1) AS turn
            FROM rows WHERE phase = 'insertion'),
        told AS (
            SELECT inserted.case_index, "case", image, false AS control, coalesce(c.object, d.object) AS object,
                d.label, d.x0, d.y0, d.x1, d.y1, coalesce(c.type, 'found') AS outcome,
                coalesce(c.harm, 'harmless') AS harm, c.became, d.score AS score_before,
                coalesce(c.after, standing[place]) AS score, coalesce(c.flickers, false) AS flicker,
                coalesce(c.attributable, false) AS attributable, evidence, thing AS turn
            FROM inserted JOIN firm USING (image) LEFT JOIN changed
                ON changed.case_index = inserted.case_index AND c.thing = firm.thing
            UNION ALL BY NAME
            SELECT case_index, "case", image, false AS control, c.object, c.label, c.x0, c.y0, c.x1, c.y1,
                c.type AS outcome, c.harm, c.score AS score_before, c.after AS score, c.flickers AS flicker,
                c.attributable, evidence, 1000000 + turn AS turn
            FROM inserted JOIN changed USING (case_index) WHERE c.type = 'extra'
            UNION ALL BY NAME
            SELECT case_index, "case", image, true AS control, c.object, c.label, c.x0, c.y0, c.x1, c.y1,
                CASE WHEN c.patches[1] THEN c.type ELSE 'found' END AS outcome,
                CASE WHEN c.patches[1] THEN c.harm ELSE 'harmless' END AS harm, c.score AS score_before,
                false AS attributable, evidence, turn
            FROM inserted JOIN changed USING (case_index) WHERE c.patches IS NOT NULL)
        SELECT * EXCLUDE (case_index, turn), 'insertion' AS condition FROM told ORDER BY case_index, control, turn"""
