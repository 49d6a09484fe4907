"""Everything a finished scan says, as one document: Table I, its null control, effects, pairs, settings."""

from typing import Any

from misdetect.engine.store import Run
from misdetect.studies.scan import effects
from misdetect.studies.scan.adaptive import AdaptiveScan
from misdetect.studies.scan.results import View, table_one
from misdetect.studies.scan.study import ScanStudy


def summarise(run: Run, study: ScanStudy, view: View) -> dict[str, Any]:
    """The document of ``run``; wall-clock and paths are not in it, so it is the same for the same seed."""
    pairs = effects.per_pair(run, view.taus)
    asked = run.query("SELECT count(*) AS rows, count(DISTINCT background) AS images FROM rows").to_pylist()[0]
    adaptive = None
    if isinstance(study, AdaptiveScan):
        adaptive = study.uncertainty(run, view.average) | {"positions": study.positions}
        adaptive["share"] = round(100 * adaptive["asked"] / study.positions, 2)
    return {
        **table_one(run, view),
        "positions": study.positions,
        "queries": asked["rows"] + asked["images"],
        "stability": effects.stability(run, study.scanning.step),
        "outcomes": effects.outcomes(run),
        "distance": effects.over_distance(run),
        "suppression": effects.suppression(run),
        "mechanisms": effects.mechanisms(run),
        "adaptive": adaptive,
        "pairs": pairs,
        "without_detections": [pair["background"] for pair in pairs if not pair["detections"]],
        "settings": _settings(study, view),
    }


def _settings(study: ScanStudy, view: View) -> dict[str, Any]:
    scanning, rules = study.scanning, study.scanning.rules
    return {
        "step": scanning.step,
        "seed": scanning.seed,
        "null": scanning.null,
        "trace": scanning.trace,
        "score": rules.score,
        "own": rules.own,
        "margin": rules.margin,
        "kept_iou": rules.kept,
        "same_iou": rules.same,
        "on_t_iou": rules.on_t,
        "taus": list(view.taus),
        "policy": view.policy,
        "average": view.average,
        "confidence": view.confidence,
        "resamples": view.repeats,
    }
