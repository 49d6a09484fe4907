"""The document of a score run: AP, AR, TIDE, per class and for the worst images, out of its rows."""

from typing import Any

from misdetect.engine.store import Run
from misdetect.metrics.degenerate import sentence
from misdetect.metrics.scoring import Score, score
from misdetect.studies.contract import Headline
from misdetect.studies.score.rows import COLUMNS, columns_of
from misdetect.studies.score.settings import ScoreSettings

WORST = 10


def settings_of(run: Run) -> ScoreSettings:
    """How ``run`` was made and is shown."""
    return ScoreSettings.of({**run.settings, **run.about["view"]})


def document(run: Run) -> dict[str, Any]:
    """The JSON-able document of ``run``."""
    identity = run.about["identity"]
    found = scored(run).document(worst=WORST)
    found["settings"] |= {
        "predictions": identity["detector"]["spec"],
        "predictions_fingerprint": identity["detector"]["fingerprint"],
        "truth": identity["data"]["spec"],
        "truth_fingerprint": identity["data"]["fingerprint"],
    }
    return found


def scored(run: Run) -> Score:
    """AP and TIDE of ``run``, computed from its rows."""
    how = settings_of(run)
    data = run.about["identity"]["data"]
    truth, found, assignment = columns_of(
        run.query(f"SELECT {COLUMNS} FROM rows"),
        data["names"],
        data["images"],
        masks=how.masks,
        left_out=run.about["left_out"],
    )
    return score(
        truth,
        found,
        masks=how.masks,
        max_detections=how.max_detections,
        tide_settings=how.tide,
        assignment=assignment,
    )


def sentences(document: dict[str, Any]) -> list[str]:
    """What was found, the most important first."""
    counts, ap = document["counts"], document["ap"]
    where = f"{counts['detections']} detections of {counts['objects']} objects on {counts['images']} images"
    if ap["AP"] is None:
        return [f"{where}: nothing is annotated here.", *document["notes"]]
    if document["degenerate"] is not None:
        return [sentence(document["degenerate"], counts["images"]), f"{where}."]
    found = [f"AP {ap['AP']:.3f}, AP50 {ap['AP50']:.3f}, AR {ap['AR100']:.3f}: {where}."]
    errors = {name: document["tide"][name] for name in ("Cls", "Loc", "Both", "Dupe", "Bkg", "Miss")}
    ranked = sorted(errors.items(), key=lambda item: -item[1])
    told = [f"{name} {points:.1f}" for name, points in ranked if points]
    found.append(f"TIDE, in points of AP50: {', '.join(told)}." if told else "TIDE finds no error.")
    return [*found, *document["notes"]]


def numbers(document: dict[str, Any]) -> dict[str, Headline]:
    """For comparing runs."""
    found = {**document["ap"], **{f"tide.{name}": value for name, value in document["tide"].items()}}
    return {name: Headline(value) for name, value in found.items()}
