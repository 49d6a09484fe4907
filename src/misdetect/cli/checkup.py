"""``misdetect checkup``: every study that the detector and the data allow, one summary at the end: the main job."""

import json as json_format
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from misdetect.cli.explain import explained
from misdetect.cli.explain import show as show_explain
from misdetect.cli.running import Asking, NoCache, Workers
from misdetect.cli.score import WORST
from misdetect.cli.score import show as show_score
from misdetect.cli.shell import Document, Json, Limit, present
from misdetect.data.dataset import Dataset
from misdetect.detectors import load_detector
from misdetect.detectors.predictions import StoredPredictions, detection_columns, read_results
from misdetect.files import write_atomically
from misdetect.labels import join_labels
from misdetect.metrics.columns import truth_columns
from misdetect.metrics.scoring import score
from misdetect.protocols import Detector, Traced, level, require
from misdetect.studies.detect import DetectStudy, coco_results, write_results
from misdetect.studies.explain import Explaining, ExplainStudy

ELSEWHERE = ("scan", "fuzz")
NOT_YET = ("verify", "attack", "harden")


def checkup(
    out: Annotated[Path, typer.Option("--out", help="Folder for everything that is found.")],
    detector: Annotated[str, typer.Option("--detector", help="Detector spec.")] = "zoo:yolox",
    data: Annotated[str, typer.Option("--data", help="Data spec.")] = "rooms:val",
    limit: Limit = None,
    workers: Workers = 1,
    no_cache: NoCache = False,
    json: Json = False,
) -> None:
    """Everything misdetect can say about a detector, by default the embedded one on embedded data."""
    model: Detector = require(
        load_detector(detector), Detector, "checkup", "score takes stored predictions as they are"
    )
    asking = Asking(detector, workers, no_cache=no_cache)
    study = DetectStudy(data, limit)
    found, scored = _detect_and_score(asking, study, model, out, limit)
    inside = isinstance(model, Traced)
    explain_study = ExplainStudy(data, model.names, Explaining(inside=inside), limit)
    explanation = explained(asking, explain_study, model, out / "explain", limit)
    document = {
        "detector": {"spec": detector, "level": level(model), "settings": getattr(model, "settings", {})},
        "data": {"spec": data, "images": len(study.data), "fingerprint": study.data.fingerprint, "limit": limit},
        "detect": found,
        "score": scored,
        "explain": explanation,
        "elsewhere": list(ELSEWHERE),
        "not_yet": list(NOT_YET),
        "out": str(out),
    }
    document = json_format.loads(json_format.dumps(document, default=str))
    text = json_format.dumps(_timeless(document), sort_keys=True, indent=2) + "\n"
    write_atomically(out / "checkup.json", text.encode())
    present(document, json, _show)


def _detect_and_score(
    asking: Asking, study: DetectStudy, model: Detector, out: Path, limit: int | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    data: Dataset = study.data
    labels = join_labels(model.names, data.names, asking.detector, data.spec)
    outcome = asking.run(study, model, out / "detect", data, limit)
    write_results(out / "results.json", coco_results(outcome.run.table(), data, labels))
    truth = truth_columns(data)
    stored = StoredPredictions(read_results(out / "results.json"))
    return outcome.document(), score(truth, detection_columns(stored, truth, data)).document(worst=WORST)


def _timeless(value: Any) -> Any:
    """``value`` without what differs from one sitting to the next: wall-clock, and what came from the cache."""
    if not isinstance(value, dict):
        return value
    return {key: _timeless(inner) for key, inner in value.items() if key not in ("timing", "engine")}


def _show(console: Console, document: Document) -> None:
    detector, data, out = document["detector"], document["data"], document["out"]
    console.print(f"{detector['spec']} ({detector['level']}) on {data['spec']}\n", style="bold", markup=False)
    show_score(console, document["score"])
    console.print("\nWhy objects were missed\n", style="bold")
    show_explain(console, document["explain"])
    console.print(f"\nDone: detect, score, explain -> {out}", markup=False)
    console.print(f"With a verb of their own: {', '.join(document['elsewhere'])}.", markup=False)
    console.print(f"Not in this version: {', '.join(document['not_yet'])}.", markup=False)
