"""``Picture``: an image that is described before it is drawn.

A picture hashes without rendering (``key`` is the cache's key) and renders only when a batch is filled, so a study can
describe a million edits without holding one. Samples, pastes and plain arrays are all pictures.
"""

from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from misdetect.errors import BadArray

Pixels = NDArray[np.uint8]
"""An image: ``[H, W, 3]`` uint8, RGB."""


def digest(*parts: object) -> str:
    """A short stable hash of strings, numbers, bytes and arrays; order and boundaries matter."""
    hasher = blake2b(digest_size=16)
    for part in parts:
        if isinstance(part, np.ndarray):
            data = repr((part.shape, part.dtype.str)).encode() + np.ascontiguousarray(part).tobytes()
        else:
            data = part if isinstance(part, bytes) else repr(part).encode()
        hasher.update(len(data).to_bytes(8, "little"))
        hasher.update(data)
    return hasher.hexdigest()


@runtime_checkable
class Picture(Protocol):
    """Anything that can name its content (``key``) and draw it (``render``)."""

    @property
    def key(self) -> str:
        """Hash of the content: equal keys mean equal pixels."""
        ...

    def render(self) -> Pixels:
        """The pixels, ``[H, W, 3]`` uint8 RGB. Callers do not write to them."""
        ...


def check_pixels(image: object) -> Pixels:
    """``image`` itself if it is ``[H, W, 3]`` uint8, else a ``BadArray``."""
    if not isinstance(image, np.ndarray) or image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
        found = f"{image.dtype} {list(image.shape)}" if isinstance(image, np.ndarray) else type(image).__name__
        raise BadArray(f"Expected an image as uint8 RGB of shape [H, W, 3]. Got {found}.")
    return image


@dataclass(frozen=True)
class Raw:
    """A picture that is already drawn."""

    pixels: Pixels = field(repr=False)
    key: str = ""

    def __post_init__(self) -> None:
        check_pixels(self.pixels)
        if not self.key:
            object.__setattr__(self, "key", digest(self.pixels))

    def render(self) -> Pixels:
        return self.pixels
