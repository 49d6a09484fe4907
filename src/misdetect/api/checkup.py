"""``checkup``: every study that a detector and its data allow, one summary: the main job."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Concatenate, ParamSpec, cast

from misdetect.api.doctor import doctor
from misdetect.api.run import Place, Run
from misdetect.api.score import score
from misdetect.api.studies import DataLike, DetectorLike, described, detect, explain, known_names
from misdetect.data import load_data
from misdetect.data.dataset import Dataset
from misdetect.detectors import load_detector
from misdetect.engine import Progress
from misdetect.errors import BadData
from misdetect.files import write_atomically
from misdetect.protocols import Detector, level
from misdetect.settings import PYTHON, RUNNING, Count, Heading, Range, Settings
from misdetect.studies.contract import Document, budget_file
from misdetect.studies.detect import coco_results, write_results

ELSEWHERE = ("scan", "fuzz")
NOT_YET = ("verify", "attack", "harden")
P = ParamSpec("P")
_HOW = Heading("Running")
_WIRING = 24
"""Images on which mistakes of wiring are looked for."""


@dataclass(frozen=True, kw_only=True)
class CheckupSettings(Settings):
    """Everything misdetect can say about a detector."""

    out: Annotated[Path | None, RUNNING, _HOW] = None
    """Folder for everything that is found; the same command goes on where it was interrupted."""
    limit: Annotated[Count | None, RUNNING, _HOW] = None
    """Use only the first N images."""
    workers: Annotated[int, RUNNING, _HOW, Range(1, 256)] = 1
    """Local processes, each with its own detector."""
    cache: Annotated[bool, RUNNING, _HOW] = True
    """Use answers of earlier runs, and remember those of this one."""
    doctor: Annotated[bool, RUNNING, _HOW] = True
    """Look for mistakes of wiring first, on a few dozen images."""
    progress: Annotated[Progress | None, PYTHON] = None
    """Called with cases done, cases in all and counts."""


class Checkup:
    """What was found: ``runs`` by study, and all of it as one ``document``, also in ``checkup.json`` in ``path``."""

    def __init__(self, place: Place, runs: Mapping[str, Run], document: Document) -> None:
        self.path, self.runs, self.document, self._place = place.path, dict(runs), document, place

    def __repr__(self) -> str:
        return "\n".join([f"checkup -> {self.path}", *(repr(run) for run in self.runs.values())])

    def _repr_html_(self) -> str:
        return "".join(f"<div>{run._repr_html_()}</div>" for run in self.runs.values())


def _function(settings: Callable[P, CheckupSettings]) -> Callable[Concatenate[DetectorLike, DataLike, P], Checkup]:
    def checkup(detector: DetectorLike, data: DataLike, *args: P.args, **kwargs: P.kwargs) -> Checkup:
        return _checkup(detector, data, settings(*args, **kwargs))

    return cast("Callable[Concatenate[DetectorLike, DataLike, P], Checkup]", described(checkup, settings))


def _checkup(detector: DetectorLike, data: DataLike, how: CheckupSettings) -> Checkup:
    place = Place(how.out)
    out = place.path
    # an endpoint's own limits hold for all studies together, so they share one count
    model = load_detector(detector, known_names(detector, out / "detect"), counted=budget_file(out))
    source = data if isinstance(data, str) else load_data(data, model.names)
    common: dict[str, Any] = {"limit": how.limit, "workers": how.workers, "cache": how.cache, "progress": how.progress}
    wiring = _wiring(model, source, out / "doctor", common) if how.doctor else None
    found = detect(model, source, out=out / "detect", **common)
    write_results(out / "results.json", coco_results(found.directory, found.data))
    scored = score(found, found.data, out=out / "score")
    explained = explain(model, source, out=out / "explain", **common)
    about = found.directory.about["identity"]["data"]
    runs = {"detect": found, "score": scored, "explain": explained}
    if wiring is not None:
        runs = {"doctor": wiring, **runs}
    document = {
        "detector": {
            "spec": getattr(model, "spec", None),
            "level": level(model),
            "settings": found.directory.about["detector_settings"],
        },
        "data": {key: about[key] for key in ("spec", "images", "fingerprint", "limit")},
        "doctor": None if wiring is None else {**wiring.document, **_sitting(wiring)},
        "detect": {**found.document, **_sitting(found)},
        "score": scored.document,
        "explain": {
            **explained.document,
            **_sitting(explained),
            "out": str(explained.path),
            "pictures": [str(path) for path in explained.figures()],
        },
        "elsewhere": list(ELSEWHERE),
        "not_yet": list(NOT_YET),
        "out": str(out),
    }
    text = json.dumps(_timeless(document), sort_keys=True, indent=2) + "\n"
    write_atomically(out / "checkup.json", text.encode())
    return Checkup(place, runs, document)


def _wiring(model: Detector, source: str | Dataset, out: Path, common: dict[str, Any]) -> Run | None:
    """Is it wired up right? ``None`` where there is too little data to tell."""
    try:
        return doctor(model, source, out=out, images=_WIRING, **common)
    except BadData:
        return None


def _sitting(run: Run) -> Document:
    return {} if run.outcome is None else run.outcome.document()


def _timeless(value: Any) -> Any:
    """``value`` without what differs from one sitting to the next: wall-clock, and what came from the cache."""
    if not isinstance(value, dict):
        return value
    return {key: _timeless(inner) for key, inner in value.items() if key not in ("timing", "engine")}


checkup = _function(CheckupSettings)
