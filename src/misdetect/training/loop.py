"""``Training``: any ``Trainable`` detector, on any ``Batches``, by a ``Recipe``; AdamW, averaged weights, exact resume.

What it leaves is a run directory: one row per stretch of steps, and a checkpoint of the weights, their moving average,
the optimiser's memory and the rows that are in no part yet. The checkpoint is written before the part, and whatever is
missing from the parts is added when a training goes on. So a training that was killed at any moment ends with the same
weights and the same rows as one that was not.
"""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, cast

import torch
from torch import Tensor, nn

from misdetect.engine.identity import identity
from misdetect.engine.installed import versions
from misdetect.engine.store import RUN_JSON, Run
from misdetect.nouns.boxes import Floats
from misdetect.nouns.detections import Truth
from misdetect.nouns.protocols import Trainable, describe, require
from misdetect.said.errors import BadSpec, BadWeights, DetectorFailed, RunMismatch
from misdetect.training.batches import Batches
from misdetect.training.checkpoint import read_notes, read_tensors, under, write_checkpoint
from misdetect.training.curve import SCHEMA, Curve
from misdetect.training.guard import Guard, Judgement
from misdetect.training.precision import widened
from misdetect.training.recipe import Recipe

CHECKPOINT, BEST = "checkpoint.safetensors", "best.safetensors"
Watch = Callable[[int, int, Mapping[str, float]], None]
"""Called with the step, the number of steps, and the mean losses since the last call, with the scores of a check."""


class Diverged(DetectorFailed):
    """The loss of a training is no number any more."""


class _Named(Protocol):
    """What decides the weights or the rows of a training says what it is: a name, and JSON-able settings."""

    @property
    def name(self) -> str: ...
    @property
    def settings(self) -> Mapping[str, Any]: ...


class Change(_Named, Protocol):
    """What happens to a batch between being read and being learnt from, e.g. an attack on ``detector`` as it is now.

    A function of its arguments and of torch's dice (which are seeded by the step): called again, it answers the same.
    Images that it returns as torch tensors collect their gradients, for it to read in the next step; then it depends on
    the steps before as well, and has to say after which of them a training can be saved.
    """

    def __call__(
        self, detector: Trainable, images: Sequence[Floats], truths: Sequence[Truth], step: int
    ) -> tuple[Sequence[Any], Sequence[Truth]]: ...


class Check(_Named, Protocol):
    """Called now and then with the detector holding the averaged weights; the scores it returns are in the rows."""

    def __call__(self, detector: Trainable) -> Mapping[str, float]: ...


