"""What all torchvision families share behind ``TorchDetector``: labels, thresholds, targets, and calling the module.

Nothing here knows how a family scores its boxes; see ``torchvision_dense.py`` (SSD, RetinaNet, FCOS) and
``torchvision_rcnn.py``. torchvision is imported by the time this is used: callers go through ``torchvision_ops.load``.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from misdetect.detectors.torch_detector import TorchDetector, learnable
from misdetect.nouns.detections import Detections, Truth
from misdetect.said.errors import BadSpec, LevelTooLow

Target = dict[str, Tensor]


class TorchvisionDetector(TorchDetector):
    """A torchvision detection module. ``first_label`` is the number torchvision gives to ``names[0]``: 1 where the
    first column stands for the background, else 0.

    ``settings`` may override the module's own thresholds, by the names in ``_knobs``; the override holds during a call
    only, so that the user's module keeps its own.
    """

    module: Any

    def __init__(
        self,
        module: nn.Module,
        names: Sequence[str],
        *,
        first_label: int,
        spec: str,
        settings: Mapping[str, float] | None = None,
        batch_size: int = 1,
    ) -> None:
        super().__init__(module, names, spec=spec, settings={}, batch_size=batch_size)
        self.first_label = first_label
        knobs = self._knobs()
        for name in settings or {}:
            if name not in knobs:
                raise BadSpec(f"{spec!r}: unknown setting {name!r} (known: {', '.join(sorted(knobs))}).")
        own = {name: _read(*knob) for name, knob in knobs.items()}
        self._overrides = {name: _number(name, value) for name, value in (settings or {}).items()}
        self.settings = {**own, **self._overrides, "family": type(module).__name__, **self._resizing()}

    @abstractmethod
    def _knobs(self) -> dict[str, tuple[Any, str, str | None]]:
        """Thresholds and caps by name: the object that holds each, its attribute, and its key where that is a dict."""

    def _resizing(self) -> dict[str, Any]:
        transform = self.module.transform
        fixed = getattr(transform, "fixed_size", None)
        return {"size": tuple(fixed)} if fixed else {"min_size": transform.min_size[-1], "max_size": transform.max_size}

    @contextmanager
    def _settled(self) -> Iterator[None]:
        """The overrides in force inside the block, the module's own settings back after it."""
        knobs = self._knobs()
        before: list[tuple[Any, str, Any]] = []
        try:
            for name, value in self._overrides.items():
                holder, attribute, key = knobs[name]
                old = getattr(holder, attribute)
                before.append((holder, attribute, old))
                setattr(holder, attribute, value if key is None else {**old, key: value})
            yield
        finally:
            for holder, attribute, old in reversed(before):
                setattr(holder, attribute, old)

    def _detect(self, images: list[Tensor]) -> list[Detections]:
        with self._settled():
            return [self._detections(output) for output in self.module(images)]

    def _detections(self, output: Target) -> Detections:
        real = output["labels"] >= self.first_label
        parts: Target = {name: output[name][real] for name in ("boxes", "scores", "labels", "masks") if name in output}
        for name in ("boxes", "scores"):
            parts[name] = parts[name].float() if parts[name].dtype != torch.float64 else parts[name]
        return Detections.from_torchvision(parts, label_offset=self.first_label)

    def _targets(self, truths: Sequence[Truth], *, masks: bool = False) -> list[Target]:
        """``truths`` as torchvision's targets; crowds and boxes without area are no objects to learn from."""
        targets = []
        for truth in truths:
            real = learnable(truth)
            target = {
                "boxes": torch.tensor(real.boxes, dtype=self.dtype, device=self.device).reshape(-1, 4),
                "labels": torch.tensor(real.labels, device=self.device) + self.first_label,
            }
            if masks and real.masks is not None:
                target["masks"] = torch.from_numpy(real.masks.to_array()).to(self.device, torch.uint8)
            targets.append(target)
        return targets

    def _training_losses(self, images: list[Tensor], truths: Sequence[Truth]) -> dict[str, Tensor]:
        return dict(self.module(images, self._targets(truths)))

    def _check_selection(self, part: object, family: type, method: str) -> None:
        """Refuse to trace a module that selects its output in a way of its own."""
        if getattr(type(part), method) is not getattr(family, method) or method in vars(part):
            raise LevelTooLow(
                f"{self.spec} cannot be traced: its {type(part).__name__} overrides {family.__name__}.{method}, so "
                "what it keeps cannot be told from its candidates; use studies that only need a Detector."
            )


def features_of(module: Any, images: Tensor) -> dict[str, Tensor]:
    """The backbone's feature maps by name."""
    features = module.backbone(images)
    return {"0": features} if isinstance(features, Tensor) else features


def to_original(boxes: Tensor, network: Sequence[int], original: Sequence[int]) -> Tensor:
    """``boxes`` ``[..., 4]`` from the resized image's pixels to the original's; sizes are (height, width)."""
    from torchvision.models.detection.transform import resize_boxes

    moved: Tensor = resize_boxes(boxes.reshape(-1, 4), list(network), list(original))
    return moved.reshape(boxes.shape)


def _number(name: str, value: float) -> float | int:
    """A share in [0, 1], or for the caps a whole number."""
    if name.endswith(("topk", "max")):
        if value < 1 or int(value) != value:
            raise BadSpec(f"Expected {name} to be a whole number >= 1. Got {value}.")
        return int(value)
    if not 0 <= value <= 1:
        raise BadSpec(f"Expected {name} to be in [0, 1]. Got {value}.")
    return float(value)


def _read(holder: Any, attribute: str, key: str | None) -> Any:
    value = getattr(holder, attribute)
    return value if key is None else value[key]
