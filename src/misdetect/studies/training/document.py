"""What a training says: how far it got, its curve, its last losses and scores."""

from typing import Any, NoReturn

from misdetect.data.dataset import Dataset
from misdetect.data.opened import Opened
from misdetect.engine.backend import Asking
from misdetect.engine.store import Run
from misdetect.said.errors import BadSpec
from misdetect.studies.contract import Document, Headline
from misdetect.training.curve import by_name
from misdetect.training.recipe import Recipe


def document(run: Run) -> Document:
    """How far it got, the ``curve`` (losses are means since the point before), and its last losses and scores."""
    curve = []
    for row in run.table().to_pylist():
        losses = by_name(row["losses"])
        found = {"step": row["step"], "rate": row["rate"], "loss": sum(losses.values()), "losses": losses}
        curve.append({**found, "scores": by_name(row["scores"])})
    checks = [point for point in curve if point["scores"]]
    return {
        "steps": curve[-1]["step"] if curve else 0,
        "loss": curve[-1]["loss"] if curve else None,
        "losses": curve[-1]["losses"] if curve else {},
        "checked": checks[-1]["step"] if checks else None,
        "scores": checks[-1]["scores"] if checks else {},
        "curve": curve,
    }


def sentences(document: Document) -> list[str]:
    """What was learnt."""
    curve, settings = document["curve"], document["settings"]
    if not curve:
        return ["Nothing is learnt yet."]
    told = [
        f"{document['steps']} of {settings['steps']} steps of {settings['batch']} images: the loss went from "
        f"{curve[0]['loss']:.4g} to {curve[-1]['loss']:.4g}."
    ]
    if document["scores"]:
        scores = ", ".join(f"{name} {value:.3f}" for name, value in document["scores"].items())
        told.append(f"The averaged weights at step {document['checked']}: {scores}.")
    if settings["change"] is not None:
        told.append(f"Every batch was changed by {settings['change']['name']}.")
    return told


def numbers(document: Document) -> dict[str, Headline]:
    """For comparing trainings."""
    found: dict[str, Any] = {"steps": document["steps"], "loss": document["loss"], **document["scores"]}
    return {name: Headline(value) for name, value in found.items()}


def ledger(run: Run) -> str:
    """Nothing: a training says nothing of single objects."""
    return 'SELECT "case" FROM rows WHERE false'


def prepare(detector: Any, opened: Opened, settings: Recipe, asking: Asking) -> NoReturn:
    """A training is not made of questions to a detector."""
    raise BadSpec("a training is not run as a study; misdetect.training.loop.Training makes one.")


def rebuild(run: Run, data: Dataset) -> NoReturn:
    """One stretch of steps cannot be taken again without all before it."""
    raise BadSpec(f"{run.address} is a training; none of its steps can be replayed alone.")
