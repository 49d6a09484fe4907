"""The rows of an attack run, read again: objects and detections of every condition on the images that all have.

A comparison of conditions is paired: an image counts once every attack of the table is done with it. ``mtd`` is made
here: for each image what cls or loc left of it, whichever has the larger total loss.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from misdetect.engine.store import Run
from misdetect.metrics.ap import average_precision
from misdetect.metrics.bootstrap import interval
from misdetect.metrics.columns import DetectionColumns, ImageRow, TruthColumns
from misdetect.metrics.paired import resampled_ap
from misdetect.metrics.slices import rate_intervals
from misdetect.nouns.boxes import SIDES, Bools, Floats, Ints
from misdetect.studies.attack.plan import CLEAN, main_attacks
from misdetect.studies.attack.rows import VANILLA
from misdetect.studies.attack.settings import MTD, AttackSettings

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


class Results:
    """What ``run`` holds, as far as its cases are done; of the images ``among`` only, and in their order, if told."""

    def __init__(self, run: Run, how: AttackSettings, among: Sequence[str] | None = None) -> None:
        self.run, self.how, self._among = run, how, among
        self.names: tuple[str, ...] = tuple(run.about["identity"]["data"]["names"])
        self._place = {name: i for i, name in enumerate(self.names)}

    @cached_property
    def images(self) -> list[str]:
        """Images that are done under every condition of the table, in the data's order."""
        wanted = [CLEAN, *(attack.name for attack in main_attacks(self.how))]
        done: dict[str, set[str]] = {}
        rows = self.run.query(
            "SELECT DISTINCT image, condition, min(case_index) AS first FROM rows GROUP BY ALL ORDER BY first"
        ).to_pylist()
        for row in rows:
            done.setdefault(row["image"], set()).add(row["condition"])
        whole = [image for image, found in done.items() if found >= set(wanted)]
        return whole if self._among is None else [image for image in self._among if image in set(whole)]

    def on(self, images: Sequence[str]) -> "Results":
        """The same of some ``images`` only."""
        return Results(self.run, self.how, images)

    @cached_property
    def conditions(self) -> list[str]:
        """Those of the table: noise, fgsm, the losses, and mtd where it can be chosen."""
        own = [attack.name for attack in main_attacks(self.how)]
        return [*own, MTD] if {"cls", "loc"} <= set(own) else own

    @cached_property
    def about(self) -> list[dict[str, Any]]:
        """How each image was attacked."""
        found: list[dict[str, Any]] = self.run.query(
            "SELECT image, condition, losses, total, flat, change, pixels FROM rows WHERE kind = 'image' "
            "AND condition <> 'clean' ORDER BY case_index"
        ).to_pylist()
        return found

    @cached_property
    def chosen(self) -> dict[str, str]:
        """MTD's choice for each image: cls or loc, whichever has the larger total loss (cls if both have the same)."""
        total = {(row["image"], row["condition"]): row["total"] for row in self.about if row["total"] is not None}
        return {
            image: "loc" if total[image, "loc"] > total[image, "cls"] else "cls"
            for image in self.images
            if (image, "cls") in total and (image, "loc") in total
        }

    def _rows(self, kind: str, columns: str, condition: str, more: str = "") -> dict[str, list[Any]]:
        """Columns of the rows of one kind and condition, on the images that count; ``mtd`` picks for each image."""
        sources = ("cls", "loc") if condition == MTD else (condition,)
        listed = ", ".join(f"'{source}'" for source in sources)
        found = self.run.query(
            f"SELECT image, condition, {columns} FROM rows WHERE kind = ? AND condition IN ({listed}) {more} "
            "ORDER BY case_index, row",
            [kind],
        ).to_pydict()
        keep = [
            image in self._index and (condition != MTD or self.chosen.get(image) == source)
            for image, source in zip(found["image"], found["condition"], strict=True)
        ]
        return {name: [v for v, k in zip(values, keep, strict=True) if k] for name, values in found.items()}

    @cached_property
    def _index(self) -> dict[str, int]:
        return {image: i for i, image in enumerate(self.images)}

    def objects(self, condition: str, among: "set[str] | None" = None) -> Objects:
        """The objects under ``condition``, of all images or of those in ``among``."""
        rows = self._rows("object", '"right", found, mechanism, became', condition)
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
        rows = self._rows("detection", columns, condition, f"AND variant = '{variant}'")
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
        told: dict[str, Any] = {"AP": found["AP"], "AP50": found["AP50"]}
        ends = {"AP": self._ends(ap), "AP50": self._ends(ap50)}
        if attacked:
            before, drawn = self._before
            told["fall"] = None if before is None or found["AP50"] is None else before - found["AP50"]
            ends["fall"] = self._ends(drawn - ap50)
        return told | {"intervals": ends}

    @cached_property
    def _before(self) -> tuple[float | None, Floats]:
        """AP50 of the clean images, as measured and of the resamples."""
        columns = self.boxes(CLEAN).columns
        measured = average_precision(self.truth, columns).overall["AP50"]
        return measured, resampled_ap(self.truth, columns, seed=self.how.seed)[1]

    def _ends(self, samples: Floats) -> list[float] | None:
        low, high = (float(end) for end in interval(samples, self.how.confidence))
        return None if np.isnan(low) else [low, high]

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


def attacked_images(run: Run, condition: str, how: AttackSettings) -> Mapping[str, bytes]:
    """The kept adversarial images of ``condition`` as PNG, by image."""
    results = Results(run, how)
    rows = results._rows("image", "png", condition)
    return {image: data for image, data in zip(rows["image"], rows["png"], strict=True) if data is not None}
