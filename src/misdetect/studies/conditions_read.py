"""The rows of ``studies.conditions`` read again: objects and detections of every condition, on the images that all of
them are done with. So a comparison of conditions is paired."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from misdetect.engine.store import Run
from misdetect.metrics.ap import average_precision
from misdetect.metrics.bootstrap import ends_of
from misdetect.metrics.columns import DetectionColumns, ImageRow, TruthColumns
from misdetect.metrics.paired import resampled_ap
from misdetect.metrics.slices import rate_intervals
from misdetect.nouns.boxes import SIDES, Bools, Floats, Ints
from misdetect.studies.conditions import CLEAN, VANILLA, Rules

Words = NDArray[np.object_]


@dataclass(frozen=True, eq=False)
class Objects:
    """Columns ``[N]`` of the objects that count, under one condition: ``image`` (an index), ``right`` before, ``found``
    under it, the ``mechanism`` of a miss ("" without one), and what it ``became`` ("" if not another class)."""

    image: Ints
    right: Bools
    found: Bools
    mechanism: Words
    became: Words

    @property
    def lost(self) -> Bools:
        """Right before, not found now."""
        return self.right & ~self.found


@dataclass(frozen=True, eq=False)
class Boxes:
    """Detections of one condition and variant, with what a confusion matrix needs: ``background`` and ``best`` scores
    ``[D]``, NaN where the detector shows neither."""

    columns: DetectionColumns
    background: Floats
    best: Floats

    @property
    def shows_background(self) -> bool:
        return not np.isnan(self.background).any()

    def above(self, score: float) -> "Boxes":
        """Those with a score of at least ``score``."""
        c, chosen = self.columns, self.columns.scores >= score
        part = DetectionColumns.of(c.image[chosen], c.label[chosen], c.boxes[chosen], c.scores[chosen])
        return Boxes(part, self.background[chosen], self.best[chosen])


class Shown(Rules, Protocol):
    """How it is shown: also from which seed images are drawn again, and the confidence of intervals."""

    @property
    def seed(self) -> int: ...
    @property
    def confidence(self) -> float: ...


class Conditions:
    """What ``run`` holds of the images that are done under all of the ``wanted`` conditions; of the images ``among``
    only, and in their order, if told."""

    how: Shown

    def __init__(self, run: Run, how: Shown, wanted: Sequence[str], among: Sequence[str] | None = None) -> None:
        self.run, self.how, self._wanted, self._among = run, how, wanted, among
        self.names: tuple[str, ...] = tuple(run.about["identity"]["data"]["names"])
        self._place = {name: i for i, name in enumerate(self.names)}

    @cached_property
    def images(self) -> list[str]:
        """Images that are done under every condition that is wanted, in the data's order."""
        done: dict[str, set[str]] = {}
        rows = self.run.query(
            "SELECT DISTINCT image, condition, min(case_index) AS first FROM rows GROUP BY ALL ORDER BY first"
        ).to_pylist()
        for row in rows:
            done.setdefault(row["image"], set()).add(row["condition"])
        whole = [image for image, found in done.items() if found >= set(self._wanted)]
        return whole if self._among is None else [image for image in self._among if image in set(whole)]

    def sources(self, condition: str) -> Mapping[str, str]:
        """Of each image that counts, the condition of the rows that are meant by ``condition``."""
        return dict.fromkeys(self.images, condition)

    def rows(self, kind: str, columns: str, condition: str, more: str = "") -> dict[str, list[Any]]:
        """Columns of the rows of one kind and condition, on the images that count."""
        sources = self.sources(condition)
        listed = sorted({condition, *sources.values()})
        found = self.run.query(
            f"SELECT image, condition, {columns} FROM rows WHERE kind = ? AND condition IN (SELECT unnest(?)) {more} "
            "ORDER BY case_index, row",
            [kind, listed],
        ).to_pydict()
        keep = [sources.get(image) == source for image, source in zip(found["image"], found["condition"], strict=True)]
        return {name: [v for v, k in zip(values, keep, strict=True) if k] for name, values in found.items()}

    @cached_property
    def _index(self) -> dict[str, int]:
        return {image: i for i, image in enumerate(self.images)}

    def objects(self, condition: str, among: "set[str] | None" = None) -> Objects:
        """The objects under ``condition``, of all images or of those in ``among``."""
        rows = self.rows("object", '"right", found, mechanism, became', condition)
        if among is not None:
            keep = [image in among for image in rows["image"]]
            rows = {name: [v for v, k in zip(values, keep, strict=True) if k] for name, values in rows.items()}
        return Objects(
            np.array([self._index[image] for image in rows["image"]], dtype=np.int64),
            np.array(rows["right"], dtype=np.bool_),
            np.array(rows["found"], dtype=np.bool_),
            np.array([m or "" for m in rows["mechanism"]], dtype=object),
            np.array([b or "" for b in rows["became"]], dtype=object),
        )

    @cached_property
    def truth(self) -> TruthColumns:
        """The objects that count and the crowds, for AP and confusion."""
        found = self.run.query(
            f"SELECT image, kind, id, label, width, height, {', '.join(SIDES)} FROM rows WHERE condition = 'clean' "
            "AND (kind = 'object' OR (kind = 'ignored' AND reason = 'crowd')) ORDER BY case_index, row"
        ).to_pylist()
        rows = sorted((r for r in found if r["image"] in self._index), key=lambda r: self._index[r["image"]])
        boxes = np.array([[row[side] for side in SIDES] for row in rows], dtype=np.float64).reshape(-1, 4)
        return TruthColumns(
            images=tuple(ImageRow(image, i, 1, 1) for i, image in enumerate(self.images)),
            names=self.names,
            image=np.array([self._index[row["image"]] for row in rows], dtype=np.int64),
            label=np.array([self._place[row["label"]] for row in rows], dtype=np.int64),
            boxes=boxes,
            areas=np.prod(boxes[:, 2:] - boxes[:, :2], axis=1),
            crowd=np.array([row["kind"] == "ignored" for row in rows], dtype=np.bool_),
            ids=np.array([row["id"] for row in rows], dtype=np.int64),
        )

    def boxes(self, condition: str, variant: str = VANILLA) -> Boxes:
        """The detections of ``condition`` and ``variant``."""
        columns = f"label, {', '.join(SIDES)}, score, background, best"
        rows = self.rows("detection", columns, condition, f"AND variant = '{variant}'")
        order = np.argsort([self._index[image] for image in rows["image"]], kind="stable")

        def column(name: str, of: Callable[[Any], Any] = lambda v: np.nan if v is None else v) -> Floats:
            return np.array([of(value) for value in rows[name]], dtype=np.float64)[order]

        found = DetectionColumns.of(
            np.array([self._index[image] for image in rows["image"]], dtype=np.int64)[order],
            np.array([self._place[label] for label in rows["label"]], dtype=np.int64)[order],
            np.stack([column(side) for side in SIDES], axis=1) if len(order) else np.zeros((0, 4)),
            column("score"),
        )
        return Boxes(found, column("background"), column("best"))

    def variants(self, condition: str) -> list[str]:
        """The ablations that there are of ``condition``, in the order of the rows."""
        found = self.run.query(
            "SELECT variant, min(row) AS first FROM rows WHERE kind = 'detection' AND condition = ? GROUP BY variant "
            "ORDER BY first",
            [condition],
        ).to_pylist()
        return [row["variant"] for row in found]

    def scores(self, boxes: Boxes, *, attacked: bool = False) -> dict[str, Any]:
        """``AP``, ``AP50`` and their intervals; of ``attacked`` images also the ``fall`` of AP50 from that of the clean
        ones, which are drawn alike."""
        found = average_precision(self.truth, boxes.columns).overall
        ap, ap50 = resampled_ap(self.truth, boxes.columns, seed=self.how.seed)
        sure = self.how.confidence
        told: dict[str, Any] = {"AP": found["AP"], "AP50": found["AP50"]}
        ends = {"AP": ends_of(ap, sure), "AP50": ends_of(ap50, sure)}
        if attacked:
            before, drawn = self._before
            told["fall"] = None if before is None or found["AP50"] is None else before - found["AP50"]
            ends["fall"] = ends_of(drawn - ap50, sure)
        return told | {"intervals": ends}

    @cached_property
    def _before(self) -> tuple[float | None, Floats]:
        """AP50 of the clean images, as measured and of the resamples."""
        columns = self.boxes(CLEAN).columns
        measured = average_precision(self.truth, columns).overall["AP50"]
        return measured, resampled_ap(self.truth, columns, seed=self.how.seed)[1]

    def success(self, objects: Objects) -> tuple[float | None, list[float] | None]:
        """The share of objects that were right before and are lost, with its interval."""
        return self.rate(objects.lost, objects.right, objects.image)

    def rate(self, hits: Bools, among: Bools, image: Ints) -> tuple[float | None, list[float] | None]:
        """Σ hits / Σ among, and its interval over images."""
        if not among.any():
            return None, None
        ((low, high),) = rate_intervals(
            hits[:, None].astype(float),
            among[:, None].astype(float),
            image,
            confidence=self.how.confidence,
            seed=self.how.seed,
        )
        return float(hits.sum() / among.sum()), [low, high]
