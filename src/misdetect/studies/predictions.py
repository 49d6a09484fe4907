"""What can be scored: a COCO results file, a ``predictions:`` spec, or a run of ``detect``.

In ``run.json`` the predictions stand where other studies have their detector: what they are called, what they are known
by, and whose classes they have.
"""

from dataclasses import dataclass
from pathlib import Path

from misdetect.data.dataset import Dataset
from misdetect.detectors import load_any
from misdetect.detectors.catalogue import is_stored
from misdetect.detectors.predictions import StoredPredictions, read_results, results_in_pieces
from misdetect.engine.store import Run
from misdetect.nouns.picture import digest
from misdetect.said.errors import BadData, BadSpec
from misdetect.studies.coco_results import coco_results
from misdetect.studies.kinds import kind_of


@dataclass(frozen=True)
class Predictions:
    """``stored`` detections; ``spec`` and ``fingerprint`` identify them, ``names`` are the classes they can be of."""

    spec: str | None
    fingerprint: str
    names: tuple[str, ...]
    stored: StoredPredictions

    @classmethod
    def of(cls, given: str | Path | Run, data: Dataset) -> "Predictions":
        """``given`` as predictions of ``data``: a run of ``detect`` or its directory, a spec, or a results file."""
        if isinstance(given, Run) or Path(given).is_dir():
            return cls._of_run(given if isinstance(given, Run) else Run.open(given), data)
        text = str(given)
        stored = load_any(text) if is_stored(text) else StoredPredictions(read_results(text))
        if not isinstance(stored, StoredPredictions):  # of another package's family
            raise BadSpec(f"{text!r}: expected StoredPredictions. Got {type(stored).__name__}.")
        if stored.categories is None:
            return cls(stored.spec, stored.fingerprint, data.names, stored)
        known = tuple(stored.categories.values())
        return cls(stored.spec, digest(stored.fingerprint, stored.categories), known, stored)

    @classmethod
    def _of_run(cls, run: Run, data: Dataset) -> "Predictions":
        """What ``detect`` would write into a results file. They are called by the detector that made them."""
        if not kind_of(run.study).has("results"):
            raise BadData(f"{run.address} is a run of {run.study}; score takes one of detect.")
        if not run.finished:
            raise BadData(f"{run.address} is not finished: {len(run.done())} of {run.cases} images are done.")
        looked = {row["image"] for row in run.query("SELECT DISTINCT image FROM rows").to_pylist()}
        if strange := sorted(looked - {sample.id for sample in data}):
            raise BadData(
                f"{run.address} has detections on image {strange[0]!r}, which is not among the {len(data)} images of "
                f"{data.spec}; score it against the data that was predicted on."
            )
        detector = run.about["identity"]["detector"]
        fingerprint = digest(run.about["id"], sorted(run.failed()))
        results = results_in_pieces(coco_results(run, data), run.path, fingerprint)
        stored = StoredPredictions(results, spec=detector["spec"] or "")
        return cls(detector["spec"], fingerprint, tuple(detector["names"]), stored)