class Training:
    """``detector`` trained on ``batches`` by ``recipe``; ``folder`` is its run directory, and resumes if it is one.

    ``change`` alters every batch before its losses; ``check`` scores the averaged weights every ``check_every`` steps,
    though not after the last: whoever called measures the result anyway. ``guard`` looks at every row: it ends a
    training that goes wrong, and what the detector holds in the end are the best weights it saw (then the last step is
    checked too), or those it began with.
    """

    def __init__(
        self,
        detector: Trainable,
        batches: Batches,
        recipe: Recipe,
        folder: Path | str,
        *,
        change: Change | None = None,
        check: Check | None = None,
        guard: Guard | None = None,
    ) -> None:
        self.detector: Trainable = require(detector, Trainable, "training", "its weights cannot be changed")
        self.batches, self.recipe, self.folder = batches, recipe, Path(folder)
        self.change, self.check, self.guard = change, check, guard
        self.step, self.judgement = 0, Judgement(0)
        _refuse_misfit(detector, batches, recipe)
        self._live: dict[str, Tensor] = dict(detector.state())
        named = _named_parameters(detector, self._live)
        self._trained = [parameter for _, parameter in named]
        self._device = self._trained[0].device.type
        self.optimiser = torch.optim.AdamW(_groups(named, recipe), lr=recipe.learning_rate, fused=True)
        self.average = {name: value.detach().clone() for name, value in self._live.items()}
        smooth = [name for name, value in self._live.items() if value.is_floating_point()]
        self._smooth = [self.average[name] for name in smooth], [self._live[name] for name in smooth]
        self._counters = [name for name in self._live if name not in set(smooth)]
        self._curve = Curve(recipe, check is not None)
        settings = {**recipe.document(), "change": _document(change), "check": _document(check)}
        if guard is not None:
            settings["guard"] = _document(guard)
            self._begun_with = {name: value.detach().clone() for name, value in self._live.items()}
        self._identity = identity("training", settings, detector, batches)
        self._holds_average = False
        if (self.folder / RUN_JSON).exists():
            with self._writing() as run:
                self._resume(run)

    def run(self, *, save_every: int = 250, watch: Watch | None = None, until: int | None = None) -> Run:
        """Train up to the recipe's last step (or ``until``), saving as it goes; the average ends up in the detector."""
        last = self.recipe.steps if until is None else min(until, self.recipe.steps)
        with self._writing() as run:
            self._resume(run)
            try:
                while self.step < last and self.judgement.stop is None:
                    self._curve.add(self._one_step())
                    if self._curve.ends_at(self.step):
                        self._close_stretch(watch)
                    if self.step % save_every == 0 or self.step in (last, self.judgement.best):
                        self._save(run)
            except BaseException as error:
                if self.guard is None or not isinstance(error, Diverged):
                    if not self._checkpoint.exists() and not run.done():  # nothing is learnt: the next try may differ
                        run.discard()
                    raise
                self.judgement = replace(self.judgement, stop=str(error).rstrip("."))
            if self.judgement.stop is not None:
                self._save(run)
                run.note(cases=len(run.done()), stopped=self.judgement.stop)
            if self.guard is not None:
                run.note(best=self.judgement.best)
        _copy(self._kept(), self._live)
        self._holds_average = True
        return run

    def _kept(self) -> Mapping[str, Tensor]:
        """The weights that a training ends with: the average, or the best that the guard saw."""
        if self.guard is None:
            return self.average
        return read_tensors(self.folder / BEST) if self.judgement.best else self._begun_with

    def _one_step(self) -> dict[str, float]:
        recipe, detector = self.recipe, self.detector
        for group in self.optimiser.param_groups:
            group["lr"] = recipe.rate(self.step) * group["times"]
        torch.manual_seed(1_000_003 * recipe.seed + self.step)  # samplers and dropout inside the model
        images, truths = self.batches.batch(self.step, recipe.batch, recipe.seed)
        if self.change is not None:
            images, truths = self.change(detector, images, truths, self.step)
        half = recipe.precision == "bfloat16"
        with ExitStack() as stack:
            stack.enter_context(torch.autocast(self._device, torch.bfloat16, enabled=half))
            if recipe.widened:
                stack.enter_context(widened(cast(Any, detector).module, recipe.widened))
            losses = detector.losses(images, truths)
        total = torch.stack([loss.float() for loss in losses.values()]).sum()
        if not torch.isfinite(total):
            raise Diverged(
                f"training diverged at step {self.step}: the loss is {float(total.detach())}; lower the learning rate."
            )
        self.optimiser.zero_grad(set_to_none=True)
        total.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self._trained, recipe.clip)
        self.optimiser.step()
        self.step += 1
        self._update_average()
        return {name: float(loss.detach()) for name, loss in losses.items()}

    def _close_stretch(self, watch: Watch | None) -> None:
        recipe, scores = self.recipe, {}
        last = self.step == recipe.steps
        if self.check is not None and (self.guard is not None if last else self.step % recipe.check_every == 0):
            with self.averaged():
                scores = dict(self.check(self.detector))
        losses = self._curve.close(self.step, scores)
        if self.guard is not None:
            self.judgement = self.guard(self._curve.rows)
            if self.judgement.best == self.step:
                write_checkpoint(self.folder / BEST, self.average)
        if watch is not None:
            watch(self.step, recipe.steps, {**losses, **scores})

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """The detector with the averaged weights inside the block, with its own again after it."""
        own = {name: value.detach().clone() for name, value in self._live.items()}
        _copy(self.average, self._live)
        try:
            yield
        finally:
            _copy(own, self._live)

    @torch.no_grad()
    def _update_average(self) -> None:
        """Moving average of the weights; quicker at the start, when there is little to average over."""
        keep = min(self.recipe.average, self.step / (9 + self.step))
        torch._foreach_lerp_(*self._smooth, 1 - keep)
        for name in self._counters:
            self.average[name].copy_(self._live[name])

    @property
    def _checkpoint(self) -> Path:
        return self.folder / CHECKPOINT

    @contextmanager
    def _writing(self) -> Iterator[Run]:
        """The run directory, which nobody else can write to inside the block."""
        detector_settings = json.loads(json.dumps(getattr(self.detector, "settings", {}), default=str))
        about = {"command": sys.argv[1:], "versions": versions(), "detector_settings": detector_settings}
        run = Run.start(self.folder, self._identity, SCHEMA, **about)
        try:
            if "stopped" not in run.about:
                run.note(cases=len(self._curve))
            yield run
        finally:
            run.close()

    def _save(self, run: Run) -> None:
        """First the checkpoint with the rows that wait, then the part with these: between the two nothing is lost."""
        tensors: dict[str, Tensor] = {f"average.{name}": value for name, value in self.average.items()}
        tensors |= {f"module.{name}": value for name, value in self._live.items()}
        for index, memory in self.optimiser.state_dict()["state"].items():
            tensors |= {f"optimiser.{index}.{name}": value for name, value in memory.items()}
        notes = {"step": str(self.step), "run": run.about["id"], "curve": self._curve.note()}
        write_checkpoint(self._checkpoint, tensors, notes)
        self._curve.write(run)

    def _resume(self, run: Run) -> None:
        """Go on from the checkpoint, if it is ahead, or if the detector holds something else by now."""
        path = self._checkpoint
        if not path.exists():
            return
        notes = read_notes(path)
        if notes.get("run") != run.about["id"]:
            raise RunMismatch(f"{path} is a checkpoint of another training than its folder; choose another folder.")
        if int(notes["step"]) <= self.step and not self._holds_average:
            return
        tensors = read_tensors(path)
        own, average = under(tensors, "module."), under(tensors, "average.")
        if own.keys() != self._live.keys():
            raise BadWeights(f"{path} does not fit {describe(self.detector)}; it was written by another misdetect.")
        _copy(own, self._live)
        _copy(average, self.average)
        state: dict[int, dict[str, Any]] = {}
        ordered = [parameter for group in self.optimiser.param_groups for parameter in group["params"]]
        for name, value in under(tensors, "optimiser.").items():
            index, _, part = name.partition(".")
            state.setdefault(int(index), {})[part] = _laid_out_as(ordered[int(index)], value)
        self.optimiser.load_state_dict({**self.optimiser.state_dict(), "state": state})
        self.step, self._holds_average = int(notes["step"]), False
        self._curve.recall(notes["curve"])
        self._curve.write(run)
        if self.guard is not None:
            self._curve.rows = run.table().select(SCHEMA.names).to_pylist()
            if self._curve.rows:
                self.judgement = self.guard(self._curve.rows)
            self.judgement = replace(self.judgement, stop=run.about.get("stopped", self.judgement.stop))


