"""Several score runs side by side: how AP differs, of all and of each class, drawing the same images for both.

Only runs that scored the same objects by the same rules are compared so, on the images that both scored. A thousand
matchings are not needed: both runs are matched once, and a resample weighs their images (``metrics.paired``).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from misdetect.engine.store import Run
from misdetect.metrics.ap import IOU_THRESHOLDS
from misdetect.metrics.bootstrap import change, resamples, with_measured
from misdetect.metrics.columns import TruthColumns
from misdetect.metrics.paired import REPEATS, Boxes, Objects, Precision, mean_over_classes
from misdetect.metrics.scoring import distinct
from misdetect.nouns.boxes import Floats, Ints
from misdetect.studies.contract import Document
from misdetect.studies.differences import differences, other_rules
from misdetect.studies.score.document import settings_of
from misdetect.studies.score.rows import COLUMNS, columns_of
from misdetect.studies.score.settings import ScoreSettings

NUMBERS: Mapping[str, slice | int] = {
    "AP": slice(None),
    "AP50": IOU_THRESHOLDS.index(0.5),
    "AP75": IOU_THRESHOLDS.index(0.75),
}
"""What is compared, and the IoU thresholds that each is the mean of."""


@dataclass(frozen=True, eq=False)
class Scored:
    """A run as it is compared: ``how`` it was scored, its ``truth`` and what was ``found``, of each image what it is
    called ("" where it has no row), and the ``fingerprint`` of the data."""

    how: ScoreSettings
    truth: TruthColumns
    found: Boxes
    named: list[str]
    fingerprint: str
    _drawn: dict[bytes, tuple[Precision, Floats]] = field(default_factory=dict)

    @classmethod
    def of(cls, run: Run) -> "Scored":
        """Of the rows of ``run``."""
        how = settings_of(run)
        data = run.about["identity"]["data"]
        truth, found, _ = columns_of(run.query(f"SELECT {COLUMNS} FROM rows"), data["names"], data["images"])
        named = [""] * data["images"]
        for row in run.query("SELECT case_index, any_value(image) AS image FROM rows GROUP BY case_index").to_pylist():
            named[row["case_index"]] = str(row["image"])
        boxes = Boxes(found.image, found.label, found.boxes, found.scores)
        return cls(how, truth, boxes, named, data["fingerprint"])

    def objects(self, images: Ints) -> Objects:
        """The annotations of some ``images``, which are numbered anew."""
        t = self.truth
        every = Objects(len(t.images), t.image, t.label, t.boxes, t.crowd)
        return every if len(images) == len(t.images) else every.of(images.tolist())

    def drawn(self, images: Ints, seed: int) -> tuple[Precision, Floats]:
        """How ``images`` are matched, and AP ``[C, 1 + R, 10]``: what was measured before what was drawn. Other
        comparisons of the same images find it ready."""
        key = images.tobytes()
        if key not in self._drawn:
            found = self.found if len(images) == len(self.truth.images) else self.found.of(images.tolist())
            precision = Precision(self.objects(images), found, most=self.how.max_detections)
            draws = with_measured(resamples(len(images), REPEATS, seed))
            self._drawn[key] = precision, precision.by_class(draws)
        return self._drawn[key]


def compare(runs: Mapping[str, Run], confidence: float, seed: int) -> Document:
    """``differences``: for every two runs over the same objects how AP differs; why not, of the others."""

    def between(one: Scored, other: Scored) -> Document | str:
        images = _common(one, other)
        if (why := _why_not(one, other, images)) is not None:
            return why
        (precision, first), (_, second) = (each.drawn(i, seed) for each, i in zip((one, other), images, strict=True))
        left_out = [len(each.named) - len(images[0]) for each in (one, other)]
        changes = _changes(distinct(one.truth.names), precision, first, second, confidence)
        return {"images": len(images[0]), "left_out": left_out, **changes}

    return differences({name: Scored.of(run) for name, run in runs.items()}, between)


def _common(one: Scored, other: Scored) -> tuple[Ints, Ints]:
    """The images that both scored, as numbers of each. Of one that has no row it is known only by its place that it was
    scored: where both count the images of the same data in the same order."""
    places = {name: i for i, name in enumerate(other.named) if name}
    both = [(i, places[name]) for i, name in enumerate(one.named) if name in places]
    if one.fingerprint == other.fingerprint and all(i == j for i, j in both):
        every = np.arange(min(len(one.named), len(other.named)))
        return every, every
    first, second = np.array(both, dtype=np.int64).reshape(-1, 2).T.copy()
    return first, second


def _why_not(one: Scored, other: Scored, images: tuple[Ints, Ints]) -> str | None:
    if (why := other_rules(one.how, other.how, ("masks", "max_detections"))) is not None:
        return why
    if one.how.masks:
        return "compare masks, and images are drawn again for boxes only"
    a, b = (each.objects(i) for each, i in zip((one, other), images, strict=True))
    same = a.images > 0 and one.truth.names == other.truth.names and len(a.label) == len(b.label)
    same = same and all(np.array_equal(getattr(a, key), getattr(b, key)) for key in ("image", "label", "crowd"))
    return None if same and np.allclose(a.boxes, b.boxes, atol=0.01) else "did not score the same objects"


def _changes(names: list[str], precision: Precision, first: Floats, second: Floats, confidence: float) -> Document:
    """Second less first; both ``[C, 1 + R, 10]``."""
    classes = {
        names[label]: {key: _change(first[i], second[i], places, confidence) for key, places in NUMBERS.items()}
        for i, label in enumerate(precision.labels)
    }
    both = mean_over_classes(first), mean_over_classes(second)
    overall = {key: _change(*both, places, confidence) for key, places in NUMBERS.items()}
    return {**overall, "by_class": dict(sorted(classes.items()))}


def _change(first: Floats, second: Floats, places: slice | int, confidence: float) -> Document | None:
    a, b = (values[:, places].reshape(len(values), -1).mean(axis=1) for values in (first, second))
    return change(a, b, confidence)
