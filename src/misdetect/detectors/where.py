"""Where a torch detector computes: ``device=cpu|cuda|mps``, ``half=yes``, ``batch=N|auto``, the same for every family.

The device and the float type may change the last digits of what is found, and are part of the fingerprint; the batch
does not change what is found, and is none.
"""

import os
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np
import torch

from misdetect.detectors.files import first_line
from misdetect.nouns.spec import Spec
from misdetect.said.errors import BadSpec

if TYPE_CHECKING:
    from misdetect.detectors.torch_detector import TorchDetector

D = TypeVar("D", bound="TorchDetector")
DEVICES: Final = ("cpu", "cuda", "mps")
_BATCHES: Final = (1, 2, 4, 8, 16, 32, 64)
_NEARLY: Final = 1.05
"""How much slower than the fastest a smaller batch may be, and still be taken: it needs less memory."""
_SPARE: Final = 0.5
"""Share of the free memory that a batch may need."""
_FREE: Final = 2 << 30
"""Bytes of memory that are taken to be free where the system does not say."""


@dataclass(frozen=True)
class Where:
    """The options as a spec gives them; ``batch`` is 0 where it is to be found out."""

    text: str
    device: str
    half: bool
    batch: int

    @classmethod
    def take(cls, spec: Spec, batch: int = 1) -> "Where":
        """Read the options of ``spec``; ``batch`` is what its family takes where none is named."""
        device, half = spec.take("device", "cpu"), spec.take("half", False)
        wanted = 0 if spec.take("batch", "") == "auto" else spec.take("batch", batch)
        if spec.options.get("batch") != "auto" and wanted < 1:
            raise BadSpec(f"{spec.text!r}: batch={wanted} should be at least 1, or auto.")
        if device.partition(":")[0] not in DEVICES:
            raise BadSpec(f"{spec.text!r}: device={device} is not one of {', '.join(DEVICES)}.")
        there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
        if not there[device.partition(":")[0]]:
            raise BadSpec(f"{spec.text!r}: device={device} is not there for this torch; leave it out for the CPU.")
        return cls(spec.text, device, half, wanted)

    def put(self, detector: D, side: int = 640) -> D:
        """``detector`` there, in batches of that size; images of ``side`` pixels are what a batch is tried with."""
        kind = self.device.partition(":")[0]
        dtype = None if not self.half else torch.bfloat16 if kind == "cpu" else torch.float16
        try:
            detector.module.to(torch.device(self.device), dtype)
        except (RuntimeError, AssertionError) as error:
            raise BadSpec(f"{self.text!r}: device={self.device} cannot be used: {first_line(error)}") from None
        if kind != "cpu":
            detector.settings["device"] = kind
        if dtype is not None:
            detector.settings["half"] = str(dtype).removeprefix("torch.")
            self._try(detector, side)
        detector.batch_size = self.batch or fastest_batch(detector, side)
        if not self.batch:
            detector.settings["batch"] = f"auto: {detector.batch_size}"
        return detector

    def _try(self, detector: "TorchDetector", side: int) -> None:
        try:
            detector.detect(_images(1, side))
        except (RuntimeError, NotImplementedError) as error:
            raise BadSpec(f"{self.text!r}: half=yes does not work here: {first_line(error)}") from None


def fastest_batch(detector: "TorchDetector", side: int) -> int:
    """The smallest batch that is about as fast per image as the fastest, among those that fit into the memory."""
    usual, seconds = detector.batch_size, dict[int, float]()
    try:
        for count in _BATCHES:
            if seconds and not _fits(detector.device, count, side):
                break
            detector.batch_size, images = count, _images(count, side)
            try:
                detector.detect(images)  # the first time is slower
                started = perf_counter()
                detector.detect(images)
            except (RuntimeError, MemoryError):  # out of memory, on whatever device
                break
            seconds[count] = (perf_counter() - started) / count
            if seconds[count] > 2 * min(seconds.values()):  # larger ones have become much slower
                break
    finally:
        detector.batch_size = usual
    best = min(seconds.values(), default=0.0)
    return next((count for count, each in seconds.items() if each <= _NEARLY * best), 1)


def _images(count: int, side: int) -> list[np.ndarray]:
    noise = np.random.default_rng(0).integers(0, 256, (side, side, 3), dtype=np.uint8)
    return [noise] * count


def _fits(device: torch.device, count: int, side: int) -> bool:
    """Whether ``count`` images may be tried, on the CPU, where too much memory is not an error but the end: 200 floats
    per value of the input is more than any of the families keeps."""
    if device.type != "cpu":
        return True
    try:
        free = int(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))  # type: ignore[attr-defined, unused-ignore]
    except (AttributeError, ValueError):  # neither Windows nor macOS says
        free = _FREE
    return count * side * side * 3 * 4 * 200 < _SPARE * free
