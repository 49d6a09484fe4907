"""The scan of paper 1: object T of image J at every grid position of image I, and what the detector makes of the rest.

A case is a few positions of one pair under one condition: the object itself, or the null control (the same mask filled
with pixels from elsewhere in I). A row is a position, with S (eq. 1), the coverage, the fate of every original
detection and of T. Table I and everything else are views of these rows (``results``).
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from misdetect.boxes import Ints
from misdetect.compose.paste import Paste
from misdetect.compose.texture import elsewhere, texture
from misdetect.data import load_data
from misdetect.data.cutouts import Cutout, cut
from misdetect.data.dataset import Dataset, Sample
from misdetect.detections import Detections
from misdetect.engine.requests import Case, Detect, Steps, Trace
from misdetect.errors import BadSpec
from misdetect.labels import join_labels
from misdetect.metrics.transplant import LOST, Rules, compare_all
from misdetect.studies.scan.pairs import Pair, grid
from misdetect.studies.scan.rows import SCHEMA, position_row
from misdetect.studies.scan.suppression import explain_losses

OBJECT, NULL = CONDITIONS = ("object", "null")
CHUNK = 8
"""Positions per case: few enough for workers to share the end of a run evenly."""
_SCENES = 4


@dataclass(frozen=True)
class Scanning:
    """What decides the rows, apart from data, detector and pairs. ``step``: the grid's, in pixels. ``null``: whether
    the null control is scanned too. ``trace``: whether lost objects are looked for inside a ``Traced`` detector."""

    step: int = 10
    seed: int = 0
    null: bool = True
    trace: bool = False
    rules: Rules = field(default_factory=Rules)

    def __post_init__(self) -> None:
        if self.step < 1:
            raise BadSpec(f"the step of the grid is at least 1 pixel. Got {self.step}.")


@dataclass(frozen=True, eq=False)
class Scene:
    """A pair opened: the image I, the object T cut from J, T's class for the detector (or -1), its grid positions."""

    number: int
    pair: Pair
    background: Sample
    cutout: Cutout
    label: int
    positions: Ints

    def picture(self, condition: str, x: int, y: int, seed: int) -> Paste:
        """I with T (or its null control) at ``x``, ``y``. The control's pixels come from a place that depends on seed,
        pair and position only, and does not overlap T's."""
        if condition == OBJECT:
            return Paste(self.background, self.cutout, (x, y))
        box = (x, y, x + self.cutout.size[0], y + self.cutout.size[1])
        generator = np.random.default_rng([seed, 3, self.number, x, y])
        corner = elsewhere(self.background.width, self.background.height, box, generator)
        return Paste(self.background, texture(self.background, self.cutout, corner), (x, y))


