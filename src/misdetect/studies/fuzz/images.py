"""The failing images of a campaign as data to train on, the worst first, labelled as their backgrounds are (paper 4).

What the inserted object hides nearly all of can be found by nobody; its annotation is left out, marked or kept.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from misdetect.data.dataset import Dataset, Sample
from misdetect.engine.store import Run
from misdetect.nouns.boxes import Floats, boxes_of, xyxy_to_xywh
from misdetect.nouns.detections import Truth
from misdetect.nouns.picture import Picture, Pixels, digest
from misdetect.said.errors import BadData, BadSpec
from misdetect.studies.contract import Hidden, Inserted
from misdetect.studies.fuzz.campaign import rebuild
from misdetect.studies.fuzz.failures import counted
from misdetect.studies.fuzz.results import Campaign, Order, Row, order
from misdetect.studies.fuzz.rows import Insertion

WHICH = ("attributable", "all", "any")
HIDDEN = 0.9
"""Share of an annotation's own pixels under the inserted object, above which it counts as hidden."""
_SOUND: Order = (True, True, True, 0.0, 0)
"""Where what does not fail comes."""
_TOLD = ("type", "label", "became", "object", "effect", "harm", "score", "after", "attributable")


class _Drawn:
    """A picture as the source of a sample."""

    def __init__(self, picture: Picture) -> None:
        self._picture = picture

    def read(self) -> Pixels:
        return self._picture.render()

    def key(self) -> str:
        return self._picture.key


class FailingImages:
    """The synthetic images of ``run``, a campaign on ``data``, that fail: those whose failure is the inserted object's
    doing ("attributable"), or "all"; or "any" that was asked about, failing or not. ``inserted``: whether that object
    is annotated too; the paper leaves it out. ``hidden``: whether annotations that it hides are dropped, marked as
    crowds (which are neither to be found nor wrong), or kept."""

    def __init__(self, run: Run, data: Dataset, which: str, inserted: Inserted, hidden: Hidden) -> None:
        campaign = Campaign.of(run)
        self.which, self._data, self._inserted, self._hidden = which, data, inserted, hidden
        self._flicker = campaign.how.count_flicker
        rows = [row for row in campaign.failing if row["attributable"] or which == "all"]
        if which == "any":
            rows = campaign.asked
        if not rows:
            raise BadData("no case of this run fails in that way, so there is nothing to export.")
        worst = (min((order(row, change) for change in self._failures(row)), default=_SOUND) for row in rows)
        self._rows = [row for _, row in sorted(zip(worst, rows, strict=True), key=lambda pair: pair[0])]
        self._part = digest(run.about["id"], [row["case"] for row in self._rows], inserted, hidden)
        self._bench = rebuild(run, data).bench
        self._covered = lru_cache(64)(self._share_covered)

    def _failures(self, row: Row) -> list[Mapping[str, Any]]:
        return counted(row, self._flicker)

    @property
    def backgrounds(self) -> list[str]:
        """The photo that each image was made of."""
        return [row["image"] for row in self._rows]

    def dataset(self) -> Dataset:
        """The images, the worst first."""
        data = self._data
        return Dataset(
            f"{data.spec} with inserted objects", data.names, len(self._rows), self._sample,
            fingerprint=data.fingerprint, category_ids=data.category_ids, part=self._part,
        )  # fmt: skip

    def about(self, i: int) -> dict[str, Any]:
        """What image ``i`` shows, for its record: the ``case`` to replay, what was ``inserted``, each of its
        ``failures`` with the box that was expected (``bbox`` x, y, width, height; of an extra detection its own), and
        the annotations that are ``hidden``."""
        row = self._rows[i]
        insertion, failures = Insertion.of_row(row), self._failures(row)
        boxes = xyxy_to_xywh(boxes_of(failures)).tolist()
        own = {"label": row["label"], "bbox": [*insertion.at, *insertion.size]}
        ids = np.asarray(self._bench.sample(insertion.image).truth.ids)
        return {
            "case": row["case"],
            "background": row["image"],
            "inserted": own,
            "failures": [
                {name: change[name] for name in _TOLD} | {"bbox": box}
                for change, box in zip(failures, boxes, strict=True)
            ],
            "hidden": ids[self._covered(i) > HIDDEN].tolist(),
        }

    def _sample(self, i: int) -> Sample:
        row = self._rows[i]
        insertion = Insertion.of_row(row)
        background = self._bench.sample(insertion.image)
        truth, hides = background.truth, self._covered(i) > HIDDEN
        if self._hidden == "drop":
            truth = truth[~hides]
        elif self._hidden == "mark":
            truth = replace(truth, crowd=np.asarray(truth.crowd) | hides)
        if self._inserted != "unlabelled" and row["label"] in self._data.names:
            label, crowd = self._data.names.index(row["label"]), self._inserted == "ignored"
            truth = _with(truth, insertion, label, crowd)
        name, picture = f"fuzz-{row['case_index']:06d}.png", _Drawn(self._bench.picture(insertion))
        return Sample(row["case"], picture, truth, background.width, background.height, i + 1, name)

    def _share_covered(self, i: int) -> Floats:
        """Share ``[N]`` of each annotation's pixels, by its mask or else its box, that the inserted object hides."""
        insertion = Insertion.of_row(self._rows[i])
        sample = self._bench.sample(insertion.image)
        pasted = np.zeros((sample.height, sample.width), dtype=np.bool_)
        x0, y0, x1, y1 = insertion.box
        pasted[y0:y1, x0:x1] = self._bench.shape(insertion)
        truth = sample.truth
        shares = np.zeros(len(truth))
        for number, (left, top, right, bottom) in enumerate(np.rint(truth.boxes).astype(int).tolist()):
            if truth.masks is not None and truth.masks.has(number):
                under = pasted[truth.masks[number]]
            else:
                under = pasted[top:bottom, left:right]
            shares[number] = under.mean() if under.size else 0.0
        return shares


def images(run: Run, data: Dataset, which: str | None, inserted: Inserted, hidden: Hidden) -> FailingImages:
    """The failing images of ``run``, by default those whose failure is the inserted object's doing."""
    if which is not None and which not in WHICH:
        raise BadSpec(f"which should be {' or '.join(WHICH)} for a run of fuzz. Got {which!r}.")
    return FailingImages(run, data, which or WHICH[0], inserted, hidden)


def _with(truth: Truth, insertion: Insertion, label: int, crowd: bool) -> Truth:
    """``truth`` and the inserted object; masks and states, which it has none of, are left out."""
    number = np.max(np.asarray(truth.ids), initial=0) + 1
    own = Truth(np.array([insertion.box]), np.array([label]), np.array([number]), np.array([crowd]))
    names = ("boxes", "labels", "ids", "crowd", "areas")
    boxes, labels, ids, crowds, areas = (np.concatenate([getattr(truth, n), getattr(own, n)]) for n in names)
    return Truth(boxes, labels, ids, crowds, areas)
