"""``onnx:FILE,decoder=NAME,…`` — a detector in an ONNX file, run by ONNX Runtime.

The graph and its metadata say the input's size, layout and type, and mostly how to read the outputs (``look``); the
decoder says which preprocessing its family uses; all can be stated in the spec, and what nobody states is assumed.
This offers the ``Detector`` level only, and opens itself (``white_box``) for studies that need more.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, cast

from misdetect.detectors.exported import ExportedDetector, load_exported
from misdetect.detectors.look import Look, companions_of, look_at
from misdetect.detectors.network import Exported
from misdetect.detectors.onnx.decoders import decoder_kind
from misdetect.detectors.onnx.file import PROVIDERS, OnnxFile
from misdetect.detectors.wiring import positive
from misdetect.nouns.spec import Spec
from misdetect.said.errors import LevelTooLow, MissingExtra


class OnnxDetector(ExportedDetector):
    """A detector in an ONNX ``file``."""

    def __init__(self, file: OnnxFile, *parts: Any, closed: bool = False, **about: Any) -> None:
        super().__init__(file, *parts, **about)
        self.file = file
        self._closed, self._opened = closed, None

    def white_box(self) -> Any:
        """The same file in torch, ``Traced`` and ``Differentiable``, opened when first asked for; an error that says
        why it cannot be, or is not to be (``closed``)."""
        if self._closed:
            raise LevelTooLow(f"{self.spec!r}: level=detector keeps the file closed; without it, it is opened.")
        if self._opened is None:
            self._opened = _open(self)
        return self._opened


D = TypeVar("D", bound=OnnxDetector)


def load_onnx(spec: Spec) -> object:
    """The detector that ``spec`` describes; see docs/detectors.md for its options."""
    level = spec.take("level", "auto", choices=("auto", "detector", "differentiable"))
    detector = load_with(partial(OnnxDetector, closed=level == "detector"), spec)
    if level != "differentiable":
        return detector
    opened = detector.white_box()
    opened.guess = detector.guess
    return opened


def load_with(make: Callable[..., D], spec: Spec) -> D:
    """What ``make`` makes of the file that ``spec`` names, tried on blank images."""
    return cast("D", load_exported(spec, _exported(spec), make))  # what it returns is what was made


def look_into(spec: Spec) -> Look:
    """What can be found out about the file that ``spec`` names; see ``look``."""
    return look_at(_exported(spec), spec)


def _open(detector: OnnxDetector) -> Any:
    try:
        from misdetect.detectors.onnx.white_box import load_differentiable
    except ModuleNotFoundError as error:
        raise MissingExtra.named("the inside of an ONNX file", "onnx-torch") from error
    return load_differentiable(detector)


def _exported(spec: Spec) -> Exported:
    if stated := spec.options.get("decoder", ""):
        decoder_kind(stated, spec)  # complain of a decoder that is none before the file is opened
    device = spec.take("device", "cpu", choices=tuple(PROVIDERS))
    file = OnnxFile.open(spec, device=device, threads=positive(spec, "threads", 1))
    return Exported(
        file.path,
        file,
        file.hashes(),
        file.metadata,
        companions=companions_of(entry.name for entry in file.companions),
        batched=file.batched,
        tries=(2, 1),
    )