class ScanStudy:
    """Scan ``pairs`` of ``data`` (a spec, or a ``Dataset``) for a detector with class ``names``."""

    name = "scan"
    schema: pa.Schema = SCHEMA

    def __init__(
        self,
        data: str | Dataset,
        pairs: Sequence[Pair],
        names: Sequence[str],
        scanning: Scanning | None = None,
        limit: int | None = None,
    ) -> None:
        self._spec, self.limit = data, limit
        self.pairs, self.names, self.scanning = tuple(pairs), tuple(names), scanning or Scanning()
        self._data: Dataset | None = None
        self._scenes: dict[int, Scene] = {}
        self._sizes: list[int] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_data": None, "_scenes": {}}

    @property
    def data(self) -> Dataset:
        """The data set, opened when first needed (a worker opens its own)."""
        if self._data is None:
            self._data = load_data(self._spec).limit(self.limit)
        return self._data

    def settings(self) -> dict[str, Any]:
        """What decides the rows, for ``run.json``."""
        return {**asdict(self.scanning), "pairs": [pair.as_list() for pair in self.pairs]}

    @property
    def conditions(self) -> tuple[str, ...]:
        """The conditions scanned."""
        return CONDITIONS if self.scanning.null else (OBJECT,)

    def scene(self, number: int) -> Scene:
        """Pair ``number``, opened; the last few stay open."""
        if number not in self._scenes:
            pair = self.pairs[number]
            background, source = self.data[pair.background], self.data[pair.source]
            cutout = cut(source, pair.truth, self.data.names, data=self.data.spec)
            positions = grid(background.width, background.height, cutout.size, self.scanning.step)
            label = _label(cutout.label, self.names)
            self._scenes[number] = Scene(number, pair, background, cutout, label, positions)
            while len(self._scenes) > _SCENES:
                del self._scenes[next(iter(self._scenes))]
        return self._scenes[number]

    @property
    def sizes(self) -> list[int]:
        """Positions of each pair's grid; a grid of one position is refused, since nothing moves on it."""
        if self._sizes is None:
            self._sizes = []
            for number, pair in enumerate(self.pairs):
                scene = self.scene(number)
                width, height = scene.background.width, scene.background.height
                if len(scene.positions) < 2:
                    raise BadSpec(
                        f"the object of pair {number} ({scene.cutout.size[0]}x{scene.cutout.size[1]} pixels, image "
                        f"{self.data[pair.source].id!r}) has {len(scene.positions)} positions on image "
                        f"{scene.background.id!r} ({width}x{height}) at step {self.scanning.step}; choose a smaller "
                        "step or another object."
                    )
                self._sizes.append(len(scene.positions))
        return self._sizes

    @property
    def positions(self) -> int:
        """Grid positions of all pairs together."""
        return sum(self.sizes)

    def __len__(self) -> int:
        return len(self.conditions) * sum(-(-size // CHUNK) for size in self.sizes)

    def cases(self) -> Iterator[Case]:
        """Pair by pair, condition by condition, a few positions at a time."""
        index = 0
        for number, size in enumerate(self.sizes):
            for condition in self.conditions:
                for first in range(0, size, CHUNK):
                    last = min(first + CHUNK, size)
                    yield Case(index, f"{number}/{condition}/{first}", (number, condition, first, last))
                    index += 1

    def run(self, case: Case) -> Steps:
        """Ask about the clean image and each position, then compare."""
        number, condition, first, last = case.content
        scene = self.scene(number)
        places = scene.positions[first:last].tolist()
        before, *after = yield [
            Detect(scene.background),
            *(Detect(scene.picture(condition, x, y, self.scanning.seed)) for x, y in places),
        ]
        rows = self.rows(scene, condition, places, before, after)
        if self.scanning.trace and condition == OBJECT:
            yield from self.trace_losses(scene, rows)
        return rows

    def rows(
        self,
        scene: Scene,
        condition: str,
        places: Sequence[tuple[int, int]],
        before: Detections,
        after: Sequence[Detections],
    ) -> list[dict[str, Any]]:
        """The rows of the positions ``places`` (x, y), given D_∅ ``before`` and D_xy ``after`` at each."""
        corners = np.array(places, dtype=np.float64)
        boxes = np.concatenate([corners, corners + scene.cutout.size], axis=1)
        own = {
            "pair": scene.number,
            "condition": condition,
            "background": scene.background.id,
            "source": scene.cutout.sample,
            "annotation": scene.cutout.truth,
            "width": scene.background.width,
            "height": scene.background.height,
            "weight": 1.0,
        }
        compared = compare_all(before, after, boxes, scene.label, self.scanning.rules)
        return [
            own | {"x": x, "y": y} | position_row(at_place, scene.label)
            for (x, y), at_place in zip(places, compared, strict=True)
        ]

    def trace_losses(self, scene: Scene, rows: list[dict[str, Any]]) -> Steps:
        """Look inside the detector where an original was lost, and write into its row what became of its candidate."""
        lossy = [row for row in rows if any(o["outcome"] == LOST for o in row["objects"])]
        if lossy:
            clean = yield Trace(scene.background)
            for row in lossy:  # one at a time: the inside of a detector is large
                edited = yield Trace(scene.picture(OBJECT, row["x"], row["y"], self.scanning.seed))
                explain_losses(row, clean, edited, self.scanning.rules.score)
        return []


def _label(name: str, names: Sequence[str]) -> int:
    """T's class among the detector's ``names``, or -1."""
    try:
        return int(join_labels([name], names, "", "")[0])
    except BadSpec:
        return -1
