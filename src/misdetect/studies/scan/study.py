"""The scan of paper 1: object T of image J at every grid position of image I, and what the detector makes of the rest.

A case is a few positions of one pair under one condition: the object itself, or the control (the same mask filled
with pixels from elsewhere in I). A row is a position, with S (eq. 1), the coverage, the fate of every original
detection and of T. Table I and everything else are views of these rows (``document``).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from misdetect.compose.paste import Paste
from misdetect.compose.texture import elsewhere, texture
from misdetect.data.cutouts import Cutout, cut
from misdetect.data.dataset import Sample
from misdetect.data.opened import Opened
from misdetect.engine.requests import Case, Detect, Steps, Trace
from misdetect.metrics.harm import Annotations
from misdetect.metrics.transplant import LOST, compare_all
from misdetect.nouns.boxes import Ints
from misdetect.nouns.detections import Detections
from misdetect.nouns.labels import Joined
from misdetect.studies.joined import JoinedStudy
from misdetect.studies.scan.pairs import Transplant
from misdetect.studies.scan.rows import CONDITIONS, OBJECT, SCHEMA, position_row
from misdetect.studies.scan.settings import ScanSettings, stored
from misdetect.studies.scan.truth import Judge
from misdetect.studies.suppression import explain_losses

CHUNK = 8
"""Positions per case: few enough for workers to share the end of a run evenly."""
_OPEN = 4
"""Pairs kept open."""


@dataclass(frozen=True, eq=False)
class OpenPair:
    """A pair with its pixels: the image I, the object T cut from J, T's class for the detector (or -1), its grid
    positions, and who judges changes by the annotations of I."""

    number: int
    background: Sample
    cutout: Cutout
    label: int
    positions: Ints
    judge: Judge

    def picture(self, condition: str, x: int, y: int, seed: int) -> Paste:
        """I with T (or its control) at ``x``, ``y``. The control's pixels come from a place that depends on seed,
        pair and position only, and does not overlap T's."""
        if condition == OBJECT:
            return Paste(self.background, self.cutout, (x, y))
        box = (x, y, x + self.cutout.size[0], y + self.cutout.size[1])
        generator = np.random.default_rng([seed, 3, self.number, x, y])
        corner = elsewhere(self.background.width, self.background.height, box, generator)
        return Paste(self.background, texture(self.background, self.cutout, corner), (x, y))


class ScanStudy(JoinedStudy):
    """Scan ``transplants`` within the data of ``opened`` for a detector with class ``names``. ``how.trace`` is settled
    by now."""

    name = "scan"
    schema: pa.Schema = SCHEMA

    def __init__(
        self, opened: Opened, transplants: Sequence[Transplant], names: Sequence[str], how: ScanSettings
    ) -> None:
        super().__init__(opened, names)
        self.transplants = tuple(transplants)
        self.how: ScanSettings = replace(how, trace=bool(how.trace), progress=None)
        self._open: dict[int, OpenPair] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_open": {}}

    def settings(self) -> dict[str, Any]:
        """What decides the rows, and what a document says of the pairs, for ``run.json``."""
        return {
            **stored(self.how, self.search_settings()),
            "transplants": [each.document() for each in self.transplants],
            "positions": self.positions,
        }

    def search_settings(self) -> Mapping[str, Any] | None:
        """How positions are chosen, for ``run.json``; ``None``: all are asked."""
        return None

    @cached_property
    def joined(self) -> Joined:
        """The detector's classes and the data's. With none in common a scan still tells what changes, but T is nothing
        that the detector knows, and nothing can be judged."""
        return Joined.loosely(self.names, self.data.names)

    @property
    def conditions(self) -> tuple[str, ...]:
        """The conditions scanned."""
        return CONDITIONS if self.how.control else (OBJECT,)

    def open_pair(self, number: int) -> OpenPair:
        """Pair ``number``, opened; the last few stay open."""
        if number not in self._open:
            transplant = self.transplants[number]
            pair, data = transplant.pair, self.data
            background, source = data[pair.background], data[pair.source]
            cutout = cut(source, pair.truth, data.names, data=data.spec)
            label = int(self.joined.to_detector[source.truth.labels[pair.truth]])
            truth = background.truth
            judge = Judge(Annotations.of(truth, self.joined.to_detector), np.asarray(truth.ids), self.joined.known)
            positions = transplant.grid(self.how.step)
            self._open[number] = OpenPair(number, background, cutout, label, positions, judge)
            while len(self._open) > _OPEN:
                del self._open[next(iter(self._open))]
        return self._open[number]

    @property
    def positions(self) -> int:
        """Grid positions of all pairs together."""
        return sum(each.positions for each in self.transplants)

    def __len__(self) -> int:
        return len(self.conditions) * sum(-(-each.positions // CHUNK) for each in self.transplants)

    def cases(self) -> Iterator[Case]:
        """Pair by pair, condition by condition, a few positions at a time."""
        index = 0
        for number, each in enumerate(self.transplants):
            for condition in self.conditions:
                for first in range(0, each.positions, CHUNK):
                    last = min(first + CHUNK, each.positions)
                    yield Case(index, f"{number}/{condition}/{first}", (number, condition, first, last))
                    index += 1

    def image_of(self, case: Case) -> str:
        """The background of a case, to name it by if it fails."""
        return self.data[self.transplants[int(case.id.partition("/")[0])].pair.background].id

    def run(self, case: Case) -> Steps:
        """Ask about the clean image and each position, then compare."""
        number, condition, first, last = case.content
        pair = self.open_pair(number)
        places = pair.positions[first:last].tolist()
        before, *after = yield [
            Detect(pair.background),
            *(Detect(pair.picture(condition, x, y, self.how.seed)) for x, y in places),
        ]
        rows = self.rows(pair, condition, places, before, after)
        if self.how.trace and condition == OBJECT:
            yield from self.trace_losses(pair, rows, before)
        return rows

    def rows(
        self,
        pair: OpenPair,
        condition: str,
        places: Sequence[tuple[int, int]],
        before: Detections,
        after: Sequence[Detections],
    ) -> list[dict[str, Any]]:
        """The rows of the positions ``places`` (x, y), given D_∅ ``before`` and D_xy ``after`` at each."""
        corners = np.array(places, dtype=np.float64)
        boxes = np.concatenate([corners, corners + pair.cutout.size], axis=1)
        own = {
            "pair": pair.number,
            "condition": condition,
            "background": pair.background.id,
            "source": pair.cutout.sample,
            "annotation": pair.cutout.truth,
            "width": pair.background.width,
            "height": pair.background.height,
            "weight": 1.0,
        }
        t_class = None if pair.label < 0 else self.names[pair.label]
        compared = compare_all(before, after, boxes, pair.label, self.how.rules)
        clean = pair.judge.clean(compared[0].before)  # the same for all of them
        return [
            own | {"x": x, "y": y} | position_row(at_place, t_class, self.names, pair.judge, clean)
            for (x, y), at_place in zip(places, compared, strict=True)
        ]

    def trace_losses(self, pair: OpenPair, rows: list[dict[str, Any]], before: Detections) -> Steps:
        """Look inside the detector where an original was lost, and write into its row what became of its candidate."""
        lossy = [row for row in rows if any(o["outcome"] == LOST for o in row["objects"])]
        if lossy:
            clean = yield Trace(pair.background)
            labels = before.above(self.how.score).labels
            for row in lossy:  # one at a time: the inside of a detector is large
                edited = yield Trace(pair.picture(OBJECT, row["x"], row["y"], self.how.seed))
                explain_losses(row["objects"], labels, self.names, clean, edited, self.how.score)
        return []
