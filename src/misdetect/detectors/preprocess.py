"""What happens to an image before a network sees it, and the way back for its boxes: the one letterbox of the project.

``place`` is the geometry alone, for any framework; ``Preprocess`` is the whole convention of a network (geometry,
channel order, scale, mean and deviation, layout), stated by a preset or by the user, or assumed (``trial``).
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import cv2
import numpy as np
from numpy.typing import NDArray

from misdetect.nouns.boxes import Floats
from misdetect.nouns.picture import Pixels, check_pixels
from misdetect.said.errors import BadArray

Resize = Literal["letterbox", "letterbox-topleft", "stretch"]
Colour = Literal["rgb", "bgr"]
Layout = Literal["nchw", "nhwc"]
Tensor = NDArray[Any]

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class Placement:
    """Where an image lies on the network's canvas: ``network = original * scale + offset``, in pixels.

    ``width`` × ``height`` is the size of the resized image, ``left`` and ``top`` its corner on the canvas.
    """

    scale_x: float
    scale_y: float
    left: int
    top: int
    width: int
    height: int

    def to_network(self, boxes: Floats) -> Floats:
        """``boxes`` ``[N, 4]`` x0, y0, x1, y1 from pixels of the original image to pixels of the canvas."""
        scale, offset = self._vectors(boxes.dtype)
        return boxes * scale + offset

    def to_original(self, boxes: Floats) -> Floats:
        """``boxes`` ``[N, 4]`` x0, y0, x1, y1 from the canvas back to pixels of the original image, not clipped."""
        scale, offset = self._vectors(boxes.dtype)
        return (boxes - offset) / scale

    def _vectors(self, dtype: Any) -> tuple[Floats, Floats]:
        scale = np.array([self.scale_x, self.scale_y, self.scale_x, self.scale_y], dtype)
        return scale, np.array([self.left, self.top, self.left, self.top], dtype)


def place(width: int, height: int, to_width: int, to_height: int, resize: Resize) -> Placement:
    """How an image of ``width`` × ``height`` is laid on a canvas of ``to_width`` × ``to_height``.

    ``stretch`` fills the canvas; both letterboxes keep the aspect ratio, one centred, one in the top-left corner.
    """
    if width < 1 or height < 1:
        raise BadArray(f"Expected an image with at least one pixel. Got {width}x{height}.")
    if resize == "stretch":
        return Placement(to_width / width, to_height / height, 0, 0, to_width, to_height)
    ratio = min(to_width / width, to_height / height)
    # YOLOX cuts the resized size off, Ultralytics rounds it; the nudge keeps 640 * (416 / 640) from becoming 415.
    nudge = 1e-6 if resize == "letterbox-topleft" else 0.5
    new_width = min(max(int(width * ratio + nudge), 1), to_width)
    new_height = min(max(int(height * ratio + nudge), 1), to_height)
    left = top = 0
    if resize == "letterbox":
        left, top = (to_width - new_width) // 2, (to_height - new_height) // 2
    # The scale is that of the resampled pixels, which rounding makes differ from `ratio` by up to half a pixel.
    return Placement(new_width / width, new_height / height, left, top, new_width, new_height)


@dataclass(frozen=True)
class Preprocess:
    """A network's input convention: ``value = (pixel * scale - mean) / std``, on a canvas of ``width`` × ``height``.

    ``pixel`` is 0..255; ``mean`` and ``std`` are in units after scaling and in the network's channel order (that of
    ``colour``); ``pad`` is the pixel value around a letterboxed image.
    """

    width: int
    height: int
    resize: Resize
    colour: Colour
    scale: float
    mean: tuple[float, float, float] = (0.0, 0.0, 0.0)
    std: tuple[float, float, float] = (1.0, 1.0, 1.0)
    layout: Layout = "nchw"
    pad: float = 114.0
    dtype: str = "float32"

    def __post_init__(self) -> None:
        for name, kind in (("resize", Resize), ("colour", Colour), ("layout", Layout)):
            if getattr(self, name) not in get_args(kind):
                raise BadArray(f"Expected {name} to be one of {', '.join(get_args(kind))}. Got {getattr(self, name)}.")
        if self.width < 1 or self.height < 1:
            raise BadArray(f"Expected a size of at least 1x1. Got {self.width}x{self.height}.")
        if not all(np.isfinite([self.scale, self.pad, *self.mean, *self.std])) or min(self.std) <= 0 or self.scale == 0:
            raise BadArray("Expected finite scale, pad, mean and std, with scale not 0 and std above 0.")
        if self.dtype == "uint8" and (self.scale, self.mean, self.std) != (1.0, (0.0,) * 3, (1.0,) * 3):
            raise BadArray("Expected scale=1 and no mean or std for a network that takes uint8 pixels.")

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape of one image's tensor, without the batch axis."""
        return (3, self.height, self.width) if self.layout == "nchw" else (self.height, self.width, 3)

    def buffer(self, count: int) -> Tensor:
        """A zeroed batch of ``count`` images, to be filled by ``apply``."""
        return np.zeros((count, *self.shape), dtype=self.dtype)

    def apply(self, image: Pixels, out: Tensor | None = None) -> tuple[Tensor, Placement]:
        """``image`` ``[H, W, 3]`` uint8 RGB as the network wants it, and where it lies on the canvas.

        Writes into ``out`` (``shape``, one row of ``buffer``) where it is given.
        """
        check_pixels(image)
        where = place(image.shape[1], image.shape[0], self.width, self.height, self.resize)
        tensor = self.buffer(1)[0] if out is None else out
        if (where.height, where.width) == image.shape[:2]:
            resized = image
        else:
            resized = cv2.resize(image, (where.width, where.height), interpolation=cv2.INTER_LINEAR)
        rows, columns = slice(where.top, where.top + where.height), slice(where.left, where.left + where.width)
        covers = where.width == self.width and where.height == self.height
        for source, plane, mean, std in self._parts(resized, tensor):
            gain, shift = self.scale / std, -mean / std
            if not covers:
                self._pad(plane, rows, columns, self.pad * gain + shift)
            target = plane[rows, columns]
            if gain == 1 and shift == 0:
                target[...] = source
            else:
                np.multiply(source, np.float32(gain), out=target, casting="same_kind")
                if shift:
                    target += np.asarray(shift, dtype=target.dtype)
        return tensor, where

    def _parts(self, resized: Pixels, tensor: Tensor) -> Iterator[tuple[Pixels, Tensor, float, float]]:
        """Which pixels become which part of ``tensor``, with its mean and deviation: all at once where channels lie
        side by side and are treated alike, else each channel, whose pixels are brought together first."""
        if self.layout == "nhwc" and len({*self.mean}) == len({*self.std}) == 1:
            ordered = resized if self.colour == "rgb" else cv2.cvtColor(resized, cv2.COLOR_RGB2BGR)
            yield ordered, tensor, self.mean[0], self.std[0]
            return
        planes = cv2.split(resized)
        for channel, source in enumerate(planes if self.colour == "rgb" else planes[::-1]):
            part = tensor[channel] if self.layout == "nchw" else tensor[:, :, channel]
            yield source, part, self.mean[channel], self.std[channel]

    @staticmethod
    def _pad(plane: Tensor, rows: slice, columns: slice, value: float) -> None:
        plane[: rows.start] = value
        plane[rows.stop :] = value
        plane[rows, : columns.start] = value
        plane[rows, columns.stop :] = value

    def settings(self) -> dict[str, Any]:
        """The convention as plain values, for provenance."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}


PRESETS: dict[str, dict[str, Any]] = {
    "yolox": {"resize": "letterbox-topleft", "colour": "bgr", "scale": 1.0, "pad": 114.0},
    "ultralytics": {"resize": "letterbox", "colour": "rgb", "scale": 1 / 255, "pad": 114.0},
    "detr": {
        "resize": "stretch",
        "colour": "rgb",
        "scale": 1 / 255,
        "mean": IMAGENET_MEAN,
        "std": IMAGENET_STD,
        "pad": 0.0,
    },
    "rtdetr": {"resize": "stretch", "colour": "rgb", "scale": 1 / 255, "pad": 0.0},
    "nanodet": {
        "resize": "stretch",
        "colour": "bgr",
        "scale": 1.0,
        "mean": (103.53, 116.28, 123.675),
        "std": (57.375, 57.12, 58.395),
        "pad": 0.0,
    },
}
"""The documented conventions of five families; size and layout come from the graph or the user."""
