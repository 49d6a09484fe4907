"""``Workshop``: trains one detector again and again from the same weights, by several configurations and seeds."""

import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from misdetect.detectors.zoo.shipped import ZOO
from misdetect.engine import Progress
from misdetect.engine.store import Run
from misdetect.kept.files import write_atomically
from misdetect.nouns.protocols import Trainable
from misdetect.nouns.spec import Spec
from misdetect.said.errors import BadSpec
from misdetect.suites.harden.settings import HardenSettings
from misdetect.suites.harden.watch import Watched
from misdetect.training.batches import Batches
from misdetect.training.checkpoint import read_tensors, under
from misdetect.training.curve import by_name
from misdetect.training.guard import Watchdog
from misdetect.training.loop import BEST, CHECKPOINT, Change, Training
from misdetect.training.recipe import Recipe
from misdetect.training.zoo import recipe_of

_SAVE_EVERY = 100


@dataclass(frozen=True, eq=False)
class Trial:
    """One finished training: after which step its weights were the ``best`` (0: never better than before), what scores
    they have on held-out photos, and why it ``stopped`` before its last step."""

    configuration: str
    seed: int
    run: Run
    best: int
    scores: Mapping[str, float]
    stopped: str | None

    @property
    def curve(self) -> list[dict[str, Any]]:
        """Every row: ``step``, summed ``loss``, and ``scores`` where it was checked."""
        rows = self.run.table().to_pylist()
        return [
            {"step": r["step"], "loss": sum(by_name(r["losses"]).values()), "scores": by_name(r["scores"])}
            for r in rows
        ]

    def document(self) -> dict[str, Any]:
        """As JSON has it."""
        own = {"seed": self.seed, "best_step": self.best, "stopped": self.stopped, "held_out": dict(self.scores)}
        return own | {"curve": self.curve, "out": self.run.address}


class Workshop:
    """``subject``, which begins every training with the weights that it has now, checked by ``check``; ``folder`` keeps
    what it scores before any step."""

    def __init__(self, subject: Trainable, check: Watched, folder: Path, how: HardenSettings) -> None:
        self.subject, self.check, self.how = subject, check, how
        self._own = self._start = _state(subject)
        self.before = remembered(folder / "held-out.json", lambda: check(subject))

    def begin_with(self, prepare: Callable[[Trainable], None]) -> None:
        """Let trainings begin with the weights that ``prepare`` leaves in the detector. Where none of them is better
        than before, its own are still those to keep."""
        put(self._own, self.subject)
        prepare(self.subject)
        self._start = _state(self.subject)

    def train(
        self,
        configuration: str,
        seed: int,
        batches: Batches,
        folder: Path,
        change: Change | None = None,
        progress: Progress | None = None,
    ) -> Trial:
        """Train by ``configuration`` with ``seed`` into ``folder``; a training that is there already goes on."""
        how, check = self.how, self.check
        guard = Watchdog(
            objective=check.objective,
            before=self.before,
            floor=how.min_clean_ap,
            patience=how.patience,
            since=0 if self._start is self._own else how.steps // 2,
        )
        put(self._start, self.subject)
        recipe = recipe_for(self.subject, how, seed)
        training = Training(self.subject, batches, recipe, folder, change=change, check=check, guard=guard)

        begun, first = time.monotonic(), training.step

        def watch(step: int, total: int, numbers: Mapping[str, float]) -> None:
            if progress is not None:
                speed = (step - first) * recipe.batch / max(time.monotonic() - begun, 1e-6)
                about = {"study": f"training {configuration}, seed {seed}", "of": "images", "images_per_second": speed}
                progress(step * recipe.batch, total * recipe.batch, {**numbers, **about})

        run = training.run(save_every=-(-_SAVE_EVERY // how.replays) * how.replays, watch=watch)
        return Trial(configuration, seed, run, training.judgement.best, self._scores(run), run.about.get("stopped"))

    def _scores(self, run: Run) -> dict[str, float]:
        best = run.about["best"]
        rows = run.query("SELECT scores FROM rows WHERE step = ?", [best]).to_pylist()
        return by_name(rows[0]["scores"]) if rows else dict(self.before)

    def hold(self, trial: Trial) -> None:
        """Put the best weights of ``trial`` into the detector; those it began with where none was better."""
        put(read_tensors(trial.run.path / BEST) if trial.best else self._own, self.subject)

    def hold_last(self, trial: Trial) -> None:
        """Put the weights into the detector that ``trial`` ended with, better or not: what paper 4 compares."""
        put(under(read_tensors(trial.run.path / CHECKPOINT), "average."), self.subject)


def remembered(path: Path, scores: Callable[[], dict[str, float]]) -> dict[str, float]:
    """The ``scores`` that are kept in ``path``; measured and kept there where they are not yet."""
    with suppress(OSError, ValueError):
        known: dict[str, float] = json.loads(path.read_text(encoding="utf-8"))
        return known
    path.parent.mkdir(parents=True, exist_ok=True)
    found = scores()
    write_atomically(path, (json.dumps(found) + "\n").encode())
    return found


def _state(detector: Trainable) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in detector.state().items()}


@torch.no_grad()
def put(state: Mapping[str, Tensor], detector: Trainable) -> None:
    """Copy ``state`` into ``detector``."""
    for name, value in detector.state().items():
        value.copy_(state[name])


def zoo_name(detector: object) -> str | None:
    """The name of a zoo detector, or ``None``."""
    spec = getattr(detector, "spec", None)
    if not isinstance(spec, str):
        return None
    try:
        parsed = Spec.parse(spec)
    except BadSpec:
        return None
    return parsed.target if parsed.scheme == "zoo" and parsed.target in ZOO else None


def recipe_for(detector: Trainable, how: HardenSettings, seed: int) -> Recipe:
    """The recipe of a hardening: a zoo detector's own precision and clipping, anybody else's in float32."""
    name = zoo_name(detector)
    own = Recipe(steps=1, precision="float32") if name is None else recipe_of(name)
    rate = how.backbone_rate
    if rate is None:
        rate = own.backbone_rate if how.backbone == "own" else 0.1
    return replace(
        own,
        steps=-(-how.steps // how.replays) * how.replays,
        batch=how.batch,
        learning_rate=how.rate,
        warmup=min(100, how.steps // 5),
        backbone_rate=rate,
        check_every=how.check_every,
        log_every=min(50, how.check_every),
        seed=seed,
    )
