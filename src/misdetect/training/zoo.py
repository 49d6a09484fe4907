"""How the zoo is trained: a recipe per detector, from the laid-out data to measured and installed weights."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from misdetect.data import load_data
from misdetect.detectors import load_detector
from misdetect.detectors.torch_detector import TorchDetector
from misdetect.detectors.yolox.detector import YoloxDetector
from misdetect.detectors.zoo import shipped as zoo
from misdetect.detectors.zoo.models import build, start_from
from misdetect.engine.store import RUN_JSON, Run
from misdetect.kept.files import write_atomically
from misdetect.nouns.protocols import Trainable
from misdetect.said.errors import BadSpec, BadWeights
from misdetect.training.checkpoint import write_checkpoint
from misdetect.training.curve import by_name
from misdetect.training.images import TrainingImages, training_images
from misdetect.training.loop import Change, Training
from misdetect.training.measure import HeldOut, measure
from misdetect.training.recipe import Recipe

Progress = Callable[[str, int, int, Mapping[str, float]], None]
"""Called with what is being done, how far it is, how far it goes, and numbers worth showing."""

_SCRATCH = Recipe(steps=8_000, batch=16, learning_rate=1.5e-3, widened=("head",))
_TUNED = replace(_SCRATCH, steps=6_000)  # from a backbone that can already see
RECIPES: Mapping[str, Recipe] = {
    "ssd": _TUNED,
    "faster-rcnn": replace(_TUNED, steps=5_000, widened=("rpn.head", "roi_heads.box_predictor")),
    "retinanet": replace(_TUNED, steps=9_000),
    "yolox": _SCRATCH,
    "deformable-detr": replace(
        _TUNED, steps=4_500, learning_rate=2e-3, backbone_rate=0.5, clip=0.5, precision="float32", widened=()
    ),
    "mcml": replace(_TUNED, steps=3_000),
}
"""By architecture family, for rooms."""
BIKES_STEPS: Mapping[str, int] = {"faster-rcnn": 2_000, "retinanet": 2_000, "yolox": 5_000, "mcml": 3_000}
"""One bicycle per image, always much the same: learnt in fewer steps."""
ROBUST_STEPS: Mapping[str, int] = {"ssd": 3_000, "faster-rcnn": 3_000, "yolox": 9_000, "deformable-detr": 5_000}
"""By architecture family: how long a shipped detector is trained on under attack to become its own robust twin."""
TRAINING_IMAGES = 16_000
_SCORES = "scores.json"


@dataclass(frozen=True)
class Trained:
    """A finished training: what was trained, where its weights are, what ``measure`` says of those weights, and what
    happened to its batches (the ``name`` and settings of a ``Change``), if anything did."""

    name: str
    weights: Path
    scores: dict[str, float]
    recipe: Recipe
    data: str
    change: Mapping[str, Any] | None = None

    def curve(self) -> list[dict[str, float]]:
        """The training at its checks, and at its end: ``step``, the summed training ``loss`` since the check before,
        ``AP`` and ``AP50`` on 200 images (at the end: on all). Empty for weights that are in no run."""
        if not (self.weights.parent / RUN_JSON).exists():
            return []
        losses: list[float] = []
        points: list[dict[str, float]] = []
        for row in Run.open(self.weights.parent).table().to_pylist():
            losses.append(sum(by_name(row["losses"]).values()))
            scores = self.scores if row["step"] == self.recipe.steps else by_name(row["scores"])
            if scores:
                found: dict[str, float] = {key: scores[key] for key in ("AP", "AP50") if key in scores}
                points.append({"step": row["step"], "loss": round(sum(losses) / len(losses), 4), **found})
                losses = []
        return points


def cache_folder() -> Path:
    """Where laid-out training images are kept between trainings."""
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "misdetect" / "training"


def images_of(name: str, split: str, *, workers: int = 1, progress: Progress | None = None) -> TrainingImages:
    """The laid-out images of a zoo detector's data, drawn first if need be."""
    entry = zoo.ZOO[name]
    spec = f"{entry.data}:{split}" + (f",count={TRAINING_IMAGES}" if split == "train" else "")

    def drawn(done: int, total: int) -> None:
        if progress is not None:
            progress(f"drawing {spec}", done, total, {})

    images = training_images(
        spec, cache_folder(), states=entry.states, flip=mirrored(name), workers=workers, progress=drawn
    )
    return images.whole() if entry.whole else images


def mirrored(name: str) -> bool:
    """Whether images are mirrored at random: every bicycle looks to the right, and which wheel is the front one is
    taught by that."""
    return zoo.ZOO[name].data != "bikes"


