"""Feature interference (paper 1, Fig. 3): is a wrong label the work of the box's inside, of its outside, or of both?

A wrong detection is one that lies on an object of another class: on T, or on an annotated object of the background. It
is looked at again with the outside of its box zeroed, with what is not the object inside it zeroed, with both, and with
noise outside (several times, as a rate).
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from misdetect.boxes import Bools, iou
from misdetect.compose.isolate import Inside, Isolate, Outside
from misdetect.detections import Detections
from misdetect.engine.requests import Case, Detect, Steps
from misdetect.engine.store import Run
from misdetect.labels import join_labels
from misdetect.studies.scan.rows import BOX
from misdetect.studies.scan.study import OBJECT, ScanStudy, Scene

VIEWS: tuple[tuple[str, Outside, Inside], ...] = (
    ("as it is", "keep", "keep"),
    ("outside zeroed", "zero", "keep"),
    ("inside zeroed", "keep", "zero"),
    ("both zeroed", "zero", "zero"),
    ("noise outside", "noise", "keep"),
    ("noise outside, inside zeroed", "noise", "zero"),
)
_SAME_PLACE = 0.5
_FAINTEST = 0.1
"""Score below which a detection counts as none: a mutilated picture lowers all scores, but a guess is no label."""


@dataclass(frozen=True)
class Wrong:
    """A detection of class ``label`` at ``box`` while T is at ``x``, ``y`` of ``pair``, that lies on an object of class
    ``truth`` (the detector's labels): row ``thing`` of the background's annotation, or T where that is -1."""

    pair: int
    x: int
    y: int
    box: tuple[float, float, float, float]
    label: int
    score: float
    thing: int
    truth: int


def wrong_detections(run: Run, study: ScanStudy, most: int) -> list[Wrong]:
    """The ``most`` most confident wrong detections of a scan, one per object and class it is taken for."""
    rows = run.query(
        "SELECT * FROM (SELECT pair, x, y, unnest(new) AS found FROM rows WHERE condition = 'object' AND before > 0) "
        "ORDER BY pair, found.score DESC, y, x"
    ).to_pylist()
    found: dict[tuple[int, int, int], Wrong] = {}
    labels = _labels(study)
    for row in rows:
        wrong = _wrong(row, study.scene(row["pair"]), labels)
        if wrong is not None:
            found.setdefault((wrong.pair, wrong.thing, wrong.label), wrong)
    return sorted(found.values(), key=lambda wrong: (-wrong.score, wrong.pair, wrong.y, wrong.x))[:most]


def _labels(study: ScanStudy) -> dict[int, int]:
    """The detector's label of each of the data's classes that it knows."""
    joined = join_labels(study.names, study.data.names, "the detector", study.data.spec)
    return {int(data): label for label, data in enumerate(joined.tolist()) if data >= 0}


def _wrong(row: dict[str, Any], scene: Scene, labels: dict[int, int]) -> Wrong | None:
    found = row["found"]
    x0, y0, x1, y1 = (found[name] for name in BOX)
    if found["own"]:
        thing, truth = -1, scene.label
    else:
        annotated = scene.background.truth
        overlap = iou([[x0, y0, x1, y1]], annotated.boxes)[0]
        if not len(overlap) or overlap.max() < _SAME_PLACE:
            return None
        thing = int(overlap.argmax())
        truth = labels.get(int(annotated.labels[thing]), -1)
    if truth < 0 or truth == found["label"]:
        return None
    return Wrong(row["pair"], row["x"], row["y"], (x0, y0, x1, y1), found["label"], found["score"], thing, truth)


class InterferenceStudy:
    """Takes ``wrongs`` of a ``scan`` apart; noise is drawn ``repeats`` times."""

    name = "scan-interference"
    schema = pa.schema(
        [
            ("wrong", pa.int32()),
            ("view", pa.string()),
            ("repeat", pa.int32()),
            ("label", pa.int32()),
            ("score", pa.float64()),
        ]
    )

    def __init__(self, scan: ScanStudy, wrongs: Sequence[Wrong], repeats: int = 10) -> None:
        self.scan, self.wrongs, self.repeats = scan, tuple(wrongs), repeats

    def __len__(self) -> int:
        return len(self.wrongs)

    def settings(self) -> dict[str, Any]:
        """What decides the rows."""
        return {**self.scan.settings(), "repeats": self.repeats, "wrongs": [asdict(wrong) for wrong in self.wrongs]}

    def cases(self) -> Iterator[Case]:
        """One case per wrong detection."""
        return (Case(i, f"{wrong.pair}@{wrong.x},{wrong.y}") for i, wrong in enumerate(self.wrongs))

    def pictures(self, wrong: Wrong) -> list[tuple[str, int, Isolate]]:
        """Every view of a wrong detection: its name, the repeat, and the picture."""
        scene = self.scan.scene(wrong.pair)
        base = scene.picture(OBJECT, wrong.x, wrong.y, self.scan.scanning.seed)
        x0, y0, x1, y1 = wrong.box
        box = (int(np.floor(x0)), int(np.floor(y0)), int(np.ceil(x1)), int(np.ceil(y1)))
        mask = visible_mask(scene, wrong)
        return [
            (name, repeat, Isolate(base, box, mask, outside, inside, seed=repeat))
            for name, outside, inside in VIEWS
            for repeat in range(self.repeats if outside == "noise" else 1)
        ]

    def run(self, case: Case) -> Steps:
        """Ask about every view; a row each, with the best-scored detection in the same place."""
        wrong = self.wrongs[case.index]
        views = self.pictures(wrong)
        answers = yield [Detect(picture) for _, _, picture in views]
        return [
            {"wrong": case.index, "view": name, "repeat": repeat, **_in_place(found, wrong)}
            for (name, repeat, _), found in zip(views, answers, strict=True)
        ]


def visible_mask(scene: Scene, wrong: Wrong) -> Bools:
    """The pixels ``[H, W]`` that belong to the object under a wrong detection and can be seen: T's own, or those of an
    annotated object that T does not cover."""
    covered = np.zeros((scene.background.height, scene.background.width), dtype=np.bool_)
    width, height = scene.cutout.size
    covered[wrong.y : wrong.y + height, wrong.x : wrong.x + width] = scene.cutout.mask
    if wrong.thing < 0:
        return covered
    masks = scene.background.truth.masks
    assert masks is not None, "pairs are drawn from data with masks"
    return np.asarray(masks[wrong.thing] & ~covered)


def _in_place(found: Detections, wrong: Wrong) -> dict[str, Any]:
    near = np.flatnonzero((iou([wrong.box], found.boxes)[0] >= _SAME_PLACE) & (found.scores >= _FAINTEST))
    if not near.size:
        return {"label": None, "score": None}
    best = int(near[found.scores[near].argmax()])
    return {"label": int(found.labels[best]), "score": float(found.scores[best])}


def verdicts(run: Run, study: InterferenceStudy) -> list[dict[str, Any]]:
    """For each wrong detection its views (label, mean score, rate at which it is right or still the wrong one) and
    whether the inside, the outside, both or neither decide its label."""
    names = study.scan.names
    documents = []
    for number, wrong in enumerate(study.wrongs):
        rows = run.query("SELECT view, label, score FROM rows WHERE wrong = ? ORDER BY row", [number]).to_pylist()
        views = {name: [row for row in rows if row["view"] == name] for name, _, _ in VIEWS}
        plain = {name: found[0]["label"] for name, found in views.items() if len(found) == 1}

        def noisy(name: str, label: int | None, views: dict[str, list[Any]] = views) -> bool:
            changed = [row["label"] != label for row in views[name]]
            return bool(sum(changed) > len(changed) / 2)

        inside = plain["inside zeroed"] != plain["as it is"] or plain["both zeroed"] != plain["outside zeroed"]
        outside = plain["outside zeroed"] != plain["as it is"] or plain["both zeroed"] != plain["inside zeroed"]
        outside |= noisy("noise outside", plain["outside zeroed"])
        outside |= noisy("noise outside, inside zeroed", plain["both zeroed"])
        documents.append(
            {
                **{name: getattr(wrong, name) for name in ("pair", "x", "y", "score")},
                "box": [round(v, 1) for v in wrong.box],
                "detected_as": names[wrong.label],
                "really": names[wrong.truth],
                "views": {name: _view(found, wrong, names) for name, found in views.items()},
                "decided_by": {
                    (True, True): "both",
                    (True, False): "inside",
                    (False, True): "outside",
                    (False, False): "neither",
                }[inside, outside],
            }
        )
    return documents


def _view(rows: list[dict[str, Any]], wrong: Wrong, names: Sequence[str]) -> dict[str, Any]:
    labels = [row["label"] for row in rows]
    common = max(sorted(set(labels), key=str), key=labels.count)
    scores = [row["score"] for row in rows if row["label"] == common and row["score"] is not None]
    return {
        "label": None if common is None else names[common],
        "score": round(float(np.mean(scores)), 3) if scores else None,
        "right": round(100 * labels.count(wrong.truth) / len(labels), 1),
        "still_wrong": round(100 * labels.count(wrong.label) / len(labels), 1),
        "times": len(rows),
    }
