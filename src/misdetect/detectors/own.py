"""Objects as detectors: the user's own, a torch module with names, or a plain function.

A detection model of torchvision or transformers gets the adapter of its family, with every level that has. Any other
torch module is taken to follow torchvision's convention: a list of ``[3, H, W]`` images in 0..1 in, a list of dicts of
``boxes``, ``scores`` and ``labels`` out. A function takes a list of images, as a detector's ``detect`` does.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from misdetect.detectors.python import check_detector
from misdetect.nouns.detections import Detections
from misdetect.nouns.open_names import fixed
from misdetect.nouns.picture import Pixels
from misdetect.nouns.protocols import Detector
from misdetect.said.errors import BadSpec


class FunctionDetector:
    """``function(images)`` as a detector of classes ``names``."""

    def __init__(self, function: Callable[[Sequence[Pixels]], Any], names: Sequence[str]) -> None:
        self.function, self.names = function, fixed(names)

    def detect(self, images: Sequence[Pixels]) -> Sequence[Detections]:
        """What the function says."""
        found: Sequence[Detections] = self.function(images)
        return found


class ModuleDetector:
    """A torch ``module`` that follows torchvision's convention, as a detector of classes ``names``."""

    def __init__(self, module: Any, names: Sequence[str]) -> None:
        self.module, self.names = module, tuple(names)

    def detect(self, images: Sequence[Pixels]) -> Sequence[Detections]:
        """Ask the module, in evaluation mode."""
        import torch

        training, device = self.module.training, next((p.device for p in self.module.parameters()), "cpu")
        self.module.eval()
        try:
            with torch.no_grad():
                batch = [torch.from_numpy(np.array(i)).permute(2, 0, 1).float().div(255).to(device) for i in images]
                found: Sequence[Detections] = self.module(batch)
                return list(found)  # who asks looks at what they are
        finally:
            self.module.train(training)


def as_detector(thing: object, names: Sequence[str] | None) -> Detector:
    """``thing`` as a detector; ``names`` are its classes where it does not say them itself."""
    if hasattr(thing, "detect") or isinstance(thing, type):
        return check_detector(thing, "load_detector")
    own = names if names is not None else getattr(thing, "names", None)
    if not callable(thing):
        raise BadSpec(
            "Expected a detector spec, an object with names and detect(images), a torch module or a function. "
            f"Got {type(thing).__name__}."
        )
    family = next((k.__module__.partition(".")[0] for k in type(thing).__mro__ if _is_family(k.__module__)), "")
    if family == "transformers":
        from misdetect.detectors.hf.detector import wrap as wrap_hf

        return wrap_hf(thing, own)  # type: ignore[arg-type]
    if own is None:
        raise BadSpec(f"{_called(thing)} does not say its classes: load_detector(…, names=[…]) does.")
    if family == "torchvision":
        from misdetect.detectors.torchvision.load import wrap as wrap_torchvision

        return wrap_torchvision(thing, own)  # type: ignore[arg-type]
    kind = ModuleDetector if hasattr(thing, "state_dict") else FunctionDetector
    return check_detector(kind(thing, own), _called(thing))


def _is_family(module: str) -> bool:
    return module.startswith(("transformers.", "torchvision.models.detection"))


def _called(thing: object) -> str:
    return str(getattr(thing, "__name__", type(thing).__name__))
