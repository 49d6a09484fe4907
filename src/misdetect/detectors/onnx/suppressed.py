"""Graphs that suppress by themselves: one table, separate outputs, or indices into boxes and scores.

Exporters disagree on everything but the content: the order of columns, which output is which, how four numbers make a
box, their units, where labels start. All of it is an option; ``advice`` finds most of it out.
"""

from collections.abc import Sequence

import numpy as np

from misdetect.detectors.outputs import (
    CORNERS,
    Array,
    Frame,
    Readout,
    box_scale,
    output_roles,
    refuse_nan,
    refuse_shares,
)
from misdetect.said.errors import BadSpec, DetectorFailed

TABLES = {6: "x0,y0,x1,y1,score,class", 7: "batch,x0,y0,x1,y1,class,score"}
"""The columns of a table where nobody states them, by their number."""
LAYOUTS = (
    *(TABLES[6], "class,score,x0,y0,x1,y1"),
    *(TABLES[7], "batch,class,score,x0,y0,x1,y1", "batch,x0,y0,x1,y1,score,class"),
)
"""The orders of columns that exporters are known to use."""
_COLUMNS = ("batch", "x0", "y0", "x1", "y1", "score", "class", "-")


class GraphWithNms:
    """A graph that suppresses by itself: one table (and maybe the number of rows of each image); boxes, scores and
    labels (and maybe their count) apart; or ``indices`` ``[K, 3]`` (image, class, box) into boxes ``[B, N, 4]`` and
    scores ``[B, C, N]``.

    ``columns`` names a table's columns, ``stated`` the order of separate outputs; ``boxes`` is how four numbers make a
    box, ``units`` whether they are pixels of the network's input or shares of it (where nobody says, pixels, and boxes
    that cannot be are an error); labels start at ``labels_from``.
    """

    def __init__(
        self, frame: Frame, columns: str, stated: str, boxes: str = "xyxy", units: str = "", labels_from: int = 0
    ) -> None:
        self.frame, self.columns, self.format, self.labels_from = frame, columns, boxes, labels_from
        self.stated, self.size = bool(units), box_scale(frame, units)
        self.roles: dict[str, int] = {}
        if len(frame.outputs) > 1:
            self.roles = _roles(frame, stated)

    def split(self, outputs: Sequence[Array], count: int) -> list[list[Array]]:
        if "indices" in self.roles:
            return self._split_indices(outputs, count)
        first = outputs[self.roles.get("boxes", self.roles.get("table", 0))]
        if first.ndim >= 3 and first.shape[0] == count:
            return [[output[i : i + 1] if output.ndim else output for output in outputs] for i in range(count)]
        if "table" in self.roles and first.ndim == 2 and "count" in self.roles:
            ends = np.cumsum(outputs[self.roles["count"]].reshape(-1)[:count].astype(np.int64))
            rows = np.split(first, ends[:-1]) if len(ends) == count else [first] * count
            return [[part if o is first else o[i : i + 1] for o in outputs] for i, part in enumerate(rows)]
        if "boxes" not in self.roles and first.ndim >= 2 and "batch" in self._layout(first):
            table = first.reshape(-1, first.shape[-1])
            batch = table[:, self._layout(first).index("batch")]
            return [[table[batch == i] if o is first else o for o in outputs] for i in range(count)]
        if count != 1:
            raise BadSpec(
                f"{self.frame.spec!r}: output {list(first.shape)} does not say whose image a box is in; give batch=1."
            )
        return [list(outputs)]

    def _split_indices(self, outputs: Sequence[Array], count: int) -> list[list[Array]]:
        chosen = outputs[self.roles["indices"]]
        if chosen.shape[-1:] != (3,):
            raise BadSpec(
                f"{self.frame.spec!r}: expected indices [K, 3] (image, class, box). Got {list(chosen.shape)}."
            )
        rows = chosen.reshape(-1, 3)
        return [
            [rows[rows[:, 0] == i] if output is chosen else output[i : i + 1] for output in outputs]
            for i in range(count)
        ]

    def decode(self, outputs: Sequence[Array]) -> Readout:
        boxes, scores, labels = self._read(outputs)
        refuse_nan(self.frame, scores)
        if len(scores) and (scores.max() > 1.001 or scores.min() < -0.001):
            raise BadSpec(
                f"{self.frame.spec!r}: the graph's scores reach {scores[np.abs(scores).argmax()]:g}, so another "
                f"column or output holds them; state columns= (now {self.columns or 'by width'}) or outputs=."
            )
        keep = (scores >= self.frame.score) & (labels != -1)  # which fills what is left of a table
        boxes, scores, labels = boxes[keep].astype(np.float32), scores[keep], labels[keep] - self.labels_from
        whole = labels.astype(np.int64)
        if len(labels) and (not np.array_equal(whole, labels) or whole.min() < 0 or whole.max() >= self.frame.classes):
            wrong = labels[(whole != labels) | (whole < 0) | (whole >= self.frame.classes)][0]
            raise DetectorFailed(
                f"{self.frame.spec!r}: the graph gives label {wrong:g}, but there are {self.frame.classes} names; "
                f"check names=, labels-from= and columns=."
            )
        if not self.stated:
            refuse_shares(self.frame, boxes)
        return Readout(CORNERS[self.format](boxes) * self.size, np.clip(scores, 0, 1), whole)

    def _read(self, outputs: Sequence[Array]) -> tuple[Array, Array, Array]:
        if "indices" in self.roles:
            return self._indexed(outputs)
        if "boxes" in self.roles:
            return self._parts(outputs)
        return self._table(outputs[self.roles.get("table", 0)])

    def _layout(self, table: Array) -> list[str]:
        text = self.columns or TABLES.get(table.shape[-1] if table.ndim else 0, "")
        layout = [column.strip() for column in text.split(",")]
        if table.ndim < 2 or len(layout) != table.shape[-1] or not {*_COLUMNS[1:-1]} <= {*layout} <= {*_COLUMNS}:
            raise BadSpec(
                f"{self.frame.spec!r}: decoder=nms reads a table such as [N, 6] ({TABLES[6]}) or [N, 7] "
                f"({TABLES[7]}). Got {self.frame.outputs[self.roles.get('table', 0)]} {list(table.shape)}: state "
                f"columns= with {', '.join(_COLUMNS)}."
            )
        return layout

    def _table(self, table: Array) -> tuple[Array, Array, Array]:
        layout = self._layout(table)
        rows = table.reshape(-1, table.shape[-1])
        corners = rows[:, [layout.index(c) for c in ("x0", "y0", "x1", "y1")]]
        return corners, rows[:, layout.index("score")], rows[:, layout.index("class")]

    def _parts(self, outputs: Sequence[Array]) -> tuple[Array, Array, Array]:
        found = {role: outputs[i] for role, i in self.roles.items()}
        boxes, labels = found["boxes"], found["labels"].reshape(-1)
        width = boxes.shape[-1] if boxes.ndim else 0
        boxes = boxes.reshape(-1, max(width, 1))
        scores = found["scores"].reshape(-1) if "scores" in found else boxes[:, -1]
        if width != (4 if "scores" in found else 5) or not len(boxes) == len(scores) == len(labels):
            shapes = ", ".join(f"{role} {list(o.shape)}" for role, o in found.items())
            raise BadSpec(f"{self.frame.spec!r}: expected boxes [N, 4], scores [N] and labels [N]. Got {shapes}.")
        count = int(found["count"].reshape(-1)[0]) if "count" in found and found["count"].size else len(boxes)
        return boxes[:count, :4], scores[:count], labels[:count]

    def _indexed(self, outputs: Sequence[Array]) -> tuple[Array, Array, Array]:
        boxes, scores = (outputs[self.roles[role]] for role in ("boxes", "scores"))
        chosen = outputs[self.roles["indices"]].reshape(-1, 3).astype(np.int64)
        fits = boxes.ndim == scores.ndim == 3 and boxes.shape[2] == 4 and boxes.shape[1] == scores.shape[2]
        if not fits or scores.shape[1] != self.frame.classes:
            raise BadSpec(
                f"{self.frame.spec!r}: with {self.frame.classes} names, expected boxes [B, N, 4] and scores "
                f"[B, {self.frame.classes}, N]. Got {list(boxes.shape)} and {list(scores.shape)}: check names=."
            )
        labels, rows = chosen[:, 1], chosen[:, 2]
        if len(rows) and not (rows.min() >= 0 <= labels.min() and rows.max() < boxes.shape[1]):
            raise DetectorFailed(
                f"{self.frame.spec!r}: the graph's indices point outside of its {boxes.shape[1]} boxes."
            )
        if len(labels) and labels.max() >= self.frame.classes:
            raise DetectorFailed(
                f"{self.frame.spec!r}: the graph gives label {labels.max()}, but there are {self.frame.classes} names."
            )
        return boxes[0][rows], scores[0][labels, rows], labels


def _roles(frame: Frame, stated: str) -> dict[str, int]:
    """Which output is what; a table needs no other."""
    if "table" in stated.split(","):
        return output_roles(frame, stated, ("table",), ("count",))
    if "indices" in stated.split(","):
        return output_roles(frame, stated, ("boxes", "scores", "indices"))
    return output_roles(frame, stated, ("boxes", "labels"), ("scores", "count"))