def train_zoo(
    name: str,
    folder: Path,
    *,
    seed: int = 0,
    steps: int | None = None,
    workers: int = 1,
    change: Change | None = None,
    progress: Progress | None = None,
) -> Trained:
    """Train ``name`` in ``folder`` (going on where an earlier call stopped), write and measure its weights.

    A robust detector starts from its twin, and ``change`` attacks its batches; which attack makes it what it is, is
    said by ``suites.harden.zoo.change_of``.
    """
    if name not in zoo.ZOO:
        raise BadSpec(f"There is no {name!r} in the zoo (there are {', '.join(zoo.ZOO)}).")
    twin = zoo.ZOO[name].twin
    if twin is not None and change is None:
        raise BadSpec(f"{name!r} is {twin!r} trained on under attack: its training needs a change, which attacks.")
    recipe = recipe_of(name, seed=seed, steps=steps)
    images = images_of(name, "train", workers=workers, progress=progress)
    held_out = images_of(name, "val", workers=workers, progress=progress)
    detector = _untrained(name, images.names, seed) if twin is None else _standing(twin, recipe.batch)

    def watch(step: int, total: int, numbers: Mapping[str, float]) -> None:
        if progress is not None:
            progress("training", step, total, numbers)

    training = Training(detector, images, recipe, folder, change=change, check=HeldOut(held_out, 200))
    run = training.run(watch=watch, save_every=250 if twin is None else 100)  # steps under attack take longer
    weights = folder / "weights.safetensors"
    write_half(detector, weights)
    detector.load(weights)
    scores = measure(detector, held_out)
    trained = Trained(name, weights, scores, recipe, f"{zoo.ZOO[name].data}:val", run.settings["change"])
    told = {"name": name, "scores": scores, "data": trained.data, "weights": weights.name}
    write_atomically(folder / _SCORES, (json.dumps(told, indent=2) + "\n").encode())
    return trained


def recipe_of(name: str, *, seed: int = 0, steps: int | None = None) -> Recipe:
    """How the zoo's ``name`` is trained; ``steps`` replaces how long."""
    entry = zoo.ZOO[name]
    recipe = RECIPES[entry.family]
    usual = BIKES_STEPS[entry.family] if entry.data == "bikes" else recipe.steps
    if entry.twin is not None:  # it can see already: a smaller rate, reached sooner
        usual = ROBUST_STEPS[entry.family]
        recipe = replace(recipe, learning_rate=1e-3, warmup=100, check_every=500)
    return replace(recipe, seed=seed, steps=usual if steps is None else steps)


FIRST = "yolox"
"""The detector that is trained from nothing; the backbones of all others start from its own (Deformable DETR's with
its neck)."""


def _untrained(name: str, names: Sequence[str], seed: int) -> TorchDetector:
    entry = zoo.ZOO[name]
    detector = build(entry.family, names, data=entry.data, seed=seed, spec=f"zoo:{name}")
    if entry.family != FIRST:
        if FIRST not in zoo.manifest():
            raise BadSpec(
                f"The backbone of {name!r} starts from that of {FIRST!r}, which is not in the zoo yet; run 'misdetect "
                f"zoo train {FIRST} --install' first."
            )
        source = load_detector(f"zoo:{FIRST}")
        assert isinstance(source, YoloxDetector)
        start_from(detector, source.module)
    return detector


def _standing(twin: str, batch: int) -> TorchDetector:
    """The shipped ``twin``, which looks at ``batch`` images at once: so many are attacked together."""
    found = load_detector(f"zoo:{twin},batch={batch}")
    assert isinstance(found, TorchDetector)
    return found


def write_half(detector: Trainable, path: Path) -> None:
    """Write the weights with matrices and kernels in float16, which halves the file; norms and biases stay float32."""
    tensors = {
        name: (value.half() if value.ndim > 1 and value.is_floating_point() else value)
        for name, value in detector.state().items()
    }
    for name, value in tensors.items():
        if value.is_floating_point() and not torch.isfinite(value).all():
            raise BadWeights(f"{name} has values that float16 cannot hold; train with a larger weight decay.")
    write_checkpoint(path, tensors)


def install(trained: Trained, folder: Path = zoo.FOLDER) -> dict[str, Any]:
    """Copy trained weights into the package and write them into its manifest; returns the manifest's entry."""
    folder.mkdir(exist_ok=True)
    target = folder / f"{trained.name}.safetensors"
    write_atomically(target, trained.weights.read_bytes())
    known = zoo.ZOO[trained.name]
    data = load_data(f"{known.data}:train,count={TRAINING_IMAGES}")
    detector = build(known.family, data.names, data=known.data)
    entry: dict[str, Any] = {
        "sha256": zoo.checksum(target),
        "bytes": target.stat().st_size,
        "parameters": sum(p.numel() for p in detector.module.parameters()),
        "names": list(data.names),
        "data": data.spec,
        "data_fingerprint": data.fingerprint,
        "states": known.states,
        "family": known.family,
        "scores": trained.scores,
        "scored_on": trained.data,
        "recipe": {**trained.recipe.document(), "flip": mirrored(trained.name)},
        "curve": trained.curve(),
    }
    if known.twin is not None:
        entry["twin"] = known.twin
        entry["recipe"]["change"] = trained.change
    zoo.manifest.cache_clear()
    everything = zoo.manifest(folder) | {trained.name: entry}
    text = json.dumps(dict(sorted(everything.items())), indent=2) + "\n"
    write_atomically(folder / "manifest.json", text.encode())
    zoo.manifest.cache_clear()
    return entry


def read_trained(folder: Path) -> Trained:
    """The finished training in ``folder``, as ``train_zoo`` left it."""
    path = folder / _SCORES
    if not path.is_file():
        raise BadSpec(f"{folder} holds no finished training; run 'misdetect zoo train NAME --out {folder}' to its end.")
    found = json.loads(path.read_text(encoding="utf-8"))
    settings = Run.open(folder).settings
    recipe, change = Recipe.of(settings), settings["change"]
    return Trained(found["name"], folder / found["weights"], found["scores"], recipe, found["data"], change)
