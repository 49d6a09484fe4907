"""The training loop: any ``Trainable`` detector, AdamW, warm-up and cosine, averaged weights, exact resume.

A checkpoint holds weights, their moving average and the optimiser's memory as safetensors plus the step; with batches a
function of (seed, step), a training that was killed ends with the same weights as one that was not.
"""

import json
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from misdetect.detectors.torch_detector import TorchDetector
from misdetect.errors import BadWeights, DetectorFailed, RunMismatch
from misdetect.files import write_atomically
from misdetect.training.images import TrainingImages

Watch = Callable[[int, int, dict[str, float]], None]
"""Called with the step, the number of steps and the mean losses since the last call."""
Check = Callable[[TorchDetector], dict[str, float]]
"""Called now and then with the detector holding the averaged weights; what it returns goes into the log."""


@dataclass(frozen=True)
class Recipe:
    """How long and how to train.

    ``precision`` "bfloat16" halves the bits of convolutions, for speed; the modules named in ``widened`` (those whose
    outputs the losses are computed from) still answer in float32, so that losses and their slopes keep theirs.
    ``backbone_rate`` times the learning rate is that of parameters with ``backbone`` in their names: less than 1 where
    these can already see and all others know nothing yet.
    """

    steps: int
    batch: int = 32
    learning_rate: float = 2e-3
    weight_decay: float = 0.02
    warmup: int = 300
    clip: float = 10.0
    average: float = 0.999
    flip: bool = True
    precision: str = "bfloat16"
    widened: tuple[str, ...] = ()
    seed: int = 0
    backbone_rate: float = 1.0

    def rate(self, step: int) -> float:
        """Learning rate at ``step``: linear warm-up, then half a cosine down to 1 %."""
        if step < self.warmup:
            return self.learning_rate * (step + 1) / self.warmup
        progress = (step - self.warmup) / max(1, self.steps - self.warmup)
        return self.learning_rate * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * min(1.0, progress))))

    def text(self) -> str:
        """As JSON; a ``backbone_rate`` of 1 goes without saying, as it does in checkpoints older than that field."""
        fields = asdict(self)
        return json.dumps({k: v for k, v in fields.items() if (k, v) != ("backbone_rate", 1.0)}, sort_keys=True)


