"""Feature interference (paper 1, Fig. 3): is a wrong label the work of the box's inside, of its outside, or of both?

A wrong detection is one that lies on an object of another class: on T, or on an annotated object of the background. It
is looked at again with the outside of its box zeroed, with what is not the object inside it zeroed, with both, and with
noise outside (several times, as a rate). That is a run of its own, in the directory ``interference`` of the scan's.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from misdetect.compose.isolate import Inside, Isolate, Outside
from misdetect.data.dataset import Dataset
from misdetect.engine import run_study
from misdetect.engine.backend import Asking
from misdetect.engine.requests import Case, Detect, Steps
from misdetect.engine.store import RUN_JSON, Run
from misdetect.nouns.boxes import Bools, boxes_of, iou
from misdetect.nouns.detections import Detections
from misdetect.nouns.protocols import Detector
from misdetect.said.errors import RunMismatch
from misdetect.studies.scan.rows import OBJECT
from misdetect.studies.scan.settings import ScanSettings
from misdetect.studies.scan.study import OpenPair, ScanStudy

FOLDER = "interference"
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
_REPEATS = 10


@dataclass(frozen=True)
class Wrong:
    """A detection of class ``label`` at ``box`` while T is at ``x``, ``y`` of ``pair``, that lies on an object that is
    ``really`` of another class (both as the detector names them): row ``thing`` of the background's annotation, or T
    where that is -1."""

    pair: int
    x: int
    y: int
    box: tuple[float, float, float, float]
    label: str
    score: float
    thing: int
    really: str

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> "Wrong":
        """From ``run.json``."""
        return cls(**{**document, "box": tuple(document["box"])})


def wrong_detections(run: Run, study: ScanStudy, most: int) -> list[Wrong]:
    """The ``most`` most confident wrong detections of a scan, one per object and class it is taken for."""
    rows = run.query(
        "SELECT * FROM (SELECT pair, x, y, unnest(new) AS found FROM rows WHERE condition = 'object' AND before > 0) "
        "ORDER BY pair, found.score DESC, y, x"
    ).to_pylist()
    found: dict[tuple[int, int, str], Wrong] = {}
    for row in rows:
        wrong = _wrong(row, study.open_pair(row["pair"]), study)
        if wrong is not None:
            found.setdefault((wrong.pair, wrong.thing, wrong.label), wrong)
    return sorted(found.values(), key=lambda wrong: (-wrong.score, wrong.pair, wrong.y, wrong.x))[:most]


def _wrong(row: dict[str, Any], pair: OpenPair, study: ScanStudy) -> Wrong | None:
    found = row["found"]
    x0, y0, x1, y1 = boxes_of([found])[0].tolist()
    thing, label = -1, pair.label
    if not found["own"]:
        annotated = pair.background.truth
        overlap = iou([[x0, y0, x1, y1]], annotated.boxes)[0]
        if not len(overlap) or overlap.max() < _SAME_PLACE:
            return None
        thing = int(overlap.argmax())
        label = int(study.joined.to_detector[annotated.labels[thing]])
    if label < 0 or study.names[label] == found["label"]:
        return None
    place = row["pair"], row["x"], row["y"]
    return Wrong(*place, (x0, y0, x1, y1), found["label"], found["score"], thing, study.names[label])


class InterferenceStudy:
    """Takes ``wrongs`` of the ``scan`` with the run id ``scanned`` apart; noise is drawn ``repeats`` times."""

    name = "scan-interference"
    schema = pa.schema(
        [
            ("wrong", pa.int32()),
            ("view", pa.string()),
            ("repeat", pa.int32()),
            ("label", pa.string()),
            ("score", pa.float64()),
        ]
    )

    def __init__(self, scan: ScanStudy, scanned: str, wrongs: Sequence[Wrong], repeats: int = _REPEATS) -> None:
        self.scan, self.scanned, self.wrongs, self.repeats = scan, scanned, tuple(wrongs), repeats

    @property
    def data(self) -> Dataset:
        """That of the scan."""
        return self.scan.data

    def __len__(self) -> int:
        return len(self.wrongs)

    def settings(self) -> dict[str, Any]:
        """What decides the rows."""
        wrongs = [{**asdict(wrong), "box": list(wrong.box)} for wrong in self.wrongs]
        return {"scan": self.scanned, "repeats": self.repeats, "wrongs": wrongs}

    def cases(self) -> Iterator[Case]:
        """One case per wrong detection."""
        return (Case(i, f"{wrong.pair}@{wrong.x},{wrong.y}") for i, wrong in enumerate(self.wrongs))

    def pictures(self, wrong: Wrong) -> list[tuple[str, int, Isolate]]:
        """Every view of a wrong detection: its name, the repeat, and the picture."""
        pair = self.scan.open_pair(wrong.pair)
        base = pair.picture(OBJECT, wrong.x, wrong.y, self.scan.how.seed)
        x0, y0, x1, y1 = wrong.box
        box = (int(np.floor(x0)), int(np.floor(y0)), int(np.ceil(x1)), int(np.ceil(y1)))
        mask = visible_mask(pair, wrong)
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
            {"wrong": case.index, "view": name, "repeat": repeat, **_in_place(found, wrong, self.scan.names)}
            for (name, repeat, _), found in zip(views, answers, strict=True)
        ]


def visible_mask(pair: OpenPair, wrong: Wrong) -> Bools:
    """The pixels ``[H, W]`` that belong to the object under a wrong detection and can be seen: T's own, or those of an
    annotated object that T does not cover."""
    covered = np.zeros((pair.background.height, pair.background.width), dtype=np.bool_)
    width, height = pair.cutout.size
    covered[wrong.y : wrong.y + height, wrong.x : wrong.x + width] = pair.cutout.mask
    if wrong.thing < 0:
        return covered
    masks = pair.background.truth.masks
    assert masks is not None, "pairs are drawn from data with masks"
    return np.asarray(masks[wrong.thing] & ~covered)


def _in_place(found: Detections, wrong: Wrong, names: Sequence[str]) -> dict[str, Any]:
    near = np.flatnonzero((iou([wrong.box], found.boxes)[0] >= _SAME_PLACE) & (found.scores >= _FAINTEST))
    if not near.size:
        return {"label": None, "score": None}
    best = int(near[found.scores[near].argmax()])
    return {"label": names[found.labels[best]], "score": float(found.scores[best])}


def take_apart(study: ScanStudy, detector: Detector, run: Run, settings: ScanSettings, asking: Asking) -> None:
    """Take the wrong detections of a finished ``run`` apart, as many as ``settings`` ask for. What an earlier sitting
    took apart is replaced where it was something else."""
    if not settings.interference:
        return
    wrongs = wrong_detections(run, study, settings.interference)
    apart, folder = InterferenceStudy(study, run.about["id"], wrongs), run.path / FOLDER
    try:
        run_study(apart, detector, folder, asking=asking, repair=settings.repair)
    except RunMismatch:
        Run.open(folder).discard()
        run_study(apart, detector, folder, asking=asking, repair=settings.repair)


def taken_apart(run: Run) -> Run | None:
    """The run in which wrong detections of ``run`` were taken apart; ``None`` where none were."""
    folder = run.path / FOLDER
    return Run.open(folder) if (folder / RUN_JSON).exists() else None


def wrongs_of(apart: Run) -> dict[int, Wrong]:
    """The wrong detections that were taken apart, by number; those that failed are left out."""
    done = apart.done() - apart.failed()
    return {i: Wrong.of(each) for i, each in enumerate(apart.settings["wrongs"]) if i in done}


def verdicts(apart: Run) -> list[dict[str, Any]]:
    """For each wrong detection its views (label, mean score, rate at which it is right or still the wrong one) and
    whether the inside, the outside, both or neither decide its label."""
    found = []
    for number, wrong in wrongs_of(apart).items():
        rows = apart.query("SELECT view, label, score FROM rows WHERE wrong = ? ORDER BY row", [number]).to_pylist()
        views = {name: [row for row in rows if row["view"] == name] for name, _, _ in VIEWS}
        found.append(
            {
                **{name: getattr(wrong, name) for name in ("pair", "x", "y", "score")},
                "box": [round(v, 1) for v in wrong.box],
                "detected_as": wrong.label,
                "really": wrong.really,
                "views": {name: _view(each, wrong) for name, each in views.items()},
                "decided_by": decided_by({name: [row["label"] for row in each] for name, each in views.items()}),
            }
        )
    return found


def decided_by(labels: Mapping[str, Sequence[str | None]]) -> str:
    """What decides the label, given those of each view: what it changes when the inside or the outside goes, whether
    the other is there or not. Noise outside counts if it mostly gives something else than zeros."""
    as_it_is, no_outside, no_inside, neither = (labels[name][0] for name, outside, _ in VIEWS if outside != "noise")

    def mostly_other(name: str, label: str | None) -> bool:
        return sum(each != label for each in labels[name]) > len(labels[name]) / 2

    inside = no_inside != as_it_is or neither != no_outside
    outside = no_outside != as_it_is or neither != no_inside
    outside |= mostly_other("noise outside", no_outside) or mostly_other("noise outside, inside zeroed", neither)
    if inside and outside:
        return "both"
    return "inside" if inside else "outside" if outside else "neither"


def _view(rows: list[dict[str, Any]], wrong: Wrong) -> dict[str, Any]:
    labels = [row["label"] for row in rows]
    common = max(sorted(set(labels), key=str), key=labels.count)
    scores = [row["score"] for row in rows if row["label"] == common and row["score"] is not None]
    return {
        "label": common,
        "score": round(float(np.mean(scores)), 3) if scores else None,
        "right": round(100 * labels.count(wrong.really) / len(labels), 1),
        "still_wrong": round(100 * labels.count(wrong.label) / len(labels), 1),
        "times": len(rows),
    }
