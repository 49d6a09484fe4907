"""What happens to an image before a DETR of transformers sees it, as torch operations that gradients pass through.

The settings are those of the ``preprocessor_config.json`` beside the weights. Resizing is the same anti-aliased
interpolation as in transformers' image processors, but without their rounding to whole pixel values.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from misdetect.detectors.preprocess import IMAGENET_MEAN, IMAGENET_STD
from misdetect.said.errors import BadSpec

Resize = Literal["edges", "fixed", "fit", "native"]
_FILES = ("preprocessor_config.json", "processor_config.json")
_MODES = {2: "bilinear", 3: "bicubic"}
_LIMIT = 1 << 20


@dataclass(frozen=True)
class Input:
    """``resize``: by shortest and longest edge (0 for no limit), to a fixed height and width, to fit into both, or not
    at all (``native``). Then ``(value * scale - mean) / std`` on values in 0..255.
    """

    resize: Resize
    sides: tuple[int, int]
    scale: float = 1 / 255
    mean: tuple[float, ...] | None = IMAGENET_MEAN
    std: tuple[float, ...] | None = IMAGENET_STD
    interpolation: str = "bilinear"

    def __post_init__(self) -> None:
        if self.resize != "native" and (self.sides[0] < 1 or self.sides[1] < (0 if self.resize == "edges" else 1)):
            raise BadSpec(f"Expected the input size to be positive pixels. Got {list(self.sides)}.")
        if self.std is not None and any(not value > 0 for value in self.std):
            raise BadSpec(f"Expected image_std to be positive. Got {list(self.std)}.")

    @property
    def settings(self) -> dict[str, Any]:
        """For provenance and fingerprints."""
        return {f"input_{name}": value for name, value in asdict(self).items()}

    def size_for(self, height: int, width: int) -> tuple[int, int]:
        """Height and width at which the network sees an image of ``height`` × ``width`` pixels."""
        if self.resize == "native":
            return height, width
        if self.resize == "fixed":
            return self.sides
        from transformers.image_transforms import get_size_with_aspect_ratio
        from transformers.image_utils import get_image_size_for_max_height_width

        if self.resize == "edges":
            size: tuple[int, int] = get_size_with_aspect_ratio((height, width), self.sides[0], self.sides[1] or None)
        else:
            size = get_image_size_for_max_height_width((height, width), *self.sides)
        return max(size[0], 1), max(size[1], 1)

    def __call__(self, images: Tensor) -> Tensor:
        """``[B, 3, H, W]`` in 0..1 to what the network takes, at ``size_for(H, W)``."""
        size = self.size_for(*images.shape[-2:])
        if size != tuple(images.shape[-2:]):
            wide = images if images.dtype == torch.float64 else images.float()  # torch resizes no halves on the CPU
            resized = nn.functional.interpolate(
                wide, size, mode=self.interpolation, align_corners=False, antialias=True
            )
            images = resized.to(images.dtype)
        images = images * (255 * self.scale) if self.scale * 255 != 1 else images
        if self.mean is not None and self.std is not None:
            mean, std = (torch.tensor(v, dtype=images.dtype, device=images.device) for v in (self.mean, self.std))
            images = (images - mean[:, None, None]) / std[:, None, None]
        return images


def default_input(fixed: tuple[int, int] | None) -> Input:
    """What transformers' processors do where nothing else is said; ``fixed`` as in ``hf_trace.Family``."""
    if fixed is not None:
        return Input("fixed", fixed, mean=None, std=None)  # RT-DETR and D-FINE are not normalised
    return Input("edges", (800, 1333))


def parse_size(text: str, where: str) -> tuple[Resize, tuple[int, int]]:
    """``SHORTEST,LONGEST``, ``SHORTEST``, ``HEIGHTxWIDTH`` or ``native``."""
    if text == "native":
        return "native", (0, 0)
    fixed = "x" in text
    try:
        sides = [int(part) for part in text.split("x" if fixed else ",")]
    except ValueError:
        sides = []
    if len(sides) not in ((2,) if fixed else (1, 2)) or min(sides) < 1:
        raise BadSpec(f"{where}: size={text} should be SHORTEST,LONGEST or HEIGHTxWIDTH in pixels, or native.")
    return ("fixed" if fixed else "edges"), (sides[0], sides[1] if len(sides) == 2 else 0)


def read_input(folder: Path, default: Input) -> Input:
    """The settings in ``folder``'s ``preprocessor_config.json``, or ``default`` where it has none."""
    for name in _FILES:
        path = folder / name
        if not path.is_file():
            continue
        try:
            if path.stat().st_size > _LIMIT:
                raise ValueError("it is too large for a configuration")
            content = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, RecursionError, OSError) as error:
            raise BadSpec(f"{path} is not readable JSON: {str(error).splitlines()[0]}.") from None
        if isinstance(content, Mapping) and isinstance(content.get("image_processor"), Mapping):
            content = content["image_processor"]
        if not isinstance(content, Mapping):
            raise BadSpec(f"{path}: expected a JSON object. Got {type(content).__name__}.")
        return _from_config(content, default, path)
    return default


def _from_config(config: Mapping[str, Any], default: Input, path: Path) -> Input:
    resize, sides = default.resize, default.sides
    if config.get("do_resize", True) is False:
        resize, sides = "native", (0, 0)
    elif config.get("size") is not None:
        resize, sides = _size(config, path)
    mean, std = default.mean, default.std
    if "do_normalize" in config:
        mean, std = (IMAGENET_MEAN, IMAGENET_STD) if config["do_normalize"] else (None, None)
    if mean is not None:
        mean = _triple(config.get("image_mean") or mean, "image_mean", path)
        std = _triple(config.get("image_std") or std, "image_std", path)
    if config.get("do_pad") and config.get("pad_size"):
        raise BadSpec(f"{path}: pad_size={config['pad_size']} is not supported; set it to null and give size=.")
    resample = config.get("resample", 2)
    if resample not in _MODES:
        raise BadSpec(f"{path}: resample={resample!r} is not supported: 2 (bilinear) or 3 (bicubic).")
    scale = config.get("rescale_factor", 1 / 255) if config.get("do_rescale", True) else 1.0
    if not isinstance(scale, int | float) or not scale > 0:
        raise BadSpec(f"{path}: expected rescale_factor to be a positive number. Got {scale!r}.")
    return Input(resize, sides, float(scale), mean, std, _MODES[resample])


def _size(config: Mapping[str, Any], path: Path) -> tuple[Resize, tuple[int, int]]:
    size = config["size"]
    if isinstance(size, int):  # as old files have it
        size = {"shortest_edge": size, "longest_edge": config.get("max_size", 0)}
    kinds: tuple[tuple[Resize, str, str], ...] = (
        ("edges", "shortest_edge", "longest_edge"),
        ("fixed", "height", "width"),
        ("fit", "max_height", "max_width"),
    )
    for resize, first, second in kinds:
        if isinstance(size, Mapping) and size.get(first) is not None:
            sides = (size[first], size.get(second) or 0)
            if all(isinstance(side, int) for side in sides):
                return resize, sides
    raise BadSpec(f"{path}: expected size with shortest_edge, or height and width. Got {size!r}.")


def _triple(value: Any, what: str, path: Path) -> tuple[float, ...]:
    if not isinstance(value, list | tuple) or len(value) != 3 or not all(isinstance(v, int | float) for v in value):
        raise BadSpec(f"{path}: expected {what} to be three numbers. Got {value!r}.")
    return tuple(float(v) for v in value)
