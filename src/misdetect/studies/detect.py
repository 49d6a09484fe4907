"""``detect``: the plainest study. One case per image, one row per detection; what every other study is built like."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from misdetect.boxes import SIDES, sides
from misdetect.data.dataset import Dataset
from misdetect.data.opened import Opened
from misdetect.engine.backend import Asking
from misdetect.engine.requests import Case, Detect, Steps
from misdetect.engine.store import Run
from misdetect.files import write_atomically
from misdetect.labels import join_labels
from misdetect.protocols import Detector
from misdetect.studies.contract import Document, Headline, Kind, Running


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
            *((name, pa.float64()) for name in SIDES),
            ("mask", pa.string()),
        ]
    )

    def __init__(self, opened: Opened, names: Sequence[str]) -> None:
        self._opened, self._names = opened, tuple(names)

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
    return DetectStudy(Opened(data), run.about["identity"]["detector"]["names"])


DETECT = Kind("detect", DetectSettings, prepare, document, ledger, sentences, numbers, rebuild)


def coco_results(run: Run, data: Dataset) -> list[dict[str, Any]]:
    """COCO result records of ``run``, in the order of ``data``.

    Detections of classes that the data does not have are left out. Data without any classes gets the detector's labels,
    counted from 1.
    """
    detector = run.about["identity"]["detector"]
    own = {name: i for i, name in reversed(list(enumerate(detector["names"])))}
    to_data = join_labels(detector["names"], data.names, detector["spec"] or "the detector", data.spec)
    images = {sample.id: sample for sample in data}
    records = []
    for row in run.table().to_pylist():
        number = own[row["label"]]
        label = int(to_data[number])
        if data.names and label < 0:
            continue
        sample = images[row["image"]]
        x0, y0, x1, y1 = (row[name] for name in SIDES)
        record = {
            "image_id": sample.image_id,
            "category_id": data.category_ids[label] if data.names else number + 1,
            "bbox": [round(x0, 3), round(y0, 3), round(x1 - x0, 3), round(y1 - y0, 3)],
            "score": round(row["score"], 6),
        }
        if row["mask"] is not None:
            record["segmentation"] = {"size": [sample.height, sample.width], "counts": row["mask"]}
        records.append(record)
    return records


def write_results(path: Path, records: list[dict[str, Any]]) -> None:
    """Write COCO results, one record a line, whole or not at all."""
    write_atomically(path, ("[" + ",\n".join(json.dumps(record) for record in records) + "]\n").encode())