def _refuse_misfit(detector: Trainable, batches: Batches, recipe: Recipe) -> None:
    if tuple(detector.names) != tuple(batches.names):
        raise BadSpec(
            f"{describe(detector)} and {batches.spec} have other classes ({', '.join(detector.names[:3])}, … and "
            f"{', '.join(batches.names[:3])}, …); DatasetBatches(data, detector.names) joins them."
        )
    if recipe.widened and not hasattr(detector, "module"):
        raise BadSpec(f"{describe(detector)} has no `module` to find {recipe.widened[0]!r} in; leave `widened` out.")


def _document(named: _Named | Guard | None) -> dict[str, Any] | None:
    """What identifies a change or a check."""
    if named is None:
        return None
    if not isinstance(getattr(named, "name", None), str) or not isinstance(getattr(named, "settings", None), Mapping):
        raise BadSpec(
            f"{named!r} should have a `name` and a mapping `settings`, so that a training with another is told from it."
        )
    return {"name": named.name, **named.settings}


def _named_parameters(detector: Trainable, live: Mapping[str, Tensor]) -> list[tuple[str, Tensor]]:
    """The parameters that are trained, in the order of ``live``; one with several names goes by the first."""
    trained = {id(parameter): parameter for parameter in detector.parameters()}
    count = len(trained)
    named = [(name, value) for name, value in live.items() if trained.pop(id(value), None) is not None]
    if not count or trained:
        raise BadSpec(
            f"{describe(detector)} has no parameters to train."
            if not count
            else f"{len(trained)} parameters of {describe(detector)} are not in its state()."
        )
    return named


def _groups(named: Sequence[tuple[str, Tensor]], recipe: Recipe) -> list[dict[str, Any]]:
    """The parameters for the optimiser, by weight decay and by how many ``times`` the recipe's rate they learn at."""
    groups = []
    for times in dict.fromkeys((1.0, recipe.backbone_rate)):
        chosen = [p for name, p in named if times == (recipe.backbone_rate if "backbone" in name.split(".") else 1.0)]
        for matrices in (True, False):  # biases and norms are not pulled to zero
            params = [p for p in chosen if (p.ndim > 1) == matrices]
            decay = recipe.weight_decay if matrices else 0.0
            groups.append({"params": params, "weight_decay": decay, "times": times})
    return groups


def _laid_out_as(parameter: Tensor, memory: Tensor) -> Tensor:
    """The optimiser's ``memory`` of ``parameter``, in its layout: a file knows of none but row by row, and the fused
    AdamW pairs the two number by number as they lie, so that those of a channels-last kernel would be mixed up."""
    return torch.empty_like(parameter).copy_(memory) if memory.shape == parameter.shape else memory


@torch.no_grad()
def _copy(source: Mapping[str, Tensor], target: Mapping[str, Tensor]) -> None:
    for name, value in target.items():
        value.copy_(source[name])
