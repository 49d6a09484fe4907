"""``hf:PATH-OR-ID`` and ``wrap``: the DETR family of transformers behind all four access levels.

DETR, Conditional DETR, DAB-DETR, Deformable DETR (one- and two-stage), RT-DETR (v1, v2) and D-FINE. The module's own
forward pass and losses are called; preprocessing is ours, so that gradients reach the pixels. Weights are read from
safetensors only and no code that comes with a model is ever run.
"""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from misdetect.candidates import Candidates
from misdetect.detections import Detections, Truth
from misdetect.detectors.hf.input import Input, default_input, parse_size, read_input
from misdetect.detectors.hf.losses import (
    at_least_float32,
    exact_slopes,
    image_losses,
    last_layer_config,
    targets_of,
    training_losses,
)
from misdetect.detectors.hf.trace import FAMILIES, Family, Watch, choose, corners, encoder_candidates, scores_of
from misdetect.detectors.names import read_names
from misdetect.detectors.torch_detector import TorchDetector
from misdetect.detectors.torchvision import ops as torchvision_ops
from misdetect.errors import BadArray, BadSpec, BadWeights, DetectorFailed, MissingExtra
from misdetect.picture import digest
from misdetect.spec import Spec

_DOWNLOADED = ["*config.json", "model*.safetensors", "model.safetensors.index.json"]
_ID = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?")
_CONFIG_LIMIT = 16 << 20


class HfDetector(TorchDetector):
    """A ``…ForObjectDetection`` module of transformers; make one with ``wrap`` or ``load_hf``."""

    def __init__(
        self,
        module: nn.Module,
        names: Sequence[str],
        family: Family,
        prepare: Input,
        *,
        spec: str,
        score: float,
        max_detections: int,
        top_k: int,
        batch_size: int,
    ) -> None:
        config = cast(Any, module).config
        settings = {
            "score": score,
            "top_k": top_k,
            "max": max_detections,
            "model_type": config.model_type,
            "config": digest(json.dumps(config.to_diff_dict(), sort_keys=True, default=str)),
            **prepare.settings,
        }
        super().__init__(module, names, spec=spec, settings=settings, batch_size=batch_size)
        self.family = family
        self.prepare = prepare
        self.score, self.max_detections, self.top_k = score, max_detections, top_k

    def _pixels(self, images: list[Tensor]) -> Tensor:
        pixels = self.prepare(torch.stack(images))
        stride = max(getattr(cast(Any, self.module).config, "feat_strides", (1,)))
        if any(side % stride for side in pixels.shape[-2:]):  # the encoder of RT-DETR and D-FINE joins its levels
            raise BadArray(
                f"{self.spec} takes images whose sides are multiples of {stride}. Got {pixels.shape[-2]}x"
                f"{pixels.shape[-1]}; have them resized: size=HEIGHTxWIDTH."
            )
        return pixels

    def _forward(self, images: list[Tensor]) -> Any:
        output = self.module(pixel_values=self._pixels(images))
        expected = len(self.names) + (self.family.activation == "softmax")
        if output.logits.shape[-1] != expected:
            raise DetectorFailed(
                f"{self.spec}: the module gives {output.logits.shape[-1]} class logits where {expected} were expected "
                f"for {len(self.names)} names."
            )
        return output

    def _detect(self, images: list[Tensor]) -> list[Detections]:
        output = self._forward(images)
        scores, _ = scores_of(output.logits, self.family.activation)
        boxes = corners(output.pred_boxes, images)
        found = []
        for i in range(len(images)):
            kept, _ = choose(scores[i], self.family.activation, self.score, self.top_k, self.max_detections)
            found.append(Detections(boxes[i][kept.candidate], scores[i][kept.candidate, kept.label], kept.label))
        return found

    def _trace(self, images: list[Tensor]) -> list[Candidates]:
        with Watch(self.family.watched(self.module)) as seen:
            output = self._forward(images)
        stages = self.family.stages(self.module, output, seen)
        scores, background = scores_of(output.logits, self.family.activation)
        refined, proposals = corners(output.pred_boxes, images), corners(stages.proposals, images)
        firsts = encoder_candidates(stages, images)
        traced = []
        for i in range(len(images)):
            kept, dropped = choose(scores[i], self.family.activation, self.score, self.top_k, self.max_detections)
            first = firsts[i]
            traced.append(
                Candidates(
                    proposals[i],
                    refined[i],
                    scores[i],
                    background[i],
                    np.arange(len(scores[i])) if first is None else first.kept.candidate,
                    kept,
                    dropped,
                    first=first,
                    settings=self.settings,
                )
            )
        return traced

    def _image_losses(self, images: list[Tensor], truths: Sequence[Truth]) -> tuple[Tensor, Tensor]:
        with exact_slopes(self.module, self.family):
            output = self._forward(images)
        logits, boxes = at_least_float32(output.logits), at_least_float32(output.pred_boxes)
        targets = targets_of(truths, [(image.shape[1], image.shape[2]) for image in images], boxes)
        config = last_layer_config(cast(Any, self.module).config)
        return image_losses(self.module, self.family, config, logits, boxes, targets)

    def _training_losses(self, images: list[Tensor], truths: Sequence[Truth]) -> dict[str, Tensor]:
        pixels, mask = _padded([self._pixels([image])[0] for image in images])
        if mask is not None and self.family.fixed is not None:  # RT-DETR and D-FINE do not look at the mask
            raise BadArray(f"{self.spec} is trained on images of one size; have them resized: size=HEIGHTxWIDTH.")
        sizes = [(image.shape[1], image.shape[2]) for image in images]
        targets = targets_of(truths, sizes, pixels)
        losses: dict[str, Tensor] = training_losses(self.module, self.family, pixels, mask, targets)
        return losses


