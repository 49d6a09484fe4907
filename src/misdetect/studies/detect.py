"""``detect``: the plainest study. One case per image, one row per detection; what every other study is built like."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from misdetect.boxes import Ints
from misdetect.data import load_data
from misdetect.data.dataset import Dataset
from misdetect.engine.requests import Case, Detect, Steps
from misdetect.files import write_atomically


class DetectStudy:
    """Detections on every image of ``data`` (a spec, or a ``Dataset``), at most ``limit`` images."""

    name = "detect"
    schema = pa.schema(
        [
            ("image", pa.string()),
            ("label", pa.int32()),
            ("score", pa.float64()),
            *((name, pa.float64()) for name in ("x0", "y0", "x1", "y1")),
            ("mask", pa.string()),
        ]
    )

    def __init__(self, data: str | Dataset, limit: int | None = None) -> None:
        self._spec, self._limit = data, limit
        self._data: Dataset | None = None

    @property
    def data(self) -> Dataset:
        """The data set, opened when first needed (a worker opens its own)."""
        if self._data is None:
            self._data = load_data(self._spec).limit(self._limit)
        return self._data

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_data": None}

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
                "label": label,
                "score": score,
                **dict(zip(("x0", "y0", "x1", "y1"), box, strict=True)),
                "mask": None if found.masks is None else found.masks.rle(i)["counts"],
            }
            for i, (box, score, label) in enumerate(
                zip(found.boxes.tolist(), found.scores.tolist(), found.labels.tolist(), strict=True)
            )
        ]


def coco_results(rows: pa.Table, data: Dataset, labels: Ints) -> list[dict[str, Any]]:
    """COCO result records of a run's ``rows``, in the order of the data.

    ``labels`` maps the detector's labels to the data's (``join_labels``); detections of classes that the data does not
    have are left out. Data without any classes gets the detector's labels, counted from 1.
    """
    images = {sample.id: sample for sample in data}
    records = []
    for row in rows.to_pylist():
        label = int(labels[row["label"]])
        if data.names and label < 0:
            continue
        sample = images[row["image"]]
        x0, y0, x1, y1 = (row[name] for name in ("x0", "y0", "x1", "y1"))
        record = {
            "image_id": sample.image_id,
            "category_id": data.category_ids[label] if data.names else row["label"] + 1,
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
