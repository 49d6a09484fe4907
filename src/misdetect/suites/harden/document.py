"""What a hardening says: both detectors side by side, every configuration, what is fixed, what still fails, what broke.

A function of the runs of both detectors and of the trainings. The differences are paired: the same photos, drawn again
the same way for both.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import Any

import numpy as np

from misdetect.engine.store import Run
from misdetect.metrics.beta import student_quantile
from misdetect.metrics.bootstrap import change, resamples, with_measured
from misdetect.metrics.paired import REPEATS, ap_of_draws
from misdetect.studies.conditions import CLEAN
from misdetect.studies.contract import Document
from misdetect.studies.documents import read_document
from misdetect.suites.harden.repair import BROKEN, FIXED, STILL, Rules, repaired, units
from misdetect.suites.harden.settings import HardenSettings
from misdetect.suites.harden.testing import ATTACK, CAMPAIGN, FUZZ, INSERTIONS, MTD, PHOTOS, conditions_of
from misdetect.suites.harden.trainings import Trial

Runs = Mapping[str, Run]
"""The tests of one detector, by name; see ``testing``."""


@dataclass(frozen=True, eq=False)
class Round:
    """The trainings of one round, the one that was ``chosen``, and the held-out campaign of what came of it."""

    trials: Sequence[Trial]
    chosen: Trial
    images: int | None = None
    """Failing images that were learnt from."""
    fuzzed: Run | None = None


@dataclass(frozen=True, eq=False)
class Hardening:
    """Everything that a document is made of. ``tested``: the scores of each training's last weights on test photos, by
    configuration and seed; ``held_out``: those of the detector before any step."""

    before: Runs
    after: Runs
    rounds: Sequence[Round]
    kept: int
    """The round whose weights are the result."""
    tested: Mapping[str, Mapping[int, Mapping[str, float]]]
    held_out: Mapping[str, float]
    first_fuzzed: Run | None = None
    skipped: Sequence[Mapping[str, str]] = field(default_factory=list)


def document(found: Hardening, how: HardenSettings) -> Document:
    """The JSON-able document."""
    chosen = found.rounds[found.kept].chosen
    told: Document = {
        "before": _side(found.before),
        "after": _side(found.after),
        "change": _changes(found, how),
        "configurations": {name: _configuration(name, found, how) for name in found.tested},
        "rounds": _rounds(found),
        "guard": {
            "round": found.kept + 1,
            "configuration": chosen.configuration,
            "seed": chosen.seed,
            "best_step": chosen.best,
            "stopped": chosen.stopped,
            "rolled_back": chosen.stopped is not None or chosen.best != how.steps,
            "min_clean_ap": how.min_clean_ap,
            "held_out_before": dict(found.held_out),
            "held_out": dict(chosen.scores),
        },
        "frontier": _frontier(found),
        "repair": _repair(found, how),
        "skipped": list(found.skipped),
        "settings": dict(how.plan()),
    }
    for fate in (FIXED, STILL, BROKEN):
        told[fate] = _summed(told["repair"], fate)
    told["sentences"] = sentences(told)
    return told


def _side(runs: Runs) -> Document:
    """AP, AP50, robust_AP50 (each photo by the stronger of cls and loc) and fuzz_failure_rate of one detector."""
    photos = read_document(runs[PHOTOS])["photos"]
    told: Document = {name: photos[name] for name in ("AP", "AP50")}
    ends = {name: photos["intervals"].get(name) for name in ("AP", "AP50")}
    told |= {"robust_AP50": None, "robust": {}, "attack_is": None, "fuzz_failure_rate": None}
    if ATTACK in runs:
        attacked = read_document(runs[ATTACK])
        told["robust"] = {name: attacked["attacks"][name]["AP50"] for name in ("cls", "loc", MTD)}
        told["robust_AP50"], ends["robust_AP50"] = told["robust"][MTD], attacked["attacks"][MTD]["intervals"]["AP50"]
        told["attack_is"] = attacked["ladder"] and attacked["ladder"]["verdict"]
    if FUZZ in runs:
        fuzzed = read_document(runs[FUZZ])
        told["fuzz_failure_rate"] = fuzzed["failure_rate"]
        ends["fuzz_failure_rate"] = (fuzzed["intervals"] or {}).get("failure_rate")
    return told | {"intervals": ends}


def _changes(found: Hardening, how: HardenSettings) -> Document:
    """After less before of AP, AP50 and robust_AP50, with paired intervals."""
    told: Document = {}
    for study, condition, prefix in ((PHOTOS, CLEAN, ""), (ATTACK, MTD, "robust_")):
        if study not in found.before or study not in found.after:
            continue
        old, new = (conditions_of(runs[study]) for runs in (found.before, found.after))
        draws = with_measured(resamples(max(len(old.images), 1), REPEATS, how.seed))
        sides = [ap_of_draws(each.truth, each.boxes(condition).columns, draws) for each in (old, new)]
        for name, first, second in zip(("AP", "AP50"), *sides, strict=True):
            if (differs := change(first, second, how.confidence)) is not None:
                told[prefix + name] = {"value": differs["difference"], "interval": differs["interval"]}
    return told


def _configuration(name: str, found: Hardening, how: HardenSettings) -> Document:
    """Its trainings, and the mean over seeds of what their last weights score on test photos, with Student's interval:
    paper 4 compares these, the guard or not."""
    tested = found.tested[name]
    trials = [trial for trial in found.rounds[0].trials if trial.configuration == name]
    means = {}
    for score in next(iter(tested.values())):
        values = [scores[score] for scores in tested.values()]
        means[score] = {"mean": float(np.mean(values)), "interval": _student(values, how.confidence)}
    return {
        "test": means,
        "seeds": [trial.document() | {"test": dict(tested[trial.seed])} for trial in trials],
    }


def _student(values: Sequence[float], confidence: float) -> list[float] | None:
    """The interval of the mean of ``values``, ``None`` of one."""
    if len(values) < 2:
        return None
    wide = student_quantile((1 + confidence) / 2, len(values) - 1) * float(np.std(values, ddof=1)) / sqrt(len(values))
    return [float(np.mean(values)) - wide, float(np.mean(values)) + wide]


def _rounds(found: Hardening) -> list[Document]:
    """The loop: what held-out photos yield before, and after each round."""
    if found.first_fuzzed is None:
        return []
    told = [{"round": 0, "failing_images": None, **_yield(found.first_fuzzed)}]
    for number, each in enumerate(found.rounds, start=1):
        own = _yield(each.fuzzed) if each.fuzzed is not None else {}
        told.append({"round": number, "failing_images": each.images, **own})
    return told


def _yield(run: Run) -> Document:
    fuzzed = read_document(run)
    ends = fuzzed["intervals"] or {}
    names = ("failure_rate", "attributable_per_1000", "harmful_per_1000")
    return {name: fuzzed[name] for name in names} | {"intervals": {name: ends.get(name) for name in names}}


def _frontier(found: Hardening) -> list[Document]:
    """Every checkpoint that was looked at: clean AP and AP50, and what was to be raised, on held-out photos."""
    points: list[Document] = [{"configuration": "before", "seed": None, "round": 0, "step": 0, **found.held_out}]
    for number, each in enumerate(found.rounds, start=1):
        for trial in each.trials:
            own = {"configuration": trial.configuration, "seed": trial.seed, "round": number}
            points += [own | {"step": p["step"], **p["scores"]} for p in trial.curve if p["scores"]]
    return points


def _repair(found: Hardening, how: HardenSettings) -> Document:
    """What became of each failure, by condition. ``campaign`` was trained on: what is fixed there may be learnt by
    heart, so it is in no sum."""
    told: Document = {}
    conditions = {PHOTOS: [CLEAN], ATTACK: ["cls", "loc"], INSERTIONS: ["insertion"], CAMPAIGN: ["insertion"]}
    for study, shown in conditions.items():
        if study in found.before and study in found.after:
            old, new = found.before[study], found.after[study]
            rules = Rules(float(old.settings["loc"]), float(old.settings["score"]), how.flicker)
            told[study] = repaired(units(old, new, shown, rules), rules, how.confidence, how.seed)
    return told


def _summed(repair: Mapping[str, Document], fate: str) -> Document:
    """``fate`` over all conditions that were not trained on."""
    parts = {name: told[fate] for name, told in repair.items() if name != CAMPAIGN}
    sums = {by: Counter[str]() for by in ("by_type", "by_mechanism")}
    for part in parts.values():
        for by, counts in sums.items():
            counts.update(part[by])
    return {
        "count": sum(part["count"] for part in parts.values()),
        "by_condition": {name: part["count"] for name, part in parts.items()},
        **{by: dict(sorted(counts.items())) for by, counts in sums.items()},
    }


MEASURED = {
    "AP": "AP",
    "AP50": "AP50",
    "robust_AP50": "AP50 under attack",
    "fuzz_failure_rate": "insertions that fail",
}
"""What is measured of a detector before and after, in words."""


def sentences(document: Mapping[str, Any]) -> list[str]:
    """What came of it, the most important first."""
    guard, told = document["guard"], []
    if not guard["best_step"]:
        why = f" ({guard['stopped']})" if guard["stopped"] else ""
        told.append(f"No weights were better than those it began with, so these are kept{why}.")
    elif guard["stopped"]:
        told.append(
            f"The training was stopped: {guard['stopped']}; the weights are those of step {guard['best_step']}."
        )
    for name, words in MEASURED.items():
        before, after = document["before"].get(name), document["after"].get(name)
        if before is not None and after is not None:
            by = _by(document["change"].get(name))
            told.append(f"{words[0].upper()}{words[1:]}: {before:.3f} before, {after:.3f} after{by}.")
    fates = [document[fate]["count"] for fate in (FIXED, STILL, BROKEN)]
    told.append(
        f"Of {fates[0] + fates[1]} failures on test photos {fates[0]} are fixed and {fates[1]} still fail; "
        f"{fates[2]} things that were right are newly broken."
    )
    return told


def _by(change: Mapping[str, Any] | None) -> str:
    if change is None:
        return ""
    ends = "" if change["interval"] is None else f", {change['interval'][0]:+.3f} to {change['interval'][1]:+.3f}"
    return f" ({change['value']:+.3f}{ends})"