def _padded(images: list[Tensor]) -> tuple[Tensor, Tensor | None]:
    """A batch ``[B, 3, H, W]`` and, where sizes differ, its mask of real pixels ``[B, H, W]``."""
    if len({image.shape for image in images}) == 1:
        return torch.stack(images), None
    height, width = (max(image.shape[axis] for image in images) for axis in (1, 2))
    batch = images[0].new_zeros(len(images), 3, height, width)
    mask = torch.zeros(len(images), height, width, dtype=torch.long, device=batch.device)
    for i, image in enumerate(images):
        batch[i, :, : image.shape[1], : image.shape[2]] = image
        mask[i, : image.shape[1], : image.shape[2]] = 1
    return batch, mask


def wrap(
    module: nn.Module,
    names: Sequence[str] | None = None,
    *,
    score: float = 0.05,
    max_detections: int = 100,
    top_k: int | None = None,
    size: str | None = None,
    prepare: Input | None = None,
    batch_size: int = 1,
    spec: str | None = None,
) -> HfDetector:
    """A detector around a ``…ForObjectDetection`` module of transformers, which stays the caller's.

    ``names`` replaces the names in ``module.config.id2label``; ``top_k`` is how many (query, class) pairs are ranked
    (as many as the model's own post-processing where not given); ``size`` is ``"SHORTEST,LONGEST"``,
    ``"HEIGHTxWIDTH"`` or ``"native"``, and replaces the resizing of ``prepare`` (see ``hf_input``).
    """
    where = spec or type(module).__name__
    config: Any = getattr(module, "config", None)
    family = FAMILIES.get(getattr(config, "model_type", ""))
    if family is None or not any(kind.__name__ == family.architecture for kind in type(module).__mro__):
        known = ", ".join(each.architecture for each in FAMILIES.values())
        raise BadSpec(f"{where}: expected one of {known}. Got {type(module).__name__}.")
    if names is None:
        names = [str(config.id2label.get(i, f"class {i}")) for i in range(config.num_labels)]
    elif len(names) != config.num_labels:
        raise BadSpec(f"{where}: {len(names)} names were given, the model has {config.num_labels} classes.")
    if not 0 <= score < 1 or max_detections < 1 or batch_size < 1 or (top_k is not None and top_k < 1):
        raise BadSpec(f"{where}: expected 0 <= score < 1, and max, top_k and batch of at least 1.")
    prepare = prepare or default_input(family.fixed)
    if size is not None:
        resize, sides = parse_size(size, where)
        prepare = replace(prepare, resize=resize, sides=sides)
    queries = int(getattr(config, "num_queries", 0)) or 300
    return HfDetector(
        module,
        names,
        family,
        prepare,
        spec=where,
        score=score,
        max_detections=max_detections,
        top_k=top_k or family.ranked or queries,
        batch_size=batch_size,
    )


