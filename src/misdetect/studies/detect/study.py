"""The detections on every image: a case and a question per image, a row per detection."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from misdetect.data.dataset import Dataset
from misdetect.data.opened import Opened
from misdetect.engine.backend import Asking
from misdetect.engine.requests import Case, Detect, Steps
from misdetect.engine.store import Run
from misdetect.nouns.boxes import sides
from misdetect.nouns.labels import join_labels
from misdetect.nouns.open_names import names_in
from misdetect.nouns.protocols import Detector
from misdetect.studies.coco_results import coco_results, write_results
from misdetect.studies.columns import box
from misdetect.studies.contract import Document, Headline
from misdetect.studies.joined import ImageStudy
from misdetect.studies.running import Running


@dataclass(frozen=True, kw_only=True)
class DetectSettings(Running):
    """Run a detector over data and write COCO results (category ids of the data).

    Interrupted or killed, the same command goes on where it stopped: what is finished waits in OUT.partial.
    """


class DetectStudy(ImageStudy):
    """Detections on every image of ``opened``, for a detector with class ``names``."""

    name = "detect"
    schema: pa.Schema = pa.schema(
        [
            ("image", pa.string()),
            ("label", pa.string()),
            ("score", pa.float64()),
            *box(),
            ("mask", pa.string()),
        ]
    )

    def __init__(self, opened: Opened, names: Sequence[str]) -> None:
        super().__init__(opened, names)
        self.how = DetectSettings()  # nothing beside detector and data decides the rows

    def run(self, case: Case) -> Steps:
        """Ask once; a row per detection."""
        found = yield Detect(self.data[case.index])
        return [
            {
                "image": case.id,
                "label": self.names[label],
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


def results(run: Run, data: Dataset, path: Path) -> tuple[Document, list[str]]:
    """Write the COCO results of ``run`` to ``path``; how many detections they hold, and how many are of classes that
    the data does not have."""
    records = coco_results(run, data)
    write_results(path, records)
    every = int(run.query("SELECT count(*) AS n FROM rows")["n"][0].as_py())
    without = every - len(records)
    notes = [f"{without} detections of classes that the data does not have were left out."] if without else []
    return {"detections": len(records), "unknown_class": without}, notes
