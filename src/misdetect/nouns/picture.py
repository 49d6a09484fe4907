"""``Picture``: an image that is described before it is drawn.

A picture hashes without rendering (``key`` is the cache's key) and renders only when a batch is filled, so a study can
describe a million edits without holding one. Samples, pastes and plain arrays are all pictures.
"""

from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from misdetect.said.errors import BadArray

Pixels = NDArray[np.uint8]
"""An image: ``[H, W, 3]`` uint8, RGB."""


_PLAIN = (str, int, float, type(None))


def digest(*parts: object) -> str:
    """A short stable hash of strings, numbers, bytes, arrays, and sequences and dicts of these.

    Types, order and boundaries matter, except that a list is a tuple, a NumPy scalar is its number and a dict has no
    order. Anything else is a ``TypeError``: its ``repr`` might differ tomorrow, or be the same for different things.
    """
    hasher = blake2b(digest_size=16)
    for part in parts:
        _feed(hasher, part)
    return hasher.hexdigest()


def _feed(hasher: blake2b, part: object) -> None:
    if isinstance(part, np.generic):
        part = part.item()
    if isinstance(part, _PLAIN):  # as nearly all are
        kind, data = b"r", repr(part).encode("utf-8", "surrogatepass")
    elif isinstance(part, (list, tuple, dict)):
        items = sorted(part.items(), key=repr) if isinstance(part, dict) else part
        hasher.update(b"{" if isinstance(part, dict) else b"[")
        hasher.update(len(items).to_bytes(8, "little"))
        for item in items:
            _feed(hasher, item)
        return
    elif isinstance(part, bytes):
        kind, data = b"b", part
    elif isinstance(part, np.ndarray) and part.dtype.kind in "biufcUS":
        _feed(hasher, (part.shape, part.dtype.str))
        kind, data = b"a", np.ascontiguousarray(part).tobytes()
    else:
        what = f"an array of {part.dtype}" if isinstance(part, np.ndarray) else type(part).__name__
        raise TypeError(f"Expected strings, numbers, bytes and arrays of these to hash. Got {what}.")
    hasher.update(kind + len(data).to_bytes(8, "little"))
    hasher.update(data)


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


@dataclass(frozen=True, eq=False)
class Raw:
    """A picture that is already drawn. It keeps a copy of ``pixels``, so that they stay those of its key."""

    pixels: Pixels = field(repr=False)
    key: str = ""

    def __post_init__(self) -> None:
        own = check_pixels(self.pixels).copy()
        own.flags.writeable = False
        object.__setattr__(self, "pixels", own)
        if not self.key:
            object.__setattr__(self, "key", digest(self.pixels))

    def render(self) -> Pixels:
        return self.pixels