def thaw(module: nn.Module) -> nn.Module:
    """Make every backbone weight of ``module`` trainable, in place: batch norms that transformers froze become real.

    For training from scratch; a fine-tuned model is better left frozen. The weights keep their names and values.
    """
    for parent in list(module.modules()):
        for name, part in list(parent.named_children()):
            if type(part).__name__.endswith("FrozenBatchNorm2d"):
                frozen = cast(Any, part)
                live = nn.BatchNorm2d(len(frozen.weight)).to(frozen.weight.device, frozen.weight.dtype)
                live.load_state_dict(part.state_dict(), strict=False)
                live.train(parent.training)
                setattr(parent, name, live)
    for parameter in cast(Any, module).model.backbone.parameters():
        parameter.requires_grad_(True)
    return module


def load_hf(spec: Spec) -> HfDetector:
    """``hf:PATH-OR-ID``, options ``score``, ``max``, ``topk``, ``size``, ``names`` and ``batch``, see ``wrap``."""
    score, most, top_k = spec.take("score", 0.05), spec.take("max", 100), spec.take("topk", 0)
    size, names, batch = spec.take("size", ""), spec.take("names", ""), spec.take("batch", 1)
    spec.finish()
    folder = _folder(spec)
    family = _family_of(folder)
    prepare = read_input(folder, default_input(family.fixed))
    module = _read_module(folder, family)
    return wrap(
        module.eval(),
        read_names(names, spec.text) if names else None,
        score=score,
        max_detections=most,
        top_k=top_k or None,
        size=size or None,
        prepare=prepare,
        batch_size=batch,
        spec=spec.text,
    )


def _folder(spec: Spec) -> Path:
    """The local folder that ``spec`` names, or the hub's files of that id in the local cache."""
    target = spec.target
    path = Path(target).expanduser()
    if target and path.is_dir():
        return path
    if path.is_file():
        raise BadSpec(f"{spec.text!r}: {target} is a file; give the folder that holds config.json and the weights.")
    if not _ID.fullmatch(target):
        raise BadSpec(f"{spec.text!r}: there is no folder {target!r}, and it is not an id such as 'owner/model'.")
    transformers_package()
    from huggingface_hub import errors, snapshot_download

    try:
        return Path(snapshot_download(target, allow_patterns=_DOWNLOADED))
    except (errors.RepositoryNotFoundError, errors.RevisionNotFoundError):
        raise BadSpec(f"{spec.text!r}: there is no folder {target!r}, and no such public model on the hub.") from None
    except (errors.HFValidationError, errors.HfHubHTTPError) as error:
        raise BadSpec(f"{spec.text!r}: the hub refused {target!r}: {_sentence(error)}.") from None
    except Exception as error:  # no network shows in many ways: no name, no route, no certificate, offline by setting
        raise BadSpec(
            f"{spec.text!r}: there is no folder {target!r} and the hub cannot be reached ({type(error).__name__}); "
            f"where there is a network run 'hf download {target} --local-dir FOLDER', copy it here and give hf:FOLDER."
        ) from None


