"""The project's one letterbox (``preprocess.py``) as a differentiable torch function.

Geometry and conventions are those of ``Preprocess``; only the resampling is done in torch, in floating point, so that
gradients reach the pixels of the original image. It differs from OpenCV's by its rounding: by less than one grey level.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from misdetect.detectors.preprocess import Placement, Preprocess, place
from misdetect.said.errors import BadSpec


def to_canvas(images: Tensor, convention: Preprocess) -> tuple[Tensor, Placement]:
    """``images`` ``[N, 3, H, W]`` RGB in 0..1 as the network wants them, and where they lie on its canvas."""
    if convention.dtype == "uint8":
        raise BadSpec("A network that takes uint8 pixels cannot be differentiated: export it with a float input.")
    where = place(images.shape[-1], images.shape[-2], convention.width, convention.height, convention.resize)
    x = images * 255
    if (where.height, where.width) != tuple(images.shape[-2:]):
        x = F.interpolate(x, size=(where.height, where.width), mode="bilinear", align_corners=False, antialias=False)
    right, bottom = convention.width - where.left - where.width, convention.height - where.top - where.height
    if where.left or where.top or right or bottom:
        x = F.pad(x, (where.left, right, where.top, bottom), value=convention.pad)
    if convention.colour == "bgr":
        x = x.flip(1)
    if (convention.scale, convention.mean, convention.std) != (1.0, (0.0,) * 3, (1.0,) * 3):
        mean, deviation = (x.new_tensor(values)[:, None, None] for values in (convention.mean, convention.std))
        x = (x * convention.scale - mean) / deviation
    return (x if convention.layout == "nchw" else x.permute(0, 2, 3, 1)), where


def canvas_of(images: Sequence[Tensor], convention: Preprocess) -> tuple[Tensor, list[Placement]]:
    """``to_canvas`` of ``images`` ``[3, H, W]`` of any sizes, laid out channels last; where each of them lies."""
    if len({image.shape for image in images}) == 1:
        x, where = to_canvas(torch.stack(list(images)), convention)
        places = [where] * len(images)
    else:
        parts = [to_canvas(image[None], convention) for image in images]
        x, places = torch.cat([part for part, _ in parts]), [where for _, where in parts]
    return x.contiguous(memory_format=torch.channels_last), places
