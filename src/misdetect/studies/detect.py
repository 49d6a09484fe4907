"""``detect``: the plainest study. One case per image, one row per detection; what every other study is built like."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from misdetect.data.dataset import Dataset, Sample
from misdetect.data.opened import Opened
from misdetect.engine.backend import Asking
from misdetect.engine.requests import Case, Detect, Steps
from misdetect.engine.store import Run
from misdetect.kept.files import whole_file
from misdetect.nouns.boxes import SIDES, sides
from misdetect.nouns.labels import join_labels
from misdetect.nouns.open_names import OpenNames, fixed, names_in
from misdetect.nouns.protocols import Detector
from misdetect.studies.columns import box
from misdetect.studies.contract import Document, Headline, Kind, Running

_AT_ONCE = 10_000
"""Rows of a run that are in memory while results are written."""
_IN_ORDER = f"SELECT image, label, score, {', '.join(SIDES)}, mask FROM rows ORDER BY case_index, row"


@dataclass(frozen=True, kw_only=True)
class DetectSettings(Running):
    """Run a detector over data."""


class DetectStudy:
    """Detections on every image of ``opened``, for a detector with class ``names``."""

    name = "detect"
    schema = pa.schema(
        [
            ("image", pa.string()),
            ("label", pa.string()),
            ("score", pa.float64()),
            *box(),
            ("mask", pa.string()),
        ]
    )

    def __init__(self, opened: Opened, names: Sequence[str]) -> None:
        self._opened, self._names = opened, fixed(names)

    @property
    def data(self) -> Dataset:
        """What it looks at."""
        return self._opened.data

    def settings(self) -> dict[str, Any]:
        """Nothing beside detector and data decides the rows."""
        return {}

    def __len__(self) -> int:
        return len(self.data)

    def cases(self) -> Iterator[Case]:
        """One case per image, named by the sample."""
        return (Case(i, self.data[i].id) for i in range(len(self.data)))

    def run(self, case: Case) -> Steps:
        """Ask once; a row per detection."""
        found = yield Detect(self.data[case.index])
        return [
            {
                "image": case.id,
                "label": self._names[label],
                "score": score,
                **sides(box),
                "mask": None if found.masks is None else found.masks.rle(i)["counts"],
            }
            for i, (box, score, label) in enumerate(
                zip(found.boxes.tolist(), found.scores.tolist(), found.labels.tolist(), strict=True)
            )
        ]


def prepare(detector: Detector, opened: Opened, settings: DetectSettings, asking: Asking) -> DetectStudy:
    """Two that have no class in common are refused before anything is asked."""
    join_labels(detector.names, opened.data.names, getattr(detector, "spec", None) or "the detector", opened.data.spec)
    return DetectStudy(opened, detector.names)


def document(run: Run) -> Document:
    """How many detections there are, and how sure the detector is of them."""
    found = run.query(
        "SELECT count(*) AS detections, count(*) FILTER (score >= 0.5) AS sure, avg(score) AS mean FROM rows"
    ).to_pylist()[0]
    images = len(run.done()) - len(run.failed())
    return {
        "images": images,
        "detections": found["detections"],
        "detections_per_image": found["detections"] / images if images else None,
        "of_score_half": found["sure"],
        "mean_score": found["mean"],
    }


def ledger(run: Run) -> str:
    """One row per detection; whether it is right was not asked."""
    return (
        "SELECT \"case\", image, NULL AS object, 'clean' AS condition, false AS control, label, x0, y0, x1, y1, "
        "NULL AS outcome, 'unknown' AS harm, score FROM rows"
    )


def sentences(document: Document) -> list[str]:
    """What was found."""
    return [f"{document['detections']} detections on {document['images']} images."]


def numbers(document: Document) -> dict[str, Headline]:
    """For comparing runs."""
    names = ("images", "failed", "detections", "detections_per_image", "of_score_half", "mean_score")
    return {name: Headline(document[name]) for name in names}


def rebuild(run: Run, data: Dataset) -> DetectStudy:
    """The study of ``run`` again."""
    return DetectStudy(Opened(data), names_in(run.about["identity"]["detector"]))


DETECT = Kind("detect", DetectSettings, prepare, document, ledger, sentences, numbers, rebuild, open_names=True)


class CocoResults:
    """COCO result records of a run of detect, in the order of ``data``: a sequence that is read from the run's parts
    each time, a few at a time, since there may be millions.

    Detections of classes that the data does not have are left out. Data without any classes gets the detector's labels,
    counted from 1; where its names are open, the words it said, sorted.
    """

    def __init__(self, run: Run, data: Dataset) -> None:
        self._run, self._data = run, data
        detector = run.about["identity"]["detector"]
        counted = run.query("SELECT label, count(*) AS n FROM rows GROUP BY label").to_pylist()
        names: Sequence[str] = names_in(detector)
        if isinstance(names, OpenNames):  # by their exact text; without classes to join with, all that was said
            said = sorted({row["label"] for row in counted if row["label"] is not None})
            names = [name for name in said if name in data.names] if data.names else said
        to_data = join_labels(names, data.names, detector["spec"] or "the detector", data.spec)
        self._category: dict[str, int] = {}
        for number, (name, label) in enumerate(zip(names, to_data.tolist(), strict=True)):
            if label >= 0 or not data.names:
                self._category.setdefault(name, data.category_ids[label] if data.names else number + 1)
        self._length: int = sum(row["n"] for row in counted if row["label"] in self._category)

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[dict[str, Any]]:
        images = {sample.id: sample for sample in self._data}
        for batch in self._run.batches(_IN_ORDER, _AT_ONCE):
            for row in batch.to_pylist():
                if row["label"] in self._category:
                    yield self._record(row, images[row["image"]])

    def _record(self, row: dict[str, Any], sample: Sample) -> dict[str, Any]:
        x0, y0, x1, y1 = (row[name] for name in SIDES)
        record = {
            "image_id": sample.image_id,
            "category_id": self._category[row["label"]],
            "bbox": [round(x0, 3), round(y0, 3), round(x1 - x0, 3), round(y1 - y0, 3)],
            "score": round(row["score"], 6),
        }
        if row["mask"] is not None:
            record["segmentation"] = {"size": [sample.height, sample.width], "counts": row["mask"]}
        return record


def coco_results(run: Run, data: Dataset) -> CocoResults:
    """COCO result records of ``run``."""
    return CocoResults(run, data)


def write_results(path: Path, records: Iterable[dict[str, Any]]) -> None:
    """Write COCO results, one record a line, whole or not at all."""
    with whole_file(path) as file:
        before = b"["
        for record in records:
            file.write(before + json.dumps(record).encode())
            before = b",\n"
        file.write(b"[]\n" if before == b"[" else b"]\n")