class Training:
    """``detector`` trained on ``images`` by ``recipe``; everything it leaves behind is in ``folder``."""

    def __init__(self, detector: TorchDetector, images: TrainingImages, recipe: Recipe, folder: Path) -> None:
        self.detector, self.images, self.recipe, self.folder = detector, images, recipe, folder
        self.step = 0
        module = detector.module
        self.optimiser = torch.optim.AdamW(_groups(detector, recipe), lr=recipe.learning_rate, fused=True)
        self._live = module.state_dict()  # the tensors themselves: loading copies into them, so they stay the module's
        self.average = {name: value.clone() for name, value in self._live.items()}
        folder.mkdir(parents=True, exist_ok=True)
        self._resume()

    def run(
        self,
        *,
        save_every: int = 250,
        check_every: int = 1000,
        watch: Watch | None = None,
        check: Check | None = None,
        until: int | None = None,
    ) -> None:
        """Train up to the recipe's last step (or ``until``), saving as it goes; the average ends up in the detector.

        ``check`` is not run after the last step: whoever called measures the result anyway.
        """
        recipe = self.recipe
        sums: dict[str, float] = {}
        since, started = self.step, time.monotonic()
        last = recipe.steps if until is None else min(until, recipe.steps)
        while self.step < last:
            for name, loss in self._one_step().items():
                sums[name] = sums.get(name, 0.0) + loss
            if self.step % 50 == 0 or self.step == last:
                means = {name: round(value / (self.step - since), 5) for name, value in sums.items()}
                self._log(losses=means, images_per_second=_per_second(self.step - since, recipe.batch, started))
                if watch is not None:
                    watch(self.step, recipe.steps, means)
                sums, since, started = {}, self.step, time.monotonic()
            if check is not None and self.step % check_every == 0 and self.step < recipe.steps:
                with self.averaged():
                    self._log(**check(self.detector))
                started = time.monotonic()
            if self.step % save_every == 0 or self.step == last:
                self._save()
        self.detector.module.load_state_dict(self.average)

    def _one_step(self) -> dict[str, float]:
        recipe, detector = self.recipe, self.detector
        for group in self.optimiser.param_groups:
            group["lr"] = recipe.rate(self.step) * group["times"]
        torch.manual_seed(1_000_003 * recipe.seed + self.step)  # samplers and dropout inside the model
        images, truths = self.images.batch(self.step, recipe.batch, recipe.seed, recipe.flip)
        half = recipe.precision == "bfloat16"
        with torch.autocast(detector.device.type, torch.bfloat16, enabled=half), _widened(detector.module, recipe):
            losses = detector.losses(images, truths)
        total = torch.stack([loss.float() for loss in losses.values()]).sum()
        if not torch.isfinite(total):
            raise DetectorFailed(
                f"training diverged at step {self.step}: the loss is {float(total.detach())}; lower the learning rate."
            )
        self.optimiser.zero_grad(set_to_none=True)
        total.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(detector.parameters(), recipe.clip)
        self.optimiser.step()
        self.step += 1
        self._update_average()
        return {name: float(loss.detach()) for name, loss in losses.items()}

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """The detector with the averaged weights inside the block, with its own again after it."""
        module = self.detector.module
        own = {name: value.clone() for name, value in self._live.items()}
        module.load_state_dict(self.average)
        try:
            yield
        finally:
            module.load_state_dict(own)

    def _update_average(self) -> None:
        """Moving average of the weights; quicker at the start, when there is little to average over."""
        keep = min(self.recipe.average, self.step / (9 + self.step))
        smooth = [name for name, value in self._live.items() if value.is_floating_point()]
        torch._foreach_lerp_([self.average[n] for n in smooth], [self._live[n] for n in smooth], 1 - keep)
        for name in self._live.keys() - set(smooth):
            self.average[name].copy_(self._live[name])

    def _log(self, **found: object) -> None:
        line = {"step": self.step, "rate": self.recipe.rate(self.step - 1), **found}
        with open(self.folder / "log.jsonl", "a") as log:
            log.write(json.dumps(line) + "\n")

    def _save(self) -> None:
        tensors: dict[str, Tensor] = {f"average.{name}": value for name, value in self.average.items()}
        tensors |= {f"module.{name}": value for name, value in self._live.items()}
        for index, memory in self.optimiser.state_dict()["state"].items():
            tensors |= {f"optimiser.{index}.{name}": value for name, value in memory.items()}
        tensors = {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}
        temporary = self.folder / ".checkpoint.writing"
        recipe = self.recipe.text()
        notes = {"step": str(self.step), "recipe": recipe, "detector": self.detector.spec}
        save_file(tensors, temporary, metadata=notes)
        os.replace(temporary, self.folder / "checkpoint.safetensors")

    def _resume(self) -> None:
        recipe = self.recipe.text()
        path = self.folder / "checkpoint.safetensors"
        if not path.exists():
            write_atomically(self.folder / "recipe.json", recipe.encode())
            (self.folder / "log.jsonl").write_text("")
            return
        notes = _notes(path)
        if (other := notes.get("detector", self.detector.spec)) != self.detector.spec:
            raise RunMismatch(f"{self.folder} holds a training of {other}; choose another folder.")
        if notes.get("recipe") != recipe:
            raise RunMismatch(f"{self.folder} holds a training by another recipe; choose another folder.")
        tensors = load_file(path)
        self.step = int(notes["step"])
        self.detector.module.load_state_dict(_under(tensors, "module."))
        self.average = _under(tensors, "average.")
        state: dict[int, dict[str, Any]] = {}
        for name, value in _under(tensors, "optimiser.").items():
            index, _, part = name.partition(".")
            state.setdefault(int(index), {})[part] = value
        self.optimiser.load_state_dict({**self.optimiser.state_dict(), "state": state})
        log = self.folder / "log.jsonl"
        kept = [line for line in log.read_text().splitlines() if json.loads(line)["step"] <= self.step]
        write_atomically(log, "".join(line + "\n" for line in kept).encode())


def _groups(detector: TorchDetector, recipe: Recipe) -> list[dict[str, Any]]:
    """The parameters for the optimiser, by weight decay and by how many ``times`` the recipe's rate they learn at."""
    named = [(name, p) for name, p in detector.module.named_parameters() if p.requires_grad]
    groups = []
    for times in dict.fromkeys((1.0, recipe.backbone_rate)):
        chosen = [p for name, p in named if times == (recipe.backbone_rate if "backbone" in name.split(".") else 1.0)]
        for matrices in (True, False):  # biases and norms are not pulled to zero
            params = [p for p in chosen if (p.ndim > 1) == matrices]
            decay = recipe.weight_decay if matrices else 0.0
            groups.append({"params": params, "weight_decay": decay, "times": times})
    return groups


def _per_second(steps: int, batch: int, started: float) -> float:
    return round(steps * batch / max(time.monotonic() - started, 1e-9), 1)


@contextmanager
def _widened(module: nn.Module, recipe: Recipe) -> Iterator[None]:
    """Inside the block the modules that ``recipe.widened`` names answer in float32."""
    with ExitStack() as stack:
        for name in recipe.widened:
            hook = module.get_submodule(name).register_forward_hook(lambda _module, _inputs, output: _wide(output))
            stack.callback(hook.remove)
        yield


def _wide(output: Any) -> Any:
    """``output`` with float32 wherever it holds bfloat16 tensors, in whatever container they come."""
    if isinstance(output, Tensor):
        return output.float() if output.dtype == torch.bfloat16 else output
    if isinstance(output, Mapping):
        return {name: _wide(value) for name, value in output.items()}
    if isinstance(output, tuple):
        return type(output)(*map(_wide, output)) if hasattr(output, "_fields") else tuple(map(_wide, output))
    return [_wide(value) for value in output] if isinstance(output, list) else output


def _under(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def _notes(path: Path) -> dict[str, str]:
    try:
        with safe_open(path, framework="pt") as file:
            return dict(file.metadata() or {})
    except (SafetensorError, OSError) as error:
        raise BadWeights(f"{path} is not a readable checkpoint ({error}); delete it to start again.") from None
