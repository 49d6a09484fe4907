"""The detections of a run of detect as COCO results: one record a detection, read from its parts a few at a time."""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from misdetect.data.dataset import Dataset, Sample
from misdetect.engine.store import Run
from misdetect.kept.files import whole_file
from misdetect.nouns.boxes import SIDES
from misdetect.nouns.labels import join_labels
from misdetect.nouns.open_names import OpenNames, names_in

_AT_ONCE = 10_000
"""Rows of a run that are in memory while results are written."""
_IN_ORDER = f"SELECT image, label, score, {', '.join(SIDES)}, mask FROM rows ORDER BY case_index, row"


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