def _family_of(folder: Path) -> Family:
    path = folder / "config.json"
    if not path.is_file():
        raise BadSpec(f"{folder} has no config.json; give a folder written by save_pretrained.")
    try:
        if path.stat().st_size > _CONFIG_LIMIT:
            raise ValueError("it is too large for a configuration")
        config = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError, OSError) as error:
        raise BadSpec(f"{path} is not readable JSON: {_sentence(error)}.") from None
    for name, value in _walk(config):
        if name in _KERNELS and "/" in str(value):
            raise BadWeights(
                f"{path}: {name} names code to be fetched ({str(value)[:60]}), which is refused; remove it."
            )
    kind = config.get("model_type") if isinstance(config, dict) else None
    if not isinstance(kind, str) or kind not in FAMILIES:
        raise BadSpec(f"{path}: model_type is {kind!r}; supported are {', '.join(FAMILIES)}.")
    return FAMILIES[kind]


_KERNELS = ("attn_implementation", "_attn_implementation", "experts_implementation", "kernel", "kernels")
"""Entries of a configuration that can name kernels to be fetched. What ``auto_map`` names is never loaded: the classes
are transformers' own."""


def _walk(config: Any, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Every entry of a configuration, also of those within it."""
    if isinstance(config, dict) and depth < 20:
        for name, value in config.items():
            yield str(name), value
            yield from _walk(value, depth + 1)


@contextmanager
def _offline() -> Iterator[None]:
    """The hub is not asked, whatever a configuration names: a backbone, a kernel, a newer version."""
    from huggingface_hub import constants

    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before


def _read_module(folder: Path, family: Family) -> nn.Module:
    """The module with its weights, all of which must be in the folder's safetensors."""
    if not any((folder / name).is_file() for name in ("model.safetensors", "model.safetensors.index.json")):
        pickled = next((p.name for p in sorted(folder.glob("*.bin")) + sorted(folder.glob("*.pt*"))), None)
        if pickled:
            raise BadWeights(
                f"{folder / pickled} is a pickle, which could run code, so it is refused; where you trust it, convert "
                f"it once: {family.architecture}.from_pretrained(old, use_safetensors=False).save_pretrained(new)."
            )
        raise BadWeights(f"{folder} has no model.safetensors.")
    transformers = transformers_package()
    with _quiet(transformers), _offline():
        try:
            module, found = model_class(family.architecture).from_pretrained(
                folder,
                local_files_only=True,
                trust_remote_code=False,
                use_safetensors=True,
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # so that the complaint can name them
                dtype=torch.float32,
            )
        except ImportError as error:
            raise MissingExtra(f"{folder} needs a package that is not installed: {_sentence(error)}.") from error
        except Exception as error:  # a foreign configuration can be wrong in any way
            raise BadWeights(f"{folder} cannot be loaded as {family.architecture}: {_sentence(error)}.") from error
    _refuse_misfit(folder, found)
    return cast(nn.Module, module)


def _refuse_misfit(folder: Path, found: dict[str, Any]) -> None:
    missing = [str(name) for name in found.get("missing_keys", ()) if not str(name).endswith("num_batches_tracked")]
    shapes = [
        f"{name} is {list(stored)}, the model has {list(own)}"
        for name, stored, own in sorted(found.get("mismatched_keys", ()), key=str)
    ]
    parts = [
        f"{len(items)} {what}: {', '.join(sorted(items)[:3])}{', …' if len(items) > 3 else ''}"
        for what, items in (("missing", missing), ("of another shape", shapes))
        if items
    ]
    if parts:
        hint = " (another number of classes?)" if shapes and not missing else ""
        raise BadWeights(f"The weights in {folder} do not fit its config.json{hint}; {'; '.join(parts)}.")


def transformers_package() -> Any:
    """The ``transformers`` package, imported in a way that survives a broken torchvision."""
    with suppress(MissingExtra):  # transformers does without torchvision, but not with one that fails to import
        torchvision_ops.load()
    try:
        import transformers
    except ModuleNotFoundError as error:
        raise MissingExtra.named("hf:", "hf") from error
    return transformers


def model_class(name: str) -> Any:
    """A model class of transformers, which imports each when it is first asked for."""
    return getattr(transformers_package(), name)


@contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """No warnings and progress bars of transformers: what matters of them becomes an error here."""
    logging = transformers.utils.logging
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity(logging.CRITICAL)
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


def _sentence(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__).rstrip(".")
